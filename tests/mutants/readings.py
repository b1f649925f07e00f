"""The bulk monitor beside the plain one: what they find, count and remember must be the same.

`python tests/mutants/readings.py --traces 1000` holds them against each other on so many traces with a planted fault.
Columns of any length go through the numpy reading here; in earnest short ones are left to the compiled one.
"""

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, evolve
from tests.bench.recording import Recorder, requests
from tests.mutants.traces import Run, corpus, mutated, with_a_change

from schedspec.optimized.monitor import BulkMonitor
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.relation import Engine
from schedspec.spec.trace import TraceError, read_trace
from schedspec.spec.vocabulary import SCHEMA, Message, Request, Settings

ROOT = Path(__file__).resolve().parents[2]

HORIZON = 2
"""Requests are forgotten soon, so that rows are used again."""


@define
class Tally:
    """`together`: entries that the numpy reading judged; `forecast`: events of which it asked only what may change;
    `written`: entries that the content shadow wrote in columns; `broken`: runs that broke a rule."""

    runs: int = 0
    broken: int = 0
    together: int = 0
    forecast: int = 0
    written: int = 0

    def compare(self, run: Run) -> str | None:
        """The first thing in which the two differ."""
        plain = Monitor(run.header, horizon=HORIZON)
        bulk = BulkMonitor(run.header, horizon=HORIZON, fewest=1)
        self.runs += 1
        for number, message in enumerate(run.messages, start=1):
            found, also = _fed(plain, message), _fed(bulk, message)
            if found != also:
                return f"message {number}: {found} and {also}"
            if isinstance(found, str):
                break
        self.together += bulk.together
        self.forecast += bulk._rounds.forecast
        self.written += getattr(bulk.shadow, "together", 0)
        self.broken += bool(plain.violations)
        return differing(summary(plain), summary(bulk))


def _fed(monitor: Monitor, message: Any) -> Any:
    try:
        return monitor.feed(message)
    except ProtocolError as error:
        return str(error)


def summary(m: Monitor) -> dict[str, Any]:
    """Everything that a monitor knows."""
    state = {name: _value(m, name) for name in Engine.sorts if name != "prefix"}
    tracks = {
        t.id: (list(t.tokens), list(t.ids), t.table, t.ended, t.epoch, t.shared_tokens) for t in m.tracks.values()
    }
    verified = {t.id: (t.verified_blocks, t.last_content) for t in m.tracks.values()}
    written = {} if m.shadow is None else {block: ids for block, ids in m.shadow.blocks.items() if ids}
    counts = {"events": dict(m.world.events), "each": list(m.world.exercised), "exercised": m.exercised()}
    counts |= {"verified": verified, "written": written}
    return state | counts | {"tracks": tracks, "live": m.live, "waiting": m.waiting, "flights": sorted(m.in_flight)}


def _value(m: Monitor, name: str) -> Any:
    sort = Engine.sorts[name]
    if sort.name == "Map":  # it is total: what is as if it had never been set may be missing
        cells = {key: getattr(record, name) for key, record in getattr(m.world, sort.args[0].name).items()}
        return {key: cell for key, cell in cells.items() if cell not in (0, None, set())}
    value = getattr(m.world, name)
    return set(value) if sort.name == "Set" else value


def differing(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    wrong = [name for name in one if one[name] != other[name]]
    return f"afterwards: {', '.join(wrong)}" if wrong else None


def kept_traces() -> list[Path]:
    """Those that lie in the tests, vectors included; lines of something else have no schema, or another one."""
    files = sorted((ROOT / "tests").rglob("*.jsonl"))
    return [path for path in files if f'"{SCHEMA}"' in path.read_text(encoding="utf-8").split("\n", 1)[0]]


def recorded(path: Path) -> Run:
    header, messages = read_trace(path)
    read: list[Message] = []
    with suppress(TraceError):
        read.extend(messages)
    return Run(header, tuple(read))


def all_differences(runs: Iterable[tuple[str, Run]], tally: Tally) -> list[str]:
    return [f"{name}: {differs}" for name, run in runs if (differs := tally.compare(run))]


def planted(traces: int) -> Iterable[tuple[str, Run]]:
    return ((f"mutated {seed}", mutated(seed)) for seed in range(traces))


def batch(rounds: int = 30, running: int = 12, block_size: int = 4, seed: int = 1) -> Run:
    """The same requests in each step, long enough that nothing but tokens and blocks comes and goes."""
    blocks = running * -(-80 // block_size)
    settings = Settings(blocks=blocks, block_size=block_size, seats=running, token_budget=16 * running)
    recorder = Recorder(settings)
    messages: list[Message] = []
    recorder.fill(requests(seed, (3, 9), (60, 60)), running, messages.append)
    for _ in range(rounds):
        messages += recorder.round()
    return Run(recorder.header, tuple(messages))


def busy(seed: int) -> Run:
    """Requests come and end while others decode, and go on where others stand; where memory is short some are
    preempted.  Prompts come in chunks, and every third run is of an executor that reads before later entries write."""
    rng = random.Random(seed)
    running, block_size = rng.choice((6, 15, 40)), rng.choice((1, 2, 4, 16))
    blocks = int(running * -(-30 // block_size) * rng.choice((0.5, 0.8, 2)))
    settings = Settings(
        blocks=max(blocks, -(-72 // block_size)),
        block_size=block_size,
        seats=running,
        token_budget=running * rng.choice((2, 4, 8)),
        prefix_caching=rng.random() < 0.5,
    )
    recorder = Recorder(settings)
    messages: list[Message] = []
    arrivals, waiting = follow_ups(rng, messages), rng.choice((1, 3))
    for _ in range(rng.randint(20, 60)):
        missing = waiting - recorder.scheduler.state.queue.size
        messages += [recorder.submit(next(arrivals)) for _ in range(missing)]
        messages.append(recorder.step())
        messages.append(recorder.complete(messages[-1].answer, [rng.random() < 0.04 for _ in range(running)]))
    header = recorder.header
    if seed % 3 == 0:
        header = evolve(header, capabilities=evolve(header.capabilities, executor_order="entry_by_entry"))
    return Run(header, tuple(messages))


def follow_ups(rng: random.Random, messages: Sequence[Message]) -> Iterator[Request]:
    """Every other request goes on where an earlier one stands, outputs and all."""
    for number in count():
        asked = [message.given for message in messages if message.kind == "submit"]
        start = rng.randrange(1 << 30)
        prompt = list(range(start, start + rng.randint(2, 24)))
        if asked and rng.random() < 0.5:
            earlier = rng.choice(asked)
            told = [d for m in messages if m.kind == "complete" for d in m.answer if d[0] == "delivered"]
            outputs = [token for d in told for request, token in zip(d[1], d[2], strict=True) if request == earlier.id]
            prompt = [*earlier.prompt_ids, *outputs, *prompt[:3]][:40]
        yield Request(id=f"r{number}", prompt_ids=tuple(prompt), max_output_tokens=rng.randint(1, 30))


def broken_busy(traces: int) -> Iterable[tuple[str, Run]]:
    """Such runs as they are, and with up to two changes anywhere."""
    for seed in range(traces):
        rng, run = random.Random(seed), busy(seed)
        yield f"busy {seed}", run
        for _ in range(rng.randint(1, 2)):
            run = with_a_change(run, rng)
        yield f"busy {seed}, changed", run


def broken_batches(traces: int) -> Iterable[tuple[str, Run]]:
    """Batches that decode, with up to three changes anywhere."""
    for seed in range(traces):
        rng = random.Random(seed)
        run = batch(rng.randint(20, 45), rng.choice((3, 12, 30)), rng.choice((1, 2, 4, 16)), seed)
        for _ in range(rng.randint(1, 3)):
            run = with_a_change(run, rng)
        yield f"batch {seed}", run


def broken_rounds(traces: int) -> Iterable[tuple[str, Run]]:
    """A few requests of lengths that lie apart, until all have ended: as they are, and with a change anywhere."""
    for seed in range(traces):
        rng = random.Random(seed)
        running, size = rng.choice((2, 3, 5)), rng.choice((1, 4, 16))
        recorder = Recorder(Settings(blocks=running * 80, block_size=size, seats=running, token_budget=16 * running))
        messages: list[Message] = []
        recorder.fill(requests(seed, (3, 9), (8, 60)), running, messages.append)
        for _ in range(64):
            messages += recorder.round()
        run = Run(recorder.header, tuple(messages))
        yield f"rounds {seed}", run
        yield f"rounds {seed}, changed", with_a_change(run, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description="The bulk monitor beside the plain one.")
    parser.add_argument("--traces", type=int, default=1000)
    traces = parser.parse_args().traces
    found = []
    for what, runs in (
        ("clean runs", ((f"clean {number}", run) for number, run in enumerate(corpus()))),
        ("kept traces", ((str(path), recorded(path)) for path in kept_traces())),
        ("runs with a planted fault", planted(traces)),
        ("batches with planted faults", broken_batches(traces // 4)),
        ("runs of a few requests, as they are and with a planted fault", broken_rounds(traces // 4)),
        ("busy runs, as they are and with planted faults", broken_busy(traces // 4)),
    ):
        tally = Tally()
        found += all_differences(runs, tally)
        entries = f"{tally.together} entries together, {tally.forecast} forecast, {tally.written} written in columns"
        print(f"{tally.runs} {what}, {tally.broken} broken, {entries}", flush=True)
    print("\n".join(found) or "no difference")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
