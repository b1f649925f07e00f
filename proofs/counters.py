"""Sharing by counters, as terms: what `spec/ledger.py` keeps of clients and `spec/lane_ledger.py` of lanes.

One system for all of them.  A member is a client or a lane.  `credit` is what aging may prefer somebody by, `grain` the
width of a round less one where turns have a quantum (deficit round robin), `burst` how far below the virtual time a
member comes back.  Virtual Token Counter has no grain and no bursts.

The theorems are about this algorithm.  Rules over traces judge any scheduler, and measure service alone.
`tests/unit/test_counters.py` runs these terms beside the ledgers and beside the reference's round robin.
"""

from schedspec.spec.registry import Registry
from schedspec.spec.terms import BOOL, Bool, Event, Int, Key, Map, Set, State, forall, implies, ite, least, lift

from .theory import Theory


class Member(Key):
    __slots__ = ()


class Shares(State):
    # parameters
    credit: Int
    grain: Int
    burst: Map[Member, Int]
    one: Member  # two members that are compared
    other: Member

    counter: Map[Member, Int]
    committed: Map[Member, Int]  # what its running requests may still be charged
    waiting: Set[Member]
    virtual_time: Int
    certificate: Int  # U of the trace
    somebody_left: Bool
    last_left: Member

    # an interval in which both `one` and `other` wait, if it is open: how far apart their counters were when it began,
    # and how much more service `one` has got since
    open: Bool
    apart: Int
    ahead: Int

    # a time in which `one` waits and is not picked: how far it was behind when that began, how often `other` was picked
    # since, and what `one` was charged and `other` was given back since
    patient: Bool
    start: Int
    turns: Int
    excused: Int


class Return(Event):
    """A member of whom nothing waited has a waiting request.  `mark`: the round of who is least, or left last."""

    member: Member
    mark: Int


class Pick(Event):
    """A request is admitted; `passed`: how far below it, by right, somebody is passed over whom a cap holds."""

    member: Member
    mark: Int
    charge: Int
    commitment: Int
    passed: Int
    is_last: Bool  # nothing of the member waits any more


class Charge(Event):
    """Service of a running request."""

    member: Member
    amount: Int


class LateCharge(Event):
    """Service that was under way when its request was preempted."""

    member: Member
    amount: Int


class Release(Event):
    """A running request ends or is preempted: so much it will not be charged."""

    member: Member
    amount: Int


class Refund(Event):
    """Of a prediction so much was not used."""

    member: Member
    amount: Int


class Withdraw(Event):
    """The last waiting request of a member ends in the queue."""

    member: Member


class Open(Event):
    """An interval begins in which both wait."""


class Wait(Event):
    """From now on it is counted how often `other` is picked while `one` waits."""


registry = Registry(Shares, {})
rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition
_YES = lift(True, BOOL)


def _larger(a: Int, b: Int) -> Int:
    return ite(a < b, b, a)


def _smaller(a: Int, b: Int) -> Int:
    return ite(a < b, a, b)


def _bound(s: Shares) -> Int:
    """U, and what a claim lets the counters differ beyond it."""
    return s.certificate + s.credit + s.grain


# --- FAIR-1, FAIR-2: who is next, and what it costs --------------------------------------------------------------


@rule("FAIR-1", on=Pick)
def the_least_is_next(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """Who is picked waits, and is in the round of the least counter, but for the credit of aging and for those whom a
    cap holds."""
    return (
        s.waiting.has(e.member),
        s.counter[e.member] <= e.mark + s.grain + s.credit + e.passed,
        t.virtual_time == _larger(s.virtual_time, e.mark),
    )


@transition("FAIR-1")
def the_virtual_time_never_goes_back(s: Shares, t: Shares) -> Bool:
    return s.virtual_time <= t.virtual_time


@rule("FAIR-2", on=Pick)
def a_pick_is_charged(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """What is charged was committed, and U is the most that was charged or committed at a pick."""
    committed = s.committed[e.member] + e.commitment
    return (
        t.counter == s.counter.set(e.member, s.counter[e.member] + e.charge),
        t.committed == s.committed.set(e.member, committed),
        t.certificate == _larger(s.certificate, e.charge + committed + e.passed),
    )


@also("FAIR-2", on=Charge)
def service_is_charged(s: Shares, e: Charge, t: Shares) -> tuple[Bool, ...]:
    return (
        e.amount <= s.committed[e.member],
        t.counter == s.counter.set(e.member, s.counter[e.member] + e.amount),
        t.committed == s.committed.set(e.member, s.committed[e.member] - e.amount),
    )


@also("FAIR-2", on=LateCharge)
def late_service_is_charged(s: Shares, e: LateCharge, t: Shares) -> tuple[Bool, ...]:
    """It is committed no more, so U is larger by it."""
    return (
        t.counter == s.counter.set(e.member, s.counter[e.member] + e.amount),
        t.certificate == s.certificate + e.amount,
    )


@also("FAIR-2", on=Release)
def nothing_more_is_charged(s: Shares, e: Release, t: Shares) -> tuple[Bool, ...]:
    return (
        e.amount <= s.committed[e.member],
        t.committed == s.committed.set(e.member, s.committed[e.member] - e.amount),
    )


@invariant("FAIR-2")
def commitments_are_within_U(s: Shares) -> tuple[Bool, ...]:
    return (
        forall(Member, lambda m: (s.committed[m] >= 0) & (s.committed[m] <= s.certificate)),
        s.certificate >= 0,
    )


# --- FAIR-3, FAIR-4, FAIR-13: who comes back, and what comes back ------------------------------------------------


@rule("FAIR-3", on=Return)
def who_comes_back_is_lifted(s: Shares, e: Return, t: Shares) -> tuple[Bool, ...]:
    """Who comes back, a victim too, brings no credit but its burst, and keeps its debt: whoever waits is at the virtual
    time or above, but for its burst."""
    virtual_time = _larger(s.virtual_time, e.mark)
    lifted = _larger(s.counter[e.member], virtual_time - s.burst[e.member])
    return (
        ~s.waiting.has(e.member),
        t.virtual_time == virtual_time,
        t.counter == s.counter.set(e.member, lifted),
        t.waiting == s.waiting.add(e.member),
    )


@invariant("FAIR-3")
def nobody_who_waits_is_below(s: Shares) -> Bool:
    return forall(Member, lambda m: implies(s.waiting.has(m), s.virtual_time - s.burst[m] <= s.counter[m]))


@transition("FAIR-3")
def debt_is_kept(s: Shares, t: Shares) -> Bool:
    def returns(m: Member) -> Bool:
        return ~s.waiting.has(m) & t.waiting.has(m)

    return forall(Member, lambda m: implies(returns(m), s.counter[m] <= t.counter[m]))


@rule("FAIR-4", on=Pick)
def who_left_last_is_known(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """Who left the queue last says where the next one begins, and is no lower than whoever waited was."""
    return (
        t.waiting == ite(e.is_last, s.waiting.remove(e.member), s.waiting),
        t.last_left == ite(e.is_last, e.member, s.last_left),
        t.somebody_left == (s.somebody_left | e.is_last),
    )


@also("FAIR-4", on=Withdraw)
def who_withdraws_leaves(s: Shares, e: Withdraw, t: Shares) -> tuple[Bool, ...]:
    return (
        s.waiting.has(e.member),
        t.waiting == s.waiting.remove(e.member),
        t.last_left == e.member,
        t.somebody_left == _YES,
    )


@invariant("FAIR-4")
def who_left_last_is_not_below(s: Shares) -> tuple[Bool, ...]:
    nobody = s.waiting.is_empty()
    return (
        implies(nobody & s.somebody_left, s.virtual_time - s.burst[s.last_left] <= s.counter[s.last_left]),
        implies(nobody & ~s.somebody_left, s.virtual_time <= 0),
    )


@rule("FAIR-13", on=Refund)
def a_refund_is_no_credit(s: Shares, e: Refund, t: Shares) -> Bool:
    """A refund is what was paid too much, and takes no counter below the virtual time."""
    counter = s.counter[e.member]
    refunded = _larger(counter - e.amount, _smaller(counter, s.virtual_time))
    return t.counter == s.counter.set(e.member, refunded)


@transition("FAIR-13")
def nobody_is_refunded_below_the_virtual_time(s: Shares, t: Shares) -> Bool:
    return forall(Member, lambda m: (s.counter[m] <= t.counter[m]) | (s.virtual_time <= t.counter[m]))


# --- FAIR-7, FAIR-8: how far apart -------------------------------------------------------------------------------


@rule("FAIR-7", on=Open)
def counters_stay_together(s: Shares, e: Open, t: Shares) -> tuple[Bool, ...]:
    """Nobody is above the virtual time by more than U, the credit and the round, with all that is committed; so two who
    wait differ by at most that, and the burst of the lower one."""
    return (
        s.waiting.has(s.one) & s.waiting.has(s.other),
        t.open == _YES,
        t.apart == s.counter[s.one] - s.counter[s.other],
        t.ahead == 0,
    )


@invariant("FAIR-7")
def nobody_runs_away(s: Shares) -> tuple[Bool, ...]:
    def differ(a: Member, b: Member) -> Bool:
        return implies(s.waiting.has(a) & s.waiting.has(b), s.counter[a] - s.counter[b] <= _bound(s) + s.burst[b])

    return (
        forall(Member, lambda m: s.counter[m] + s.committed[m] <= s.virtual_time + _bound(s)),
        forall(Member, lambda a: forall(Member, lambda b: differ(a, b))),
    )


def _closes(s: Shares, member: Member) -> Bool:
    return (member == s.one) | (member == s.other)


def _further(s: Shares, member: Member, amount: Int) -> Int:
    return ite(member == s.one, s.ahead + amount, ite(member == s.other, s.ahead - amount, s.ahead))


@rule("FAIR-8", on=Pick)
def service_is_compared(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """Two that wait all through an interval differ in service by at most twice U, the credit and the round, and their
    bursts."""
    return (
        t.open == (s.open & ~(e.is_last & _closes(s, e.member))),
        t.ahead == _further(s, e.member, e.charge),
    )


@also("FAIR-8", on=Withdraw)
def an_interval_ends(s: Shares, e: Withdraw, t: Shares) -> Bool:
    return t.open == (s.open & ~_closes(s, e.member))


@also("FAIR-8", on=Charge)
def service_counts(s: Shares, e: Charge, t: Shares) -> Bool:
    return t.ahead == _further(s, e.member, e.amount)


@also("FAIR-8", on=LateCharge)
def late_service_counts(s: Shares, e: LateCharge, t: Shares) -> Bool:
    return t.ahead == _further(s, e.member, e.amount)


@also("FAIR-8", on=Refund)
def a_refund_counts(s: Shares, e: Refund, t: Shares) -> Bool:
    counter = s.counter[e.member]
    refunded = _larger(counter - e.amount, _smaller(counter, s.virtual_time))
    return t.ahead == _further(s, e.member, refunded - counter)


@invariant("FAIR-8")
def service_stays_together(s: Shares) -> tuple[Bool, ...]:
    bursts = s.burst[s.one] + s.burst[s.other]
    most = _bound(s) + _bound(s) + bursts
    return (
        implies(s.open, s.waiting.has(s.one) & s.waiting.has(s.other)),
        implies(s.open, s.counter[s.one] - s.counter[s.other] == s.apart + s.ahead),
        implies(s.open, s.apart <= _bound(s) + s.burst[s.other]),
        implies(s.open, s.apart + _bound(s) + s.burst[s.one] >= 0),
        implies(s.open, (s.ahead <= most) & (s.ahead + most >= 0)),
    )


# --- LIVE-3: a rank that falls -----------------------------------------------------------------------------------


def _behind(s: Shares) -> Int:
    """How far `one` is behind `other`, who is lifted when it comes back.  It falls with each pick of `other` that
    costs something, and only a charge of `one` or a refund of `other` raises it."""
    return s.counter[s.one] - _larger(s.counter[s.other], s.virtual_time - s.burst[s.other])


@rule("LIVE-3", on=Wait)
def turns_are_counted(s: Shares, e: Wait, t: Shares) -> tuple[Bool, ...]:
    """While a member waits and is not picked, how far it is behind another falls with each pick of that one; so it is
    overtaken at most 2(U + S) + burst + 1 times, and as often more as it is charged or the other one is refunded."""
    return (
        s.waiting.has(s.one),
        t.patient == _YES,
        t.start == _behind(s),
        t.turns == 0,
        t.excused == 0,
    )


@also("LIVE-3", on=Pick)
def a_turn(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    overtakes = (e.member == s.other) & (e.charge >= 1)
    return (
        t.patient == (s.patient & ~(e.member == s.one)),
        t.turns == ite(overtakes, s.turns + 1, s.turns),
    )


@also("LIVE-3", on=Withdraw)
def it_waits_no_more(s: Shares, e: Withdraw, t: Shares) -> Bool:
    return t.patient == (s.patient & ~(e.member == s.one))


@also("LIVE-3", on=Charge)
def its_own_service_excuses(s: Shares, e: Charge, t: Shares) -> Bool:
    return t.excused == ite(e.member == s.one, s.excused + e.amount, s.excused)


@also("LIVE-3", on=LateCharge)
def its_own_late_service_excuses(s: Shares, e: LateCharge, t: Shares) -> Bool:
    return t.excused == ite(e.member == s.one, s.excused + e.amount, s.excused)


@also("LIVE-3", on=Refund)
def a_refund_excuses(s: Shares, e: Refund, t: Shares) -> Bool:
    return t.excused == ite(e.member == s.other, s.excused + e.amount, s.excused)


@invariant("LIVE-3")
def turns_end(s: Shares) -> tuple[Bool, ...]:
    most = s.excused + _bound(s) + _bound(s) + s.burst[s.other] + 1
    return (
        implies(s.patient, s.waiting.has(s.one) & (s.excused >= 0)),
        implies(s.patient, _behind(s) + s.turns <= s.start + s.excused),
        implies(s.patient, s.start <= _bound(s) + s.burst[s.other]),
        implies(s.patient, s.turns <= most),
    )


# --- what is taken for granted -----------------------------------------------------------------------------------


def _parameters(s: Shares) -> tuple[Bool, ...]:
    return (s.credit >= 0, s.grain >= 0, forall(Member, lambda m: s.burst[m] >= 0), ~(s.one == s.other))


def _ground(s: Shares) -> Int:
    """The least counter of who waits; if nobody does, the counter of who left last."""
    return least(s.counter, s.waiting, ite(s.somebody_left, s.counter[s.last_left], s.virtual_time))


def _rounded(s: Shares, e: Return | Pick) -> tuple[Bool, ...]:
    """`mark` is the ground, rounded down to a multiple of the quantum where there is one."""
    return (e.mark <= _ground(s), _ground(s) <= e.mark + s.grain)


_BEFORE = Shares("state")


def _amount(e: Charge | LateCharge | Release | Refund) -> tuple[Bool, ...]:
    return (e.amount >= 0,)


def _pick(e: Pick) -> tuple[Bool, ...]:
    """Prices are no less than zero; what is passed over is measured from the least of all who wait."""
    return (e.charge >= 0, e.commitment >= 0, e.passed >= 0, *_rounded(_BEFORE, e))


# FAIR-8 to FAIR-10 have theorems in Coq of their own; what 3U and sums over shares need of lanes is not proved.
COUNTERS = Theory(
    registry,
    name="counters",
    bounds={"FAIR-7": ("FAIR-7",), "FAIR-8": ("FAIR-8", "FAIR-15", "FAIR-16"), "FAIR-13": ("FAIR-13",)},
    parts={
        "FAIR-1": ("FAIR-1", "FAIR-17", "LANE-5"),
        "FAIR-2": ("FAIR-2",),
        "FAIR-3": ("FAIR-3", "FAIR-5", "LANE-3"),
        "FAIR-4": ("FAIR-4",),
        "FAIR-7": ("FAIR-17", "LANE-1"),
        "FAIR-8": ("FAIR-10", "LANE-1", "LANE-3"),
        "LIVE-3": ("LIVE-3", "FAIR-17", "FAIR-18"),
    },
    parameters=_parameters(_BEFORE),
    scope={"Member": 3},
    events={
        "Return": _rounded(_BEFORE, Return("field")),
        "Pick": _pick(Pick("field")),
        "Charge": _amount(Charge("field")),
        "LateCharge": _amount(LateCharge("field")),
        "Release": _amount(Release("field")),
        "Refund": _amount(Refund("field")),
    },
)
