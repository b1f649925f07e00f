"""Bugs of steps in flight and of drafts: results of a request that has lost its place meanwhile."""

from collections.abc import Mapping

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.reference.phases import phase_of
from schedspec.reference.state import Decision, Entry
from schedspec.spec.vocabulary import Settings

from .registry import bug, sibling


@bug(
    "B54",
    rules=("LIFE-4", "LIFE-7", "LIFE-8"),
    kind="overlap",
    title="The result of a step that was launched before a preemption is applied to counters that it has reset",
    url="https://github.com/vllm-project/vllm/pull/48245",
)
class AppliesWhatComesBack(Scheduler):
    """A preemption sets back what was computed, and what is in flight; the result settles its own placeholder."""

    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        job.epoch -= 1


@sibling("B54", "whether or not something is under way, the next result of a victim is dropped")
class DropsTheNextFrame(Scheduler):
    """A flag says that a frame is stale."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        self.stale: set[str] = set()

    def preempt(self, job: Job, requester: Job) -> None:
        super().preempt(job, requester)
        self.stale.add(job.id)

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        job = entry.job
        if job.id not in self.stale or not entry.samples:
            return super().settle(entry, tokens)
        self.stale.discard(job.id)
        if entry.epoch == job.epoch:
            job.computed = entry.start + entry.tokens
            job.in_flight -= 1
            job.known -= 1
        return False


@sibling("B54", "a result of a request that runs again is its next token")
class TakesItForItsNext(Scheduler):
    """Who has been resumed runs: that a result is of its former life is seen by nobody."""

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        job = entry.job
        if entry.epoch != job.epoch and job.id in self.state.running and entry.samples:
            job.outputs += 1
            job.known += 1
            job.tokens.append(tokens[job.id])
            return True
        return super().settle(entry, tokens)


# --- drafts ------------------------------------------------------------------------------------------------


class Proposes(Scheduler):
    """Drafts are proposed before it is known who runs."""

    def decide(self) -> Decision:
        settings = self.state.settings
        self.proposed: dict[str, int] = {}
        for job in self.state.running.values() if settings.draft_tokens else ():
            count = min(settings.draft_tokens, self.useful_drafts(job))
            if phase_of(job) == "decode" and count > 0:
                self.proposed[job.id] = count
        return super().decide()


@bug(
    "B56",
    rules=("STEP-6", "STEP-7"),
    kind="drafts",
    title="Drafts of a request stay in the step from which it is preempted",
    url="https://github.com/vllm-project/vllm/pull/28558",
)
class LeavesTheDraftsOfVictims(Proposes):
    """Whoever is preempted is taken out of the scheduled requests."""

    def draft(self, decision: Decision) -> dict[str, int]:
        drafts = super().draft(decision)
        left = {job.id: self.proposed[job.id] for job in decision.victims if job.id in self.proposed}
        return drafts | left


@sibling("B56", "drafts of a request that sits out a step are in that step")
class DraftsForWhoWasLeftOut(Proposes):
    def draft(self, decision: Decision) -> dict[str, int]:
        drafts = super().draft(decision)
        runs = {job.id for job, _ in decision.growth}
        gone = {job.id for job in decision.victims}
        return drafts | {id: n for id, n in self.proposed.items() if id not in runs and id not in gone}


@sibling("B56", "the budget is asked for the drafts of each request alone", rules=("STEP-1",))
class DraftsBeyondTheBudget(Scheduler):
    def draft(self, decision: Decision) -> dict[str, int]:
        drafts: dict[str, int] = {}
        for entry in list(decision.growth):
            drafts |= super().draft(Decision([], None, [entry], decision.budget_left, decision.admissions))
        return drafts


@sibling("B56", "drafts that are beyond the last block of their request", rules=("KV-4",))
class DraftsWithoutABlock(Scheduler):
    def draft(self, decision: Decision) -> dict[str, int]:
        drafts = super().draft(decision)
        return {id: min(self.state.settings.draft_tokens, count + 1) for id, count in drafts.items()}


@sibling("B56", "what was right is delivered, and the next step begins behind all drafts", rules=("STEP-4", "OBS-3"))
class CountsRejectedDrafts(Proposes):
    """Where a request stands is where its drafts ended."""

    def draft(self, decision: Decision) -> dict[str, int]:
        self.drafted = super().draft(decision)
        return self.drafted

    def settle(self, entry: Entry, tokens: Mapping[str, int]) -> bool:
        has_token = super().settle(entry, tokens)
        job = entry.job
        if has_token and self.drafted.get(job.id) and not job.is_sure_to_end:
            job.issued = job.computed = entry.start + entry.tokens + self.drafted[job.id]
        return has_token
