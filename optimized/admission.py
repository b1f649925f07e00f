"""Who enters: from the head of the queue until somebody does not fit (break), or nobody does (skip)."""

from collections.abc import Callable, Mapping

from attrs import define, field

from ..spec.vocabulary import Settings
from .job import Job
from .plain_clients import PlainClients
from .queue import Queue

Admission = tuple[Job, int, int]
"""Who enters, how many tokens it runs in this step, how many blocks it takes."""

RESERVED: Mapping[str, Callable[[Job, int], int]] = {
    "on_demand": lambda job, tokens: tokens,
    "known": lambda job, tokens: job.known,
    "declared": lambda job, tokens: job.length - 1,
}
"""For how many positions an admission takes blocks."""


@define(eq=False)
class Room:
    """What those who run leave: `tokens` of the step's budget, seats, blocks.  `resident` tokens are declared by those
    who run, of whom so many are `prefilling`."""

    running: int
    seats: int
    tokens: int
    blocks: int
    resident: int
    prefilling: int


@define(eq=False)
class Entrance:
    """`most`: tokens of one request in one step.  `heads`: the queue, where it admits by itself: the first who does not
    fit ends it, and nothing but blocks, seats and tokens is counted."""

    settings: Settings
    queue: Queue
    most: int = field(init=False)
    is_capped: bool = field(init=False)
    reserved: Callable[[Job, int], int] = field(init=False)
    heads: PlainClients | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        s = self.settings
        self.most = (s.chunk_tokens if s.chunked_prefill else 0) or s.token_budget
        self.is_capped = bool(self.queue.has_caps or s.prefilling_requests or s.resident_tokens)
        self.reserved = RESERVED[s.reserve]
        looks_first = isinstance(self.queue, PlainClients) and s.at_blocked_head == "break" and not self.is_capped
        self.heads = self.queue if looks_first else None  # type: ignore[assignment]

    def admit(self, room: Room) -> list[Admission]:
        """Who enters, with how many tokens and how many blocks.  The room shrinks."""
        if self.heads is not None:
            return self.heads.admit(self, room)
        queue, size, watermark = self.queue, self.settings.block_size, self.settings.watermark_blocks
        reserved, first_tokens, is_capped = self.reserved, self.first_tokens, self.is_capped
        admitted: list[Admission] = []
        blocked: list[Job] = []
        while room.seats > 0 and room.tokens > 0 and room.blocks > 0 and (job := queue.pop()):
            tokens = first_tokens(job, room.tokens)
            needed = -(-reserved(job, tokens) // size)
            spare = room.blocks - (watermark if room.running else 0)
            if not tokens or needed > spare or (is_capped and not self.is_within_caps(job, room)):
                blocked.append(job)
                if self.settings.at_blocked_head == "break":
                    break
                continue
            queue.picked(job)
            admitted.append((job, tokens, needed))
            room.running += 1
            room.seats -= 1
            room.tokens -= tokens
            room.blocks -= needed
            room.resident += job.length
            room.prefilling += 1
        for job in blocked:
            queue.put_back(job)
        return admitted

    def first_tokens(self, job: Job, left: int) -> int:
        """0 where it would have to run in one piece and cannot."""
        known = job.prompt + job.outputs
        if known <= left and known <= self.most:
            return known
        return min(left, self.most) if self.settings.chunked_prefill else 0

    def is_within_caps(self, job: Job, room: Room) -> bool:
        """Tokens do not count for whoever is alone."""
        s = self.settings
        if s.prefilling_requests and room.prefilling >= s.prefilling_requests:
            return False
        if s.resident_tokens and room.running and room.resident + job.length > s.resident_tokens:
            return False
        return not self.queue.has_caps or self.queue.may(job)
