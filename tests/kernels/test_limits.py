"""What is beyond the limits of the scheduler on a device is refused in one sentence, before anything is launched."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels.scheduler import Arrival, Scheduler, Setup

SIZES: dict[str, Any] = {"places": 8, "blocks": 32, "block_size": 4, "seats": 4, "token_budget": 16}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"blocks": 0}, "setup: blocks is 0, but must be between 1 and"),
        ({"places": 0}, "setup: places is 0, but must be between 1 and"),
        ({"seats": 1 << 23}, "setup: seats is 8388608, but must be between 1 and 4194304"),
        ({"token_budget": 1 << 63}, "setup: token_budget is 9223372036854775808, but must be between"),
        ({"groups": 1 << 20, "shares": True}, "setup: groups is 1048576, but must be between 1 and 1048575"),
        ({"tile": 2_048}, "setup: tile is 2048, but must be between 1 and 1024"),
        ({"share_tile": 1_024}, "setup: share_tile is 1024, but must be between 1 and 512"),
        ({"tile": 0}, "setup: tile is 0, but must be between 1 and 1024"),
        ({"tile": 3}, "setup: tile is 3, but must be a power of 2"),
        ({"picks": 128}, "setup: picks is 128, but must be between 2 and 64"),
    ],
    ids=str,
)
def test_a_size_beyond_what_is_compiled(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Setup(**SIZES | changed)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"place": 8}, "request 1: place is 8, but must be between 0 and 7"),
        ({"prompt_tokens": 1 << 62}, "request 1: prompt_tokens is 4611686018427387904, but must be between"),
        ({"prompt_tokens": 500}, "request 1: blocks_at_its_end is 126, but must be between 1 and 32"),
        ({"pick_cost": 1 << 62}, "request 1: pick_cost is 4611686018427387904, but must be between"),
        ({"output_cost": 1 << 61}, "request 1: cost_of_all_outputs is 6917529027641081856, but must be between"),
        ({"key": 1 << 63}, "request 1: key is 9223372036854775808, but must be between"),
    ],
    ids=str,
)
def test_a_request_that_no_array_holds(changed: dict[str, Any], told: str) -> None:
    scheduler = Scheduler.of(Setup(**SIZES), "cpu")
    request: dict[str, Any] = {"place": 0, "arrival": 1, "prompt_tokens": 5, "output_tokens": 3}
    with pytest.raises(ValueError, match=told):
        scheduler.submit([Arrival(**request | changed)])
