"""State of the reference scheduler, in small classes grouped by scope: a step, all of it."""

from collections.abc import Iterator, Mapping

from attrs import Factory, define

from ..spec.vocabulary import Delta, Settings
from .adapters import Adapters
from .admission import Gate, new_gate
from .alternatives import Held
from .host import Host
from .job import ENDED, Job
from .leases import Leases
from .log import DecisionLog
from .parked import Parking
from .phases import BOTH, Phases
from .pool import Pool
from .prefixes import Prefixes
from .selection import Queue, new_queue


@define(eq=False)
class Entry:
    """One row of a step: the job runs `tokens` positions from `start`, and samples after the last known one."""

    job: Job
    start: int
    tokens: int
    samples: int
    epoch: int


@define(eq=False)
class Admission:
    """Who enters, with which cached blocks, from which position, how many tokens in this step, how many positions it
    reserves blocks for, and whose place it takes; `by` which rule it was next."""

    job: Job
    cached_blocks: list[int]
    start: int
    tokens: int
    reserved_tokens: int
    victims: list[Job] = Factory(list)
    by: str = "line"


@define(eq=False)
class Decision:
    """What DECIDE hands to the other phases; no table has been touched."""

    victims: list[Job]
    requester: Job | None
    growth: list[tuple[Job, int]]
    budget_left: int
    admissions: list[Admission] = Factory(list)


@define(eq=False)
class State:
    settings: Settings
    pool: Pool
    prefixes: Prefixes
    adapters: Adapters
    queue: Queue
    gate: Gate | None
    parking: Parking
    leases: Leases
    host: Host
    jobs: dict[str, Job] = Factory(dict)
    running: dict[str, Job] = Factory(dict)
    seen: set[str] = Factory(set)
    in_flight: dict[int, list[Entry]] = Factory(dict)
    deltas: list[Delta] = Factory(list)
    step: int = 0
    arrivals: int = 0
    admissions: int = 0
    now_ns: int = 0
    phases: Phases = BOTH
    since_round: int = 0
    waits: dict[Job, str] = Factory(dict)
    logged: dict[Job, str] = Factory(dict)
    log: DecisionLog | None = None
    chosen: dict[Job, Delta] = Factory(dict)

    @classmethod
    def of(cls, settings: Settings, pool: Pool | None = None) -> "State":
        pool = pool or Pool.of(settings.blocks)
        prefixes = Prefixes(settings, pool)
        adapters = Adapters(settings.adapter_slots)
        queue = new_queue(settings, prefixes, adapters)
        parking, leases = Parking(settings.park_timeout_ns), Leases(pool)
        log = DecisionLog() if settings.log_decisions else None
        gate, host = new_gate(settings), Host.of(settings)
        return cls(settings, pool, prefixes, adapters, queue, gate, parking, leases, host, log=log)

    @property
    def held(self) -> Mapping[str, Held]:
        """Whom the door holds."""
        return {} if self.gate is None else self.gate.alternatives.held

    def live(self) -> Iterator[Job]:
        return (job for job in self.jobs.values() if job.state != ENDED)
