"""OUT-1, OUT-2 and KV-12 on real tensors: a request in a batch is what it is alone, bit for bit."""

from collections.abc import Iterator

import torch
from attrs import Factory, define, frozen
from torch import Tensor

from ...spec.vocabulary import Plan, Request, blocks_for
from .engine import Engine, Sampled
from .model import Model
from .sampling import Sampling

BLOCK_SIZE = 16
SELF = "alone"


@define(eq=False)
class Solo:
    """A request on an engine of its own: its prompt in one piece, then a token a step.  `logits[n]` are those of output
    token n; `contents` [layers, 2, kv_heads, positions, head_dim] what stands in the pool."""

    engine: Engine
    prompt_tokens: int
    logits: list[Tensor] = Factory(list)

    @classmethod
    def of(cls, model: Model, request: Request, sampling: Sampling) -> "Solo":
        """The request may be as long as it declares."""
        blocks = blocks_for(request.declared_tokens, BLOCK_SIZE)
        engine = Engine(model, blocks, BLOCK_SIZE)
        own = Request(id=SELF, prompt_ids=request.prompt_ids, max_output_tokens=request.max_output_tokens)
        engine.submit(own, sampling)
        engine.hear([("took", SELF, list(range(blocks)))])
        return cls(engine, request.prompt_tokens)

    def token(self, number: int) -> int:
        """Output token `number`, from 0."""
        while len(self.logits) <= number:
            done = len(self.logits)
            start, tokens = (self.prompt_tokens + done - 1, 1) if done else (0, self.prompt_tokens)
            plan = Plan(step=1 + done, request=[SELF], start=[start], tokens=[tokens], samples=[1])
            self.logits.append(self.engine.execute(plan).logits[0])
        return self.engine.sequences[SELF].tokens[self.prompt_tokens + number]

    def contents(self, positions: int) -> Tensor:
        self.token(max(0, positions - self.prompt_tokens))
        return self.engine.contents(SELF, positions)


@frozen
class Finding:
    """`rule` is broken by `request` in `step`: one sentence."""

    rule: str
    step: int
    request: str
    says: str

    def __str__(self) -> str:
        return f"{self.rule}: step {self.step}: {self.request} {self.says}"


@define(eq=False)
class Witness:
    """Holds each executed step to its requests alone.  It asks for the bits, not for closeness."""

    model: Model
    solos: dict[str, Solo] = Factory(dict)
    compared_tokens: int = 0
    compared_positions: int = 0

    def submitted(self, request: Request, sampling: Sampling) -> None:
        self.solos[request.id] = Solo.of(self.model, request, sampling)

    def forget(self, request: str) -> None:
        self.solos.pop(request, None)

    def judge(self, engine: Engine, plan: Plan, sampled: Sampled) -> Iterator[Finding]:
        """What of the step is not as it is alone.  Requests that were not submitted to the witness are not judged."""
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            solo = self.solos.get(request)
            if solo is not None:
                yield from self._contents(engine, plan.step, request, start + tokens, solo)
        ends = {r: s + t for r, s, t in zip(plan.request, plan.start, plan.tokens, strict=True)}
        for request, token, logits in zip(sampled.request, sampled.token, sampled.logits, strict=True):
            solo = self.solos.get(request)
            if solo is None:
                continue
            number = ends[request] - solo.prompt_tokens
            alone = solo.token(number)
            self.compared_tokens += 1
            if token != alone:
                yield Finding("OUT-1", plan.step, request, f"has output token {number} = {token}, but alone {alone}")
            if not torch.equal(logits, solo.logits[number]):
                most = float((logits.float() - solo.logits[number].float()).abs().max())
                says = f"has logits for output token {number} that differ by up to {most:.3g} from those alone"
                yield Finding("OUT-2", plan.step, request, says)

    def _contents(self, engine: Engine, step: int, request: str, end: int, solo: Solo) -> Iterator[Finding]:
        """All that it reads, up to its own end."""
        here, alone = engine.contents(request, end), solo.contents(end)
        self.compared_positions += end
        unlike = (here != alone).flatten(0, 2).any(-1).any(0)
        if bool(unlike.any()):
            place = int(unlike.nonzero()[0])
            block = engine.tables.of(request)[place // engine.block_size]
            yield Finding(
                "KV-12", step, request, f"reads position {place} in block {block}, which holds something else"
            )
