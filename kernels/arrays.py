"""What every launch asks of its arguments, so that a wrong one is a sentence and not a wrong step."""

import torch
from torch import Tensor

TILE = 1_024
"""Entries that a program holds at a time; longer arrays are walked in tiles with carried sums, which never spills."""

WARPS = 8

MOST = 1 << 52
"""Largest token budget or number of blocks: a tile's sum of so many stays below 2⁶³."""


def require_arrays(kernel: str, **arrays: Tensor) -> None:
    """Each is an int64 array without gaps, all on one device."""
    device = next(iter(arrays.values())).device
    for name, array in arrays.items():
        if array.dtype != torch.int64:
            raise ValueError(f"{kernel}: {name} is {array.dtype}, but must be torch.int64: sums pass 2³¹")
        if not array.is_contiguous():
            raise ValueError(f"{kernel}: {name} has gaps, but must be contiguous: call .contiguous()")
        if array.device != device:
            raise ValueError(f"{kernel}: {name} is on {array.device}, but the others are on {device}")


def require_equal_lengths(kernel: str, **arrays: Tensor) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{kernel}: arrays of one list must be equally long, but their lengths are {told}")


def require_between(kernel: str, least: int, most: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if not least <= number <= most:
            raise ValueError(f"{kernel}: {name} is {number}, but must be between {least} and {most}")
