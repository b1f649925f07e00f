"""What steps, admissions and preemptions promise of a whole run."""

from schedspec.spec.relation import (
    ABSENT,
    RUNNING,
    WAITING,
    Admit,
    BeginStep,
    EndStep,
    Preempt,
    RequestId,
    Serve,
    Share,
    Take,
)
from schedspec.spec.terms import Bool, card, forall, implies, ite

from .watched import Watched, counted, larger, on, promise

# --- STEP-1, STEP-3 ------------------------------------------------------------------------------------------


@on("STEP-1", on=BeginStep)
def _empty(s: Watched, e: BeginStep, t: Watched) -> tuple[Bool, ...]:
    return (t.load == 0, t.chunks == 0, t.served == s.served.cleared())


@on("STEP-1", on=Serve)
def _entry(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    is_decode = s.goal[e.request] <= e.start
    return (t.load == s.load + e.tokens, t.chunks == ite(is_decode, s.chunks, s.chunks + e.tokens))


@on("STEP-1", on=EndStep)
def _weighed(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    return (
        t.largest == larger(s.load, s.largest),
        t.largest_mixed == ite(s.chunks == 0, s.largest_mixed, larger(s.load, s.largest_mixed)),
    )


@promise("STEP-1")
def _tokens_are_counted(s: Watched) -> tuple[Bool, ...]:
    return (s.chunks == s.prefill, s.load == s.prefill + s.decode, s.largest_mixed <= s.token_budget)


@promise("STEP-1", claims=("hard_budget",))
def _no_step_islarger(s: Watched) -> Bool:
    return s.largest <= s.token_budget


@on("STEP-3", on=Serve)
def _again(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    return (
        t.served == s.served.add(e.request),
        t.repeats == counted(s.served.has(e.request), s.repeats),
    )


@promise("STEP-3")
def _nobody_twice(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.served.has(r), s.served_in[r] == s.step)),
        forall(RequestId, lambda r: implies((s.step >= 1) & (s.served_in[r] == s.step), s.served.has(r))),
        s.repeats == 0,
    )


# --- KV-11 -----------------------------------------------------------------------------------------------------


@on("KV-11", on=Admit)
def _full(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.fullest == ite(s.running.is_empty(), s.fullest, larger(card(s.in_use), s.fullest))


@promise("KV-11")
def _the_reserve_is_there(s: Watched) -> Bool:
    return implies(s.fullest >= 1, s.fullest + s.watermark <= s.pool_blocks - card(s.aside))


# --- PRE-2, PRE-3 ------------------------------------------------------------------------------------------------


@on("PRE-2", on=Admit)
def _rank(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.rank == s.rank.set(e.request, e.victim_key)


@promise("PRE-2", claims=())
def _the_key_is_that_of_the_admission(s: Watched) -> Bool:
    return forall(RequestId, lambda r: s.victim_key[r] == s.rank[r])


def _nobody_stands_behind_the_victim(s: Watched, t: Watched) -> Bool:
    def fell(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (t.phase[r] == WAITING)

    def behind(r: RequestId) -> Bool:
        return forall(RequestId, lambda q: implies(s.running.has(q), s.rank[q] <= s.rank[r]))

    return forall(RequestId, lambda r: implies(fell(r), behind(r)))


for _rule_of_victims in ("newest_first", "lowest_priority"):
    promise("PRE-2", claims=(_rule_of_victims,), transition=True)(_nobody_stands_behind_the_victim)


@on("PRE-3", on=BeginStep)
def _mark(s: Watched, e: BeginStep, t: Watched) -> tuple[Bool, ...]:
    return (t.mark == card(s.in_use), t.acquired == 0)


@on("PRE-3", on=Take)
def _took(s: Watched, e: Take, t: Watched) -> Bool:
    return t.acquired == s.acquired + 1


@on("PRE-3", on=Share)
def _shared(s: Watched, e: Share, t: Watched) -> Bool:
    return t.acquired == ite(s.in_use.has(e.block), s.acquired, s.acquired + 1)


@on("PRE-3", on=Preempt)
def _preempted(s: Watched, e: Preempt, t: Watched) -> tuple[Bool, ...]:
    is_in_vain = ~e.for_itself & (s.mark + s.acquired <= card(s.in_use))
    return (
        t.mark == card(s.in_use),
        t.acquired == 0,
        t.vain == counted(is_in_vain, s.vain),
    )


@promise("PRE-3")
def _freed_blocks_are_out_of_use(s: Watched) -> tuple[Bool, ...]:
    return (s.freed == s.mark + s.acquired - card(s.in_use), s.vain == 0)


# --- STEP-1, KV-11: the largest is no less than any -------------------------------------------------------------


@on("STEP-1", on=EndStep)
def _one_more_step(s: Watched, e: EndStep, t: Watched) -> Bool:
    return t.ends == s.ends + 1


@promise("STEP-1")
def _sums_are_of_tokens(s: Watched) -> Bool:
    return (s.prefill >= 0) & (s.decode >= 0)


@promise("STEP-1", transition=True)
def _every_step_is_weighed(s: Watched, t: Watched) -> tuple[Bool, ...]:
    return (
        (s.ends <= t.ends) & (t.ends <= s.ends + 1),
        (s.largest <= t.largest) & (s.largest_mixed <= t.largest_mixed),
        implies(s.ends < t.ends, s.load <= t.largest),
        implies((s.ends < t.ends) & ~(s.chunks == 0), s.load <= t.largest_mixed),
    )


@promise("KV-11", transition=True)
def _every_admission_is_weighed(s: Watched, t: Watched) -> tuple[Bool, ...]:
    def admitted(r: RequestId) -> Bool:
        return (s.phase[r] == WAITING) & (t.phase[r] == RUNNING) & ~s.running.is_empty()

    return (
        s.fullest <= t.fullest,
        forall(RequestId, lambda r: implies(admitted(r), card(s.in_use) <= t.fullest)),
    )


# --- STEP-2, STEP-4, STEP-7, STEP-11 -----------------------------------------------------------------------------


@on("STEP-2", on=EndStep)
def _sat(s: Watched, e: EndStep, t: Watched) -> Bool:
    return t.fullest_batch == larger(card(s.running), s.fullest_batch)


@promise("STEP-2")
def _nobody_stood(s: Watched) -> Bool:
    return implies(s.fullest_batch >= 1, s.fullest_batch <= s.seats)


@promise("STEP-2", transition=True)
def _every_batch_is_counted(s: Watched, t: Watched) -> tuple[Bool, ...]:
    return (
        s.fullest_batch <= t.fullest_batch,
        implies(s.ends < t.ends, card(s.running) <= t.fullest_batch),
    )


@promise("STEP-4")
def _there_is_a_next_position(s: Watched) -> Bool:
    """Who runs has something to compute, be it a token that is in flight."""
    return forall(RequestId, lambda r: implies(s.running.has(r), s.issued[r] < s.known[r]))


@on("STEP-7", on=BeginStep)
def _nobody_fell_yet(s: Watched, e: BeginStep, t: Watched) -> Bool:
    return t.fallen == s.fallen.cleared()


@on("STEP-7", on=Preempt)
def _fell(s: Watched, e: Preempt, t: Watched) -> Bool:
    return t.fallen == s.fallen.add(e.request)


@promise("STEP-7")
def _who_fell_did_not_run(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.fallen.has(r), s.preempted_in[r] == s.step)),
        forall(RequestId, lambda r: implies((s.step >= 1) & (s.preempted_in[r] == s.step), s.fallen.has(r))),
        forall(RequestId, lambda r: implies(s.step >= 1, ~(s.fallen.has(r) & s.served.has(r)))),
    )


@on("STEP-11", on=Admit)
def _begun(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.begun == s.begun.set(e.request, e.cached)


@promise("STEP-11")
def _a_prompt_that_fits_is_whole(s: Watched) -> tuple[Bool, ...]:
    """Without chunks nobody is in the middle of one, save who has more to compute than a step holds."""

    def is_whole(r: RequestId) -> Bool:
        too_long = s.token_budget < s.goal[r] - s.begun[r]
        return s.chunked | (s.issued[r] == s.begun[r]) | (s.goal[r] <= s.issued[r]) | too_long

    return (
        forall(RequestId, lambda r: implies(s.running.has(r), s.begun[r] <= s.issued[r])),
        forall(RequestId, lambda r: implies(s.running.has(r), is_whole(r))),
    )


# --- KV-10 -------------------------------------------------------------------------------------------------------


@on("KV-10", on=Admit)
def _begins(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.entries == s.entries.set(e.request, 0)


@on("KV-10", on=Serve)
def _goes_on(s: Watched, e: Serve, t: Watched) -> Bool:
    return t.entries == s.entries.set(e.request, s.entries[e.request] + 1)


@on("KV-10", on=EndStep)
def _without_an_entry(s: Watched, e: EndStep, t: Watched) -> Bool:
    return t.unkept == s.unkept + card(s.unserved)


@promise("KV-10")
def _who_is_admitted_has_an_entry(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: (s.entries[r] >= 0) & (s.admitted_in[r] <= s.step)),
        forall(RequestId, lambda r: implies(s.unserved.has(r), s.entries[r] == 0)),
        forall(RequestId, lambda r: implies(s.running.has(r) & (s.entries[r] == 0), s.unserved.has(r))),
        s.unkept == 0,
    )


@promise("KV-10", transition=True)
def _an_entry_is_what_is_issued(s: Watched, t: Watched) -> Bool:
    def runs_on(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (t.phase[r] == RUNNING)

    def counted_once(r: RequestId) -> Bool:
        return t.entries[r] == counted(s.issued[r] < t.issued[r], s.entries[r])

    return forall(RequestId, lambda r: implies(runs_on(r), counted_once(r)))


# --- PRE-7 -------------------------------------------------------------------------------------------------------


@on("PRE-7", on=Preempt)
def _falls(s: Watched, e: Preempt, t: Watched) -> Bool:
    return t.falls == s.falls.set(e.request, s.falls[e.request] + 1)


@on("PRE-7", on=Admit)
def _rises(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.rises == s.rises.set(e.request, counted(e.resumed, s.rises[e.request]))


@promise("PRE-7")
def _who_fell_is_resumed_once(s: Watched) -> Bool:
    def balances(r: RequestId) -> Bool:
        lives = (s.phase[r] == WAITING) | (s.phase[r] == RUNNING)
        return implies(lives, s.falls[r] == counted(s.displaced.has(r), s.rises[r]))

    def nothing_yet(r: RequestId) -> Bool:
        return implies(s.phase[r] == ABSENT, (s.falls[r] == 0) & (s.rises[r] == 0))

    return forall(RequestId, lambda r: balances(r) & nothing_yet(r))


@promise("PRE-7", transition=True)
def _nobody_passes_a_victim(s: Watched, t: Watched) -> Bool:
    def admitted(r: RequestId) -> Bool:
        return (s.phase[r] == WAITING) & (t.phase[r] == RUNNING)

    def first(r: RequestId) -> Bool:
        return forall(RequestId, lambda q: implies(s.displaced.has(q), s.place[r] <= s.place[q]))

    return forall(RequestId, lambda r: implies(admitted(r), first(r)))
