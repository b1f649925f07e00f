"""Steps that sharing by counters must leave possible."""

from schedspec.spec.terms import Bool

from ..counters import Charge, LateCharge, Open, Pick, Refund, Release, Shares, Wait, Withdraw, registry
from .step import Steps

COUNTERS = Steps(registry)
step = COUNTERS.step


def _is_third(s: Shares, e: Pick | Charge | LateCharge | Refund | Withdraw) -> Bool:
    return ~(e.member == s.one) & ~(e.member == s.other)


@step(Pick)
def who_is_as_far_above_as_is_allowed_is_picked(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """Who is above the least by all of the round, the credit and what is passed over is picked, and pays."""
    return (
        s.counter[e.member] == e.mark + s.grain + s.credit + e.passed,
        (s.grain >= 1) & (s.credit >= 1) & (e.passed >= 1) & (e.charge >= 1),
    )


@step(Pick)
def the_last_request_of_a_third_is_picked(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """A third one has nothing that waits any more, and the two that are compared still wait."""
    return (
        _is_third(s, e) & e.is_last & ~t.waiting.has(e.member),
        s.open & t.open & s.patient & t.patient,
    )


@step(Pick)
def somebody_has_left_already(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """The first of two that are compared is picked and waits on; a third one left last, and still has."""
    return (
        s.somebody_left & t.somebody_left & ~e.is_last & ~(s.last_left == s.one) & ~(s.last_left == s.other),
        (t.last_left == s.last_left) & (e.member == s.one) & ~s.open & ~s.patient,
    )


@step(Pick)
def nobody_has_left_yet(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """One that waits on is picked, and nobody has left; it is compared with another, and still is."""
    return (~s.somebody_left & ~t.somebody_left & ~e.is_last, (e.member == s.one) & s.open & t.open)


@step(Pick)
def only_one_waits(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """The only one that waits is picked, and U is what it may cost."""
    cost = e.charge + s.committed[e.member] + e.commitment
    return (
        _is_third(s, e) & ~s.waiting.has(s.one) & ~s.waiting.has(s.other) & (e.passed == 0),
        (s.certificate >= 1) & (s.certificate < cost) & (t.certificate == cost),
    )


@step(Pick)
def one_is_overtaken(s: Shares, e: Pick, t: Shares) -> tuple[Bool, ...]:
    """The other is picked for the least that a request can cost, and counts as one turn."""
    return (s.patient & (e.member == s.other) & (e.charge == 1), t.turns == s.turns + 1)


@step(Charge)
def all_that_is_committed_is_charged(s: Shares, e: Charge, t: Shares) -> tuple[Bool, ...]:
    """A third one is charged all that it may still be charged, which excuses nobody."""
    return (
        _is_third(s, e) & (e.amount == s.committed[e.member]) & (e.amount >= 1),
        t.excused == s.excused,
    )


@step(LateCharge)
def a_third_is_charged_late(s: Shares, e: LateCharge, t: Shares) -> Bool:
    """What a third one is charged late excuses nobody."""
    return _is_third(s, e) & (e.amount >= 1) & (t.excused == s.excused)


@step(Release)
def all_that_is_committed_is_released(s: Shares, e: Release, t: Shares) -> Bool:
    """A request may end before any of it was charged."""
    return (e.amount == s.committed[e.member]) & (e.amount >= 1)


@step(Refund)
def a_third_is_refunded(s: Shares, e: Refund, t: Shares) -> Bool:
    """What a third one is given back excuses nobody."""
    return _is_third(s, e) & (e.amount >= 1) & (t.excused == s.excused)


@step(Withdraw)
def a_third_withdraws(s: Shares, e: Withdraw, t: Shares) -> tuple[Bool, ...]:
    """A third one withdraws, and the two that are compared still wait."""
    return (_is_third(s, e) & ~t.waiting.has(e.member), s.open & t.open & s.patient & t.patient)


@step(Withdraw)
def the_last_one_withdraws(s: Shares, e: Withdraw, t: Shares) -> Bool:
    """The only one that waits withdraws."""
    return _is_third(s, e) & ~s.waiting.has(s.one) & ~s.waiting.has(s.other)


@step(Open)
def an_interval_begins(s: Shares, e: Open, t: Shares) -> Bool:
    """Two that wait are compared from now on."""
    return t.open


@step(Wait)
def patience_begins(s: Shares, e: Wait, t: Shares) -> tuple[Bool, ...]:
    """One waits, and the other stands at the virtual time, within its burst."""
    burst = s.burst[s.other]
    return (
        t.patient & (t.turns == 0) & (t.excused == 0),
        (s.counter[s.other] == s.virtual_time) & (burst >= 1) & ~(s.counter[s.one] == s.virtual_time),
        t.start == s.counter[s.one] - s.counter[s.other],
    )
