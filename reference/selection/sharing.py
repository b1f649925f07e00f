"""A queue per client; the client with the least rank is next, and a policy says what ranks are and what changes them.

Clients of a queue, and lanes (`lanes.py`), are members of the same structure: each has a counter and a queue of its
own.  No operation costs what waits.
"""

from attrs import Factory, define, field

from ...spec.settings import LPM_WINDOW, Settings
from ..caps import Caps
from ..job import Job
from ..prefixes import Prefixes
from .bill import Bill
from .lines import Arrivals, Line
from .patience import Patience
from .race import Member, Race, Rank


class Sharing:
    """What ranks members and changes their counters.  This one is Least Counter First: service alone does."""

    shows_counters = True

    def rank(self, member: Member, counter: int) -> Rank:
        """The least is next; `counter` is the member's, less the credit of those who wait long."""
        return counter, 0

    def choose(self, queues: "Members") -> Member | None:
        return queues.race.first()

    def enters(self, queues: "Members", member: Member) -> None:
        """A member of whom nobody waited has a waiting request again."""

    def picked(self, queues: "Members", member: Member) -> None:
        """A request of it is admitted, and not yet charged."""

    def charge(self, queues: "Members", member: Member, amount: int) -> None:
        member.counter += amount

    def refund(self, queues: "Members", member: Member, amount: int) -> None:
        member.counter -= amount


class Vtc(Sharing):
    """Virtual Token Counter (Sheng et al., OSDI 2024, Algorithm 2): who comes back is lifted, never lowered.  Neither
    service that was never asked for nor a preemption nor a refund becomes credit."""

    def mark(self, counter: int) -> int:
        """The virtual time that a least counter stands for."""
        return counter

    def enters(self, queues: "Members", member: Member) -> None:
        least = queues.least() or queues.last_left
        if least is not None:
            queues.advance(self.mark(least.counter))
        member.counter = max(member.counter, self.lift(queues, member))

    def lift(self, queues: "Members", member: Member) -> int:
        return queues.virtual_time

    def picked(self, queues: "Members", member: Member) -> None:
        least = queues.least() or member
        queues.advance(self.mark(least.counter))

    def refund(self, queues: "Members", member: Member, amount: int) -> None:
        member.counter = max(member.counter - amount, min(member.counter, queues.virtual_time))


class RoundRobin(Sharing):
    """One request of each client in turn: the counter is its place in the round, and who was served goes last."""

    shows_counters = False

    def enters(self, queues: "Members", member: Member) -> None:
        member.counter = queues.next_turn()

    def picked(self, queues: "Members", member: Member) -> None:
        member.counter = queues.next_turn()

    def charge(self, queues: "Members", member: Member, amount: int) -> None:
        """Turns alone count."""

    refund = charge


@define(eq=False)
class Drr(Vtc):
    """Deficit round robin (Shreedhar and Varghese, 1995) where costs show afterwards: a client keeps its turn until
    what it got exceeds its quanta, and what is too much counts against later rounds.  The round is the counter in
    quanta: debts stay, and whoever comes back starts with this round's quantum and no more."""

    quantum: int

    def rank(self, member: Member, counter: int) -> Rank:
        return counter // self.quantum, member.place

    def mark(self, counter: int) -> int:
        return counter // self.quantum * self.quantum

    def enters(self, queues: "Members", member: Member) -> None:
        super().enters(queues, member)
        member.place = queues.next_turn()


@define(eq=False)
class Dlpm(Drr):
    """Deficit longest prefix match (Cao et al., 2025): among clients of the round, whose head has the longest cached
    prefix; of them the first `LPM_WINDOW` are looked at."""

    prefixes: Prefixes

    def choose(self, queues: "Members") -> Member | None:
        return max(queues.race.leading(LPM_WINDOW), key=self._match, default=None)

    def _match(self, member: Member) -> tuple[int, int]:
        first = member.queue.first()
        return (0, 0) if first is None else (len(self.prefixes.cached_blocks(first)), -first.arrival)


@define(eq=False)
class Members:
    """Clients or lanes, each with a queue of its own.  `last_left` is the one whose last waiting request was admitted
    or ended most recently; `virtual_time` the largest that the least counter ever was, at a pick or a return."""

    sharing: Sharing
    caps: Caps
    patience: Patience = field(factory=lambda: Patience(0))
    credit: int = 0
    members: dict[str, Member] = Factory(dict)
    race: Race = field(init=False)
    counted: Race = field(init=False)
    last_left: Member | None = None
    virtual_time: int = 0
    size: int = 0
    turns: int = 0

    def __attrs_post_init__(self) -> None:
        self.race = Race(self._rank, lambda member: member.queue.size > 0 and not member.held)
        self.counted = Race(lambda member: (member.counter, 0), lambda member: member.waiting > 0)

    # --- what a kind of members says -----------------------------------------------------------------------

    def name_of(self, job: Job) -> str:
        raise NotImplementedError

    def line(self, name: str) -> Line:
        """A queue for a new member."""
        raise NotImplementedError

    def may(self, job: Job) -> bool:
        """Whether a cap lets its member have it run too."""
        raise NotImplementedError

    # --- the queue -------------------------------------------------------------------------------------------

    def push(self, job: Job) -> None:
        member = self.member_of(job)
        if not member.waiting:
            self.sharing.enters(self, member)
        member.waiting += 1
        self.patience.begins(job)
        member.queue.push(job)
        self.size += 1
        self._look_at(member)

    def first(self) -> Job | None:
        member = self.sharing.choose(self)
        return None if member is None else member.queue.first()

    def pop(self) -> Job | None:
        member = self.sharing.choose(self)
        if member is None:
            return None
        job = member.queue.pop()
        self.size -= 1
        self._look_at(member)
        return job

    def put_back(self, job: Job) -> None:
        member = self.member_of(job)
        member.queue.put_back(job)
        self.size += 1
        self._look_at(member)

    def picked(self, job: Job) -> None:
        member = self.member_of(job)
        self.sharing.picked(self, member)
        member.queue.picked(job)
        self._leaves(member, job)
        for aged in self.patience.admitted():
            preferred = self.member_of(aged)
            preferred.aged += 1
            self._look_at(preferred)

    def left(self, job: Job) -> None:
        member = self.member_of(job)
        member.queue.left(job)
        self.size -= 1
        self._leaves(member, job)

    def charge(self, job: Job, amount: int) -> None:
        """Ranks only grow by it, so nobody has to look."""
        member = self.member_of(job)
        self.sharing.charge(self, member, amount)
        member.queue.charge(job, amount)

    def refund(self, job: Job, amount: int) -> None:
        member = self.member_of(job)
        self.sharing.refund(self, member, amount)
        member.queue.refund(job, amount)
        self._look_at(member)

    def review(self, client: str) -> None:
        raise NotImplementedError

    # --- members -----------------------------------------------------------------------------------------------

    def least(self) -> Member | None:
        """The least counter among those with waiting requests, those who are held included."""
        return self.counted.first()

    def advance(self, counter: int) -> None:
        self.virtual_time = max(self.virtual_time, counter)

    def next_turn(self) -> int:
        self.turns += 1
        return self.turns

    def member_of(self, job: Job) -> Member:
        name = self.name_of(job)
        if name not in self.members:
            self.members[name] = Member(name, len(self.members), self.line(name))
        return self.members[name]

    def _rank(self, member: Member) -> Rank:
        return self.sharing.rank(member, member.counter - (self.credit if member.aged else 0))

    def _look_at(self, member: Member) -> None:
        """Its counter, its queue or what it has running has changed.  Where those who do not fit are skipped nobody is
        held: behind one who is over a cap the next may be within it."""
        if self.caps.settings.at_blocked_head == "break":
            first = member.queue.first()
            member.held = member.queue.size > 0 and (first is None or not self.may(first))
        for race in (self.race, self.counted):
            if race.races(member):
                race.enter(member)

    def _leaves(self, member: Member, job: Job) -> None:
        member.waiting -= 1
        member.aged -= self.patience.ends(job)
        if not member.waiting:
            self.last_left = member
        self._look_at(member)


@define(eq=False)
class ClientQueues(Members):
    """A queue per client, each of arrival."""

    def name_of(self, job: Job) -> str:
        return job.request.client

    def line(self, name: str) -> Line:
        return Arrivals()

    def may(self, job: Job) -> bool:
        return self.caps.client_may(job)

    def review(self, client: str) -> None:
        if client in self.members:
            self._look_at(self.members[client])


@define(eq=False)
class SharedQueue:
    """What the scheduler knows of queues that are shared by service: it keeps the bills and the caps, and tells the
    members what they are charged."""

    bill: Bill
    caps: Caps
    members: Members

    @property
    def size(self) -> int:
        return self.members.size

    @size.setter
    def size(self, size: int) -> None:
        self.members.size = size

    def push(self, job: Job) -> None:
        """It waits from now on: a new arrival, or the victim of a preemption."""
        self.members.push(job)

    def pop(self) -> Job | None:
        """Who is next; then it is either `picked` or `put_back`."""
        return self.members.pop()

    def put_back(self, job: Job) -> None:
        """It did not fit, and stands where it stood."""
        self.members.put_back(job)

    def may(self, job: Job) -> bool:
        """Whether the caps of its client and lane let it run."""
        return self.caps.client_may(job) and self.caps.lane_may(job)

    def is_aged(self, job: Job) -> bool:
        """Whether its client or lane is preferred because it has waited long."""
        return self.members.member_of(job).aged > 0

    def picked(self, job: Job) -> None:
        """It is admitted."""
        self.caps.seat(job)
        self.members.picked(job)
        self._charge(job, self.bill.pick(job))
        self.members.review(job.request.client)

    def ran(self, job: Job, end: int) -> None:
        """Its positions up to `end` are scheduled, or were found in the cache."""
        if self.bill.by_chunk:
            self._charge(job, self.bill.chunk(job, end))

    def served(self, job: Job) -> None:
        """An output token of it was delivered."""
        self._charge(job, self.bill.token(job))

    def left(self, job: Job) -> None:
        """A job that is still in the queue waits no longer."""
        self.members.left(job)

    def released(self, job: Job) -> None:
        """It has left the running set."""
        self.caps.release(job)
        self.members.review(job.request.client)

    def ended(self, job: Job) -> None:
        """No more tokens of it will come."""
        amount = self.bill.refund(job)
        if amount:
            self.members.refund(job, amount)

    def counters(self) -> dict[str, int]:
        """What a snapshot shows of clients."""
        if not isinstance(self.members, ClientQueues) or not self.members.sharing.shows_counters:
            return {}
        return {name: member.counter for name, member in self.members.members.items()}

    def _charge(self, job: Job, amount: int) -> None:
        if not amount:
            return
        self.members.charge(job, amount)
        if self.caps.settings.client_committed_cost:
            self.caps.charged(job, amount)
            self.members.review(job.request.client)


def shared_by_clients(
    settings: Settings, sharing: Sharing, *, queues: type[ClientQueues] = ClientQueues, bill: type[Bill] = Bill
) -> SharedQueue:
    charges = bill.of(settings)
    caps = Caps(settings, charges.due)
    members = queues(sharing, caps, Patience(settings.aging_picks), settings.aging_credit)
    return SharedQueue(charges, caps, members)
