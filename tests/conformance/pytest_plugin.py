"""The suite under pytest: one test per scheduler and rule.

    pytest --pyargs schedspec.conformance --scheduler my_adapter:Scheduler

A verdict becomes what pytest has for it:

    fail (MUST)      a failure; its text is the report: the proof in words, the step table, how to replay it
    fail (SHOULD)    xfailed; its report stands in the terminal summary, so that it is seen without -r
    pass             passed
    void             an error, once, with the one sentence; the other rules of that scheduler are skipped
    anything else    skipped, with the verdict and its reason: never reported as passed

pytest loads this module wherever schedspec is installed, so importing it costs next to nothing: what needs
Hypothesis is imported when the first scheduler is judged.
"""

import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from schedspec.spec.registry import Rule
    from schedspec.spec.vocabulary import SubjectFactory

    from .check import Check

DEPTHS = ("quick", "standard")
NOBODY = (
    "no scheduler to judge: pytest --pyargs schedspec.conformance --scheduler package.module:factory"
    " (or --scheduler 'exec:COMMAND'; repeatable)"
)
NO_SEARCH = "the suite searches with Hypothesis, which is not installed: pip install 'schedspec[check]'"
NOT_LOADED = "pytest plugins are not loaded by themselves here: add -p schedspec.conformance.pytest_plugin"

_RERUN = """
import sys
sys.path[:], answers, sys.stdout = {path!r}, sys.stdout, sys.stderr
from schedspec.conformance.determinism import rerun_tasks
from schedspec.conformance.testing import subject_named
rerun_tasks(subject_named({name!r}), sys.stdin, answers)
"""
"""The second process of the DET rules: it finds what pytest found, and what the scheduler prints is no answer."""


class Judged:
    """A scheduler and what the suite found: judged when its first test asks, once in a session."""

    def __init__(self, name: str, factory: "SubjectFactory", depth: str, seed: int, folder: Path) -> None:
        self.name = name
        self.factory = factory
        self.depth = depth
        self.seed = seed
        self.folder = folder
        self.check: Check | None = None
        self.void = ""
        self.void_was_told = False

    def judge(self) -> "Check":
        if self.check is None:
            self.check = self._new()
            self._run(self.check)
        return self.check

    def _new(self) -> "Check":
        from .check import DEPTHS, Check

        program = _RERUN.format(path=sys.path, name=self.name)
        return Check(
            name=self.name,
            factory=self.factory,
            seed=self.seed,
            depth=DEPTHS[self.depth],
            rerun=[sys.executable, "-c", program],
        )

    def _run(self, check: "Check") -> None:
        from schedspec.spec.errors import ProtocolError
        from schedspec.spec.vocabulary import Unsupported

        from .report import write_report

        try:
            check.run()
        except (ProtocolError, Unsupported) as error:
            self.void = str(error)
        except Exception as error:  # a fault of the suite: told once, with its traceback
            self.void, self.void_was_told = f"the suite itself failed with {type(error).__name__}", True
            raise
        if check.findings.interrupted:
            raise KeyboardInterrupt
        if check.findings.faults:
            self.void = str(check.findings.faults[0])
        write_report(self.folder, check)

    def close(self) -> None:
        """End the process of a scheduler over stdio."""
        if hasattr(self.factory, "close"):
            self.factory.close()


_SCHEDULERS = pytest.StashKey[dict[str, Judged]]()
_UNASKED = pytest.StashKey[str]()


# --- hooks -------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("schedspec", "conformance of LLM schedulers (schedspec)")
    group.addoption(
        "--scheduler",
        action="append",
        default=[],
        metavar="SUBJECT",
        dest="schedspec_schedulers",
        help="Judge this scheduler: package.module:factory or exec:COMMAND (repeatable).",
    )
    group.addoption(
        "--scheduler-depth",
        choices=DEPTHS,
        default="quick",
        dest="schedspec_depth",
        help="How long to search: quick (seconds, the default) or standard (minutes).",
    )
    group.addoption(
        "--scheduler-seed",
        type=int,
        default=0,
        metavar="N",
        dest="schedspec_seed",
        help="The same seed repeats the same search (default: 0).",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    for judged in config.stash.get(_SCHEDULERS, {}).values():
        judged.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each scheduler; broken SHOULDs in full, since pytest shows nothing of an xfailed test."""
    width = terminalreporter._tw.fullwidth
    judged = [item for item in config.stash.get(_SCHEDULERS, {}).values() if item.check is not None]
    unasked = config.stash.get(_UNASKED, "")
    if judged or unasked:
        terminalreporter.section("scheduler conformance")
    if unasked:
        terminalreporter.write_line(unasked)
    for item in judged:
        for line in _summary(item, width):
            terminalreporter.write_line(line)


# --- what test_scheduler.py asks ---------------------------------------------------------------------------


def schedulers(config: pytest.Config) -> dict[str, Judged]:
    """The schedulers of the command line; skips the module where there are none."""
    if not config.pluginmanager.has_plugin("schedspec.conformance.pytest_plugin"):
        pytest.skip(NOT_LOADED, allow_module_level=True)
    names: list[str] = config.getoption("schedspec_schedulers")
    if not names:
        config.stash[_UNASKED] = NOBODY
        pytest.skip(NOBODY, allow_module_level=True)
    if find_spec("hypothesis") is None:
        raise pytest.Collector.CollectError(NO_SEARCH)
    return config.stash.setdefault(_SCHEDULERS, _resolved(names, config))


def _resolved(names: Sequence[str], config: pytest.Config) -> dict[str, Judged]:
    from .subjects.resolve import UnknownSubject
    from .testing import subject_named

    depth, seed = config.getoption("schedspec_depth"), config.getoption("schedspec_seed")
    found = {}
    for name in names:
        try:
            factory = subject_named(name)
        except UnknownSubject as error:
            raise pytest.Collector.CollectError(f"--scheduler: {error}") from error
        found[name] = Judged(name, factory, depth, seed, _folder(config, name))
    return found


def _folder(config: pytest.Config, name: str) -> Path:
    """Where the report of a scheduler goes: pytest's own cache, unless that is off."""
    from schedspec.conformance.files import file_name

    cache = getattr(config, "cache", None)
    root = Path(tempfile.mkdtemp(prefix="schedspec-")) if cache is None else cache.mkdir("schedspec")
    return root / file_name(name)


def hold(judged: Judged, rule: str) -> None:
    """The verdict of a rule as the outcome of the running test."""
    from .check import results

    check = judged.judge()
    result = results(check.findings)[rule]
    if result.verdict == "pass":
        return
    if result.verdict != "fail":
        pytest.skip(_reason(check, rule, result.verdict))
    if result.level == "SHOULD":
        pytest.xfail(f"{rule} is a SHOULD and broken: {_statement(rule)} (the report is in the summary)")
    pytest.fail("\n".join(page(judged, rule, 100)), pytrace=False)


def stop_if_void(judged: Judged, rule: str) -> None:
    """An error where a scheduler broke the protocol, once: then no rule passes, though one may have failed."""
    check = judged.judge()
    if not judged.void or rule in check.findings.broken:
        return
    if judged.void_was_told:
        pytest.skip(f"void: {judged.void}")
    judged.void_was_told = True
    trace = judged.folder / "failures" / "void.jsonl"
    where = f"\nThe run until then: {_shown(trace)}" if trace.exists() else ""
    pytest.fail(f"{judged.name} is void, no rule is judged: {judged.void}{where}", pytrace=False)


# --- texts -------------------------------------------------------------------------------------------------


def _rule(rule: str) -> "Rule":
    from schedspec.spec.catalogue import registry

    return registry.rules[rule]


def _statement(rule: str) -> str:
    return _rule(rule).statement


def _reason(check: "Check", rule: str, verdict: str) -> str:
    from .report import why_not_judged

    return f"{rule} {verdict}" + (f": {why}" if (why := why_not_judged(check.findings, rule)) else "")


def page(judged: Judged, rule: str, width: int) -> Iterator[str]:
    """A broken rule on one screen."""
    from .page import Page
    from .report import case_of

    check = judged.judge()
    failure = check.findings.failures.get(rule)
    if failure is None:
        example = check.findings.examples_of[rule]
        also = " and ".join(example.also) or "another rule"
        yield from _wrapped(f"{rule}: ", f"{_statement(rule)} ({_rule(rule).level})", width)
        yield f"It broke together with {also}, which explains it: see that report."
        return
    yield from (row.text for row in Page(case_of(check, failure, judged.folder)).text(width))


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * min(len(head), 11),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _summary(judged: Judged, width: int) -> Iterator[str]:
    from .check import results
    from .report import headline

    check = judged.judge()
    found = results(check.findings)
    counts = Counter(result.verdict for result in found.values())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    text = f"void: {judged.void}" if judged.void else f"{headline(check.findings)} ({verdicts})"
    yield from _wrapped(f"{judged.name}: ", text, width)
    for refused in sorted(check.findings.refused_settings):
        yield f"  refused by the scheduler, so not tried: {refused}"
    for note in check.findings.notes:
        yield f"  note: {note}"
    for rule, result in found.items():
        if result.verdict == "fail" and result.level == "SHOULD":
            yield ""
            yield from page(judged, rule, width)
    yield f"  seed {check.seed}, {check.findings.runs} runs, {check.seconds:.1f} s; report in {_shown(judged.folder)}"
