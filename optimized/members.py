"""Members of a queue (clients, or lanes) by rank: the least is next."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from operator import attrgetter

from attrs import Factory, define, field

from .job import Job, Line, Member
from .race import CounterRace, Race, Rank
from .service import Counters


@define(eq=False)
class Arrivals:
    """Of one client, by arrival: a heap, from which those who are live no longer are dropped when they surface."""

    heap: list[tuple[int, Job]] = Factory(list)
    size: int = 0

    def push(self, job: Job) -> None:
        heappush(self.heap, (job.arrival, job))
        self.size += 1

    put_back = push

    def first(self) -> Job | None:
        while self.heap and not self.heap[0][1].is_live:
            heappop(self.heap)
        return self.heap[0][1] if self.heap else None

    def pop(self) -> Job | None:
        heap = self.heap
        while heap:
            job = heappop(heap)[1]
            if job.is_live:
                self.size -= 1
                return job
        return None

    def picked(self, job: Job) -> None:
        """It is out of the heap already."""

    def left(self, job: Job) -> None:
        self.size -= 1

    def refund(self, job: Job, amount: int) -> None:
        """One client has no counters within it."""

    def review(self, client: str) -> None:
        """Nobody in it is held by itself."""


@define(eq=False)
class Patience:
    """Who has seen `picks` admissions since it began to wait is aged; 0 is never.  The oldest come of age first."""

    picks: int
    admissions: int = 0
    line: deque[tuple[int, Job]] = Factory(deque)
    since: dict[Job, int] = Factory(dict)
    aged: set[Job] = Factory(set)

    def begins(self, job: Job) -> None:
        if self.picks:
            self.since[job] = self.admissions
            self.line.append((self.admissions, job))

    def ends(self, job: Job) -> bool:
        """It waits no longer; whether it was aged."""
        self.since.pop(job, None)
        was_aged = job in self.aged
        self.aged.discard(job)
        return was_aged

    def admitted(self) -> Iterator[Job]:
        """One more admission; who is aged by it."""
        self.admissions += 1
        while self.line and self.line[0][0] + self.picks <= self.admissions:
            began, job = self.line.popleft()
            if self.since.get(job) == began:
                self.aged.add(job)
                yield job


class Sharing:
    """What ranks members, and what changes counters beside service.  This one is Least Counter First: nothing does."""

    shows_counters = True

    def rank(self, member: Member, counter: int) -> Rank:
        """`counter` is the member's, less the credit of those who wait long."""
        return counter

    def enters(self, group: "Group", member: Member) -> None:
        """A member of whom nobody waited has a waiting request again."""

    def picked(self, group: "Group", member: Member) -> None:
        """A request of it is admitted, and not yet charged."""

    def refund(self, group: "Group", member: Member, amount: int) -> None:
        group.service.add(member.account, -amount)


@define(eq=False)
class Group:
    """Members, each with a line of its own.  `last_left` is the one whose waiting request was admitted or ended most
    recently; `virtual_time` the largest that the least counter ever was, at a pick or a return.  A job's member
    in it stands at `level`.  `holds`: caps keep members out of the race.

    `by_counter`: ranks are counters and nobody is held, so that the race alone knows the least counter, unless others
    than the picked one are `out` of line.  Taking a job out, or its end, lowers no rank: nobody has to look.
    """

    sharing: Sharing
    service: Counters
    level: int
    new_line: Callable[[str], Line]
    may: Callable[[Job], bool]
    holds: bool
    patience: Patience = Factory(lambda: Patience(0))
    credit: int = 0
    members: dict[str, Member] = Factory(dict)
    numbered: list[Member] = Factory(list)
    race: Race | CounterRace = field(init=False)
    counted: CounterRace = field(init=False)
    last_left: Member | None = None
    virtual_time: int = 0
    turns: int = 0
    size: int = 0
    out: int = 0
    by_counter: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.by_counter = type(self.sharing).rank is Sharing.rank and not (self.credit or self.holds)
        self.counted = CounterRace(self.service, attrgetter("waiting"), self.numbered)
        self.race = Race(self.rank)
        if self.by_counter:
            self.race = CounterRace(self.service, attrgetter("line.size"), self.numbered)

    def member(self, name: str) -> Member:
        if name not in self.members:
            member = Member(name, len(self.numbered), self.service.new(), self.new_line(name))
            self.members[name] = member
            self.numbered.append(member)
        return self.members[name]

    # --- a line --------------------------------------------------------------------------------------------

    def push(self, job: Job) -> None:
        member = job.members[self.level]
        if not member.waiting:
            self.sharing.enters(self, member)
        member.waiting += 1
        self.patience.begins(job)
        member.line.push(job)
        self.size += 1
        self._look_at(member)

    def first(self) -> Job | None:
        member = self.race.first()
        return None if member is None else member.line.first()

    def pop(self) -> Job | None:
        member = self.race.first()
        if member is None:
            return None
        job = member.line.pop()
        self.size -= 1
        self.out += 1
        if self.holds:
            self._look_at(member)
        return job

    def put_back(self, job: Job) -> None:
        member = job.members[self.level]
        member.line.put_back(job)
        self.size += 1
        self.out -= 1
        self._look_at(member)

    def picked(self, job: Job) -> None:
        member = job.members[self.level]
        self.sharing.picked(self, member)
        self.out -= 1
        member.line.picked(job)
        self._waits_no_longer(member, job)
        if not self.patience.picks:
            return
        for aged in self.patience.admitted():
            preferred = aged.members[self.level]
            preferred.aged += 1
            self._look_at(preferred)

    def left(self, job: Job) -> None:
        member = job.members[self.level]
        member.line.left(job)
        self.size -= 1
        self._waits_no_longer(member, job)

    def refund(self, job: Job, amount: int) -> None:
        member = job.members[self.level]
        self.sharing.refund(self, member, amount)
        member.line.refund(job, amount)
        self._look_at(member)

    def review(self, client: str) -> None:
        """What a client has running has changed."""
        if client in self.members:
            self._look_at(self.members[client])

    # --- counters --------------------------------------------------------------------------------------------

    def counter(self, member: Member) -> int:
        return self.service.of(member.account)

    def set_counter(self, member: Member, counter: int) -> None:
        self.service.add(member.account, counter - self.counter(member))

    def least(self) -> Member | None:
        """The least counter among those with waiting requests, those who are held included."""
        return self.race.first() if self.by_counter else self.counted.first()

    def least_at_pick(self, member: Member) -> Member:
        """The same, while a request of that member is out of line."""
        return member if self.by_counter and self.out == 1 else self.counted.first() or member

    def advance(self, counter: int) -> None:
        if counter > self.virtual_time:
            self.virtual_time = counter

    def next_turn(self) -> int:
        self.turns += 1
        return self.turns

    def rank(self, member: Member) -> Rank | None:
        if not member.line.size or member.held:
            return None
        counter = self.service.of(member.account)
        return self.sharing.rank(member, counter - self.credit if member.aged else counter)

    def _look_at(self, member: Member) -> None:
        """Its counter, its line or what it has running has changed."""
        if self.holds:
            first = member.line.first()
            member.held = member.line.size > 0 and (first is None or not self.may(first))
        self.race.enter(member)
        self.counted.enter(member)

    def _waits_no_longer(self, member: Member, job: Job) -> None:
        member.waiting -= 1
        if self.patience.picks:
            member.aged -= self.patience.ends(job)
        self.last_left = member
        if self.holds:
            self._look_at(member)


@define(eq=False)
class Lanes(Group):
    """A group of lanes, in each of which a client may be held."""

    def review(self, client: str) -> None:
        for member in self.members.values():
            member.line.review(client)
            self._look_at(member)
