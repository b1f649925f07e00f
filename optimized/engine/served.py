"""A scheduler with the engine behind it: a subject whose outcomes are what was computed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from ...spec.vocabulary import (
    Capabilities,
    Delta,
    Message,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    Subject,
)
from .engine import Engine, Sampled
from .errors import EngineError, TablesDiffer
from .sampling import GREEDY, Sampling

Heard = Callable[[Message], None]
Executed = Callable[[Plan, Sampled], None]


@define(eq=False)
class Served:
    """Each plan is executed when it is made, as a device would that runs one step after another.  Whoever drives it
    says in `complete` who sampled and who stops; the tokens are the engine's, whatever stands there.

    `heard` is told each call and answer as a trace has them, `executed` each step; with `observes` snapshots are taken
    after each step and result, and the worker's tables are held to them (KV-17).
    """

    subject: Subject
    engine: Engine
    heard: Heard = lambda message: None
    executed: Executed = lambda plan, sampled: None
    sampling_of: Callable[[Request], Sampling] = lambda request: GREEDY
    observes: bool = True
    compared_tables: int = 0
    _tokens: dict[int, dict[str, int]] = field(init=False, factory=dict)

    def capabilities(self) -> Capabilities:
        return self.subject.capabilities()

    def submit(self, request: Request, now_ns: int) -> Receipt:
        receipt = self.subject.submit(request, now_ns)
        if receipt.verdict == "accepted":
            self.engine.submit(request, self.sampling_of(request))
        self.engine.hear(receipt.deltas)
        self.heard(Message("submit", now_ns, request, receipt))
        return receipt

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        return self._told("cancel", now_ns, request_id, self.subject.cancel(request_id, now_ns))

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return self._told("notify", now_ns, event, self.subject.notify(event, now_ns))

    def step(self, now_ns: int) -> Plan:
        plan = self.subject.step(now_ns)
        self.engine.hear(plan.deltas)
        self.heard(Message("step", now_ns, None, plan))
        self._look(now_ns)
        if plan.request:
            sampled = self.engine.execute(plan)
            self._tokens[plan.step] = dict(zip(sampled.request, sampled.token, strict=True))
            self.executed(plan, sampled)
        return plan

    def outcome(self, step: int, stop: Callable[[str], bool] = lambda request: False) -> Outcome:
        """What the engine computed in a step."""
        tokens = self._tokens[step]
        return Outcome(step=step, request=tuple(tokens), token=tuple(tokens.values()), stop=tuple(map(stop, tokens)))

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        tokens = self._tokens.get(outcome.step)
        if tokens is None or not set(outcome.request) <= tokens.keys():
            raise EngineError(
                f"step {outcome.step} was not executed for {list(outcome.request)}: its outcome is of another run"
            )
        outcome = evolve(outcome, token=[tokens[request] for request in outcome.request])
        return self._told("complete", now_ns, outcome, self.subject.complete(outcome, now_ns))

    def observe(self) -> Observation | None:
        return self.subject.observe()

    def _told(self, kind: Any, now_ns: int, given: Any, deltas: Sequence[Delta]) -> Sequence[Delta]:
        self.engine.hear(deltas)
        self.heard(Message(kind, now_ns, given, deltas))
        if kind == "complete":
            self._look(now_ns)
        return deltas

    def _look(self, now_ns: int) -> None:
        shown = self.observe() if self.observes else None
        if shown is None:
            return
        self.heard(Message("observe", now_ns, None, shown))
        self.compared_tables += len(shown.tables)
        unlike = self.engine.tables.unlike(shown.tables)
        if unlike is not None:
            raise TablesDiffer(f"KV-17: {unlike}")
