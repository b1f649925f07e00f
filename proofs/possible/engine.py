"""Steps that the relation must leave possible: to the last token, block and seat, and each way to come and go."""

from schedspec.spec.relation import (
    CANCELLED,
    EXPIRED,
    FAILED,
    FINISHED,
    REFUSED,
    RUNNING,
    WAITING,
    Accept,
    Admit,
    BeginStep,
    CancelReturned,
    Computed,
    Deliver,
    End,
    EndComplete,
    EndStep,
    Give,
    Grown,
    Index,
    Preempt,
    Refuse,
    Serve,
    Share,
    Take,
    Unindex,
)
from schedspec.spec.rules.door import BUDGET, KV_BLOCKS, MODEL, OTHER, OUTPUT, PROMPT
from schedspec.spec.terms import Bool, Int, card, least

from ..history import registry
from ..history.watched import Watched
from .step import Steps, all_of

ENGINE = Steps(registry)
step = ENGINE.step


# --- the door ----------------------------------------------------------------------------------------------------


@step(Accept)
def what_just_fits_is_let_in(s: Watched, e: Accept, t: Watched) -> tuple[Bool, ...]:
    """Who asks for all that there is, and not more, is let in."""
    return (
        ~s.chunked & (e.prompt == s.token_budget),
        (e.prompt == s.max_prompt) & (e.max_output == s.max_output) & (e.max_output >= 1),
        e.blocks_alone == s.usable_blocks,
    )


@step(Accept)
def the_whole_context_may_be_asked_for(s: Watched, e: Accept, t: Watched) -> tuple[Bool, ...]:
    """Prompt and output that are within their own limits may use up the context."""
    return (
        e.prompt + e.max_output == s.max_model,
        (e.prompt < s.max_prompt) & (e.max_output < s.max_output),
        ~s.chunked & (e.prompt == s.token_budget),
    )


@step(Accept)
def a_prompt_in_chunks_may_exceed_the_budget(s: Watched, e: Accept, t: Watched) -> tuple[Bool, ...]:
    """With chunks a prompt may be larger than a step."""
    return (s.chunked, s.token_budget < e.prompt)


def _fits_else(s: Watched, e: Refuse, but: int) -> Bool:
    """Everything is within its limit, save what the reason names: that is one too much."""

    def is_asked(reason: int, most: Int, asked: Int) -> Bool:
        return asked == most + 1 if reason == but else asked <= most

    return all_of(
        is_asked(KV_BLOCKS, s.usable_blocks, e.blocks_alone),
        is_asked(PROMPT, s.max_prompt, e.prompt),
        is_asked(OUTPUT, s.max_output, e.max_output),
        is_asked(MODEL, s.max_model, e.prompt + e.max_output),
        is_asked(BUDGET, s.token_budget, e.prompt + e.max_output - 1),
        ~s.chunked,
    )


def _refused(reason: int, word: str) -> None:
    def refused(s: Watched, e: Refuse, t: Watched) -> tuple[Bool, ...]:
        return (e.reason == reason, e.value == e.limit + 1, _fits_else(s, e, reason))

    refused.__name__ = f"one_too_much_of_{word}_is_refused"
    refused.__doc__ = f"Who asks for one too much of {word} alone may be refused for it."
    step(Refuse)(refused)


for _reason, _word in ((KV_BLOCKS, "blocks"), (PROMPT, "prompt"), (OUTPUT, "output"), (MODEL, "context")):
    _refused(_reason, _word)
_refused(BUDGET, "budget")


@step(Refuse)
def there_are_other_reasons(s: Watched, e: Refuse, t: Watched) -> tuple[Bool, ...]:
    """Who breaks every limit may be refused for something else, and is told the numbers or none."""
    too_much = (s.max_prompt < e.prompt) & (s.max_output < e.max_output) & (s.usable_blocks < e.blocks_alone)
    whole = e.prompt + e.max_output
    too_long = (s.max_model < whole) & (s.token_budget < whole - 1) & ~s.chunked
    return (e.reason == OTHER, e.limit < e.value, too_much & too_long)


@step(Refuse)
def what_fits_may_be_refused_too(s: Watched, e: Refuse, t: Watched) -> tuple[Bool, ...]:
    """Who breaks no limit may be refused for something else."""
    return (e.reason == OTHER, e.limit == e.value, _fits_else(s, e, OTHER))


# --- a step ------------------------------------------------------------------------------------------------------


@step(BeginStep)
def the_next_step_begins(s: Watched, e: BeginStep, t: Watched) -> Bool:
    """Steps follow each other by one."""
    return (s.step >= 1) & (e.step == s.step + 1)


def _in_step(s: Watched, e: Serve) -> Bool:
    """It ran and fell in the step before, not in this one."""
    r = e.request
    return (s.step >= 3) & (s.served_in[r] == s.step - 1) & (s.preempted_in[r] == s.step - 2)


@step(Serve)
def a_decode_fills_its_last_block(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """A decode takes the last position of its blocks, and is sampled."""
    r = e.request
    return (
        _in_step(s, e) & (s.goal[r] < e.start) & (e.samples == 1),
        (e.start + 1 == s.known[r]) & (e.start + 1 == s.room[r]),
        (s.prompt[r] == s.goal[r]) & (s.goal[r] >= 2) & (s.token_budget >= 2),
    )


@step(Serve)
def who_is_at_its_goal_decodes(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """The first decode starts where the prompt ends, after a recomputation too, and is no chunk."""
    r = e.request
    return (~s.chunked & (e.start == s.goal[r]) & (e.samples == 1), (s.prompt[r] < s.goal[r]) & (s.goal[r] >= 2))


@step(Serve)
def a_decode_may_have_more_to_catch_up(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """A decode that is behind what is known samples nothing."""
    r = e.request
    return (s.goal[r] <= e.start, e.start + 1 < s.known[r], e.samples == 0)


@step(Serve)
def a_chunk_may_be_cut_anywhere(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """A chunk in the middle of a prompt has some tokens and samples none."""
    r = e.request
    return (
        s.chunked & _in_step(s, e),
        (e.start >= 1) & (e.tokens >= 2) & (e.start + e.tokens < s.goal[r]),
        s.goal[r] - e.start <= s.token_budget,
        s.prompt[r] == s.goal[r],
    )


@step(Serve)
def a_chunk_may_have_one_token(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """A chunk may have one token, of a recomputation too."""
    r = e.request
    return (s.chunked, (e.start >= 1) & (e.tokens == 1) & (e.start + 1 < s.goal[r]), s.prompt[r] < s.goal[r])


@step(Serve)
def the_last_chunk_is_sampled(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """The last chunk, of a recomputation that had a prefix in the cache, ends at the goal and is sampled."""
    r = e.request
    return (
        s.chunked & (e.start >= 2) & (e.tokens >= 2) & (e.samples == 1),
        (e.start + e.tokens == s.goal[r]) & (s.goal[r] == s.known[r]),
        s.prompt[r] < s.goal[r],
    )


@step(Serve)
def the_last_chunk_may_be_behind(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """The last chunk of a recomputation samples nothing where more is known since, and no chunks are needed for it."""
    r = e.request
    return (~s.chunked, (e.start + e.tokens == s.goal[r]) & (s.goal[r] < s.known[r]) & (e.tokens < s.token_budget))


@step(Serve)
def a_whole_prompt_may_be_a_step(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """Without chunks a prompt that is as large as a step runs whole."""
    r = e.request
    is_whole = (e.start == 0) & (e.tokens == s.goal[r]) & (e.tokens >= 2) & (e.samples == 1)
    return (~s.chunked & (e.tokens == s.token_budget), is_whole)


@step(Serve)
def what_no_step_holds_is_cut(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    """Without chunks only what is larger than a step is cut: one token more is."""
    r = e.request
    left = s.goal[r] - e.start
    return (~s.chunked & (left == s.token_budget + 1), (e.tokens < left) & (s.prompt[r] < s.goal[r]))


@step(EndStep)
def a_step_may_use_everything(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    """A step may use its budget to the last token, and all seats; it is then the largest so far."""
    return (
        (s.prefill >= 1) & (s.decode >= 1) & (s.prefill + s.decode == s.token_budget) & (s.decode < s.prefill),
        (card(s.running) == s.seats) & (s.seats >= 2),
        (s.largest < t.largest) & (t.ends == s.ends + 1),
    )


@step(EndStep)
def a_step_may_leave_budget(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    """A mixed step may leave budget and seats, more of them than tokens, and be the largest of its kind."""
    return (
        (s.prefill >= 1) & (s.prefill + s.decode < s.token_budget) & (card(s.running) < s.seats),
        (s.largest_mixed < s.load) & (t.largest_mixed < s.token_budget),
        (t.fullest_batch < s.seats) & (s.token_budget < s.seats),
    )


@step(EndStep)
def a_step_may_be_smaller_than_others(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    """A mixed step may be smaller than one before it."""
    return (
        (s.prefill >= 1) & (s.load < s.largest_mixed) & (t.largest_mixed < s.token_budget),
        (card(s.running) < s.fullest_batch) & (t.fullest_batch < s.seats),
    )


@step(EndStep)
def a_step_may_have_decodes_alone(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    """A step may decode only; then there is no largest mixed one."""
    return ((s.prefill == 0) & (s.decode == s.token_budget), t.largest_mixed < s.token_budget)


@step(EndStep, claims=())
def decodes_alone_may_exceed_the_budget(s: Watched, e: EndStep, t: Watched) -> Bool:
    """Where no hard budget is claimed, decodes alone may exceed it."""
    return (s.prefill == 0) & (s.token_budget < s.decode)


# --- admission and preemption ------------------------------------------------------------------------------------


@step(Admit)
def whoever_is_alone_may_use_the_reserve(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """Where nobody runs, the watermark binds nobody; nothing need be in a cache."""
    available = card(s.free) + card(s.evictable)
    return (s.running.is_empty() & (available < s.watermark), ~e.resumed & (e.cached == 0))


@step(Admit)
def whoever_is_alone_may_leave_the_reserve(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """Where nobody runs, and nobody was displaced, the first one is admitted."""
    available = card(s.free) + card(s.evictable)
    return (s.running.is_empty() & s.displaced.is_empty() & (s.watermark < available),)


@step(Admit)
def the_reserve_may_be_just_left(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """Beside somebody who runs the watermark must be left, and no more; all but one token may be cached."""
    return (
        ~s.running.is_empty() & (s.watermark == card(s.free) + card(s.evictable)),
        ~s.free.is_empty() & ~s.evictable.is_empty(),
        (e.cached + 1 == s.known[e.request]) & (e.cached == s.room[e.request]) & (e.cached >= 1),
    )


@step(Admit)
def a_victim_resumes_before_others(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """The first of several victims is resumed; its reserve is remembered where it is the largest."""
    r = e.request
    return (
        e.resumed & s.displaced.has(r) & (card(s.displaced) == 2),
        (s.reserved[r] < e.reserve) & (e.reserve < s.high[r]) & (t.reserved[r] == e.reserve),
    )


@step(Admit)
def a_smaller_reserve_is_no_other(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """A reserve that is smaller than one before changes nothing."""
    r = e.request
    return ((e.reserve < s.reserved[r]) & (s.reserved[r] < s.high[r]), t.reserved[r] == s.reserved[r])


def _had_much(s: Watched, e: Preempt) -> Bool:
    """Everything of it is more than nothing, save what it holds."""
    r = e.request
    return all_of(
        (s.issued[r] >= 5) & (s.computed[r] >= 4) & (s.known[r] >= 6) & (s.goal[r] >= 1) & (s.covered[r] >= 1),
        (s.in_flight[r] == 1) & (s.outputs[r] >= 1) & (s.prompt[r] >= 1) & (s.high[r] >= 1) & (s.place[r] >= 1),
        (s.step >= 5) & (s.served_in[r] == s.step - 1) & (s.admitted_in[r] == s.step - 2),
        (s.preempted_in[r] == s.step - 3) & (s.victim_key[r] >= 1) & (s.output_limit[r] >= 1),
    )


@step(Preempt)
def the_newest_makes_room_for_another(s: Watched, e: Preempt, t: Watched) -> tuple[Bool, ...]:
    """The newest of two gives way to the other, and one block is enough to be worth it."""
    is_newer = least(s.victim_key, s.running, 0) < s.victim_key[e.request]
    return (_had_much(s, e) & ~e.for_itself & (s.freed == 1), (card(s.running) == 2) & is_newer)


@step(Preempt)
def who_is_in_its_own_way_may_free_nothing(s: Watched, e: Preempt, t: Watched) -> Bool:
    """Who is alone is preempted for itself, even if that frees nothing."""
    return e.for_itself & (s.freed == 0) & (card(s.running) == 1)


@step(Preempt)
def who_is_in_its_own_way_may_free_blocks(s: Watched, e: Preempt, t: Watched) -> Bool:
    """Who is preempted for itself may free blocks."""
    return e.for_itself & (s.freed >= 1)


# --- results -----------------------------------------------------------------------------------------------------


@step(Computed)
def the_token_in_flight_comes_back(s: Watched, e: Computed, t: Watched) -> Bool:
    """The only token that is under way comes back."""
    return (e.sampled == 1) & (s.in_flight[e.request] == 1)


@step(Computed)
def a_chunk_comes_back(s: Watched, e: Computed, t: Watched) -> Bool:
    """A chunk comes back while nothing is in flight."""
    return (e.sampled == 0) & (s.in_flight[e.request] == 0)


@step(Deliver)
def a_token_that_is_owed_is_delivered(s: Watched, e: Deliver, t: Watched) -> Bool:
    """Who runs gets the token that came back."""
    r = e.request
    return s.owed.has(r) & ~s.spare.has(r) & (s.phase[r] == RUNNING)


@step(Deliver)
def a_spare_token_is_delivered(s: Watched, e: Deliver, t: Watched) -> Bool:
    """A victim gets the token that was under way."""
    r = e.request
    return ~s.owed.has(r) & s.spare.has(r) & (s.phase[r] == WAITING)


@step(EndComplete)
def repeated_results_change_nothing(s: Watched, e: EndComplete, t: Watched) -> Bool:
    """The same results may come again."""
    return e.repeated & (e.deltas == 0)


@step(EndComplete)
def results_may_change_nothing(s: Watched, e: EndComplete, t: Watched) -> Bool:
    """Results that come for the first time may change nothing."""
    return ~e.repeated & (e.deltas == 0)


# --- ends --------------------------------------------------------------------------------------------------------


def _ends(before: int, after: int, sentence: str) -> None:
    def ends(s: Watched, e: End, t: Watched) -> tuple[Bool, ...]:
        r = e.request
        alone = e.fits_alone if after != FAILED else ~e.fits_alone
        stops = s.stopping.has(r) if after == FINISHED else ~s.stopping.has(r)
        return (
            (s.phase[r] == before) & (e.phase == after) & alone & stops,
            ~s.owed.has(r) & ~s.late.has(r) & (s.outputs[r] >= 2) & (s.in_flight[r] == 0),
        )

    ends.__name__ = sentence.lower().replace(" ", "_")
    ends.__doc__ = sentence + "."
    step(End)(ends)


_ends(WAITING, EXPIRED, "Who waits may expire")
_ends(WAITING, FAILED, "Who waits and never fits may fail")
_ends(WAITING, CANCELLED, "Who waits may be cancelled")
_ends(WAITING, FINISHED, "Who waits may have got its last token")
_ends(RUNNING, FINISHED, "Who runs may finish")
_ends(RUNNING, FAILED, "Who runs and never fits may fail")
_ends(RUNNING, CANCELLED, "Who runs may be cancelled")


@step(End)
def cancelled_in_the_middle_of_everything(s: Watched, e: End, t: Watched) -> tuple[Bool, ...]:
    """Who is owed its last token may be cancelled, even if it would never fit."""
    r = e.request
    return ((e.phase == CANCELLED) & s.owed.has(r), s.stopping.has(r) & ~e.fits_alone)


@step(End)
def cancelled_with_a_late_result(s: Watched, e: End, t: Watched) -> Bool:
    """A late result keeps nobody from being cancelled."""
    return (e.phase == CANCELLED) & s.late.has(e.request)


@step(CancelReturned)
def a_cancel_of_who_was_refused_returns(s: Watched, e: CancelReturned, t: Watched) -> Bool:
    """Who was refused may be cancelled all the same, and is remembered."""
    return (s.phase[e.request] == REFUSED) & t.cancelled.has(e.request)


# --- blocks ------------------------------------------------------------------------------------------------------


@step(Take)
def who_waits_takes_its_first_block(s: Watched, e: Take, t: Watched) -> tuple[Bool, ...]:
    """Who waits takes a block that was free, whatever was in it."""
    r = e.request
    return ((s.phase[r] == WAITING) & (s.room[r] == 0), s.free.has(e.block) & s.sealed.has(e.block))


@step(Take)
def who_runs_takes_another_block(s: Watched, e: Take, t: Watched) -> tuple[Bool, ...]:
    """Who runs takes one block more."""
    r = e.request
    return ((s.phase[r] == RUNNING) & (s.room[r] == s.block_size), s.free.has(e.block))


@step(Take, claims=())
def a_block_may_be_evicted_at_once(s: Watched, e: Take, t: Watched) -> Bool:
    """Where no prefix cache is claimed, an evictable block may be taken as it is."""
    return s.evictable.has(e.block)


def _shares(s: Watched, e: Share, phase: int) -> Bool:
    return (s.phase[e.request] == phase) & (s.room[e.request] == 0)


@step(Share)
def a_block_in_use_is_shared(s: Watched, e: Share, t: Watched) -> Bool:
    """Who waits shares a block that somebody else holds."""
    return _shares(s, e, WAITING) & s.in_use.has(e.block)


@step(Share)
def a_cached_block_is_revived(s: Watched, e: Share, t: Watched) -> Bool:
    """Who waits takes over a block that nobody holds."""
    return _shares(s, e, WAITING) & s.evictable.has(e.block)


@step(Share)
def who_runs_may_share(s: Watched, e: Share, t: Watched) -> Bool:
    """Who runs may share a block."""
    return _shares(s, e, RUNNING) & s.in_use.has(e.block)


@step(Give)
def one_of_two_holders_gives(s: Watched, e: Give, t: Watched) -> Bool:
    """One of two holders gives a block back."""
    return s.refs[e.block] == 2


@step(Index)
def a_block_is_named_as_soon_as_it_is_full(s: Watched, e: Index, t: Watched) -> tuple[Bool, ...]:
    """A block that is just full is named, whatever it held before."""
    r, b = e.request, e.block
    return (
        ~s.sealed.has(b) & ~(s.content[b] == s.prefix[r][s.base[b]]),
        (s.base[b] + s.block_size == s.known[r] - s.in_flight[r]) & (s.in_flight[r] == 1),
    )


@step(Index)
def a_block_may_hold_its_content_by_chance(s: Watched, e: Index, t: Watched) -> Bool:
    """A block may hold by chance what it is named for."""
    return ~s.sealed.has(e.block) & (s.content[e.block] == s.prefix[e.request][s.base[e.block]])


@step(Index)
def a_block_may_be_named_again(s: Watched, e: Index, t: Watched) -> Bool:
    """A block that was forgotten while it is held is named again."""
    return s.sealed.has(e.block) & ~s.indexed.has(e.block)


@step(Unindex)
def a_block_in_use_is_forgotten(s: Watched, e: Unindex, t: Watched) -> Bool:
    """The index may forget a block that somebody holds."""
    return s.in_use.has(e.block)


@step(Grown)
def who_runs_may_look_ahead(s: Watched, e: Grown, t: Watched) -> tuple[Bool, ...]:
    """Who runs may hold one block more than it needs, and what it looks ahead."""
    r = e.request
    return (
        (s.phase[r] == RUNNING) & (s.lookahead >= 1) & (s.room[r] == 2 * s.block_size),
        s.room[r] + 1 == s.high[r] + s.block_size + s.lookahead,
    )


@step(Grown)
def who_got_nothing_waits(s: Watched, e: Grown, t: Watched) -> Bool:
    """Who took blocks and gave them back waits."""
    return (s.phase[e.request] == WAITING) & s.held[e.request].is_empty()
