"""Parity: a subject and a model in lock step on random workloads, until the first difference.

Both get the same calls and the same results; after each call their answers must be the same: receipts, plans, who was
admitted, preempted, delivered to and ended, and the block tables, which may differ in the names of blocks only.  What
is legal does not matter here.  The model is a subject like any other.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import (
    Capabilities,
    Delta,
    Message,
    Plan,
    Settings,
    Subject,
    SubjectFactory,
    Unsupported,
)

from .negotiate import negotiated
from .parity_workloads import CONFIGURATIONS, Configuration, PrefixEngine, Style, draw_script, draw_settings, draw_style
from .script import COMPLETE, STEP, Op, Script
from .shrink import plainer_names, plainer_settings, smaller_requests, without_requests, without_runs
from .subjects.guard import guarded

MOST_IDLE_STEPS = 3
PATIENCE_ROUNDS = 40
"""Rounds without a token, after which nobody is waited for."""
MOST_DRAWS = 40
"""Settings are drawn anew so often if a subject refuses them."""

COMPARED_DELTAS = {
    "admitted": 3,
    "resumed": 3,
    "preempted": 2,
    "finished": 3,
    "cancelled": 2,
    "failed": 2,
    "expired": 2,
    "delivered": 3,
}
"""Delta -> how much of it is compared, name included: who is preempted and not for whom, for instance."""

Answer = dict[str, Any]
"""Field -> what was answered; the fields stand in the order in which they are printed."""

Note = Callable[[str, float, str], None]


PER_PART = 16
"""Workloads of a configuration that are run together where parts are run apart."""


def _quietly(stage: str, part: float, text: str) -> None:
    """Nobody looks."""


class NothingCompared(ValueError):
    """No configuration could be run.  Its text is one sentence."""


class Void(ValueError):
    """One of the two gave no answer that could be compared.  Its text is one sentence."""


# --- what is compared --------------------------------------------------------------------------------------


@define(eq=False)
class Side:
    """One of the two, and the block tables that its deltas tell of."""

    who: str
    subject: Subject
    capabilities: Capabilities
    usable_blocks: int
    tables: dict[str, list[int]] = Factory(dict)

    @classmethod
    def start(cls, who: str, factory: SubjectFactory, settings: Settings, seed: int) -> "Side":
        """A fresh one.  Raises Unsupported if it refuses a setting."""
        try:
            subject = factory(settings, seed)
            shown = subject.capabilities()
        except ProtocolError as fault:
            raise Void(f"the {who} cannot be compared: {fault}") from fault
        return cls(who, subject, shown, settings.blocks - len(shown.null_blocks) - len(shown.reserved_blocks))

    def answer(self, kind: str, given: Any, now_ns: int) -> Any:
        try:
            return self._answer(kind, given, now_ns)
        except ProtocolError as fault:
            raise Void(f"the {self.who} cannot be compared: {fault}") from fault

    def _answer(self, kind: str, given: Any, now_ns: int) -> Any:
        if kind == "submit":
            return self.subject.submit(given, now_ns)
        if kind == "cancel":
            return self.subject.cancel(given, now_ns)
        if kind == "step":
            return self.subject.step(now_ns)
        return self.subject.complete(given, now_ns)

    def follow(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if delta[0] in ("took", "shared"):
                self.tables.setdefault(delta[1], []).extend(delta[2])
            elif delta[0] == "gave":
                left = [block for block in self.tables.pop(delta[1], []) if block not in delta[2]]
                self.tables |= {delta[1]: left} if left else {}

    def shown(self, order: Sequence[str]) -> Answer:
        """Tables with blocks numbered as they first appear, so that only who shares what with whom is compared."""
        names: dict[int, int] = {}
        tables = {
            request: tuple(names.setdefault(block, len(names)) for block in self.tables[request])
            for request in order
            if request in self.tables
        }
        return {"blocks": tables, "free blocks": self.usable_blocks - len(names)}


def fields_of(kind: str, answer: Any) -> Answer:
    """An answer as what is compared of it; runs of deltas of one kind count as one."""
    if kind == "submit":
        return {"verdict": answer.verdict, "reason": answer.reason, "limit": answer.limit, "value": answer.value}
    found: Answer = {}
    if kind == "step":
        found["runs"] = tuple(zip(answer.request, answer.start, answer.tokens, answer.samples, strict=True))
    found |= {name: [] for name in COMPARED_DELTAS}
    for delta in answer.deltas if kind == "step" else answer:
        name = delta[0]
        if name == "delivered":
            found[name] += zip(delta[1], delta[2], strict=True)
        elif name in COMPARED_DELTAS:
            found[name].append(delta[1 : COMPARED_DELTAS[name]])
    return found


@frozen
class Difference:
    """The first call that was answered in two ways.  `messages`: all calls until then and the subject's answers."""

    messages: list[Message]
    ops: tuple[Op, ...]
    theirs: Answer
    ours: Answer

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name in self.theirs if self.theirs[name] != self.ours[name])


@define(eq=False)
class LockStep:
    """One workload on both sides."""

    theirs: Side
    ours: Side
    settings: Settings
    engine: PrefixEngine = Factory(PrefixEngine)
    messages: list[Message] = Factory(list)
    ops: list[Op] = Factory(list)
    order: list[str] = Factory(list)
    live: set[str] = Factory(set)
    difference: Difference | None = None
    now_ns: int = 0
    steps: int = 0
    idle_steps: int = 0
    barren: int = 0
    _plans: deque[Plan] = Factory(deque)
    _depth: int = 1

    def __attrs_post_init__(self) -> None:
        if all("overlap" in side.capabilities.claims for side in (self.theirs, self.ours)):
            self._depth = self.settings.overlap_depth

    @classmethod
    def start(cls, subject: SubjectFactory, model: SubjectFactory, settings: Settings, seed: int) -> "LockStep":
        """Fresh ones of both.  Raises Unsupported or Void if one is not to be had."""
        theirs = Side.start("subject", subject, settings, seed)
        return cls(theirs, Side.start("model", model, settings, seed), settings)

    @property
    def compares_tables(self) -> bool:
        return self.theirs.capabilities.observes == self.ours.capabilities.observes == "tables"

    def run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.do(op)

    def drain(self) -> None:
        """Until everybody has ended; not for ever, since there are schedulers in which somebody waits for ever."""
        self.barren = 0
        while self.difference is None and self.live:
            if self.idle_steps > MOST_IDLE_STEPS or self.barren > PATIENCE_ROUNDS:
                return
            self.barren += 1
            self.do(STEP)
            self.do(COMPLETE)

    def do(self, op: Op) -> None:
        """One operation on both; one that cannot be done now is nothing."""
        if self.difference is not None or not self._can(op):
            return
        self.ops.append(op)
        if op.kind == "tick":
            self.now_ns += op.ns
            return
        given = self._given(op)
        theirs = self.theirs.answer(op.kind, given, self.now_ns)
        ours = self.ours.answer(op.kind, given, self.now_ns)
        self.messages.append(Message(op.kind, self.now_ns, given, theirs))  # type: ignore[arg-type]
        self._compare(op.kind, theirs, ours)
        self._follow(op, theirs)

    def _can(self, op: Op) -> bool:
        if op.kind == "step":
            return len(self._plans) < self._depth
        if op.kind == "complete":
            return bool(self._plans)
        return op.kind != "repeat"

    def _given(self, op: Op) -> Any:
        if op.kind == "submit":
            assert op.request is not None
            self.engine.expect(op.request, op.stop_after)
            self.order.append(op.request.id)
            return op.request
        if op.kind == "complete":
            return self.engine.outcome(self._plans.popleft())
        return op.id if op.kind == "cancel" else None

    def _compare(self, kind: str, theirs: Any, ours: Any) -> None:
        shown = [fields_of(kind, theirs), fields_of(kind, ours)]
        if kind != "submit" and self.compares_tables:
            for side, answer, fields in zip((self.theirs, self.ours), (theirs, ours), shown, strict=True):
                side.follow(answer.deltas if kind == "step" else answer)
                fields |= side.shown(self.order)
        if shown[0] != shown[1]:
            self.difference = Difference(self.messages, tuple(self.ops), *shown)

    def _follow(self, op: Op, answer: Any) -> None:
        """Who lives, and which plans are in flight."""
        if op.kind == "submit":
            self.live |= {op.request.id} if op.request and answer.verdict == "accepted" else set()
            return
        if op.kind == "step":
            self.steps += 1
            self.idle_steps = 0 if answer.request or self._plans else self.idle_steps + 1
            if answer.request:
                self._plans.append(answer)
        deltas = answer.deltas if op.kind == "step" else answer
        if any(delta[0] == "delivered" for delta in deltas):
            self.barren = 0
        self.live -= {delta[1] for delta in deltas if delta[0] in ("finished", "cancelled", "failed", "expired")}


# --- many workloads ----------------------------------------------------------------------------------------


@define(eq=False)
class Parity:
    """All of it: `run()` goes through the configurations and stops at the first difference."""

    subject: SubjectFactory
    model: SubjectFactory
    seeds: int
    seed: int = 0
    pinned: Mapping[str, Any] = field(factory=dict)
    timeout_s: float | None = 10.0
    shrink_s: float = 20.0
    workloads: dict[str, int] = Factory(dict)
    refused: dict[str, str] = Factory(dict)
    steps: int = 0
    seconds: float = 0.0
    compares_tables: bool = True
    difference: Difference | None = None
    script: Script | None = None

    def run(self, note: Note = _quietly) -> None:
        began = time.monotonic()
        self._guard()
        try:
            for configuration in self.configurations():
                self._run_configuration(configuration, range(self.seeds), note)
                if self.difference is not None:
                    break
            self._conclude(note)
        finally:
            self.seconds = time.monotonic() - began

    def parts(self) -> list[tuple[str, int, int]]:
        """What may be run apart: a configuration, and from which workload to before which."""
        starts = range(0, self.seeds, PER_PART)
        names = [str(one) for one in self.configurations()]
        return [(name, start, min(start + PER_PART, self.seeds)) for name in names for start in starts]

    def run_part(self, name: str, start: int, end: int) -> dict[str, Any]:
        """What one part comes to, as plain data; `differs`: the workload in which there was a difference."""
        self._guard()
        self._run_configuration(self._named(name), range(start, end), _quietly)
        last = self.workloads.get(name, start)
        return {
            "end": last,
            "steps": self.steps,
            "compares_tables": self.compares_tables,
            "refused": self.refused.get(name),
            "differs": last - 1 if self.difference is not None else None,
        }

    def merge(self, found: Iterable[Mapping[str, Any]], note: Note = _quietly) -> None:
        """As if all parts had been run here, one after the other, up to the first difference."""
        self._guard()
        for (name, start, _), part in zip(self.parts(), found, strict=True):
            if name in self.refused:
                continue
            if part["end"] > start:
                self.workloads[name] = part["end"]
            self.steps += part["steps"]
            self.compares_tables &= part["compares_tables"]
            if part["refused"] is not None:
                self.refused[name] = part["refused"]
            if part["differs"] is not None:
                self._see_again(name, part["differs"])
                break
        self._conclude(note)

    def _see_again(self, name: str, number: int) -> None:
        steps = self.steps
        self._run_configuration(self._named(name), range(number, number + 1), _quietly)
        self.steps = steps
        if self.difference is None:
            raise ValueError(
                f"{name}: workload {number} differed elsewhere, and does not here: its run does not repeat"
            )

    def _named(self, name: str) -> Configuration:
        return next(one for one in self.configurations() if str(one) == name)

    def _guard(self) -> None:
        self.subject, self.model = guarded(self.subject, self.timeout_s), guarded(self.model, self.timeout_s)

    def _conclude(self, note: Note) -> None:
        if self.difference is not None:
            note("shorten", 0.0, "")
            self._shorten()
        if not self.workloads:
            raise NothingCompared(f"nothing was compared: {'; '.join(sorted(set(self.refused.values())))}")

    def configurations(self) -> list[Configuration]:
        """Those that the pinned settings leave."""
        kept = [
            one
            for one in CONFIGURATIONS
            if all(self.pinned.get(name, value) == value for name, value in one.settings.items())
        ]
        if not kept:
            known = {name: {one.settings[name] for one in CONFIGURATIONS} for name in CONFIGURATIONS[0].settings}
            name = next(name for name in known if name in self.pinned and self.pinned[name] not in known[name])
            one, other = sorted(known[name])
            raise NothingCompared(f"setting {name} is {self.pinned[name]!r}, but must be {one!r} or {other!r}")
        return kept

    def _run_configuration(self, configuration: Configuration, numbers: range, note: Note) -> None:
        name = str(configuration)
        for number in numbers:
            if number % 16 == 0:
                note(name, number / self.seeds, f"{self.steps:,} steps")
            random = Random(f"{self.seed}/{name}/{number}")
            try:
                style = draw_style(random)
                run = self._started(random, style, configuration)
            except Unsupported as no:
                self.refused[name] = str(no)
                return
            self.workloads[name] = number + 1
            self._run_workload(run, draw_script(random, style, run.settings, self.seed))
            if self.difference is not None:
                return
        note(name, 1.0, f"{self.steps:,} steps")

    def _run_workload(self, run: LockStep, script: Script) -> None:
        run.run(script.ops)
        run.drain()
        self.steps += run.steps
        self.compares_tables &= run.compares_tables
        if run.difference is not None:
            self.difference, self.script = run.difference, evolve(script, ops=run.difference.ops)

    def _started(self, random: Random, style: Style, configuration: Configuration) -> LockStep:
        """Settings that both honour; those of the configuration and the pinned ones are not negotiable."""
        fixed = configuration.settings | dict(self.pinned)
        no: Unsupported | ValueError | None = None
        for _ in range(MOST_DRAWS):
            try:
                run = negotiated(self._start, draw_settings(random, style, fixed), {})
            except Unsupported as refusal:
                no = refusal
                if no.setting in fixed:
                    raise
                continue
            except Void:
                raise
            except ValueError as nonsense:  # a pinned setting does not go with a drawn one
                no = nonsense
                continue
            lost = [name for name, value in fixed.items() if getattr(run.settings, name) != value]
            if lost:
                raise Unsupported(lost[0], fixed[lost[0]])
            return run
        assert no is not None
        raise no

    def _start(self, settings: Settings) -> LockStep:
        return LockStep.start(self.subject, self.model, settings, self.seed)

    # --- the shortest workload that differs ----------------------------------------------------------------

    def _shorten(self) -> None:
        """Requests go, then runs of operations, then single ones; then what is left gets smaller and plainer."""
        deadline = time.monotonic() + self.shrink_s
        before = None
        while before != self.script and time.monotonic() < deadline:
            before = self.script
            for candidates in (without_requests, without_runs, smaller_requests, plainer_settings, plainer_names):
                self._improve(candidates, deadline)

    def _improve(self, candidates: Callable[[Script], Iterator[Script]], deadline: float) -> None:
        found = True
        while found:
            found = False
            assert self.script is not None
            for candidate in candidates(self.script):
                if time.monotonic() > deadline:
                    return
                difference = self._difference(candidate)
                if difference is not None:
                    self.difference, self.script = difference, evolve(candidate, ops=difference.ops)
                    found = True
                    break

    def _difference(self, script: Script) -> Difference | None:
        try:
            run = self._start(script.settings)
            run.run(script.ops)
        except (Unsupported, Void):
            return None
        return run.difference
