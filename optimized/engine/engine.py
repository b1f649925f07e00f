"""Runs plans: what a worker of an LLM serving engine does, one process and one pool."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from attrs import define, field, frozen
from torch import Tensor

from ...kernels.attention import Batch
from ...spec.vocabulary import Delta, Plan, Request
from .errors import EngineError
from .model import Model, Rows
from .pool import Pool
from .sampling import GREEDY, Sampling, sample
from .tables import Tables

ENDS = ("finished", "failed", "cancelled", "expired")
SWAPS = ("swapped_out", "swapped_in")


@define(eq=False)
class Known:
    """A request's tokens, those that it sampled behind its prompt, and how it samples."""

    tokens: list[int]
    sampling: Sampling


@frozen(kw_only=True)
class Sampled:
    """What a step computed, a row per entry that sampled, in the order of the plan."""

    request: tuple[str, ...]
    token: tuple[int, ...]
    logits: Tensor


@define(eq=False)
class Engine:
    """`submit` a request, let it `hear` every delta in order, `execute` every plan in order.

    Each step writes all its keys and values before it reads any (executor order `writes_first`).  A token that was
    sampled is known to the engine at once, so the next step may be planned before the scheduler has heard of it.
    `host_blocks` are for requests that are preempted by swap.
    """

    model: Model
    blocks: int
    block_size: int
    host_blocks: int = 0
    pool: Pool = field(init=False)
    host: Pool = field(init=False)
    tables: Tables = field(init=False)
    sequences: dict[str, Known] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        model = self.model
        self.pool = Pool.of(model.config, self.blocks, self.block_size, model.dtype, model.device)
        self.host = Pool.of(model.config, self.host_blocks, self.block_size, model.dtype, "cpu")
        self.tables = Tables(self.blocks, self.block_size)

    def submit(self, request: Request, sampling: Sampling = GREEDY) -> None:
        """Raises EngineError for what this model cannot run."""
        config, largest = self.model.config, max(request.prompt_ids)
        if min(request.prompt_ids) < 0 or largest >= config.vocabulary:
            raise EngineError(
                f"{request.id} has token {largest if largest > 0 else min(request.prompt_ids)}, but the model's"
                f" vocabulary has ids 0 to {config.vocabulary - 1}: was it made with another tokenizer?"
            )
        if request.declared_tokens > config.positions:
            raise EngineError(
                f"{request.id} may become {request.declared_tokens} tokens long, but the model has {config.positions}"
                f" positions: refuse it at the door with max_model_tokens={config.positions}"
            )
        self.sequences[request.id] = Known(list(request.prompt_ids), sampling)

    def hear(self, deltas: Sequence[Delta]) -> None:
        """What a call of the scheduler changed.  Blocks are copied to the host and back as it says so."""
        for delta in deltas:
            name, *fields = delta
            if name in ENDS:
                self.sequences.pop(fields[0], None)
            elif name in SWAPS:
                self._swap(*fields, is_out=name == "swapped_out")
            elif name == "transferred":
                self._transfer(*fields)
            else:
                self.tables.hear([delta])

    def _transfer(self, request: str, outcome: str) -> None:
        """The link has written all that was held into the first blocks that were set aside."""
        if outcome == "done":
            pairs = zip(self.tables.held[request], self.tables.landing[request], strict=False)
            self.pool.copy_to(self.pool, list(pairs), self.model.operations)

    def _swap(self, request: str, host: Sequence[int], *, is_out: bool) -> None:
        table = self.tables.of(request)
        if len(host) > len(table):
            raise EngineError(f"{request} swaps {len(host)} blocks, but its table is {table}")
        pairs = list(zip(table, host, strict=False))
        if is_out:
            self.pool.copy_to(self.host, pairs, self.model.operations)
        else:
            self.host.copy_to(self.pool, [(saved, block) for block, saved in pairs], self.model.operations)

    def execute(self, plan: Plan) -> Sampled:
        """Raises EngineError where the plan does not match the tables; then nothing was run."""
        known = {request: sequence.tokens for request, sequence in self.sequences.items()}
        self.tables.require(plan, known)
        rows = self._rows(plan, known)
        try:
            logits = self.model.forward(rows, self.pool.kv)
        except torch.OutOfMemoryError as error:
            raise EngineError(
                f"step {plan.step}: the device has no memory left for {sum(plan.tokens)} tokens: ask for fewer blocks,"
                " or for a smaller token_budget"
            ) from error
        sampling = [
            entry for entry in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True) if entry[3]
        ]
        tokens = []
        for (request, start, count, _), row in zip(sampling, logits, strict=True):
            sequence, end = self.sequences[request], start + count
            tokens.append(sample(row, sequence.sampling, end))
            sequence.tokens[end:] = tokens[-1:]
        return Sampled(request=tuple(entry[0] for entry in sampling), token=tuple(tokens), logits=logits)

    def _rows(self, plan: Plan, known: Mapping[str, Sequence[int]]) -> Rows:
        entries = list(zip(plan.request, plan.start, plan.tokens, strict=True))
        tables = [self.tables.of(request) for request, _, _ in entries]
        most = max(map(len, tables), default=0)
        padded = [table + [0] * (most - len(table)) for table in tables]
        last = [upto - 1 for upto, samples in zip(accumulate(plan.tokens), plan.samples, strict=True) if samples]
        return Rows(
            token=self._array([t for r, start, count in entries for t in known[r][start : start + count]]),
            position=self._array([place for _, start, count in entries for place in range(start, start + count)]),
            slot=self._array([slot for entry in entries for slot in self.tables.slots(*entry)]),
            batch=Batch(list(plan.start), list(plan.tokens), self._array(padded).view(len(entries), most)),
            sampled=self._array(last),
        )

    def _array(self, values: Sequence[object]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.model.device)

    def contents(self, request: str, positions: int) -> Tensor:
        """Keys and values at its first positions, as its table finds them: [layers, 2, kv_heads, positions,
        head_dim]."""
        return self.pool.read(self.tables.of(request), positions)
