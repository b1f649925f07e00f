"""Picks of VTC: the kernel is its twin, the twin picks as the reference's queues do, and small changes are seen."""

from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import vtc_round as original
from schedspec.kernels.budget import budget_plain
from schedspec.kernels.victims import victims_plain
from schedspec.kernels.vtc_round import FAR, FARTHEST, PICKS, SPENT, VTC_TILE, Round, vtc_round_plain

from .planted import Change, planted
from .states import DEVICE, array, draw, first
from .watched import watch

TILE = 8
CASES = [(clients, seed) for clients in (0, 1, 7, 8, 9, 20) for seed in range(4)]


def is_equal(module: ModuleType, clients: int, seed: int, picks: int = 4, tile: int = TILE, most: int = 6) -> bool:
    """Few different counters and charges, so that there are ties; in every fourth they are spread beyond 2³¹, and in
    every fourth some are too far from the others for a round."""
    rng = Random(f"vtc_round {clients} {seed}")
    base = rng.choice((0, 7, 1 << 31, 1 << 61))
    spread = 1 << 33 if seed % 4 == 2 else 3
    counters = [base + counter for counter in draw(rng, clients, 0, spread)]
    if seed % 4 == 3:
        counters = [counter + rng.choice((0, FARTHEST - 1, FARTHEST)) for counter in counters]
    waits = [rng.choice((0, 1, 2, most)) for _ in range(clients)]
    requests = sum(waits)
    begin = [sum(waits[:client]) for client in range(clients)]
    charge = draw(rng, requests, 0, spread, rng.choice((0, 0, FARTHEST + 1)))
    chunk = draw(rng, requests, 1, 8)
    tested = draw(rng, requests, 0, 12) if seed % 4 == 1 else [0] * requests
    reserved = rng.choice(([0] * requests, chunk))
    running, virtual_time = rng.choice((0, 3)), base + rng.choice((0, 20))
    limits: dict[str, Any] = {
        "seats": running + rng.choice((1, picks - 1, picks, 3 * picks)),
        "watermark": rng.choice((0, 1)),
        "chunked": rng.random() < 0.6,
        "block_size": rng.choice((1, 4)),
    }
    room: dict[str, Any] = {
        "budget": rng.choice((9, 30, 10_000)),
        "blocks": 9 if seed % 4 == 1 else rng.choice((12, 10_000)),
    }
    stay = running - (rng.random() < 0.1 and running > 0)
    of_clients = [array([*column, *draw(rng, 2, 0, 2)]) for column in (counters, begin, waits)]
    of_requests = [array([*column, *draw(rng, picks, 1, 9)]) for column in (charge, chunk, tested, reserved)]
    time, left = array([virtual_time]), array([-1])
    picked, tokens, blocks, entered, *numbers = module.vtc_round(
        *of_clients, array([clients]), *of_requests, array([running]), array([stay]), array([room["budget"]]),
        array([room["blocks"]]), time, left, **limits, picks=picks, tile=tile,
    )  # fmt: skip
    expected = vtc_round_plain(
        counters, begin, waits, charge, chunk, tested, reserved, running=running, stay=stay, virtual_time=virtual_time,
        picks=picks, **room, **limits,
    )  # fmt: skip
    lists = [first(column, int(entered)) for column in (picked, tokens, blocks)]
    found = (*lists, *(int(number) for number in numbers), int(time), int(left))
    return found == expected and [first(column, clients) for column in of_clients] == [counters, begin, waits]


def test_kernel_is_its_twin() -> None:
    assert all(is_equal(original, clients, seed) for clients, seed in CASES)


def test_kernel_is_its_twin_as_it_is_compiled() -> None:
    assert is_equal(original, VTC_TILE + 1, 0, picks=PICKS, tile=VTC_TILE, most=40)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device is here")
@pytest.mark.parametrize("clients", [1_000, 10_000])
def test_kernel_is_its_twin_on_a_device(clients: int) -> None:
    assert all(is_equal(original, clients, seed, picks=PICKS, tile=VTC_TILE, most=40) for seed in range(20))


def test_twin_picks_as_the_reference() -> None:
    """Rounds of three picks, until one ends for another reason than that."""
    seen = rounds = ties = 0
    for step in watch(policy="vtc"):
        _, needs, budget = budget_plain(
            step.wanted, step.issued, step.held, token_budget=step.budget, block_size=step.block_size
        )
        stay, blocks, _ = victims_plain(needs, step.held, free=step.free_blocks)
        counters, waits = list(step.counters), list(step.lengths)
        begin = [sum(waits[:client]) for client in range(len(waits))]
        entered: list[tuple[int, int, int]] = []
        done = Round([], [], [], SPENT, budget, blocks, step.virtual_time, -1)
        while done.why in (SPENT, FAR):
            running = len(needs) + len(entered)
            done = vtc_round_plain(
                counters, begin, waits, step.charges, step.chunk, [0] * len(step.chunk), step.reserved,
                running=running, stay=running if stay == len(needs) else -1, budget=done.budget_left,
                blocks=done.blocks_left, virtual_time=done.virtual_time, picks=3, **step.limits,
            )  # fmt: skip
            entered += zip(done.picked, done.tokens, done.blocks, strict=True)
            rounds += done.why == SPENT
        assert entered == step.entered
        if not step.victims:
            assert counters == step.counters_after
            assert done.virtual_time == step.virtual_time_after
        seen += len(entered)
        least = [counter for counter, some in zip(step.counters, step.lengths, strict=True) if some]
        ties += bool(entered) and least.count(min(least)) > 1
    assert min(seen, 30 * rounds, 30 * ties) > 300


FAULTS: dict[str, list[Change]] = {
    "a tie goes the other way": [
        ("vtc_round", "(is_client, client, never))", "(is_client, client, never), descending=True)")
    ],
    "a pick costs before it is made": [
        ("vtc_round", "tl.cumsum(charge, axis=1) - charge", "tl.cumsum(charge, axis=1)")
    ],
    "picks cost nothing": [("vtc_round", "tl.cumsum(charge, axis=1) - charge", "charge * 0")],
    "a tile forgets who was near before": [
        ("vtc_round", "tl.join(nearest, candidates)", "tl.join(candidates, candidates * 0)")
    ],
    "clients without requests count": [
        ("vtc_round", "tl.load(waits_ptr + number, mask=here, other=0) > 0)", "number >= 0)")
    ],
    "counters of 32 bits": [("vtc_round", "farthest) << client_bits)", "farthest).to(tl.int32) << client_bits)")],
    "the far are near": [("vtc_round", "tl.where(distance >= farthest, 4, misfit)", "misfit")],
    "after a misfit the next": [
        (
            "vtc_round",
            "tl.min(tl.where(here & (misfit == 0), picks, place))",
            "tl.sum((here & (misfit == 0)).to(tl.int64))",
        )
    ],
    "virtual time falls": [("vtc_round", "tl.maximum(time, reached), time)", "reached, time)")],
    "nobody pays": [("vtc_round", "paid = tl.load(charge_ptr + job, mask=enters, other=0)", "paid = job * 0")],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, tmp_path: Path) -> None:
    module = planted(tmp_path, "vtc_round", *FAULTS[fault])
    assert any(not is_equal(module, clients, seed) for clients, seed in reversed(CASES))
