"""What recording costs a vLLM: `.venv-vllm/bin/python tests/bench/vllm_recorder.py [--rounds N]`, where vLLM is.

One scheduler is recorded to a file for some steps, then not for as many, and so on: two schedulers differ by 5 % even
if both are not recorded, and a machine by more from second to second.  The time is that of `add_request`, `schedule`
and `update_from_output`, in this thread.  `adds` is the median over all neighbours of what the recorded one takes more;
`mean` compares the sums, so that what is written now and then counts in full.  At most 10 % is asked for.
"""

import argparse
import sys
import tempfile
import time
from collections import deque
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # it is run by its path

from attrs import Factory, define  # noqa: E402
from tests.bench.measure import median, quiet  # noqa: E402

from schedspec.conformance.subjects.resolve import UnknownSubject  # noqa: E402
from schedspec.conformance.subjects.vllm_recorder import Recorder, record  # noqa: E402
from schedspec.conformance.subjects.vllm_release import new_scheduler, vllm  # noqa: E402
from schedspec.spec.vocabulary import Settings  # noqa: E402

RUNNING, PROMPT, LONGEST = 256, 256, 2_048
TOGETHER = 4
HEAD = ("alone", "recorded", "adds", "mean", "its own", "KB/step")


def settings_for(prefix_caching: bool, ahead: bool) -> Settings:
    return Settings(
        blocks=RUNNING * LONGEST // 16 + 1,
        seats=RUNNING,
        token_budget=8_192,
        reserve="known",
        prefix_caching=prefix_caching,
        overlap_depth=1 + ahead,
    )


@define(eq=False)
class Engine:
    """A scheduler with all its seats taken; `replaced`: an output has up to 127 tokens, and who ends is replaced."""

    v: Any
    settings: Settings
    replaced: bool
    scheduler: Any
    dice: Random = Factory(lambda: Random(0))
    in_flight: deque[Any] = Factory(deque)
    spent_ns: list[int] = Factory(list)
    submitted: int = 0

    @classmethod
    def of(cls, v: Any, settings: Settings, replaced: bool) -> "Engine":
        return cls(v, settings, replaced, new_scheduler(v, settings, LONGEST))

    def round(self) -> None:
        """One step, and the results of the oldest."""
        missing = [self.request() for _ in range(RUNNING - len(self.scheduler.requests))]
        begun_ns = time.thread_time_ns()
        for request in missing:
            self.scheduler.add_request(request)
        self.in_flight.append(self.scheduler.schedule())
        spent_ns = time.thread_time_ns() - begun_ns
        if len(self.in_flight) == self.settings.overlap_depth:
            out = self.in_flight.popleft()
            result = self.result(out)
            begun_ns = time.thread_time_ns()
            self.scheduler.update_from_output(out, result)
            spent_ns += time.thread_time_ns() - begun_ns
        self.spent_ns.append(spent_ns)

    def request(self) -> Any:
        """Its id is as long as those of vLLM's server."""
        self.submitted += 1
        name = f"chatcmpl-{self.dice.getrandbits(128):032x}-{self.submitted:08x}"
        most = self.dice.randint(1, 127) if self.replaced else LONGEST - PROMPT
        ids = [self.dice.randrange(1, 100_000) for _ in range(PROMPT)]
        hasher = self.v.get_request_block_hasher(16, self.v.sha256) if self.settings.prefix_caching else None
        return self.v.Request(name, ids, self.v.SamplingParams(max_tokens=most), None, block_hasher=hasher)

    def result(self, out: Any) -> Any:
        ids = list(out.num_scheduled_tokens)
        requests = self.scheduler.requests
        prefilling = {name for name in ids if name in requests and requests[name].is_prefill_chunk}
        sampled = [[] if name in prefilling else [self.dice.randrange(1, 100_000)] for name in ids]
        places = {name: place for place, name in enumerate(ids)}
        return self.v.ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=sampled)


def switch(recorder: Recorder, on: bool) -> None:
    for owner, name, _, wrapper in recorder.wrapped:
        if on:
            setattr(owner, name, wrapper)
        elif getattr(owner, name) is wrapper:
            delattr(owner, name)  # the method of its class is there again


@define
class Cost:
    """Times of neighbours: microseconds a step alone, and recorded."""

    alone: list[float]
    recorded: list[float]
    share: float
    bytes_per_step: float

    def __str__(self) -> str:
        ratio = median([with_it / without for with_it, without in zip(self.recorded, self.alone, strict=True)])
        told = [f"{median(self.alone):,.0f}", f"{median(self.recorded):,.0f}", f"{ratio - 1:.1%}"]
        told += [
            f"{sum(self.recorded) / sum(self.alone) - 1:.1%}",
            f"{self.share:.1%}",
            f"{self.bytes_per_step / 1e3:.0f}",
        ]
        return "".join(text.rjust(10) for text in told)


def measured(v: Any, settings: Settings, replaced: bool, rounds: int, file: Path) -> Cost:
    engine = Engine.of(v, settings, replaced)
    recorder = record(engine.scheduler, file)
    for _ in range(200 if replaced else 30):
        engine.round()
    recorder.own_ns = recorder.vllm_ns = 0
    size, times = recorder.lines.file.tell(), {True: list[float](), False: list[float]()}
    with quiet():
        for number in range(2 * rounds):
            on = number % 4 in (0, 3)
            switch(recorder, on)
            engine.spent_ns.clear()
            for _ in range(TOGETHER):
                engine.round()
            warm = engine.spent_ns[1:]
            times[on].append(sum(warm) / len(warm) / 1_000)
    size = recorder.lines.file.tell() - size
    cost = Cost(times[False], times[True], recorder.share, size / rounds / TOGETHER)
    recorder.stop("measured")
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording costs a vLLM.")
    parser.add_argument("--rounds", type=int, default=150, help=f"of {TOGETHER} steps with and {TOGETHER} without")
    rounds = parser.parse_args().rounds
    try:
        v = vllm()
    except UnknownSubject as error:
        print(f"skipped: {error}")
        return
    print(f"{RUNNING} running requests; microseconds that a step takes, and what recording adds")
    print(" " * 28 + "".join(text.rjust(10) for text in HEAD))
    with tempfile.TemporaryDirectory() as folder:
        for replaced, caching, ahead in product((False, True), repeat=3):
            cost = measured(v, settings_for(caching, ahead), replaced, rounds, Path(folder) / "run.jsonl")
            name = (
                "replaced" if replaced else "decode",
                "cache on" if caching else "cache off",
                "async" if ahead else "sync",
            )
            print(", ".join(name).ljust(28) + str(cost), flush=True)


if __name__ == "__main__":
    main()
