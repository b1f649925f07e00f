"""For other people's tests: one assertion, and the subjects that a name leads to."""

from collections.abc import Mapping
from importlib import import_module

from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import SubjectFactory

from .driver import Driver, all_but, replay
from .narrate import step_table
from .script import Script
from .subjects.resolve import UnknownSubject, resolve

COMMAND_LINE = "schedspec.commands.subjects"
"""Who knows the subjects that have a name.  It is looked up when somebody names one: the suite imports no subject."""


class RuleBroken(AssertionError):
    """A subject broke a rule; the message is the step table."""


def subject_named(name: str, builtins: Mapping[str, SubjectFactory] | None = None) -> SubjectFactory:
    """What the command line would judge under this name.  Raises UnknownSubject with one sentence."""
    if builtins is not None:
        return resolve(name, builtins)
    try:
        return resolve(name, {})
    except UnknownSubject:
        return resolve(name, import_module(COMMAND_LINE).builtin_subjects())


def assert_keeps(
    rule: str,
    subject: str | SubjectFactory,
    script: Script,
    builtins: Mapping[str, SubjectFactory] | None = None,
    *,
    only: bool = False,
) -> Driver:
    """Run a script and raise RuleBroken if it breaks the rule (or the protocol).

    `subject` is a factory or a name as on the command line: `module:factory`, `exec:COMMAND`, `reference`; `builtins`:
    names to look among instead of those.  `only`: the run goes on past breaks of other rules.
    """
    factory = subject_named(subject, builtins) if isinstance(subject, str) else subject
    driver = replay(factory, script, explain=True, ignored=all_but([rule] if only else []))
    if driver.fault is not None:
        raise driver.fault
    seen = driver.breaks_of(rule)
    if seen:
        table = step_table(driver.messages, seen[0].message)
        rows = "\n".join(f"{'✗' if line.bad else ' '} {line.number:3} {line.call}: {line.answer}" for line in table)
        raise RuleBroken(f"{rule}: {registry.rules[rule].statement}\n{seen[0]}\n{rows}")
    return driver
