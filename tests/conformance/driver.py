"""The driver: does operations to a subject, plays the engine, and has the monitor judge each message.

It stops at the first message that breaks a rule: what follows a broken state says nothing.  Where it is told to go on
behind wrong gauges, it does: the state is built from deltas alone, and a number that is exported wrongly is no state of
the subject's either.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from attrs import Factory, define, evolve

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.pooled import new_monitor
from schedspec.spec.rules.departures import DISCONNECTED
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import (
    DEPENDENCY_FAILED,
    RESOLVED,
    Header,
    Message,
    Outcome,
    Plan,
    Request,
    Settings,
    Subject,
    SubjectFactory,
)

from .ear import Ear
from .engine import Engine
from .script import COMPLETE, STEP, TRANSFER, Op, Script, answer
from .subjects.guard import guarded
from .transfers import TOLD, Link

SMALL_POOL_BLOCKS = 256
SPARSE_OBSERVATIONS = 64
BLOCKS_PER_CALL = 32
"""Of a pool that is looked at now and then: snapshots show so many a call, however large it is."""

DOOR = "ADMIT"
GAUGES = "OBS-3"
NEVER_ENDS = "LIVE-2"
MOST_WAITS = 8
"""How often time may go by in an empty system until whoever is held at the door must be in."""


@define(eq=False)
class Driver:
    """One run of one subject.  `messages` is its trace, `ops` its script, `broken` what the last message broke,
    `fault` how the subject broke the protocol, `asked` the call that has no answer then.  A broken SHOULD leaves the
    state sound, and so does a wrong answer at the door, or a gauge (`past_gauges`): the run goes on, and `advice`
    has the first break of each, with the number of operations until then.  `heard` is told each message.  `monitor` is
    that of one pool, or of two."""

    subject: Subject
    settings: Settings
    seed: int
    monitor: Any
    header: Header
    ignored: frozenset[str] = frozenset()
    engine: Engine = Factory(Engine)
    link: Link = Factory(Link)
    ear: Ear = Factory(Ear)
    ops: list[Op] = Factory(list)
    messages: list[Message] = Factory(list)
    broken: list[Violation] = Factory(list)
    advice: dict[str, tuple[Violation, int]] = Factory(dict)
    fault: ProtocolError | None = None
    asked: Message | None = None
    crashed: bool = False
    snapshots: int = 0
    now_ns: int = 0
    keep_messages: bool = True
    past_gauges: bool = False
    observe_every: int = 1
    last_plan: Plan | None = None
    heard: Callable[[Message], None] = lambda message: None
    stuck: bool = False
    went_past: bool = False
    gave_up: bool = False
    refused: Request | None = None
    retry_ns: int = 0
    _plans: deque[Plan] = Factory(deque)
    _planned_ns: deque[int] = Factory(deque)
    _free_ns: int = 0
    _outcomes: deque[Outcome] = Factory(lambda: deque(maxlen=8))
    _calls: int = 0

    @classmethod
    def start(
        cls,
        factory: SubjectFactory,
        settings: Settings,
        seed: int,
        *,
        name: str = "subject",
        ignored: frozenset[str] = frozenset(),
        explain: bool = False,
        timeout_s: float | None = 10.0,
        keep_messages: bool = True,
        past_gauges: bool = False,
    ) -> "Driver":
        """A fresh subject.  Raises Unsupported or ProtocolError if there is none to be had."""
        subject = guarded(factory, timeout_s)(settings, seed)
        header = Header(settings=settings, capabilities=subject.capabilities(), seed=seed, subject=name)
        monitor = new_monitor(header, explain=explain)
        return cls(
            subject,
            settings,
            seed,
            monitor,
            header,
            ignored,
            keep_messages=keep_messages,
            past_gauges=past_gauges,
        )

    @property
    def over(self) -> bool:
        return bool(self.broken) or self.fault is not None or self.crashed or self.gave_up

    @property
    def script(self) -> Script:
        return Script(self.settings, self.seed, self.ops)

    @property
    def protocol_messages(self) -> int:
        """Calls that a person has to follow: snapshots are not among them."""
        return sum(message.kind not in ("observe", "end") for message in self.messages)

    def breaks_of(self, rule: str) -> list[Violation]:
        """How this run broke a rule, be it a MUST or a SHOULD."""
        return [v for v in self.broken if v.rule == rule] + [v for v, _ in self.advice.values() if v.rule == rule]

    def run(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if self.over:
                return
            self.do(op)

    def do(self, op: Op) -> None:
        """One operation; one that cannot be done now (a result when none is due) is nothing."""
        if self.over or not self._can(op):
            return
        self.ops.append(op)
        with self._noting_faults():
            for message in self._call(op):
                self._judge(message)
            self._observe(op)

    def drain(self, most_rounds: int | None = None) -> None:
        """Steps and results until every request has ended; LIVE-1 and LIVE-2 say when that takes too long, and after
        LIVE-2 it is given up even where nobody asked about it.  After `most_rounds` it is left as it is: it has no
        end."""
        waits = rounds = 0
        while not (self.over or self.stuck) and (self.monitor.live or self._plans or self.monitor.held):
            rounds += 1
            if most_rounds is not None and rounds > most_rounds:
                return
            if not (self.monitor.live or self._plans):
                waits += 1
                if waits > MOST_WAITS + len(self.monitor.held):
                    break  # ADMIT-11 says that they are held when the run ends
                self.do(Op("tick", ns=self._longest_hold_ns()))
            self._answer_all()
            self.do(STEP)
            self.do(COMPLETE)
            self.transfer()
        if not self.over:
            with self._noting_faults():
                self._look()
        if not self.over:
            self._judge(Message("end", self.now_ns))

    def transfer(self) -> None:
        """The link does what it was asked for first, at once; of one pool nothing is asked."""
        for op in TRANSFER if self.link.standing else ():
            self.do(op)

    def _answer_all(self) -> None:
        """Whatever somebody is parked for is there."""
        for parked in list(self.monitor.parking.parked.values()):
            for dependency in sorted(parked.dependencies):
                self.do(answer(parked.track.id, dependency))

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except ProtocolError as fault:
            if self.went_past and fault.rule is None:
                self.gave_up = True  # it had broken a rule that nobody asks about: what it does since says nothing
                return
            self.fault = fault
            if fault.rule is not None and fault.rule not in self.ignored:
                self.broken = [self._broken_by(fault, fault.rule)]
        except BaseException:
            self.crashed = True  # a fault of ours: nothing more may be done to a subject in the middle of a call
            raise

    def _broken_by(self, fault: ProtocolError, rule: str) -> Violation:
        """A rule that an answer breaks so plainly that the answer is none."""
        says = registry.rules[rule].statement
        bad = len(self.messages) + (self.asked is not None)
        return Violation(rule=rule, conjunct=f"{rule}.protocol", says=says, message=bad, facts={"fault": str(fault)})

    def _longest_hold_ns(self) -> int:
        """Until a deferral is over, and a window of a rate."""
        door = self.settings.door
        return max(door.defer_ns, door.rate_window_ns) + 1

    # --- parts -------------------------------------------------------------------------------------------

    def _can(self, op: Op) -> bool:
        if op.kind == "step":
            depth = self.settings.overlap_depth if "overlap" in self.header.capabilities.claims else 1
            return len(self._plans) < depth
        if op.kind == "complete":
            in_order = op.back == 1 or self.settings.pools.are_two  # of one pool the device ends what it began first
            return in_order and len(self._plans) >= op.back
        if op.kind in TOLD:
            return self.link.number_of(op) is not None
        if op.kind == "repeat":
            return len(self._outcomes) >= op.back
        if op.kind == "retry":
            return self.refused is not None and (self.now_ns >= self.retry_ns or not self.monitor.live)
        return True

    def _call(self, op: Op) -> Iterable[Message]:
        now, subject = self.now_ns, self.subject
        if op.kind == "tick":
            self.now_ns += op.ns
        elif op.kind == "submit":
            assert op.request is not None
            yield self._submit(op.request, op.stop_after, op.pauses)
        elif op.kind == "retry":
            assert self.refused is not None
            self.now_ns = max(now, self.retry_ns)
            yield self._submit(evolve(self.refused, id=f"{self.refused.id}+"), None)
        elif op.kind == "cancel":
            yield self._ask("cancel", op.id, subject.cancel)
        elif op.kind == "leave":
            yield self._ask("notify", {"type": DISCONNECTED, "request": op.id}, subject.notify)
        elif op.kind in TOLD:
            yield self._ask("notify", self.link.told(op), subject.notify)
        elif op.kind == "answer":
            kind = RESOLVED if op.is_there else DEPENDENCY_FAILED
            yield self._ask("notify", {"type": kind, "request": op.id, "dependency": op.dependency}, subject.notify)
        elif op.kind == "step":
            self.asked = Message("step", now, None, None)
            plan = self.last_plan = subject.step(now)
            yield Message("step", now, None, plan)
            if plan.request:
                self._plans.append(plan)
                self._planned_ns.append(now)
        else:
            if op.kind == "complete":
                self._pass_time(op.back)
            outcome = self._next_outcome(op.back) if op.kind == "complete" else self._outcomes[-op.back]
            yield self._ask("complete", outcome, subject.complete)

    def _ask(
        self, kind: Literal["cancel", "notify", "complete"], given: Any, call: Callable[[Any, int], Any]
    ) -> Message:
        """The call with its answer, deltas."""
        self.asked = Message(kind, self.now_ns, given, None)
        return Message(kind, self.now_ns, given, call(given, self.now_ns))

    def _submit(self, request: Request, stop_after: int | None, pauses: tuple[int, ...] = ()) -> Message:
        self.engine.expect(request.id, request.prompt_tokens, stop_after, pauses)
        self.asked = Message("submit", self.now_ns, request, None)
        receipt = self.subject.submit(request, self.now_ns)
        if receipt.verdict == "refused" and receipt.retry_after_ns is not None:
            self.refused, self.retry_ns = request, self.now_ns + receipt.retry_after_ns
        elif receipt.verdict == "accepted":
            self.refused = None
        return Message("submit", self.now_ns, request, receipt)

    def _pass_time(self, back: int) -> None:
        """Where a time model is declared, steps take as long as it says, one after the other."""
        door = self.settings.door
        began_ns = max(self._free_ns, self._planned_ns[back - 1])
        del self._planned_ns[back - 1]
        if door.has_time_model:
            self._free_ns = began_ns + door.takes_ns(sum(self._plans[back - 1].tokens))
            self.now_ns = max(self.now_ns, self._free_ns)

    def _next_outcome(self, back: int) -> Outcome:
        plan = self._plans[back - 1]
        del self._plans[back - 1]
        outcome = self.engine.outcome(plan, self.monitor)
        self._outcomes.append(outcome)
        return outcome

    def _judge(self, message: Message) -> None:
        self.asked = None
        if self.keep_messages:
            self.messages.append(message)
        self.heard(message)
        self.ear.hear(message)
        self.link.hear(message)
        for violation in self.monitor.feed(message):
            self.stuck |= violation.rule == NEVER_ENDS
            rule = registry.rules[violation.rule]
            if violation.rule in self.ignored:
                self.went_past |= rule.level == "MUST"
                continue
            is_gauge = self.past_gauges and violation.rule == GAUGES
            if rule.level == "SHOULD" or rule.family == DOOR or is_gauge:
                self.advice.setdefault(violation.rule, (violation, len(self.ops)))
            else:
                self.broken.append(violation)

    def _observe(self, op: Op) -> None:
        """Snapshots after every call, or after every so many."""
        self._calls += 1
        blocks = self.settings.blocks
        sparse = max(SPARSE_OBSERVATIONS, blocks // BLOCKS_PER_CALL)
        every = self.observe_every if blocks <= SMALL_POOL_BLOCKS else sparse
        if not self.over and op.kind != "tick" and self._calls % every == 0:
            self._look()

    def _look(self) -> None:
        if self.header.capabilities.observes == "decisions":
            return
        self.asked = Message("observe", self.now_ns, None, None)
        shown = self.subject.observe()
        self.asked = None
        if shown is not None:
            self.snapshots += 1
            self._judge(Message("observe", self.now_ns, None, shown))


def all_but(only: Iterable[str]) -> frozenset[str]:
    """The rules that are ignored where only these are judged; none where none is named."""
    wanted = frozenset(only)
    return frozenset(registry.rules) - wanted if wanted else frozenset()


def answered(subject: Subject, message: Message) -> Any:
    """What it answers to a recorded call."""
    if message.kind == "end":
        return None
    if message.kind == "observe":
        return subject.observe()
    if message.kind == "step":
        return subject.step(message.now_ns)
    call: Any = getattr(subject, message.kind)
    return call(message.given, message.now_ns)


def replay(factory: SubjectFactory, script: Script, **options: object) -> Driver:
    """The same operations on a fresh subject."""
    driver = Driver.start(factory, script.settings, script.seed, **options)  # type: ignore[arg-type]
    driver.run(script.ops)
    return driver
