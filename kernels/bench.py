"""Steps of the scheduler on a CUDA device, as replays of a captured graph: results in, ends, decision, blocks, plan.

python -m schedspec.kernels.bench
"""

import importlib.util
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from .scheduler import Scheduler
    from .state import Plan

BLOCK_SIZE = 16
OUTPUT_TOKENS = 1_000
CLIENTS = 1_000
ENDING = 16
WARM_UPS = 3
REPLAYS = 200

BYTES_EACH = 8 * (5 + 5 + 3 + 3 + 8 + 5)
"""What a decode of one request reads and writes at the least: its entry of the last plan and of the next, its places in
the three lists both ways, eight columns read, five written."""


class Case(NamedTuple):
    """`ending` of those who run end in each step, and as many enter."""

    running: int
    waiting: int
    ending: int
    shares: bool
    asked_us: int | None = None


CASES = (
    Case(16, 0, 0, False),
    Case(256, 0, 0, False),
    Case(1_024, 0, 0, False, 50),
    Case(1_024, 4_096, ENDING, False, 50),
    Case(8_192, 100_000, 0, False, 200),
    Case(8_192, 100_000, ENDING, False, 200),
    Case(1_024, 4_096, ENDING, True, 50),
    Case(8_192, 100_000, ENDING, True, 200),
)


def why_not() -> str | None:
    """One sentence, if nothing can be measured."""
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            return f"{sys.executable} has no {name}, so no GPU figure was measured."
    import torch

    return None if torch.cuda.is_available() else "There is no CUDA device here, so no GPU figure was measured."


def crowded(case: Case, device: str, **sizes: Any) -> "tuple[Scheduler, Plan, Tensor]":
    """A scheduler with so many running, all of them in decode, who cross the edges of blocks in turn; the plan that
    is in flight, and where to say who stops."""
    from .scheduler import Arrival, Scheduler, Setup

    each = -(-(OUTPUT_TOKENS + BLOCK_SIZE) // BLOCK_SIZE) + 1
    setup = Setup(
        places=case.running + case.waiting,
        groups=min(CLIENTS, case.running) if case.shares else 1,
        blocks=each * case.running,
        block_size=BLOCK_SIZE,
        table_blocks=each,
        seats=case.running,
        token_budget=case.running * BLOCK_SIZE,
        shares=case.shares,
        **sizes,
    )
    scheduler = Scheduler.of(setup, device)
    scheduler.submit(
        [
            Arrival(
                place=place,
                arrival=1 + place,
                prompt_tokens=1 + place % BLOCK_SIZE,
                output_tokens=OUTPUT_TOKENS,
                group=place % setup.groups,
                pick_cost=1 + place % BLOCK_SIZE,
                output_cost=2,
            )
            for place in range(setup.places)
        ]
    )
    plan = scheduler.step()
    stop = scheduler.flags([place < case.ending for place in range(case.running)])
    return scheduler, plan, stop


def replay_of(scheduler: "Scheduler", plan: "Plan", stop: "Tensor") -> Callable[[], Any]:
    """Results and the next step: a graph on a device, the launches elsewhere."""
    if scheduler.device.type == "cuda":
        replay: Callable[[], Any] = scheduler.capture(plan, stop).replay
        return replay

    def launches() -> None:
        scheduler.complete(plan, stop)
        scheduler.step(plan)

    return launches


def times_us(work: Callable[[], Any], count: int) -> list[float]:
    import torch

    for _ in range(WARM_UPS):
        work()
    times: list[float] = []
    for _ in range(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(1_000.0 * begin.elapsed_time(end))
    return times


def bytes_per_us() -> float:
    """What a copy of 1 GiB reads and writes."""
    import torch

    source = torch.empty(1 << 27, dtype=torch.int64, device="cuda")
    target = torch.empty_like(source)
    return float(2 * source.nbytes) / min(times_us(lambda: target.copy_(source), 10))


def rows() -> Iterator[tuple[object, ...]]:
    rate = bytes_per_us()
    yield "policy", "running", "waiting", "end and enter", "µs a step, median", "best", "asked", "floor in bytes", "µs"
    yield ("---",) * 9
    for case in CASES:
        times = times_us(replay_of(*crowded(case, "cuda")), REPLAYS)
        least = BYTES_EACH * case.running
        yield (
            "vtc" if case.shares else "fcfs", f"{case.running:,}", f"{case.waiting:,}", case.ending,
            f"{statistics.median(times):.1f}", f"{min(times):.1f}", case.asked_us or "–", f"{least:,}",
            f"{least / rate:.2f}",
        )  # fmt: skip


def main() -> int:
    reason = why_not()
    if reason is not None:
        print(reason)
        return 0
    import torch
    import triton

    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__};"
        f" {REPLAYS} replays each"
    )
    for row in rows():
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
