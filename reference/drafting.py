"""Drafts: guesses at what follows that the model verifies behind a decode, each at a position of its own."""

from collections.abc import Sequence

from .job import Job
from .phases import phase_of
from .state import Decision, State


class Drafting:
    """What a step has left goes to guesses; a draft delays nobody, and takes no block that the cache has."""

    state: State

    def grow(self, job: Job, positions: int) -> None:
        """Blocks until the table covers so many positions."""
        raise NotImplementedError

    def draft(self, decision: Decision) -> dict[str, int]:
        """Who decodes -> how many drafts behind its entry: at most what it may still be answered beside that."""
        settings, drafts = self.state.settings, dict[str, int]()
        if not settings.draft_tokens or decision.victims or any(entering.victims for entering in decision.admissions):
            return drafts
        budget = decision.budget_left - sum(entering.tokens for entering in decision.admissions)
        for job, _ in decision.growth:
            if phase_of(job) == "decode":
                count = min(settings.draft_tokens, budget, self.useful_drafts(job), self.room_behind(job))
                if count > 0:
                    self.grow(job, job.issued + 1 + count)
                    drafts[job.id] = count
                    budget -= count
        return drafts

    def useful_drafts(self, job: Job) -> int:
        return job.request.max_output_tokens - job.outputs - 1

    def room_behind(self, job: Job) -> int:
        """Positions behind its entry that its table covers, or would with what is free."""
        blocks = len(job.table) + len(self.state.pool.free)
        return blocks * self.state.settings.block_size - job.issued - 1

    def verified(self, job: Job, tokens: Sequence[int]) -> list[tuple[str, int]]:
        """So many of its drafts were right: their positions are computed, and each brought a token of its own."""
        for token in tokens:
            job.issued += 1
            job.computed = job.issued
            job.known += 1
            job.outputs += 1
            job.tokens.append(token)
            self.state.queue.served(job)
        return [(job.id, token) for token in tokens]
