"""What a workload is made of: when a request comes, how long it is, and what its client does."""

from attrs import field, frozen

MOST_TOKENS = 10_000_000
"""A prompt or output beyond this is taken for a mistake: the longest published contexts have this many tokens."""

MOST_S = 10 * 366 * 86_400
"""So is a time that is further from the first one."""

BLOCK_TOKENS = 512
"""Tokens of a hash, unless a workload says otherwise: those of Mooncake's traces."""


class WorkloadError(ValueError):
    """A workload that is not there or cannot be read.  Its text is one sentence."""


class MissingWorkload(WorkloadError):
    """The file is not there."""


@frozen(kw_only=True)
class Patience:
    """A client that waits for what comes of its request, and asks again: a closed loop.

    It cancels when `first_token_ns` have gone by since its request came without a first token.  Then, or when it was
    refused, it asks again `retry_ns` later, as long as `retries` are left.  Whoever runs the requests does that, with
    `again` of `requests.py`.
    """

    first_token_ns: int
    retries: int = 0
    retry_ns: int = 0


@frozen(kw_only=True)
class Arrival:
    """One request of a workload.

    `hash_ids` name blocks of `hash_tokens` prompt tokens: equal names at the beginning are a shared prefix.
    `max_output_tokens` is what the client declares, if that is recorded.  `cancel_after_ns`: its client leaves then,
    whatever has happened.  `place` says where it was read, for errors.
    """

    now_ns: int
    prompt_tokens: int
    output_tokens: int
    client: str = "default"
    lane: str = "default"
    priority: int = 0
    max_output_tokens: int | None = None
    hash_ids: tuple[int, ...] = ()
    hash_tokens: int = BLOCK_TOKENS
    cancel_after_ns: int | None = None
    patience: Patience | None = None
    place: str = field(default="", eq=False, repr=False)

    @property
    def kv_tokens(self) -> int:
        """What it needs of the pool in the end: nothing reads the last token of its output."""
        return self.prompt_tokens + self.output_tokens - 1


@frozen
class Draws:
    """What is drawn where a source does not say it.  `cv`: the coefficient of variation of the times between arrivals,
    if somebody asks for one (0 is a metronome, 1 is Poisson, more is bursts)."""

    seed: int
    cv: float | None = None
