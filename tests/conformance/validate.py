"""Is this an adapter at all?  Small messages through every method, in a second, before any rule is judged.

Each check has a fresh subject, so one failure does not hide the next; a subject that hangs or dies ends it.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import define, field, frozen

from schedspec.spec.errors import ProtocolError, SubjectFault
from schedspec.spec.vocabulary import (
    Capabilities,
    Delta,
    Outcome,
    Plan,
    Request,
    Settings,
    Subject,
    SubjectFactory,
    Unsupported,
)

from .names import counted
from .negotiate import negotiated
from .subjects.guard import guarded

TIMEOUT_S = 5.0
PATIENCE_STEPS = 64
"""Steps within which two small requests have to end on an empty system."""


@frozen
class Check:
    name: str
    ok: bool
    sentence: str


class _Failed(Exception):
    """A check that failed, in one sentence."""


@define
class _Session:
    """A subject with a small engine: every token that is due comes back at once and is never the last."""

    subject: Subject
    settings: Settings
    capabilities: Capabilities
    deltas: list[Delta] = field(factory=list)
    now_ns: int = 0

    def submit(self, id: str, prompt: int = 5, output: int = 3) -> str:
        request = Request(id=id, prompt_ids=range(1, prompt + 1), max_output_tokens=output)
        receipt = self.subject.submit(request, self._tick())
        self.deltas += receipt.deltas
        return receipt.verdict if receipt.reason is None else f"{receipt.verdict} ({receipt.reason})"

    def accept(self, *ids: str) -> None:
        for id in ids:
            verdict = self.submit(id)
            if verdict != "accepted":
                raise _Failed(f"a request of 5 prompt tokens and 3 output tokens was {verdict}")

    def step(self) -> Plan:
        """The next step that runs anything.  An adapter may need a step to see what arrived."""
        for _ in range(PATIENCE_STEPS):
            plan = self.subject.step(self._tick())
            self.deltas += plan.deltas
            if plan.request:
                return plan
        raise _Failed(f"{PATIENCE_STEPS} steps ran nothing, although a request waits on an empty system")

    def complete(self, outcome: Outcome) -> Sequence[Delta]:
        deltas = self.subject.complete(outcome, self._tick())
        self.deltas += deltas
        return deltas

    def cancel(self, id: str) -> Sequence[Delta]:
        deltas = self.subject.cancel(id, self._tick())
        self.deltas += deltas
        return deltas

    def names(self, id: str) -> list[str]:
        return [delta[0] for delta in self.deltas if id in (delta[1], *_column(delta))]

    def run(self, *ids: str) -> Outcome:
        """Until these have finished; the last outcome."""
        for _ in range(PATIENCE_STEPS):
            outcome = outcome_of(self.step())
            self.complete(outcome)
            if all("finished" in self.names(id) for id in ids):
                return outcome
        last = next(id for id in ids if "finished" not in self.names(id))
        raise _Failed(f"{PATIENCE_STEPS} steps brought no delta ['finished', {last!r}, 'length']")

    def _tick(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


def _column(delta: Delta) -> tuple[str, ...]:
    return tuple(delta[1]) if delta[0] == "delivered" else ()


def outcome_of(plan: Plan) -> Outcome:
    """One token for every entry that samples."""
    ids = tuple(id for id, samples in zip(plan.request, plan.samples, strict=True) if samples)
    return Outcome(step=plan.step, request=ids, token=(7,) * len(ids), stop=(False,) * len(ids))


# --- the checks: each returns what it found, or raises -------------------------------------------------


def _capabilities(session: _Session) -> str:
    shown = session.capabilities
    claims = ", ".join(sorted(shown.claims)) or "nothing"
    order = "in order" if shown.ordered else "in no order"
    return f"{shown.name} {shown.version} shows {shown.observes}, deltas {order}, and claims {claims}"


def _submit(session: _Session) -> str:
    session.accept("r1", "r2")
    return "two small requests were accepted"


def _step(session: _Session) -> str:
    session.accept("r1", "r2")
    plan = session.step()
    unknown = set(plan.request) - {"r1", "r2"}
    if unknown:
        raise _Failed(f"the first plan runs {min(unknown)!r}, but only 'r1' and 'r2' were submitted")
    for id in plan.request:
        if "admitted" not in session.names(id):
            raise _Failed(f"the plan runs {id!r}, but no delta ['admitted', {id!r}, 0] came before or with it")
    return f"the first plan runs {', '.join(plan.request)}"


def _complete(session: _Session) -> str:
    session.accept("r1", "r2")
    session.run("r1", "r2")
    for id in ("r1", "r2"):
        delivered = sum(_column(delta).count(id) for delta in session.deltas)
        if delivered != 3:
            raise _Failed(f"{id!r} has 3 output tokens, but 'delivered' deltas brought {delivered}")
    return "both requests had their 3 tokens delivered and finished"


def _blocks(session: _Session) -> str:
    level = session.capabilities.observes
    session.accept("r1")
    session.run("r1")
    names = session.names("r1")
    if level != "tables":
        return f"not looked at, since the subject shows {level} only"
    if "took" not in names and "shared" not in names:
        raise _Failed("the subject says that it shows tables, but no 'took' delta says which blocks it gave 'r1'")
    if "gave" not in names:
        raise _Failed("'r1' finished, but no 'gave' delta says that its blocks came back")
    return "blocks are taken with 'took' and returned with 'gave'"


def _repeat(session: _Session) -> str:
    session.accept("r1")
    first = outcome_of(session.step())
    session.complete(first)  # the request still lives
    for outcome in (first, session.run("r1")):
        again = session.complete(outcome)
        if again:
            raise _Failed(f"the same outcome a second time brought {list(again[0])}, but must change nothing")
    return "an outcome that comes twice changes nothing the second time"


def _cancel(session: _Session) -> str:
    session.accept("r1")
    if ("cancelled", "r1") not in session.cancel("r1"):
        raise _Failed("cancel of 'r1' brought no delta ['cancelled', 'r1']")
    again = session.cancel("r1")
    if again:
        raise _Failed(f"the second cancel of 'r1' brought {list(again[0])}, but must change nothing")
    return "cancel ends a request, once"


def _cancel_unknown(session: _Session) -> str:
    deltas = session.cancel("nobody")
    if deltas:
        raise _Failed(f"cancel of an id that was never submitted brought {list(deltas[0])}")
    session.accept("r1")
    session.run("r1")
    return "cancel of an unknown id is harmless"


def _cancel_in_flight(session: _Session) -> str:
    session.accept("r1", "r2")
    outcome = outcome_of(session.step())
    session.cancel("r1")
    session.complete(outcome)
    names = session.names("r1")
    if "cancelled" not in names:
        raise _Failed("'r1' was cancelled while its step ran, but no delta says so")
    late = [name for name in names[names.index("cancelled") :] if name in ("delivered", "finished")]
    if late:
        raise _Failed(f"'r1' was cancelled while its step ran, but {late[0]!r} came afterwards")
    session.run("r2")
    return "a result for a request that was cancelled meanwhile is dropped"


def _again(session: _Session) -> str:
    """While it waits, while it runs, and when it has ended."""
    session.accept("r1")
    for when in ("waits", "runs", "has ended"):
        if when == "runs":
            outcome = outcome_of(session.step())
        elif when == "has ended":
            session.complete(outcome)
            session.run("r1")
        verdict = session.submit("r1")
        if verdict != "duplicate":
            raise _Failed(
                f"'r1' came again although it {when}, and was {verdict}: an id is one request's for good, so answer "
                "{'verdict': 'duplicate', 'of': 'r1'}"
            )
    return "an id that came before is a duplicate: of who waits, who runs, and who has ended"


def _refuse(session: _Session) -> str:
    settings = session.settings
    prompt = (settings.blocks + 1) * settings.block_size
    verdict = session.submit("big", prompt=prompt)
    return f"a prompt of {prompt} tokens, more than the whole pool, is {verdict}"


def _notify(session: _Session) -> str:
    session.subject.notify({"type": "unknown"}, 0)
    return "an event that nobody knows is harmless"


def _observe(session: _Session) -> str:
    session.accept("r1")
    session.step()
    observation = session.subject.observe()
    if observation is None:
        return "there are no snapshots, so rules that need them are not observable"
    if session.capabilities.observes == "tables" and "r1" not in observation.tables:
        raise _Failed("'r1' runs, but the snapshot has no table of it")
    return f"a snapshot has {counted(len(observation.tables), 'table')} and " + counted(
        len(observation.counters), "counter"
    )


def _reset(session: _Session) -> str:
    """The same again on a subject that has been used: only one over stdio has the method."""
    reset = getattr(session.subject, "reset", None)
    if reset is None:
        return "not looked at, since a subject in process is made anew"
    session.accept("r1")
    session.step()
    reset()
    session.accept("r2")
    plan = session.step()
    if set(plan.request) != {"r2"}:
        raise _Failed(f"after a reset the plan runs {', '.join(plan.request)}, but only 'r2' was submitted")
    return "a reset forgets everything"


_CHECKS: tuple[tuple[str, Callable[[_Session], str]], ...] = (
    ("capabilities", _capabilities),
    ("submit", _submit),
    ("step", _step),
    ("complete", _complete),
    ("blocks", _blocks),
    ("repeat", _repeat),
    ("cancel", _cancel),
    ("cancel unknown", _cancel_unknown),
    ("cancel in flight", _cancel_in_flight),
    ("submit again", _again),
    ("refuse", _refuse),
    ("notify", _notify),
    ("observe", _observe),
    ("reset", _reset),
)


def validate(factory: SubjectFactory, timeout_s: float = TIMEOUT_S) -> list[Check]:
    """What an adapter does with each method: it is one if every check is ok.  Rules say if it is right."""
    make = guarded(factory, timeout_s)
    try:
        settings, refused = _settings(make)
    except (_Failed, ProtocolError) as error:
        return [Check("configure", False, str(error))]
    sentence = f"configured, after it refused {', '.join(refused)}" if refused else "configured as asked"
    return [Check("configure", True, sentence), *_checks(make, settings)]


def _checks(make: SubjectFactory, settings: Settings) -> Iterator[Check]:
    for name, check in _CHECKS:
        try:
            subject = make(settings, 0)
            yield Check(name, True, check(_Session(subject, settings, subject.capabilities())))
        except _Failed as failed:
            yield Check(name, False, str(failed))
        except ProtocolError as error:
            yield Check(name, False, str(error))
            if isinstance(error, SubjectFault) or name == "capabilities":
                return  # the others ask for these first


def _settings(make: SubjectFactory) -> tuple[Settings, list[str]]:
    """The first settings that the subject takes, and what it refused on the way."""
    refused: dict[str, Unsupported] = {}

    def take(settings: Settings) -> Settings:
        make(settings, 0)
        return settings

    try:
        settings = negotiated(take, Settings(), refused)
    except Unsupported as error:
        raise _Failed(f"{error}, nor is any other value that was tried") from error
    return settings, [f"{no.setting}={no.value!r}" for no in refused.values()]
