"""What the scheduler keeps, and who leaves the running set."""

from itertools import repeat

from ..spec.vocabulary import Delta, Settings
from .admission import Entrance
from .arrays import FEW_ROWS, Rows
from .batch import Batch
from .blocks import Blocks, parts
from .calendar import Calendar
from .clients import ClientQueue
from .ints import NOTHING, Ints
from .job import Job
from .plain_clients import PlainClients, are_plain
from .promises import refuse
from .queue import Queue, one_queue
from .sharing import SHARINGS


class Running:
    """Who runs has a row, in order of admission; who waits stands in the queue."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        refuse(settings)
        self.settings = settings
        self.rows = Rows.of(FEW_ROWS)
        self.blocks = Blocks.of(settings.blocks, FEW_ROWS)
        self.queue = new_queue(settings)
        self.entrance = Entrance(settings, self.queue)
        self.order: Ints = NOTHING
        self.jobs: dict[str, Job] = {}
        self.seen: set[str] = set()
        self.in_flight: dict[int, Batch] = {}
        self.deltas: list[Delta] = []
        self.record = True
        self.calendar: Calendar | None = None
        self.calm = 0
        self.steps = 0
        self.arrivals = 0
        self.admissions = 0
        self.resident_tokens = 0

    def ids_of(self, rows: Ints) -> list[str]:
        return [job.request.id for job in self.rows.jobs_at(rows)]

    def prefilling(self) -> int:
        """Prompts in prefill, where that is asked; while a calendar stands there are none."""
        if not self.settings.prefilling_requests or self.calendar is not None:
            return 0
        return int((self.rows.issued[self.order] < self.rows.prefill_end[self.order]).sum())

    def leave_rows(self, rows: Ints) -> list[tuple[Job, list[int]]]:
        """Out of the running set, in this order: who, and, where it is told, the blocks that it gave."""
        counts = self.rows.held[rows]
        given = self.blocks.give_all(rows, counts)
        jobs = self.rows.leave(rows)
        if self.calendar is None:  # else its order is the right one already
            self.order = self.order[self.rows.taken[self.order].nonzero()[0]]
        self.resident_tokens -= sum([job.length for job in jobs])
        return list(zip(jobs, parts(given, counts) if self.record else repeat([]), strict=False))

    def end(self, job: Job) -> None:
        job.is_live = False
        self.queue.ended(job)
        del self.jobs[job.request.id]

    def tell_given(self, job: Job, blocks: list[int]) -> None:
        if blocks:
            self.deltas.append(("gave", job.request.id, blocks))


def new_queue(settings: Settings) -> Queue:
    if are_plain(settings):
        return PlainClients.of(settings)
    if settings.policy in SHARINGS:
        return ClientQueue.of(settings)
    return one_queue(settings)
