"""Bugs of progress: nothing moves any more, or somebody is never looked at again."""

from collections.abc import Sequence

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.reference.state import Admission, Decision
from schedspec.spec.vocabulary import Delta, Observation, Receipt, Request, Settings

from .registry import REFERENCE, bug, reused


@bug(
    "B08",
    rules=("LIVE-1", "LIVE-6"),
    kind="deadlock/livelock",
    title="Two requests hold what was loaded for each, and neither gets the rest beside the other",
    url="https://github.com/vllm-project/vllm/issues/45388",
)
class HoldsWhatItHas(Scheduler):
    """Who is admitted holds blocks of its first chunk; the scan ends at the first for whom the rest is not there."""

    def decide_turn(self, victims: list[Job]) -> Decision:
        going: list[Job] = []
        for job in self.state.running.values():
            _, need, _ = self.compose([*going, job])
            if need > self.state.pool.available:
                break
            going.append(job)
        growth, need, left = self.compose(going)
        decision = Decision(victims, None, growth, left)
        if self.is_round():
            decision.admissions = self.admit(left, self.state.pool.available - need)
        return decision


@bug(
    "B10",
    rules=("LIVE-5",),
    kind="deadlock/livelock",
    title="What somebody waits for is put off by each new request, so the wait never ends",
    url="https://github.com/ollama/ollama/issues/17408",
    where="router",
)
class NewRequestsResetTheTimer(Scheduler):
    """The timer of those who are parked is one field, which the fast path of a new request sets again."""

    def submit(self, request: Request, now_ns: int) -> Receipt:
        parking = self.state.parking
        for job in parking.parked:
            parking.parked[job] = now_ns + parking.timeout_ns
        return super().submit(request, now_ns)


reused(
    "B13",
    REFERENCE["LIVE-4"],
    rules=("LIVE-1", "LIVE-4"),
    kind="starvation",
    title="Parked requests are promoted only where the scan reaches them, which saturation prevents",
    url="https://github.com/vllm-project/vllm/issues/53130",
)


@bug(
    "B26",
    rules=("LIFE-1",),
    kind="lost-request",
    title="Requests that were parked wait in a second queue, which no loop visits",
    url="https://github.com/vllm-project/vllm-ascend/pull/10699",
)
class NeverLooksAtTheSecondQueue(Scheduler):
    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.skipped: list[Job] = []

    def unpark(self, job: Job) -> None:
        super().unpark(job)
        self.state.queue.left(job)
        self.skipped.append(job)

    def observe(self) -> Observation:
        shown = super().observe()
        gone = {job.id for job in self.skipped}
        return evolve(shown, requests={id: view for id, view in shown.requests.items() if id not in gone})

    def end(self, job: Job, event: Delta) -> None:
        if job in self.skipped:
            self.skipped.remove(job)
            self.state.queue.push(job)
        super().end(job, event)


@bug(
    "B27",
    rules=("LIVE-9",),
    kind="lost-request",
    title="A seat that was used last at this very moment is not found idle, and nothing wakes who was put off",
    url="https://github.com/ggml-org/llama.cpp/pull/14079",
)
class ComparesStampsStrictly(Scheduler):
    """The seat that is idle for longest is looked for among those that were used before now; who finds none is put
    off until a seat is released."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.last_used_ns = -1
        self.is_put_off = False

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        if self.is_put_off:
            return []
        if not self.state.running and self.state.queue.size and self.last_used_ns >= self.state.now_ns:
            self.is_put_off = True
            return []
        return super().admit(budget, blocks)

    def complete(self, outcome: object, now_ns: int) -> Sequence[Delta]:
        deltas = super().complete(outcome, now_ns)  # type: ignore[arg-type]
        if any(delta[0] == "finished" for delta in deltas):
            self.last_used_ns, self.is_put_off = now_ns, False
        return deltas
