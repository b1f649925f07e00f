"""What the engine's kernels must not do, whatever comes out: sum in few bits, or choose by the batch."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

import torch

from schedspec.kernels.attention import Batch

from .planted import Change, planted
from .states import DEVICE

KEYS, SIZE = 17 * 16, 16
"""Of a decode: 17 tiles of the interpreter, more than one split."""


def product_of_many(folder: str) -> float:
    """A tile that sums to 256, and 16 that sum to 1, which a bfloat16 would lose one by one: 272, which it has."""
    x = torch.zeros(1, 17 * 32, dtype=torch.bfloat16, device=DEVICE)
    x[0, ::32] = 1.0
    x[0, 0] = 256.0
    return float(importlib.import_module(f"{folder}.matmul").matmul(x, torch.ones_like(x)))


def mean_of_many(folder: str) -> float:
    """All keys weigh the same, and values sum to 256 in a tile and to 1 in 16: their mean is 1."""
    values = torch.full((KEYS,), 1 / 16)
    values[:16] = 16.0
    return attended(folder, torch.zeros(KEYS), values)


def weight_of_many(folder: str) -> float:
    """The first key weighs 1, and all others 2^-13: together 1.033, so its own share is 0.968."""
    scores = torch.full((KEYS,), -13.0)
    scores[0] = 0.0
    return attended(folder, scores, (scores == 0).float())


def attended(folder: str, scores: Any, values: Any) -> float:
    """What a decode sees whose keys weigh 2^scores."""
    pool = torch.zeros(2, 17, 1, SIZE, 2)
    pool[0, ..., 0], pool[1] = scores.view(17, 1, SIZE), values.view(17, 1, SIZE, 1)
    q = torch.tensor([[[2**0.5 * 0.6931472, 0.0]]], dtype=torch.bfloat16, device=DEVICE)
    batch = Batch((KEYS - 1,), (1,), torch.arange(17, device=DEVICE)[None])
    module = importlib.import_module(f"{folder}.attention")
    return float(module.attention(q, pool.to(DEVICE, torch.bfloat16), batch, wanted=1)[0, 0, 0])


@pytest.mark.parametrize(
    ("least", "of_many", "most"),
    [(272, product_of_many, 272), (1, mean_of_many, 1), (0.96, weight_of_many, 0.975)],
    ids=["product", "values", "weights"],
)
def test_many_small_numbers_are_not_lost(least: float, of_many: Any, most: float) -> None:
    assert least <= of_many("schedspec.kernels") <= most


SUMS: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "matmul": (product_of_many, [("total = ", "product(x, w, total, exact)")]),
    "values": (
        mean_of_many,
        [
            ("total = ", "product(p.to(v.dtype), v, total * less[:, None], exact)"),
            ("", "all_sum * old[:, None] + total * new[:, None]"),
        ],
    ),
    "weights": (weight_of_many, [("", "all_weight * old + weight * new")]),
}
"""The sum, and where it is made."""


@pytest.mark.parametrize("what", SUMS)
def test_a_sum_in_bfloat16_is_seen(what: str, tmp_path: Path) -> None:
    of_many, places = SUMS[what]
    name = what if what == "matmul" else "attention"
    cut: list[Change] = [
        (name, f"{before}{it}", f"{before}({it}).to(tl.bfloat16).to(tl.float32)") for before, it in places
    ]
    planted(tmp_path, name, *cut)
    assert of_many(f"planted_{tmp_path.name}") != of_many("schedspec.kernels")


class Launches:
    """Stands for a kernel: what is launched is noted, and nothing runs."""

    def __init__(self) -> None:
        self.constants: list[dict[str, Any]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *arguments, **constants: self.constants.append(constants)


def constants_follow_the_batch(folder: str, patch: pytest.MonkeyPatch) -> set[str]:
    """Kernels whose tiles, types or options are others for more rows, or for other entries."""
    noted = {kernel: Launches() for _, kernel, _ in LAUNCHES}
    for name, kernel, _ in LAUNCHES:
        patch.setattr(importlib.import_module(f"{folder}.{name}"), kernel, noted[kernel])
    for name, _, launch in LAUNCHES:
        for count in (1, 2, 5, 17, 200):
            launch(importlib.import_module(f"{folder}.{name}"), count)
    return {kernel for kernel, told in noted.items() if any(one != told.constants[0] for one in told.constants)}


def launch_matmul(module: ModuleType, count: int) -> None:
    module.matmul(torch.zeros(count, 40), torch.zeros(3, 40))


def launch_norm(module: ModuleType, count: int) -> None:
    module.rms_norm(torch.zeros(count, 40), torch.zeros(40), 0.1)


def launch_swiglu(module: ModuleType, count: int) -> None:
    module.swiglu(torch.zeros(count, 40))


def launch_write(module: ModuleType, count: int) -> None:
    place = torch.arange(count)
    module.kv_write(
        torch.zeros(count, 16), torch.zeros(1, 2), torch.zeros(1, 2), place, place, torch.zeros(2, 9, 1, 3, 4)
    )


def launch_attention(module: ModuleType, count: int) -> None:
    """So many decodes, and a chunk of as many queries; with and without parts."""
    tables, pool = torch.zeros(count, 90, dtype=torch.int64), torch.zeros(2, 9, 1, 3, 4)
    for wanted in (1, 10_000):
        module.attention(torch.zeros(count, 2, 4), pool, Batch([70] * count, [1] * count, tables), wanted=wanted)
        module.attention(torch.zeros(count, 2, 4), pool, Batch([40], [count], tables[:1]), wanted=wanted)


LAUNCHES = (
    ("matmul", "matmul_kernel", launch_matmul),
    ("rms_norm", "rms_norm_kernel", launch_norm),
    ("swiglu", "swiglu_kernel", launch_swiglu),
    ("kv_write", "kv_write_kernel", launch_write),
    ("attention", "join_kernel", launch_attention),
    ("attention", "attention_kernel", launch_attention),
)


def test_nothing_is_chosen_by_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert constants_follow_the_batch("schedspec.kernels", monkeypatch) == set()


def test_a_tile_that_is_chosen_by_the_batch_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter sums a row of each of these in the same order, a device does not."""
    planted(
        tmp_path,
        "matmul",
        ("matmul", "(16, 128, 32) if exact", "(16 if count > 1 else 32, 128, 32) if exact"),
        ("rms_norm", "rows = 16 if is_interpreted() else 1", "rows = 16 if count > 1 else 1"),
        ("swiglu", "tile=TILE, num_warps=4", "tile=TILE, num_warps=8 if count > 16 else 4"),
        ("kv_write", "lines = 64 if is_interpreted() else LINES", "lines = 64 if count < 5 else LINES"),
        ("attention", "tiles = tiles or usual", "tiles = tiles or usual._replace(keys=32 if count > 16 else 16)"),
    )
    found = constants_follow_the_batch(f"planted_{tmp_path.name}", monkeypatch)
    assert found == {kernel for _, kernel, _ in LAUNCHES} - {"join_kernel"}
