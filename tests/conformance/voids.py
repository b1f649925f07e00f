"""The case of a broken protocol: where the run stopped, what was asked, and what the subject left."""

from collections.abc import Sequence

from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message

from .driver import Driver
from .narrate import call_in_words
from .page import VOID, Case


def void_case(
    header: Header,
    messages: Sequence[Message],
    fault: str,
    again: str,
    unanswered: str = "",
    told: Sequence[str] = (),
    files: str = "",
) -> Case:
    """How the protocol was broken: by the last answer, or by a call that got none."""
    place = len(messages) + bool(unanswered)
    violation = Violation(rule=VOID, conjunct=VOID, says=fault, message=place, facts={"fault": fault})
    return Case(
        rule=VOID,
        header=header,
        messages=messages,
        violation=violation,
        again=again,
        unanswered=unanswered,
        told=told,
        files=files,
    )


def void_of(run: Driver, again: str = "", files: str = "") -> Case:
    """The same of a run that is at hand."""
    assert run.fault is not None
    caching = run.settings.prefix_caching
    unanswered = "" if run.asked is None else call_in_words(run.messages, run.asked, caching=caching)
    return void_case(run.header, run.messages, str(run.fault), again, unanswered, run.fault.told, files)
