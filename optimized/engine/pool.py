"""The KV pool: blocks of keys and values of all layers."""

import os
from collections.abc import Sequence
from typing import Any

import torch
from attrs import define
from torch import Tensor

from .config import ModelConfig
from .errors import EngineError
from .operations import Operations

GIB = 1 << 30


@define(eq=False)
class Pool:
    """`kv` [layers, 2, blocks, kv_heads, block_size, head_dim], keys before values.  What nobody has written is not a
    number: whoever reads it has no logits."""

    kv: Tensor

    @classmethod
    def of(cls, config: ModelConfig, blocks: int, block_size: int, dtype: Any, device: Any) -> "Pool":
        """Raises EngineError where the device has no room for it."""
        shape = (config.layers, 2, blocks, config.kv_heads, block_size, config.head_dim)
        size = blocks * block_size * config.kv_bytes(dtype.itemsize)
        free = free_bytes(torch.device(device))
        if free is not None and size > free:
            raise EngineError(_no_room(size, free, device, blocks, block_size))
        try:
            return cls(torch.full(shape, float("nan"), dtype=dtype, device=device))
        except RuntimeError as error:
            raise EngineError(_no_room(size, free, device, blocks, block_size)) from error

    @property
    def blocks(self) -> int:
        return int(self.kv.shape[2])

    @property
    def block_size(self) -> int:
        return int(self.kv.shape[4])

    def copy_to(self, other: "Pool", pairs: Sequence[tuple[int, int]], operations: Operations) -> None:
        """Block a becomes block b of the other pool, for each (a, b): copy-on-write within one pool, transfer between
        two, swap where one of them lies on the host.  No block is both read and written."""
        if self.kv.shape[:2] + self.kv.shape[3:] != other.kv.shape[:2] + other.kv.shape[3:]:
            raise EngineError("blocks can be copied between pools of one model and block size only")
        froms, tos = ([pair[place] for pair in pairs] for place in (0, 1))
        for name, blocks, most in (("from", froms, self.blocks), ("to", tos, other.blocks)):
            if any(not 0 <= block < most for block in blocks):
                raise EngineError(
                    f"a copy {name} block {max(blocks, key=abs)}, but that pool has blocks 0 to {most - 1}"
                )
        source, target = self._planes(), other._planes()
        if source.device != target.device:
            target[:, tos] = source[:, froms].to(target.device)
            return
        columns = (torch.tensor(blocks, dtype=torch.int64, device=source.device) for blocks in (froms, tos))
        operations.block_copy(source, target, *columns)

    def _planes(self) -> Tensor:
        return self.kv.view(self.kv.shape[0] * 2, self.blocks, -1)

    def read(self, table: Sequence[int], positions: int) -> Tensor:
        """What stands at a request's first positions: [layers, 2, kv_heads, positions, head_dim]."""
        place = torch.arange(positions, device=self.kv.device)
        block = torch.tensor(list(table), dtype=torch.int64, device=self.kv.device)[place // self.block_size]
        return self.kv[:, :, block, :, place % self.block_size].permute(1, 2, 3, 0, 4)


def free_bytes(device: torch.device) -> int | None:
    """Of memory; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _no_room(size: int, free: int | None, device: object, blocks: int, block_size: int) -> str:
    has = "" if free is None else f", and {device} has {free / GIB:.1f} GiB free"
    return f"a pool of {blocks} blocks of {block_size} positions takes {size / GIB:.1f} GiB{has}: ask for fewer blocks"
