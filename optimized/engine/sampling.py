"""A token from logits: greedy, or drawn by the request's own seed.

What is drawn depends on the seed and the position alone, so it is the same in every batch and after each
preemption."""

import hashlib
import math

import torch
from attrs import field, frozen
from torch import Tensor

from .errors import EngineError

WORD = 1 << 32


def _is_temperature(_: object, __: object, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise EngineError(f"temperature is {value}, but must be 0 (greedy) or more")


@frozen(kw_only=True)
class Sampling:
    """Temperature 0 is greedy: the largest logit, of equal ones the smallest id."""

    temperature: float = field(default=0.0, validator=_is_temperature)
    seed: int = 0


GREEDY = Sampling()


def sample(logits: Tensor, sampling: Sampling, position: int) -> int:
    """The token at `position`, from logits [vocabulary]."""
    if not bool(torch.isfinite(logits).all()):
        raise EngineError(
            f"the logits of position {position} are not all finite: keys or values were read that nobody wrote"
        )
    if sampling.temperature == 0:
        return int(torch.argmax(logits.float()))
    scores = logits.detach().to("cpu", torch.float64) / sampling.temperature
    return int(torch.argmax(scores + gumbel(sampling.seed, position, logits.shape[0])))


def gumbel(seed: int, position: int, count: int) -> Tensor:
    """Noise whose largest sum with scaled logits is a sample (Gumbel, 1954; Maddison et al., NeurIPS 2014)."""
    drawn = hashlib.shake_128(f"{seed}:{position}".encode()).digest(4 * count)
    words = torch.frombuffer(bytearray(drawn), dtype=torch.int32).to(torch.int64) % WORD
    return -torch.log(-torch.log((words.to(torch.float64) + 0.5) / WORD))
