"""LIFE: the request's life."""

from ..relation import (
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
    Engine,
    Late,
    Preempt,
    Refuse,
    RequestId,
    Spare,
    registry,
)
from ..terms import Bool, Int, forall, implies, ite

rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition


def may_end(before: Int, after: Int) -> Bool:
    """Waiting requests expire, fail or are cancelled; running ones finish, fail or are cancelled, and so do waiting
    ones whose last token was under way when they were preempted."""
    from_waiting = (after == EXPIRED) | (after == FAILED) | (after == CANCELLED) | (after == FINISHED)
    from_running = (after == FINISHED) | (after == FAILED) | (after == CANCELLED)
    return ((before == WAITING) & from_waiting) | ((before == RUNNING) & from_running)


# --- LIFE-2, LIFE-3 --------------------------------------------------------------------------------------


@rule("LIFE-2", on=Accept)
def who_enters_is_new(s: Engine, e: Accept, t: Engine) -> tuple[Bool, ...]:
    """A request moves only from the door to waiting or refused, from waiting to running or to an end, and from running
    back to waiting or to an end.

    Why: a request that is in two places is run twice or forgotten (vLLM-Ascend's second queue,
    https://github.com/vllm-project/vllm-ascend/pull/10699).
    """
    return (
        s.phase[e.request] == ABSENT,
        t.phase == s.phase.set(e.request, WAITING),
        t.prompt == s.prompt.set(e.request, e.prompt),
        t.output_limit == s.output_limit.set(e.request, e.max_output),
        t.known == s.known.set(e.request, e.prompt),
        t.place == s.place.set(e.request, e.place),
    )


@also("LIFE-2", on=Refuse)
def who_is_refused_is_new(s: Engine, e: Refuse, t: Engine) -> tuple[Bool, ...]:
    return (s.phase[e.request] == ABSENT, t.phase == s.phase.set(e.request, REFUSED))


@also("LIFE-2", on=Admit)
def who_is_admitted_waited(s: Engine, e: Admit, t: Engine) -> tuple[Bool, ...]:
    return (s.phase[e.request] == WAITING, t.phase == s.phase.set(e.request, RUNNING))


@also("LIFE-2", on=Preempt)
def who_is_preempted_ran(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    return (s.phase[e.request] == RUNNING, t.phase == s.phase.set(e.request, WAITING))


@also("LIFE-2", on=End)
def who_ends_may(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    return (may_end(s.phase[e.request], e.phase), t.phase == s.phase.set(e.request, e.phase))


@transition("LIFE-2")
def only_legal_moves(s: Engine, t: Engine) -> Bool:
    def legal(r: RequestId) -> Bool:
        before, after = s.phase[r], t.phase[r]
        return (
            (before == after)
            | ((before == ABSENT) & ((after == WAITING) | (after == REFUSED)))
            | ((before == WAITING) & (after == RUNNING))
            | ((before == RUNNING) & (after == WAITING))
            | may_end(before, after)
        )

    return forall(RequestId, legal)


@rule("LIFE-3", on=End, bugs=("B28", "B30"))
def one_end(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    """Exactly one terminal event per request, refusals included.

    Why: TensorRT-LLM ended a request in the response handler and again when its transfer completed
    (https://github.com/NVIDIA/TensorRT-LLM/pull/12816); SGLang dropped refusals on their way back
    (https://github.com/sgl-project/sglang/issues/33858).
    """
    return (
        s.terminal_events[e.request] == 0,
        t.terminal_events == s.terminal_events.set(e.request, s.terminal_events[e.request] + 1),
    )


@also("LIFE-3", on=Refuse)
def a_refusal_is_an_end(s: Engine, e: Refuse, t: Engine) -> tuple[Bool, ...]:
    return (
        s.terminal_events[e.request] == 0,
        t.terminal_events == s.terminal_events.set(e.request, s.terminal_events[e.request] + 1),
    )


@invariant("LIFE-3")
def ends_are_counted(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.phase[r] >= FIRST_TERMINAL, s.terminal_events[r] == 1)),
        forall(RequestId, lambda r: implies(s.phase[r] < FIRST_TERMINAL, s.terminal_events[r] == 0)),
    )


# --- LIFE-4, LIFE-7, LIFE-8: tokens ------------------------------------------------------------------------


@rule("LIFE-4", on=Deliver, bugs=("B54",), counts=(Deliver,))
def a_token_is_delivered_once(s: Engine, e: Deliver, t: Engine) -> tuple[Bool, ...]:
    """Output tokens are neither lost nor repeated, across preemption and overlap: each sampled token is delivered once,
    in order, in the call that brings it.

    Why: vLLM applied the output of a step launched before a preemption to counters that it had reset
    (https://github.com/vllm-project/vllm/pull/48245).
    """
    owed, spare = s.owed.has(e.request), s.spare.has(e.request)
    return (
        owed | spare | s.late.has(e.request),
        e.token == e.sampled,
        t.outputs == s.outputs.set(e.request, s.outputs[e.request] + 1),
        t.owed == s.owed.remove(e.request),
        t.spare == s.spare.remove(e.request),
    )


@also("LIFE-4", on=Computed)
def a_sampled_token_is_owed(s: Engine, e: Computed, t: Engine) -> Bool:
    return t.owed == ite(e.sampled == 1, s.owed.add(e.request), s.owed)


@also("LIFE-4", on=BeginComplete)
def spare_tokens_last_one_call(s: Engine, e: BeginComplete, t: Engine) -> Bool:
    return t.spare == s.spare.cleared()


@also("LIFE-4", on=Spare)
def a_spare_token_may_be_delivered(s: Engine, e: Spare, t: Engine) -> Bool:
    return t.spare == s.spare.add(e.request)


@also("LIFE-4", on=EndComplete)
def nothing_stays_owed(s: Engine, e: EndComplete, t: Engine) -> Bool:
    return s.owed.is_empty()


@also("LIFE-4", on=End)
def who_finishes_is_owed_nothing(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    return (
        implies(e.phase == FINISHED, ~s.owed.has(e.request)),
        t.owed == s.owed.remove(e.request),
    )


@invariant("LIFE-4")
def tokens_have_a_request(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.owed.has(r), (s.phase[r] == WAITING) | (s.phase[r] == RUNNING))),
        forall(RequestId, lambda r: implies(s.spare.has(r), ~(s.phase[r] == ABSENT))),
    )


@transition("LIFE-4")
def tokens_are_neither_lost_nor_repeated(s: Engine, t: Engine) -> tuple[Bool, ...]:
    def once(r: RequestId) -> Bool:
        settled = (s.owed.has(r) | s.spare.has(r)) & ~t.owed.has(r) & ~t.spare.has(r)
        return (t.outputs[r] == s.outputs[r]) | ((t.outputs[r] == s.outputs[r] + 1) & settled)

    def not_lost(r: RequestId) -> Bool:
        gone = s.owed.has(r) & ~t.owed.has(r)
        return implies(gone, (t.outputs[r] == s.outputs[r] + 1) | (t.phase[r] >= FIRST_TERMINAL))

    return (forall(RequestId, once), forall(RequestId, not_lost))


@rule("LIFE-5", on=EndComplete, counts=(End,))
def the_stopped_end_at_once(s: Engine, e: EndComplete, t: Engine) -> Bool:
    """A request ends in the iteration in which it stops, and not before.

    Why: a finished request that stays until the batch drains is what iteration-level scheduling was invented against
    (Orca, OSDI 2022, section 3.1).
    """
    return s.stopping.is_empty()


@also("LIFE-5", on=Computed)
def the_last_token_stops(s: Engine, e: Computed, t: Engine) -> Bool:
    last = e.stop | (s.outputs[e.request] + 1 == s.output_limit[e.request])
    return t.stopping == ite((e.sampled == 1) & last, s.stopping.add(e.request), s.stopping)


@also("LIFE-5", on=Spare)
def a_spare_token_may_be_the_last(s: Engine, e: Spare, t: Engine) -> Bool:
    return t.closing == ite(e.last, s.closing.add(e.request), s.closing.remove(e.request))


@also("LIFE-5", on=Deliver)
def a_last_spare_token_stops(s: Engine, e: Deliver, t: Engine) -> Bool:
    last = s.spare.has(e.request) & ~s.owed.has(e.request) & s.closing.has(e.request)
    return t.stopping == ite(last, s.stopping.add(e.request), s.stopping)


@also("LIFE-5", on=End)
def only_the_stopped_finish(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    return (
        implies(e.phase == FINISHED, s.stopping.has(e.request)),
        t.stopping == s.stopping.remove(e.request),
    )


@rule("LIFE-6", on=CancelReturned, bugs=("B32", "B34"), counts=(CancelReturned,))
def the_cancelled_ended(s: Engine, e: CancelReturned, t: Engine) -> Bool:
    """After cancel returns, the request has ended, holds nothing, and gets no more tokens.

    Why: SGLang-JAX's abort did not look at the request between two chunks of its prompt
    (https://github.com/sgl-project/sglang-jax/pull/984).
    """
    return s.phase[e.request] >= FIRST_TERMINAL


@also("LIFE-6", on=Deliver)
def the_dead_get_no_tokens(s: Engine, e: Deliver, t: Engine) -> Bool:
    return implies(s.phase[e.request] >= FIRST_TERMINAL, s.late.has(e.request))


@transition("LIFE-6")
def nothing_comes_after_the_end(s: Engine, t: Engine) -> Bool:
    return forall(RequestId, lambda r: implies(s.phase[r] >= FIRST_TERMINAL, t.outputs[r] == s.outputs[r]))


@rule("LIFE-7", on=Deliver, bugs=("B54",), counts=(Late,))
def late_tokens_are_dropped(s: Engine, e: Deliver, t: Engine) -> Bool:
    """A late or repeated result changes nothing.

    Why: a frame that comes back after a preemption or a cancel was applied twice, or to the wrong request
    (https://github.com/vllm-project/vllm/pull/47900).
    """
    return implies(s.late.has(e.request), s.owed.has(e.request) | s.spare.has(e.request))


@also("LIFE-7", on=End)
def late_results_end_nobody(s: Engine, e: End, t: Engine) -> Bool:
    return implies(s.late.has(e.request), ~(e.phase == FINISHED))


@also("LIFE-7", on=Late)
def a_result_comes_late(s: Engine, e: Late, t: Engine) -> Bool:
    return t.late == s.late.add(e.request)


@also("LIFE-7", on=BeginComplete)
def lateness_lasts_one_call(s: Engine, e: BeginComplete, t: Engine) -> Bool:
    return t.late == s.late.cleared()


@also("LIFE-7", on=EndComplete)
def a_repeated_result_changes_nothing(s: Engine, e: EndComplete, t: Engine) -> Bool:
    return implies(e.repeated, e.deltas == 0)


@invariant("LIFE-7")
def the_late_are_owed_nothing(s: Engine) -> Bool:
    return forall(RequestId, lambda r: implies(s.late.has(r), ~s.owed.has(r) & ~s.spare.has(r)))


@transition("LIFE-7")
def lateness_changes_nothing(s: Engine, t: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.late.has(r), t.outputs[r] == s.outputs[r])),
        forall(RequestId, lambda r: implies(s.late.has(r) & (t.phase[r] == FINISHED), s.phase[r] == FINISHED)),
    )


@rule("LIFE-8", on=Computed, needs="counters", claims=("overlap",), bugs=("B54",))
def placeholders_are_settled(s: Engine, e: Computed, t: Engine) -> tuple[Bool, ...]:
    """Placeholders for tokens in flight equal what is in flight.

    Why: zeroed at a preemption but drained by the late output, the count went below zero and the engine died
    (https://github.com/vllm-project/vllm/pull/48245). Counts are compared with the snapshot's.
    """
    return (
        e.sampled <= s.in_flight[e.request],
        t.in_flight == s.in_flight.set(e.request, s.in_flight[e.request] - e.sampled),
        t.computed == s.computed.set(e.request, e.end),
    )


@also("LIFE-8", on=Preempt)
def a_victim_awaits_nothing(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    return (
        t.known == s.known.set(e.request, s.known[e.request] - s.in_flight[e.request]),
        t.in_flight == s.in_flight.set(e.request, 0),
    )


@also("LIFE-8", on=Deliver)
def a_spare_token_becomes_known(s: Engine, e: Deliver, t: Engine) -> Bool:
    gain: Int = ite(s.spare.has(e.request) & ~s.owed.has(e.request), s.known[e.request] + 1, s.known[e.request])
    return t.known == s.known.set(e.request, gain)


@invariant("LIFE-8")
def known_is_accounted_for(s: Engine) -> tuple[Bool, ...]:
    def accounted(r: RequestId) -> Bool:
        live = (s.phase[r] == WAITING) | (s.phase[r] == RUNNING)
        owed: Int = ite(s.owed.has(r), s.outputs[r] + 1, s.outputs[r])
        return implies(live, s.known[r] == s.prompt[r] + owed + s.in_flight[r])

    return (
        forall(RequestId, accounted),
        forall(RequestId, lambda r: implies(s.phase[r] == ABSENT, (s.outputs[r] == 0) & (s.in_flight[r] == 0))),
        forall(RequestId, lambda r: s.in_flight[r] >= 0),
    )


# --- LIFE-9 ------------------------------------------------------------------------------------------------


@rule("LIFE-9", on=End, bugs=("B07",), counts=(Preempt,))
def only_the_hopeless_fail(s: Engine, e: End, t: Engine) -> tuple[Bool, ...]:
    """Exhaustion may pause or fail the request that cannot proceed, never one whose own demand fits.

    Why: llama.cpp ended every generation when the shared cache ran out
    (https://github.com/ggml-org/llama.cpp/issues/23652).
    """
    return (implies(e.phase == FAILED, ~e.fits_alone),)
