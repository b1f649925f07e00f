"""OUT-1, OUT-2, KV-12 on real tensors: no schedule changes a bit of a request's output, logits, keys or values."""

import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="the engine needs torch: `make kernels` installs it")
pytest.importorskip("triton", reason="the engine needs triton: `make kernels` installs it")

import torch
from attrs import evolve
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from schedspec.kernels.attention import INTERPRETED, Batch, attention_plain
from schedspec.optimized.engine import EngineError, sampling
from schedspec.optimized.engine.engine import Engine
from schedspec.optimized.engine.model import Model
from schedspec.optimized.engine.operations import Operations, plain, triton
from schedspec.optimized.engine.pool import Pool
from schedspec.optimized.engine.sampling import GREEDY, Sampling
from schedspec.optimized.engine.tables import Tables
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import Header, Message, Pools, Request, Settings

from .served import COMMON, SWAPPING, Case, Story, drawn, model_of, run

torch.set_num_threads(1)
DEEP = int(os.environ.get("SCHEDSPEC_ENGINE_EXAMPLES", "0"))
"""So many times the examples: hundreds take minutes."""


def thorough(examples: int) -> hypothesis_settings:
    return hypothesis_settings(
        max_examples=examples * (DEEP or 1),
        deadline=None,
        derandomize=not DEEP,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def cases(draw: Any, most: int = 5, prompt: int = 4, output: int = 10) -> Case:
    """Memory for the longest request, and a block or two more: so there is somebody to preempt."""
    size = draw(st.sampled_from((1, 2, 3, 4, 8)))
    requests = []
    for number in range(draw(st.integers(2, most))):
        own = draw(st.lists(st.integers(0, 28), min_size=1, max_size=prompt))
        ids = [*COMMON[: draw(st.integers(0, 8))], *own]
        request = Request(id=f"r{number}", prompt_ids=ids, max_output_tokens=draw(st.integers(output // 2, output)))
        how = draw(st.sampled_from((GREEDY, Sampling(temperature=0.8, seed=number))))
        requests.append((draw(st.integers(0, 3)), request, how))
    longest = max(request.declared_tokens for _, request, _ in requests)
    settings = Settings(
        blocks=-(-longest // size) + draw(st.integers(0, 2)),
        block_size=size,
        seats=draw(st.integers(2, 5)),
        token_budget=draw(st.sampled_from((2, 3, 5, 8, 40))),
        prefix_caching=draw(st.booleans()),
        overlap_depth=draw(st.integers(1, 2)),
        **draw(st.sampled_from(({}, SWAPPING))),
    )
    if draw(st.integers(0, 3)) == 0:
        settings = in_two_pools(settings)
    return Case(settings, requests)


def in_two_pools(settings: Settings) -> Settings:
    """Prompts run in the one and outputs in the other, which has as much memory."""
    pools = Pools(
        decode_blocks=settings.blocks,
        decode_seats=settings.seats,
        decode_token_budget=settings.seats,
        transfer_ns=1_000,
    )
    return Settings(
        blocks=settings.blocks, block_size=settings.block_size, seats=settings.seats,
        token_budget=settings.token_budget, pools=pools,
    )  # fmt: skip


HAPPENED = ("batched", "chunked", "preempted", "swapped", "shared", "moved", "compared")


def test_no_schedule_changes_a_bit_of_the_twin() -> None:
    """All that a schedule may do happened in some of the runs."""
    seen: Counter[str] = Counter()

    @given(cases())
    @thorough(12)
    def each(case: Case) -> None:
        told = run(case)
        assert told.findings == []
        seen.update({what: getattr(told, what) for what in HAPPENED})

    each()
    assert min(seen[what] for what in HAPPENED) > 0, seen


@given(cases(most=3, prompt=3, output=3))
@thorough(2)
def test_no_schedule_changes_a_bit_of_the_kernels(case: Case) -> None:
    assert run(case, model_of(triton())).findings == []


TIGHT = Case(
    Settings(blocks=7, block_size=4, seats=3, token_budget=6, prefix_caching=True),
    [
        (0, Request(id=f"r{n}", prompt_ids=[*COMMON[:9], n], max_output_tokens=5), Sampling(temperature=n / 2))
        for n in range(3)
    ],
)
"""One is preempted, and shares what the others computed."""


def test_kernels_preempt_and_share_without_a_trace() -> None:
    told = run(TIGHT, model_of(triton()))
    assert told.findings == []
    assert min(told.preempted, told.shared, told.batched, told.chunked) > 0
    assert told.outputs == run(TIGHT).outputs, "kernels and twin differ by more than the last bits"


def stories(count: int, model: Callable[[], Model] = model_of, **options: Any) -> list[Story]:
    return [run(drawn(Random(f"schedules {seed}")), model(), **options) for seed in range(count)]


def test_drawn_schedules_batch_chunk_preempt_and_share() -> None:
    told = stories(12)
    assert [story.findings for story in told] == [[]] * len(told)
    for what in ("preempted", "swapped", "shared", "batched", "chunked", "compared"):
        assert sum(getattr(story, what) for story in told) >= 2, what


def test_what_is_recorded_passes_at_the_level_of_blocks_and_contents() -> None:
    from schedspec.reference import make

    for seed in range(4):
        case = drawn(Random(f"schedules {seed}"))
        header = Header(settings=case.settings, capabilities=make(case.settings, 0).capabilities(), subject="reference")
        monitor = Monitor(header)
        messages = run(case).messages
        broken = [violation for message in messages for violation in monitor.feed(message)]
        broken += monitor.feed(Message("end", messages[-1].now_ns))
        assert broken == []
        assert monitor.exercised()["KV-12"] > 0


# --- planted faults ----------------------------------------------------------------------------------------


Fault = Callable[[Operations], Operations]


def wrong_slot(run: Operations) -> Operations:
    """Position 7 is written where position 6 stands."""

    def kv_write(qkv: Any, cos: Any, sin: Any, positions: Any, slots: Any, pool: Any) -> Any:
        return run.kv_write(qkv, cos, sin, positions, torch.where(positions == 7, slots - 1, slots), pool)

    return evolve(run, kv_write=kv_write)


def short_mask(run: Operations) -> Operations:
    """A decode does not see its own key."""

    def attention(q: Any, pool: Any, batch: Batch) -> Any:
        starts = [start - (count == 1 and start > 3) for start, count in zip(batch.starts, batch.counts, strict=True)]
        return run.attention(q, pool, batch._replace(starts=starts))

    return evolve(run, attention=attention)


def others_table(run: Operations) -> Operations:
    """The rows of the table are those of the batch before it was sorted."""

    def attention(q: Any, pool: Any, batch: Batch) -> Any:
        return run.attention(q, pool, batch._replace(tables=batch.tables.flip(0)))

    return evolve(run, attention=attention)


def splits_by_batch(run: Operations) -> Operations:
    """As many splits as keep the device busy."""

    def attention(q: Any, pool: Any, batch: Batch) -> Any:
        return attention_plain(q, pool, batch, INTERPRETED._replace(keys=4, tiles=1 + len(batch.starts) % 3))

    return evolve(run, attention=attention)


def product_by_batch(run: Operations) -> Operations:
    """Another algorithm for more than one row."""

    def matmul(x: Any, w: Any) -> Any:
        return run.matmul(x, w) if len(x) == 1 else sum((x[:, None] * w[None]).unbind(-1))

    return evolve(run, matmul=matmul)


OF_OPERATIONS: dict[Fault, set[str]] = {
    wrong_slot: {"KV-12"},
    short_mask: {"OUT-1", "OUT-2"},
    others_table: {"OUT-2"},
    splits_by_batch: {"OUT-2"},
    product_by_batch: {"OUT-2", "KV-12"},
}


@pytest.mark.parametrize("fault", OF_OPERATIONS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_of_the_operations_is_caught(fault: Fault) -> None:
    found: set[str] = set()
    for seed in range(5):
        try:
            told = run(drawn(Random(f"schedules {seed}")), model_of(fault(plain())), judge_by=model_of())
        except EngineError as error:
            found |= {"KV-12", "OUT-1", "OUT-2"} if "are not all finite" in str(error) else {str(error)}
        else:
            found |= {finding.rule for finding in told.findings}
    assert found >= OF_OPERATIONS[fault]


def test_a_stale_table_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preempted request keeps its old table on the worker, and what it takes then comes behind it."""
    monkeypatch.setattr(Tables, "_empty", lambda self, request, blocks: None)
    assert found_in_tight() == "KV-17"


def test_a_block_that_the_worker_is_not_told_of_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As https://github.com/RBLN-SW/vllm-rbln/pull/662: block 0 is written instead."""
    append = Tables._append

    def forgetful(self: Tables, request: str, blocks: Any) -> None:
        append(self, request, [0 if self.of(request) else block for block in blocks])

    monkeypatch.setattr(Tables, "_append", forgetful)
    assert found_in_tight() == "KV-17"


def found_in_tight() -> str:
    with pytest.raises(EngineError) as told:
        run(TIGHT)
    return str(told.value).split(":")[0]


def test_noise_that_follows_the_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1 << 30))
    noise = sampling.gumbel
    monkeypatch.setattr(sampling, "gumbel", lambda seed, position, count: noise(seed, next(calls), count))
    assert run(TIGHT).findings[0].rule == "OUT-1"


def test_a_request_that_moves_to_another_pool_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = Pools(decode_blocks=8, decode_seats=3, decode_token_budget=4, transfer_ns=1_000)
    moved = evolve(TIGHT, settings=Settings(blocks=7, block_size=4, seats=3, token_budget=6, pools=pools))
    told = run(moved)
    assert told.findings == []
    assert told.moved == 3
    assert told.outputs == run(TIGHT).outputs
    monkeypatch.setattr(Engine, "_transfer", lambda self, request, outcome: None)
    with pytest.raises(EngineError, match="are not all finite"):
        run(moved)


def test_a_swap_that_brings_back_other_blocks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = evolve(TIGHT, settings=evolve(TIGHT.settings, prefix_caching=False, **SWAPPING))
    told = run(swapped)
    assert told.findings == []
    assert told.swapped > 0
    copy = Pool.copy_to
    monkeypatch.setattr(Pool, "copy_to", lambda self, other, pairs, run: copy(self, other, pairs[:-1], run))
    try:
        found = {finding.rule for finding in run(swapped).findings}
    except EngineError as error:
        found = {"KV-12"} if "are not all finite" in str(error) else {str(error)}
    assert "KV-12" in found


def test_an_engine_that_reads_before_it_writes_is_caught() -> None:
    class Late(Engine):
        """A prefix that is computed in the same step is not there yet for who shares it."""

        def hear(self, deltas: Any) -> None:
            super().hear([("took", *fields) if name == "shared" else (name, *fields) for name, *fields in deltas])
            for name, *fields in deltas:
                if name == "shared":
                    self.pool.kv[:, :, fields[1]] = float("nan")

    with pytest.raises(EngineError, match="are not all finite"):
        run(TIGHT, engine_of=Late)
