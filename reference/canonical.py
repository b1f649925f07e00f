"""What of the scheduler's state a decision to come can depend on, up to names and clocks.

Two states with equal canonical forms go on alike, whatever their requests, clients and blocks are called, and however
long they have run.  So a search may take one for the other.  Left out is the number of the step, by which nothing is
decided, and what nobody can see any more: results of former epochs, entries of heaps that are dropped when they
surface, how far a client that is away is behind the virtual time that it will be lifted to.  Numbers that only grow are
shifted: of arrivals and turns their order counts, and where a policy adds them up also how far they are apart, up to
where more makes no difference; of service all counts.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

from attrs import Factory, define

from ..spec.settings import AGING_ARRIVALS, SJF_ARRIVALS
from .job import Job
from .selection import ClientQueues, OneQueue, Queue, RoundRobin, Vtc
from .selection.lanes import ByShare, LaneQueues
from .selection.lines import Arrivals, Line
from .selection.one_queue import ByAdapter, Guarded, LongestPrefix, WaitingQueue
from .selection.patience import Patience
from .selection.race import Member, Race
from .selection.sharing import Dlpm, Drr, Members, SharedQueue, Sharing
from .state import State

GONE = -1
"""The number of a request that has ended: nobody will ask for it again."""

LIFTED: tuple[type[Sharing], ...] = (Vtc, Drr, Dlpm, ByShare)
"""Under these whoever is away comes back with the virtual time, less a burst, or more."""


@define
class Names:
    """The numbers by which requests and clients are called; blocks are called in the order in which they turn up."""

    requests: Mapping[str, int]
    clients: Mapping[str, int]
    blocks: dict[int, int] = Factory(dict)

    def job(self, job: Job) -> int:
        return self.requests.get(job.id, GONE)

    def jobs(self, jobs: Iterable[Job]) -> tuple[int, ...]:
        return tuple(map(self.job, jobs))

    def ids(self, ids: Collection[str]) -> tuple[int, ...]:
        """Of those who have not ended, in no order."""
        return tuple(sorted(self.requests[id] for id in ids if id in self.requests))

    def table(self, blocks: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.blocks.setdefault(block, len(self.blocks)) for block in blocks)

    def member(self, name: str) -> int | str:
        """A client's number; lanes keep their names."""
        return self.clients.get(name, name)


def canonical(state: State, names: Names) -> Hashable:
    if state.gate is not None:
        raise TypeError("canonical: nobody said what of the door's clock matters")
    jobs = sorted(state.live(), key=names.job)
    return (
        _jobs(state, jobs, names),
        names.jobs(state.running.values()),
        _in_flight(state, names),
        _pool(state, names),
        _parking(state, jobs, names),
        state.phases if state.settings.phase_first == "alternate" else None,
        min(state.since_round + 1, state.settings.admission_period_steps),
        len(state.host.free),
        tuple(sorted((adapter, names.ids(users)) for adapter, users in state.adapters.users.items())),
        _queue(state.queue, jobs, names),
    )


def gaps(reach: Mapping[int, int]) -> dict[int, int]:
    """Value -> what stands for it: from 0 on, in the same order.  Of a value and whatever is above it that is closer
    than its `reach` the distance is kept; what is further apart is at least so far apart."""
    shifted: dict[int, int] = {}
    last, at, farthest = None, 0, 1
    for value in sorted(reach):
        at += 0 if last is None else min(value - last, farthest)
        shifted[value], last = at, value
        farthest = max(farthest, reach[value])
    return shifted


def ranks(values: Iterable[int]) -> dict[int, int]:
    """Value -> its place in their order."""
    return gaps(dict.fromkeys(values, 1))


# --- requests and memory -----------------------------------------------------------------------------------


def _jobs(state: State, jobs: list[Job], names: Names) -> Hashable:
    arrivals = gaps({state.arrivals: 1} | {job.arrival: _reach(state, job) for job in jobs})
    admissions = ranks(job.admission for job in jobs)
    caching = state.settings.prefix_caching
    return tuple(
        (
            _request(job, names),
            job.state,
            arrivals[job.arrival] - arrivals[state.arrivals],
            admissions[job.admission],
            (job.known, job.issued, job.computed, job.outputs, job.in_flight, job.prefill_end),
            (job.was_preempted, job.kept, job.is_charged, job.charged_prompt, job.charged_outputs),
            names.table(job.table),
            (job.indexed_blocks, tuple(job.tokens)) if caching else None,
        )
        for job in jobs
    )


def _request(job: Job, names: Names) -> Hashable:
    request = job.request
    length = (request.prompt_tokens, request.max_output_tokens, request.expected_output_tokens)
    return (*length, names.member(request.client), request.lane, request.priority, request.deadline_ns, request.adapter)


def _reach(state: State, job: Job) -> int:
    """So many arrivals later somebody comes too late to go before it in any case."""
    if state.settings.policy in ("sjf", "srpt"):
        return 1 + SJF_ARRIVALS * (job.request.max_output_tokens - 1)
    if state.settings.policy == "aging":
        return 1 + AGING_ARRIVALS * job.request.priority
    return 1


def _in_flight(state: State, names: Names) -> Hashable:
    """Entries of the steps under way whose results will count."""
    return tuple(
        tuple((names.job(e.job), e.start, e.tokens, e.samples) for e in entries if e.epoch == e.job.epoch)
        for _, entries in sorted(state.in_flight.items())
    )


def _pool(state: State, names: Names) -> Hashable:
    pool = state.pool
    evictable, free = names.table(pool.evictable), names.table(pool.free)
    held = sorted((*names.table([block]), count) for block, count in pool.refs.items())
    index = sorted((*names.table([block]), key) for key, block in pool.index.items())
    return evictable, free, tuple(held), tuple(index), names.table(pool.leased)


def _parking(state: State, jobs: list[Job], names: Names) -> Hashable:
    """Who depends on what, what has been said of it, and for how long yet; and leases, in their order."""
    if not state.settings.park_timeout_ns:
        return None
    parked, now_ns = state.parking.parked, state.now_ns
    asked = [(tuple(sorted(job.dependencies)), tuple(sorted(job.answers.items()))) for job in jobs]
    left_ns = tuple((names.job(job), until_ns - now_ns) for job, until_ns in parked.items())
    leases = state.leases
    kept = [(names.requests[r], names.table(leases.blocks[r]), until - now_ns) for r, until in leases.until_ns.items()]
    return tuple(asked), left_ns, tuple(kept)


# --- queues ------------------------------------------------------------------------------------------------


def _queue(queue: Queue, jobs: list[Job], names: Names) -> Hashable:
    if isinstance(queue, SharedQueue):
        caps = queue.caps
        usages = sorted(
            (str(names.member(name)), usage.seats, usage.tokens, usage.blocks, usage.cost)
            for name, usage in (*caps.clients.items(), *caps.lanes.items())
            if usage.seats or usage.tokens or usage.blocks or usage.cost
        )
        return tuple(usages), _members(queue.members, jobs, names)
    return _one_queue(queue, names)


def _one_queue(queue: OneQueue, names: Names) -> Hashable:
    if isinstance(queue, WaitingQueue):
        standing = sorted(entry for entry in queue.heap if queue.standing.get(entry[-1]) == entry[2])
        return queue.size, names.jobs(entry[-1] for entry in standing), tuple(sorted(names.jobs(queue.standing)))
    if isinstance(queue, ByAdapter):
        return queue.size, tuple((str(name), _one_queue(q, names)) for name, q in sorted_by_name(queue.queues))
    if isinstance(queue, LongestPrefix):
        return queue.size, _one_queue(queue.order, names)
    if isinstance(queue, Guarded):
        return queue.size, _guarded(queue, names)
    raise TypeError(f"canonical: {type(queue).__name__} is a queue of which nobody said what matters")


def sorted_by_name(queues: Mapping[str | None, WaitingQueue]) -> list[tuple[str | None, WaitingQueue]]:
    return sorted(queues.items(), key=lambda entry: str(entry[0]))


def _guarded(queue: Guarded, names: Names) -> Hashable:
    numbers = ranks(spell.number for spell in queue.spells.values())
    spells = sorted(
        (
            names.job(job),
            numbers[spell.number],
            min(queue.admissions - spell.admissions_before, queue.max_overtaken),
            spell.is_next,
            spell.is_out,
        )
        for job, spell in queue.spells.items()
    )
    young = names.jobs(job for job, spell in queue.young if queue.spells.get(job) is spell)
    promoted = tuple(sorted(names.jobs(queue.promoted)))
    return tuple(spells), young, promoted, _one_queue(queue.order, names), _one_queue(queue.next, names)


def _members(queues: Members, jobs: list[Job], names: Names) -> Hashable:
    members = sorted(queues.members.values(), key=lambda member: member.number)
    counters = {member.name: _counter(queues, member, _live(queues, member, jobs)) for member in members}
    counters[""] = queues.virtual_time
    shifted = _shifted(queues, counters)
    turns = ranks(member.place for member in members if member.waiting)
    return (
        queues.size,
        shifted[""],
        _who_left_last(queues, counters, jobs, names),
        tuple(
            (
                names.member(member.name),
                shifted[member.name],
                (member.waiting, member.aged, member.held, turns.get(member.place) if member.waiting else None),
                _is_listed(queues.race, member) and _is_listed(queues.counted, member),
                _line(member.queue, jobs, names),
            )
            for member in members
        ),
        _patience(queues.patience, names),
    )


def _is_listed(race: Race, member: Member) -> bool:
    """Who does not race may still be listed, until somebody looks."""
    return not race.races(member) or member.number in race.listed


def _live(queues: Members, member: Member, jobs: list[Job]) -> bool:
    return any(queues.name_of(job) == member.name for job in jobs)


def _counter(queues: Members, member: Member, live: bool) -> int:
    """The counter that a member has when it is asked for: that of one who is away is lifted when it comes back, and a
    turn is given anew."""
    if isinstance(queues.sharing, RoundRobin):
        return member.counter if member.waiting else queues.turns
    sharing = queues.sharing
    if live or type(sharing) not in LIFTED or not isinstance(sharing, Vtc):
        return member.counter
    return max(member.counter, sharing.lift(queues, member))


def _shifted(queues: Members, counters: Mapping[str, int]) -> dict[str, int]:
    if isinstance(queues.sharing, RoundRobin):
        shifted = gaps(dict.fromkeys(counters.values(), queues.credit + 1))
        return {name: shifted[counter] for name, counter in counters.items()}
    unit = queues.sharing.quantum if isinstance(queues.sharing, Drr) else 1
    base = min(counters.values()) // unit * unit
    return {name: counter - base for name, counter in counters.items()}


def _who_left_last(queues: Members, counters: Mapping[str, int], jobs: list[Job], names: Names) -> Hashable:
    """Asked for only while nobody waits.  Of one who is away its counter alone counts, and only if it is above the
    virtual time."""
    member = queues.last_left
    if member is None or isinstance(queues.sharing, RoundRobin) or any(m.waiting for m in queues.members.values()):
        return None
    is_behind = counters[member.name] <= queues.virtual_time and type(queues.sharing) in LIFTED
    return None if is_behind and not _live(queues, member, jobs) else names.member(member.name)


def _line(line: Line, jobs: list[Job], names: Names) -> Hashable:
    if isinstance(line, Arrivals):
        waiting = sorted(entry for entry in line.heap if entry[1].state == "waiting")
        return line.size, names.jobs(job for _, job in waiting)
    if isinstance(line, ClientQueues | LaneQueues):
        return _members(line, jobs, names)
    raise TypeError(f"canonical: {type(line).__name__} is a line of which nobody said what matters")


def _patience(patience: Patience, names: Names) -> Hashable:
    if not patience.picks:
        return None
    since = {id: min(patience.admissions - began, patience.picks) for id, began in patience.since.items()}
    line = names.jobs(job for began, job in patience.line if patience.since.get(job.id) == began)
    return tuple(sorted((*names.ids([id]), seen) for id, seen in since.items())), names.ids(patience.aged), line


# --- what a changed scheduler keeps beside -----------------------------------------------------------------


def plainly(value: Any, names: Names) -> Hashable:
    """Attributes that the state does not know, as they are, but for the names of requests and clients."""
    if isinstance(value, Job):
        return names.job(value)
    if isinstance(value, str):
        return names.requests.get(value, names.clients.get(value, value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        pairs = ((plainly(key, names), plainly(item, names)) for key, item in value.items())
        return tuple(sorted(pairs, key=repr))
    if isinstance(value, set | frozenset):
        return tuple(sorted((plainly(item, names) for item in value), key=repr))
    if isinstance(value, list | tuple):
        return tuple(plainly(item, names) for item in value)
    raise TypeError(f"canonical: nobody said what matters of a {type(value).__name__}")
