"""How long the one who comes now will wait, at most: by work that is left, not by simulation.

While somebody waits, a step is *full*: every seat is taken, or too few blocks are free for whoever stands first, or the
step's token budget is used up.  A full step takes something off what is left, so there are only so many of them:

    seats      each of the seats advances by a step             at most  Σ steps / seats
    blocks     those who run hold all but what the first needs  at most  Σ steps · blocks / (pool - kept - largest + 1)
    budget     the budget goes to prompts, less a token a seat  at most  Σ prompt / (budget - seats)

Their sum, each at its longest by the declared time model, bounds the wait; it is Graham's argument for list scheduling
(Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969).  With each full step the bound falls by at
least what the step took, whoever stops early or cancels.  After a step that is not full nobody waits, and without
arrivals nobody will: so "come again when it has fallen to the limit" is true, if the limit holds then
(`Forecast.calm`).
"""

from attrs import define, evolve, frozen

from ..spec.settings import Settings
from ..spec.vocabulary import Request, blocks_for
from .job import RUNNING, Job


@define
class Work:
    """What requests have still to do, summed: steps if the budget cuts no chunk short, steps times the blocks that they
    hold at their end, tokens, and those of prompts.  Nobody changes one; that is not enforced, for each arrival makes
    one of everybody who runs, and one that is enforced takes five times as long to make."""

    requests: int = 0
    steps: int = 0
    block_steps: int = 0
    tokens: int = 0
    prompt: int = 0
    blocks: int = 0

    @classmethod
    def of(cls, job: Job, s: Settings) -> "Work":
        left = job.request.max_output_tokens - job.outputs - job.in_flight
        prefill = job.known - job.issued
        in_prefill = job.state != RUNNING or job.issued < job.prefill_end
        return cls.asked(
            s, prefill if left else 0, left, job.request.declared_tokens, prompt=prefill if in_prefill else 0
        )

    @classmethod
    def of_request(cls, request: Request, s: Settings) -> "Work":
        prompt, output = request.prompt_tokens, request.max_output_tokens
        return cls.asked(s, prompt, output, prompt + output, prompt=prompt)

    @classmethod
    def asked(cls, s: Settings, prefill: int, outputs: int, length: int, *, prompt: int) -> "Work":
        """The last position is never run, and the last of the prompt brings the first output."""
        decodes = max(0, outputs - 1)
        steps, blocks = chunks(s, prefill) + decodes, blocks_for(length - 1, s.block_size)
        return cls(1, steps, steps * blocks, prefill + decodes, prompt, blocks)

    def __add__(self, other: "Work") -> "Work":
        return self._with(other, 1)

    def __sub__(self, other: "Work") -> "Work":
        return self._with(other, -1)

    def _with(self, other: "Work", sign: int) -> "Work":
        return Work(
            self.requests + sign * other.requests,
            self.steps + sign * other.steps,
            self.block_steps + sign * other.block_steps,
            self.tokens + sign * other.tokens,
            self.prompt + sign * other.prompt,
            self.blocks + sign * other.blocks,
        )


def chunks(s: Settings, prefill: int) -> int:
    """Steps that a prefill takes if the budget cuts none of its chunks short."""
    limited = s.chunked_prefill and s.chunk_tokens
    return blocks_for(prefill, s.chunk_tokens) if limited else min(prefill, 1)


@frozen
class Forecast:
    """`work` of all who are in, the `largest` need of blocks of one that waits, the `longest` rest of one in steps, and
    how long steps are under way yet."""

    settings: Settings
    work: Work
    largest: int
    longest: int
    in_flight_ns: int

    @classmethod
    def of(cls, settings: Settings) -> "Forecast":
        """Of an empty system."""
        return cls(settings, Work(), 0, 0, 0)

    def calm(self) -> "Forecast":
        """At the worst when nobody waits any more, and nobody else has come: the longest step has just begun.  Where
        chunks are limited others may be in prefill yet; else the first step that is not full ends that."""
        s = self.settings
        prompt = self.work.prompt if s.chunk_tokens or not s.chunked_prefill else 0
        decoding = Work(requests=min(self.work.requests, s.seats - 1), prompt=prompt, tokens=self.work.tokens)
        return Forecast(s, decoding, 0, self.longest, s.overlap_depth * s.door.takes_ns(s.token_budget))

    def wait_ns(self, request: Request) -> int:
        """Until the request is admitted."""
        full = self.full_steps(Work.of_request(request, self.settings), self.work)
        return self.in_flight_ns + self.steps_ns(full, self.work.tokens)

    def first_token_ns(self, request: Request) -> int:
        """Until its prompt is computed: who comes later runs beside it then."""
        own = Work.of_request(request, self.settings)
        with_own = evolve(self.work, tokens=self.work.tokens + own.prompt, prompt=self.work.prompt + own.prompt)
        full, last = self.full_steps(own, with_own), chunks(self.settings, own.prompt)
        beside = last * self.settings.door.takes_ns(self.settings.token_budget)
        return self.in_flight_ns + self.steps_ns(full, with_own.tokens) + beside

    def drained_ns(self) -> int:
        """Until everybody who is in has ended: once all are admitted, as many steps as the longest needs."""
        full = self.full_steps(Work(), self.work)
        return self.in_flight_ns + self.steps_ns(full + self.longest, self.work.tokens)

    def full_steps(self, own: Work, work: Work) -> int:
        return self.full_of_seats(own) + self.full_of_blocks(own) + self.full_of_tokens(work)

    def full_of_seats(self, own: Work) -> int:
        if self.work.requests + own.requests <= self.settings.seats:
            return 0
        return self.work.steps // self.settings.seats

    def full_of_blocks(self, own: Work) -> int:
        usable = self.settings.blocks - self.settings.watermark_blocks
        if self.work.blocks + own.blocks <= usable:
            return 0
        held = usable - max(self.largest, own.blocks) + 1
        return self.work.block_steps // max(1, held)

    def full_of_tokens(self, work: Work) -> int:
        budget = self.settings.token_budget
        for_prompts = budget - min(self.settings.seats, self.work.requests + 1)
        return min(work.prompt // for_prompts, work.tokens // budget) if for_prompts > 0 else work.tokens // budget

    def steps_ns(self, steps: int, tokens: int) -> int:
        door = self.settings.door
        return steps * door.step_ns + min(tokens, steps * self.settings.token_budget) * door.token_ns
