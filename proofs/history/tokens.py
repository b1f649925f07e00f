"""LIFE: what happens to a request, its tokens and their results, over a whole run."""

from schedspec.spec.relation import (
    ABSENT,
    CANCELLED,
    EXPIRED,
    FAILED,
    FINISHED,
    FIRST_TERMINAL,
    REFUSED,
    RUNNING,
    WAITING,
    Accept,
    Admit,
    BeginComplete,
    CancelReturned,
    Computed,
    Deliver,
    End,
    EndComplete,
    Late,
    Preempt,
    RequestId,
    Spare,
)
from schedspec.spec.terms import Bool, card, forall, implies, ite

from .watched import Watched, counted, on, promise


def _lives(s: Watched, r: RequestId) -> Bool:
    return (s.phase[r] == WAITING) | (s.phase[r] == RUNNING)


# --- LIFE-2 ------------------------------------------------------------------------------------------------------


@on("LIFE-2", on=Accept)
def _is_given_a_place(s: Watched, e: Accept, t: Watched) -> Bool:
    return t.given_place == s.given_place.set(e.request, e.place)


@promise("LIFE-2")
def _the_place_is_kept(s: Watched) -> Bool:
    return forall(RequestId, lambda r: s.place[r] == s.given_place[r])


@promise("LIFE-2")
def _everybody_is_somewhere(s: Watched) -> Bool:
    """Nobody parks, is swapped, transferred or converted: no event leads there."""

    def ended(r: RequestId) -> Bool:
        refused_or_done = (s.phase[r] == REFUSED) | (s.phase[r] == FINISHED) | (s.phase[r] == FAILED)
        return refused_or_done | (s.phase[r] == CANCELLED) | (s.phase[r] == EXPIRED)

    return forall(RequestId, lambda r: (s.phase[r] == ABSENT) | _lives(s, r) | ended(r))


# --- LIFE-4 ------------------------------------------------------------------------------------------------------


@on("LIFE-4", on=Computed)
def _gains(s: Watched, e: Computed, t: Watched) -> Bool:
    return t.gained == s.gained.set(e.request, s.gained[e.request] + e.sampled)


@on("LIFE-4", on=BeginComplete)
def _nothing_brought_yet(s: Watched, e: BeginComplete, t: Watched) -> tuple[Bool, ...]:
    return (t.brought == s.brought.cleared(), t.heard == s.heard.cleared())


@on("LIFE-4", on=Spare)
def _brings(s: Watched, e: Spare, t: Watched) -> tuple[Bool, ...]:
    return (t.brought == s.brought.add(e.request), t.heard == s.heard.remove(e.request))


@on("LIFE-4", on=Deliver)
def _hears(s: Watched, e: Deliver, t: Watched) -> tuple[Bool, ...]:
    r = e.request
    return (
        t.gained == s.gained.set(r, counted(~s.owed.has(r), s.gained[r])),
        t.heard == s.heard.add(r),
        t.told == s.told + e.token,
        t.meant == s.meant + e.sampled,
    )


@on("LIFE-4", on=EndComplete)
def _owes(s: Watched, e: EndComplete, t: Watched) -> Bool:
    return t.unpaid == s.unpaid + card(s.owed)


@promise("LIFE-4")
def _what_came_back_was_delivered(s: Watched) -> tuple[Bool, ...]:
    """Who lives is owed the difference, and who finished got everything."""

    def accounted(r: RequestId) -> Bool:
        owed = counted(s.owed.has(r), s.outputs[r])
        return implies((s.phase[r] == ABSENT) | _lives(s, r), s.gained[r] == owed)

    return (
        s.told == s.meant,
        forall(RequestId, accounted),
        forall(RequestId, lambda r: implies(s.phase[r] == FINISHED, s.gained[r] == s.outputs[r])),
        forall(RequestId, lambda r: s.spare.has(r) == (s.brought.has(r) & ~s.heard.has(r))),
        s.unpaid == 0,
    )


# --- LIFE-5 ------------------------------------------------------------------------------------------------------


@on("LIFE-5", on=Computed)
def _completes(s: Watched, e: Computed, t: Watched) -> Bool:
    r = e.request
    goes_on = (e.sampled == 0) | (~e.stop & ~(s.outputs[r] + e.sampled == s.output_limit[r]))
    return t.complete == ite(goes_on, s.complete, s.complete.add(r))


@on("LIFE-5", on=Spare)
def _may_complete(s: Watched, e: Spare, t: Watched) -> Bool:
    return t.last_spare == s.last_spare.set(e.request, e.last)


@on("LIFE-5", on=Deliver)
def _completes_late(s: Watched, e: Deliver, t: Watched) -> Bool:
    r = e.request
    goes_on = s.owed.has(r) | ~s.spare.has(r) | ~s.last_spare[r]
    return t.complete == ite(goes_on, s.complete, s.complete.add(r))


@on("LIFE-5", on=EndComplete)
def _lingers(s: Watched, e: EndComplete, t: Watched) -> Bool:
    return t.lingering == s.lingering + card(s.stopping)


@promise("LIFE-5")
def _who_is_complete_ends_and_nobody_else_finishes(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: s.closing.has(r) == s.last_spare[r]),
        forall(RequestId, lambda r: implies(_lives(s, r), s.stopping.has(r) == s.complete.has(r))),
        forall(RequestId, lambda r: implies(~_lives(s, r), ~s.stopping.has(r))),
        forall(RequestId, lambda r: implies(s.phase[r] == ABSENT, ~s.complete.has(r))),
        forall(RequestId, lambda r: implies(s.phase[r] == FINISHED, s.complete.has(r))),
        s.lingering == 0,
    )


# --- LIFE-6, LIFE-9 ----------------------------------------------------------------------------------------------


@on("LIFE-6", on=CancelReturned)
def _is_cancelled(s: Watched, e: CancelReturned, t: Watched) -> Bool:
    return t.cancelled == s.cancelled.add(e.request)


@promise("LIFE-6")
def _who_was_cancelled_has_ended(s: Watched) -> Bool:
    return forall(RequestId, lambda r: implies(s.cancelled.has(r), s.phase[r] >= FIRST_TERMINAL))


@on("LIFE-9", on=End)
def _fits(s: Watched, e: End, t: Watched) -> Bool:
    return t.fitted == s.fitted.set(e.request, e.fits_alone)


@promise("LIFE-9")
def _who_failed_did_not_fit(s: Watched) -> Bool:
    return forall(RequestId, lambda r: implies(s.phase[r] == FAILED, ~s.fitted[r]))


# --- LIFE-7, LIFE-8 ----------------------------------------------------------------------------------------------


@on("LIFE-7", on=BeginComplete)
def _calls(s: Watched, e: BeginComplete, t: Watched) -> Bool:
    return t.calls == s.calls + 1


@on("LIFE-7", on=Late)
def _comes_late(s: Watched, e: Late, t: Watched) -> Bool:
    return t.late_in == s.late_in.set(e.request, s.calls + 1)


@on("LIFE-7", on=EndComplete)
def _changes_again(s: Watched, e: EndComplete, t: Watched) -> Bool:
    return t.changed_again == ite(e.repeated, s.changed_again + e.deltas, s.changed_again)


@promise("LIFE-7")
def _lateness_is_of_one_call(s: Watched) -> tuple[Bool, ...]:
    return (
        s.calls >= 0,
        forall(RequestId, lambda r: s.late_in[r] <= s.calls + 1),
        forall(RequestId, lambda r: s.late.has(r) == (s.late_in[r] == s.calls + 1)),
        s.changed_again == 0,
    )


@promise("LIFE-7", transition=True)
def _calls_follow_each_other(s: Watched, t: Watched) -> Bool:
    return (s.calls <= t.calls) & (t.calls <= s.calls + 1)


@on("LIFE-8", on=Computed)
def _reaches(s: Watched, e: Computed, t: Watched) -> Bool:
    return t.reached == s.reached.set(e.request, e.end)


@on("LIFE-8", on=Admit)
def _reaches_what_was_cached(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.reached == s.reached.set(e.request, e.cached)


@on("LIFE-8", on=Preempt)
def _starts_over(s: Watched, e: Preempt, t: Watched) -> Bool:
    return t.reached == s.reached.set(e.request, 0)


@promise("LIFE-8")
def _computed_is_what_came_back(s: Watched) -> Bool:
    return forall(RequestId, lambda r: s.computed[r] == s.reached[r])
