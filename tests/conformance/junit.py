"""JUnit XML: the verdicts as Jenkins, GitHub and GitLab read them, a test case per rule.

    fail (MUST)                             failure; its text is the page
    fail (SHOULD)                           skipped, "advice: …"; with --strict a failure
    known                                   skipped, with the reason and the link
    not exercised / observable / claimed    skipped, with the reason
    unknown                                 skipped
    void                                    error, and so is whatever broke the protocol

What a baseline has that is not so any more is a failure of its own.
"""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from schedspec.spec.catalogue import registry

from .check import Check, Failure, RuleResult, results
from .files import replace_file
from .page import Page
from .report import case_of, why_not_judged

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, check: Check, folder: Path, *, strict: bool = False) -> None:
    replace_file(path, as_xml(check, folder, strict=strict))


def as_xml(check: Check, folder: Path, *, strict: bool = False) -> str:
    """One suite: this subject, seed and depth.  `folder` is the report's."""
    suite = ET.Element("testsuite")
    _properties(suite, check)
    for rule, result in results(check.findings).items():
        _case(suite, check, rule, result, folder, strict=strict)
    if check.findings.faults:
        faults = sorted({str(fault) for fault in check.findings.faults})
        _say(_element(suite, "protocol", "the protocol is kept"), "error", "void: " + faults[0], "\n".join(faults))
    for sentence in check.findings.stale:
        _say(_element(suite, "baseline", sentence), "failure", sentence)
    _count(suite, check)
    root = ET.Element("testsuites", suite.attrib)
    root.append(suite)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _properties(suite: ET.Element, check: Check) -> None:
    shown = check.findings.capabilities
    facts = {"subject": check.name, "version": shown.version if shown else "", "mode": check.mode}
    facts |= {"seed": str(check.seed), "depth": check.depth.name, "runs": str(check.findings.runs)}
    facts |= {"refused_settings": ", ".join(sorted(check.findings.refused_settings))}
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_clean(value))


def _case(suite: ET.Element, check: Check, rule: str, result: RuleResult, folder: Path, *, strict: bool) -> None:
    card = registry.rules[rule]
    case = _element(suite, card.family, f"{rule}: {card.statement}")
    failure = check.findings.failures.get(rule)
    if result.verdict == "fail":
        text = _page(check, failure, folder) if failure is not None else _companion(check, rule)
        if card.level == "MUST" or strict:
            _say(case, "failure", f"{rule}: {card.statement}", text)
        else:
            _say(case, "skipped", f"advice: {rule} is a SHOULD, and broken")
            ET.SubElement(case, "system-out").text = _clean(text)
    elif result.verdict == "known":
        link = f" ({result.link})" if result.link else ""
        _say(case, "skipped", f"known: {result.reason}{link}")
    elif result.verdict == "void":
        _say(case, "error", "void: the protocol was broken, so nothing is judged")
    elif result.verdict != "pass":
        why = why_not_judged(check.findings, rule)
        _say(case, "skipped", result.verdict + (f": {why}" if why else ""))


def _page(check: Check, failure: Failure, folder: Path) -> str:
    return "\n".join(row.text for row in Page(case_of(check, failure, folder)).text())


def _companion(check: Check, rule: str) -> str:
    also = " and ".join(check.findings.examples_of[rule].also) or "another rule"
    return f"{rule} broke together with {also}: see there."


def _element(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"schedspec.{group}", name=_clean(name), time="0")


def _say(case: ET.Element, kind: str, message: str, text: str = "") -> None:
    said = ET.SubElement(case, kind, message=_clean(message))
    if kind != "skipped":
        said.set("type", "schedspec")
        said.text = _clean(text or message)


def _count(suite: ET.Element, check: Check) -> None:
    found = Counter(part.tag for case in suite.iter("testcase") for part in case)
    suite.set("name", _clean(f"{check.name} seed {check.seed} depth {check.depth.name} mode {check.mode}"))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(found[kind]))
    suite.set("time", f"{check.seconds:.3f}")


def _clean(text: str) -> str:
    """XML 1.0 has no place for most control characters: they are shown as escapes."""
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
