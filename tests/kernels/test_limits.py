"""What is beyond the limits of the scheduler on a device is refused in one sentence, before anything is launched."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from schedspec.kernels import floats
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


@pytest.mark.parametrize(("triton_version", "numpy_version"), [("3.6.0", "2.3.5"), ("3.7.1", "2.4.6")])
def test_loops_are_interpreted_by_versions_that_go_together(
    monkeypatch: pytest.MonkeyPatch, triton_version: str, numpy_version: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("triton.__version__", triton_version)
    monkeypatch.setattr("importlib.metadata.version", {"numpy": numpy_version}.__getitem__)
    floats.require_loops()


def test_versions_that_do_not_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("triton.__version__", "3.6.0")
    monkeypatch.setattr("importlib.metadata.version", {"numpy": "2.4.6"}.__getitem__)
    with pytest.raises(RuntimeError, match=r"^triton 3\.6\.0 does not interpret loops with numpy 2\.4\.6: pip install"):
        floats.require_loops()
