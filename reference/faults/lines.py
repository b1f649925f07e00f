"""Schedulers that break a rule about who is next in line: by cached prefixes, and by age."""

from attrs import Factory, define

from ...spec.vocabulary import Settings
from ..job import Job
from ..prefixes import Prefixes
from ..scheduler import Scheduler
from ..selection.one_queue import Guarded, LongestPrefix
from ..selection.patience import Patience
from ..selection.sharing import SharedQueue
from .base import fault


@define(eq=False)
class FirstMatches(Prefixes):
    """What of a request was cached when somebody asked first."""

    found: dict[str, list[int]] = Factory(dict)

    def cached_blocks(self, job: Job) -> list[int]:
        return self.found.setdefault(job.id, super().cached_blocks(job))


@fault("LIVE-12")
class MatchesOnce(Scheduler):
    """The queue is sorted by prefixes that are looked up once, when a request is first in reach."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        order = queue.order if isinstance(queue, Guarded) else queue
        if isinstance(order, LongestPrefix):
            order.prefixes = FirstMatches(settings, self.state.pool)


class OfTheClient(Patience):
    """The age is that of a client: it begins again with each request that comes."""

    def begins(self, job: Job) -> None:
        own = [other for _, other in self.line if other.request.client == job.request.client]
        for other in own:
            if other.id in self.since and other.id not in self.aged:
                super().begins(other)
        super().begins(job)


@fault("FAIR-21")
class AgesTheClient(Scheduler):
    """Whoever waits is young again when its client sends another request."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if settings.policy == "vtc" and isinstance(queue, SharedQueue):
            queue.members.patience = OfTheClient(settings.aging_picks)


@fault("LANE-8")
class AgesTwiceAsSlowly(Scheduler):
    """Admissions are counted in pairs where lanes are."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(settings, seed, record=record)
        queue = self.state.queue
        if settings.policy == "lanes" and isinstance(queue, SharedQueue):
            queue.members.patience.picks *= 2
