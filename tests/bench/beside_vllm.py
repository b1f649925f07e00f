"""The scheduler of the released vLLM and the optimized one, in one process and in turn: same requests, same sizes.

On one clock: `update_from_output` in to `schedule` out, and `complete_arrays` in to `step_arrays` out.  Each is handed
its results as its engine has them, made beforehand: vLLM a ModelRunnerOutput, the other an array of tokens.  What comes
out is what a model runner needs of a step: who, from where, how many tokens, and blocks.  vLLM's own caches of prefixes
are off.  Under fcfs both plan as many tokens in each step, or there is no figure; vtc, which vLLM has not, is
held against its fcfs under the same load.

vLLM lives in an environment of its own (`make vllm`), and this runs there; `run.py` starts it.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import Factory, define, evolve, frozen

from schedspec.conformance.subjects.resolve import UnknownSubject
from schedspec.conformance.subjects.vllm_release import new_scheduler, vllm
from schedspec.spec.vocabulary import Request, Settings

from .measure import Result, Skipped, median, quiet
from .rounds import (
    A_TOKEN,
    Arrivals,
    OfArrays,
    Runs,
    all_at_the_edge,
    decoding,
    fill,
    replacing,
    short_of_blocks,
)

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
SKIPPED = "there is no .venv-vllm here, so nothing was measured against vLLM: `make vllm` installs it (2 GB)"


@frozen(kw_only=True)
class Size:
    """`together` rounds of one, then as many of the other."""

    few: int = 16
    many: int = 1_024
    clients: int = 1_000
    victims: int = 60
    rounds: int = 200
    together: int = 20
    repeats: int = 15


TINY = Size(few=2, many=8, clients=3, victims=2, rounds=8, together=4, repeats=2)
ASKED = {"decode.few": 8, "decode.many": 200, "mixed": 80, "preempting": 20}
"""How many times as long vLLM takes."""


@define
class OfVllm:
    """Its scheduler, of the class that runs no steps ahead."""

    v: Any
    scheduler: Any
    plan: Any = None
    planned: list[int] = Factory(list)

    @classmethod
    def of(cls, v: Any, settings: Settings) -> "OfVllm":
        """With a block more, as one of its is set aside."""
        one_more = evolve(settings, blocks=settings.blocks + 1, policy="fcfs")
        return cls(v, new_scheduler(v, one_more, settings.blocks * settings.block_size))

    def submit(self, request: Request) -> None:
        most = self.v.SamplingParams(max_tokens=request.max_output_tokens)
        self.scheduler.add_request(self.v.Request(request.id, list(request.prompt_ids), most, None))

    def round(self) -> float:
        result = None if self.plan is None else self.result()
        begun = time.thread_time()
        if result is not None:
            self.scheduler.update_from_output(self.plan, result)
        self.plan = self.scheduler.schedule()
        took = time.thread_time() - begun
        self.planned.append(self.plan.total_num_scheduled_tokens)
        return took

    def result(self) -> Any:
        ids, requests = list(self.plan.num_scheduled_tokens), self.scheduler.requests
        sampled = [[] if requests[name].is_prefill_chunk else [A_TOKEN] for name in ids]
        places = {name: place for place, name in enumerate(ids)}
        return self.v.ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=sampled)

    @property
    def waiting(self) -> int:
        return len(self.scheduler.waiting)


def bench(size: Size, *, tiny: bool = False) -> Iterator[Result]:
    """In this interpreter if it has vLLM, else in the environment that has.  Raises Skipped."""
    try:
        v = vllm()
    except UnknownSubject:
        yield from elsewhere(tiny)
        return
    yield decode("decode.few", v, size, size.few, "fcfs")
    yield decode("decode.many", v, size, size.many, "fcfs")
    yield decode("decode.many", v, size, size.many, "vtc")
    for policy in ("fcfs", "vtc"):
        yield mixed(v, size, policy)
    yield preempting(v, size)


def elsewhere(tiny: bool) -> Iterator[Result]:
    if not PYTHON.exists():
        raise Skipped(SKIPPED)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        command = [str(PYTHON), str(ROOT / "tests" / "bench" / "run.py"), "--only", "vllm", "--out", str(out)]
        command += ["--tiny"] if tiny else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text(encoding="utf-8"))
    for name, figure in found.items():
        plain = {key: figure.pop(key) for key in ("figure", "unit", "asked")}
        figure.pop("ratio")
        yield Result(name=name, **plain, more=figure)


def beside(name: str, asked: str, ours: list[float], theirs: list[float]) -> Result:
    fast, slow = median(ours) * 1e6, median(theirs) * 1e6
    best, its_best = min(ours) * 1e6, min(theirs) * 1e6
    unit = f"times as long: vLLM {slow:,.0f} µs (best {its_best:,.0f}), optimized {fast:,.1f} (best {best:,.1f})"
    more = {"us": fast, "best_us": best, "vllm_us": slow, "vllm_best_us": its_best}
    return Result(name=f"vllm.{name}", figure=slow / fast, unit=unit, asked=ASKED[asked], more=more)


def in_turn(size: Size, pair: tuple[Runs, Runs], before: tuple[Callable[[Runs], None], ...]) -> list[list[float]]:
    """So many rounds of one, so many of the other, and so on."""
    samples: list[list[float]] = [[], []]
    for _ in range(size.rounds // size.together):
        for runs, prepare, seen in zip(pair, before, samples, strict=True):
            with quiet():
                for _ in range(size.together):
                    prepare(runs)
                    seen.append(runs.round())
    return samples


def must_be_alike(ours: Runs, theirs: Runs) -> None:
    if ours.planned != theirs.planned:
        raise RuntimeError("the two planned other numbers of tokens: they did not do the same work")


def both(v: Any, settings: Settings) -> tuple[Runs, Runs]:
    return OfArrays.of(settings), OfVllm.of(v, settings)


def decode(asked: str, v: Any, size: Size, running: int, policy: Any) -> Result:
    pair = both(v, decoding(running, size.rounds, policy))
    for runs in pair:
        fill(runs, running, size.rounds, size.clients)
    samples = in_turn(size, pair, (lambda runs: None,) * 2)
    must_be_alike(*pair)
    return beside(f"decode.{policy}.{running}", asked, *samples)


def mixed(v: Any, size: Size, policy: Any) -> Result:
    """As many end and are admitted in a step.  Under vtc the two admit in another order."""
    pair = both(v, replacing(size.many, policy))
    keep = tuple(partial(Arrivals(size.clients).keep, size.many) for _ in pair)
    for runs, prepare in zip(pair, keep, strict=True):
        for _ in range(120):
            prepare(runs)
            runs.round()
    samples = in_turn(size, pair, keep)
    if policy == "fcfs":
        must_be_alike(*pair)
    return beside(f"mixed.{policy}.{size.many}", "mixed", *samples)


def preempting(v: Any, size: Size) -> Result:
    settings = short_of_blocks(size.victims, size.many)
    samples: list[list[float]] = [[], []]
    for _ in range(size.repeats):
        pair = both(v, settings)
        for runs, seen in zip(pair, samples, strict=True):
            all_at_the_edge(runs, size.many)
            with quiet():
                seen.append(runs.round())
            if runs.waiting != size.victims:
                raise RuntimeError(f"{runs.waiting} were preempted, but {size.victims} should have been")
        must_be_alike(*pair)
    return beside(f"preempting.{size.victims}_of_{size.many}", "preempting", *samples)
