"""A scheduler of two pools on a virtual clock: each pool has a device of its own, and a link copies KV between them.

Like `engine.py`, but a step may be under way in each pool at the same time, and a transfer takes as long as its
positions do, one after the other on the one link.  Logged are the times that the published objectives are about.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, count
from typing import Any

from attrs import Factory, define, field

from ...spec.vocabulary import POOLS, PREFILL, Delta, Outcome, Plan, Subject
from ...spec.workloads import Incoming
from .costs import Batch, CostModel


@define(eq=False)
class Course:
    """What became of a request: when it came, and when each of its tokens was delivered, in nanoseconds."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    tokens_ns: list[int] = Factory(list)

    @property
    def ttft_ns(self) -> int:
        """To the first token, which comes from the prefill pool: neither transfer nor the decode queue is in it."""
        return self.tokens_ns[0] - self.arrival_ns

    @property
    def tpot_ns(self) -> float:
        """Per token after the first, the transfer and the decode queue included; 0 if there is none."""
        more = len(self.tokens_ns) - 1
        return (self.tokens_ns[-1] - self.tokens_ns[0]) / more if more else 0.0


@define(eq=False)
class TwoPools:
    """`costs`: of each pool; `link_ns`: of so many positions."""

    subject: Subject
    costs: Mapping[str, CostModel]
    link_ns: Callable[[int], int]
    courses: dict[str, Course] = Factory(dict)
    now_ns: int = 0
    _events: list[tuple[int, int, Callable[[], None]]] = field(init=False, factory=list)
    _numbers: Any = field(init=False, factory=count)
    _busy: dict[str, bool] = field(init=False, factory=lambda: dict.fromkeys(POOLS, False))
    _link_free_ns: int = field(init=False, default=0)
    _goals: dict[str, int] = field(init=False, factory=dict)

    def run(self, workload: Iterable[Incoming]) -> dict[str, Course]:
        """Until everybody has ended."""
        for incoming in workload:
            self._at(incoming.now_ns, lambda one=incoming: self._submit(one))  # type: ignore[misc]
        while self._events:
            self.now_ns = self._events[0][0]
            while self._events and self._events[0][0] == self.now_ns:
                heapq.heappop(self._events)[2]()
            self._plan()
        return self.courses

    def _at(self, when_ns: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_ns, next(self._numbers), what))

    def _submit(self, incoming: Incoming) -> None:
        request = incoming.request
        self.courses[request.id] = Course(self.now_ns, request.prompt_tokens, incoming.output_tokens)
        self._hear(self.subject.submit(request, self.now_ns).deltas)

    # --- steps -------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Each pool that is idle is asked once."""
        for _ in POOLS:
            if all(self._busy.values()):
                return
            plan = self.subject.step(self.now_ns)
            self._hear(plan.deltas)
            if plan.request:
                self._launch(plan)

    def _launch(self, plan: Plan) -> None:
        assert plan.pool is not None
        self._busy[plan.pool] = True
        took_ns = max(1, self.costs[plan.pool].step_ns(self._batch(plan)))
        self._at(self.now_ns + took_ns, lambda: self._complete(plan))

    def _batch(self, plan: Plan) -> Batch:
        """The prefill pool runs chunks, the decode pool decodes."""
        if plan.pool == PREFILL:
            return Batch(chunks=tuple(zip(plan.start, plan.tokens, strict=True)))
        return Batch(decodes=len(plan.request), context_tokens=sum(plan.start) + len(plan.request))

    def _complete(self, plan: Plan) -> None:
        assert plan.pool is not None
        self._busy[plan.pool] = False
        request = list(compress(plan.request, plan.samples))
        courses = [self.courses[one] for one in request]
        stop = [len(course.tokens_ns) + 1 >= course.output_tokens for course in courses]
        outcome = Outcome(step=plan.step, request=request, token=[0] * len(request), stop=stop)
        self._hear(self.subject.complete(outcome, self.now_ns))

    # --- what deltas say ---------------------------------------------------------------------------------

    def _hear(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if delta[0] == "delivered":
                for request in delta[1]:
                    self.courses[request].tokens_ns.append(self.now_ns)
            elif delta[0] == "pulled":
                self._transfer(delta[1], delta[3])

    def _transfer(self, request: str, number: int) -> None:
        course = self.courses[request]
        begin_ns = max(self.now_ns, self._link_free_ns)
        positions = course.prompt_tokens + len(course.tokens_ns) - 1
        self._link_free_ns = begin_ns + self.link_ns(positions)
        self._at(begin_ns, lambda: self._tell("transfer_started", number))
        self._at(self._link_free_ns, lambda: self._tell("transfer_done", number))

    def _tell(self, event: str, number: int) -> None:
        self._hear(self.subject.notify({"type": event, "transfer": number}, self.now_ns))
