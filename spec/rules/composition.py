"""STEP: composition of one iteration."""

from ..relation import (
    RUNNING,
    Admit,
    BeginStep,
    End,
    EndStep,
    Engine,
    Preempt,
    RequestId,
    Serve,
    registry,
)
from ..terms import Bool, Int, card, forall, implies, ite

rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition


@rule("STEP-1", on=EndStep, bugs=("B17", "B18"))
def prefill_takes_what_decodes_leave(s: Engine, e: EndStep, t: Engine) -> Bool:
    """Prefill tokens of a step stay within the token budget less its decode tokens and drafts; if a hard budget is
    claimed, so do all tokens.

    Why: vLLM V0 took all decodes without asking the budget (https://github.com/vllm-project/vllm/pull/7391);
    TensorRT-LLM launched 6,986 tokens against 4,096 (https://github.com/NVIDIA/TensorRT-LLM/issues/13318).
    """
    return implies(~(s.prefill == 0), s.prefill + s.decode <= s.token_budget)


@also("STEP-1", on=EndStep, claims=("hard_budget",))
def a_hard_budget_binds_decodes(s: Engine, e: EndStep, t: Engine) -> Bool:
    return s.prefill + s.decode <= s.token_budget


@also("STEP-1", on=BeginStep)
def a_step_starts_empty(s: Engine, e: BeginStep, t: Engine) -> tuple[Bool, ...]:
    return (t.prefill == 0, t.decode == 0)


@also("STEP-1", on=Serve)
def entries_are_summed(s: Engine, e: Serve, t: Engine) -> tuple[Bool, ...]:
    is_prefill = e.start < s.goal[e.request]
    return (
        t.prefill == ite(is_prefill, s.prefill + e.tokens, s.prefill),
        t.decode == ite(is_prefill, s.decode, s.decode + e.tokens),
    )


@rule("STEP-2", on=EndStep, counts=(Admit,))
def seats_hold(s: Engine, e: EndStep, t: Engine) -> Bool:
    """Requests in the running set are at most the seats.

    Why: the captured graphs and the worker's buffers end there (vLLM, `max_num_seqs`; Orca's batch limit, OSDI 2022,
    section 4.2).
    """
    return card(s.running) <= s.seats


@also("STEP-2", on=Admit)
def the_admitted_sit(s: Engine, e: Admit, t: Engine) -> Bool:
    return t.running == s.running.add(e.request)


@also("STEP-2", on=Preempt)
def a_victim_stands_up(s: Engine, e: Preempt, t: Engine) -> Bool:
    return t.running == s.running.remove(e.request)


@also("STEP-2", on=End)
def who_ends_stands_up(s: Engine, e: End, t: Engine) -> Bool:
    return t.running == s.running.remove(e.request)


@invariant("STEP-2")
def the_seated_run(s: Engine) -> Bool:
    return forall(RequestId, lambda r: (s.phase[r] == RUNNING) == s.running.has(r))


@rule("STEP-3", on=Serve)
def once_in_a_step(s: Engine, e: Serve, t: Engine) -> tuple[Bool, ...]:
    """A request is at most once in a step.

    Why: the second entry overwrites the first one's row in the worker's batch (vLLM indexes scheduled tokens by
    request).
    """
    return (
        ~(s.served_in[e.request] == s.step),
        t.served_in == s.served_in.set(e.request, s.step),
    )


@also("STEP-3", on=BeginStep)
def steps_are_numbered(s: Engine, e: BeginStep, t: Engine) -> tuple[Bool, ...]:
    return (s.step < e.step, t.step == e.step)


@invariant("STEP-3")
def no_stamp_is_ahead(s: Engine) -> Bool:
    return forall(RequestId, lambda r: (s.served_in[r] <= s.step) & (s.preempted_in[r] <= s.step))


@transition("STEP-3")
def a_step_starts_with_nobody_served(s: Engine, t: Engine) -> Bool:
    return forall(RequestId, lambda r: (s.step == t.step) | ~(t.served_in[r] == t.step))


@rule("STEP-4", on=Serve, bugs=("B39",))
def a_range_follows_on(s: Engine, e: Serve, t: Engine) -> tuple[Bool, ...]:
    """A scheduled range starts where issued ends, is not empty, and ends within what is known, placeholders of
    tokens in flight included.

    Why: sized before the prefix lookup, a range ran past the end of the sequence (nano-vLLM,
    https://github.com/GeeeekExplorer/nano-vllm/pull/207).
    """
    end = e.start + e.tokens
    return (
        e.start == s.issued[e.request],
        e.tokens >= 1,
        end <= s.known[e.request],
        t.issued == s.issued.set(e.request, end),
    )


@invariant("STEP-4")
def positions_are_ordered(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: s.issued[r] >= 0),
        forall(RequestId, lambda r: implies(s.running.has(r), s.computed[r] <= s.issued[r])),
        forall(RequestId, lambda r: implies(s.running.has(r), s.issued[r] <= s.known[r])),
    )


@rule("STEP-5", on=Serve)
def only_residents_run(s: Engine, e: Serve, t: Engine) -> Bool:
    """Only live, resident requests are scheduled.

    Why: a victim that stays in the batch runs on blocks that are somebody else's by then
    (https://github.com/vllm-project/vllm/issues/23347).
    """
    return s.phase[e.request] == RUNNING


@transition("STEP-5")
def only_residents_advance(s: Engine, t: Engine) -> Bool:
    return forall(RequestId, lambda r: implies(s.issued[r] < t.issued[r], t.phase[r] == RUNNING))


@rule("STEP-6", on=Serve, bugs=("B56",))
def a_sample_ends_what_is_known(s: Engine, e: Serve, t: Engine) -> tuple[Bool, ...]:
    """Outside recompute, prefill is complete before the first sampled token; then one token a step, and the drafts
    behind it, of requests in the step alone and at most draft_tokens of each. An entry samples exactly when it reaches
    the end of what is known.

    Why: a token sampled in the middle of a prompt is noise in the client's stream; two in one step need a draft that
    somebody verified (https://github.com/vllm-project/vllm/pull/28558).
    """
    reaches = e.start + e.tokens == s.known[e.request]
    return (
        implies(reaches, e.samples == 1),
        implies(~reaches, e.samples == 0),
        implies(s.goal[e.request] <= e.start, e.tokens == 1),
        t.known == s.known.set(e.request, s.known[e.request] + e.samples),
        t.in_flight == s.in_flight.set(e.request, s.in_flight[e.request] + e.samples),
    )


@transition("STEP-6")
def one_token_at_the_end(s: Engine, t: Engine) -> tuple[Bool, ...]:
    def advances(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (s.issued[r] < t.issued[r])

    def samples(r: RequestId) -> Bool:
        reaches: Int = ite(t.issued[r] == s.known[r], s.in_flight[r] + 1, s.in_flight[r])
        return implies(advances(r), t.in_flight[r] == reaches)

    def decodes(r: RequestId) -> Bool:
        return implies(advances(r) & (s.goal[r] <= s.issued[r]), t.issued[r] == s.issued[r] + 1)

    return (forall(RequestId, samples), forall(RequestId, decodes))


@rule("STEP-7", on=Serve, bugs=("B21", "B56"), counts=(Preempt,))
def no_victim_runs(s: Engine, e: Serve, t: Engine) -> Bool:
    """No request is both preempted and in the step, be it with drafts alone.

    Why: vLLM freed a victim's blocks and left it in the scheduled list
    (https://github.com/vllm-project/vllm/issues/23347).
    """
    return ~(s.preempted_in[e.request] == s.step)


@also("STEP-7", on=Preempt)
def nobody_who_ran_is_a_victim(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    return (
        ~(s.served_in[e.request] == s.step),
        t.preempted_in == s.preempted_in.set(e.request, s.step),
    )


@invariant("STEP-7")
def nobody_is_both(s: Engine) -> Bool:
    return forall(
        RequestId,
        lambda r: implies(s.step >= 1, ~((s.served_in[r] == s.step) & (s.preempted_in[r] == s.step))),
    )


@rule("STEP-11", on=Serve)
def chunks_add_up(s: Engine, e: Serve, t: Engine) -> tuple[Bool, ...]:
    """The chunks of a prompt are in order, and with the cached prefix sum to the known length at its
    (re)admission.

    Why: a chunk left out is KV that attention reads and nobody wrote (Sarathi-Serve, OSDI 2024, section 4.1).
    """
    start, goal, covered = e.start, s.goal[e.request], s.covered[e.request]
    return (
        implies(start < goal, start + e.tokens <= goal),
        implies((start < goal) & (start + e.tokens == s.known[e.request]), covered + e.tokens == goal),
        t.covered == s.covered.set(e.request, ite(start < goal, covered + e.tokens, covered)),
    )


def least_of(one: Int, other: Int) -> Int:
    return ite(one < other, one, other)


def _end_of_prefill(s: Engine, e: Admit) -> Int:
    """Who comes back from the host goes on where it was: if it decoded then, it decodes now."""
    r = e.request
    return ite(s.kept[r] == 0, s.known[r], least_of(s.goal[r], s.known[r]))


@also("STEP-11", on=Admit)
def an_admission_starts_the_sum(s: Engine, e: Admit, t: Engine) -> tuple[Bool, ...]:
    return (
        e.cached >= 0,
        e.cached < s.known[e.request],
        t.goal == s.goal.set(e.request, _end_of_prefill(s, e)),
        t.covered == s.covered.set(e.request, least_of(e.cached, _end_of_prefill(s, e))),
        t.issued == s.issued.set(e.request, e.cached),
        t.computed == s.computed.set(e.request, e.cached),
    )


@invariant("STEP-11")
def the_sum_is_what_was_issued(s: Engine) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.running.has(r), s.covered[r] <= s.goal[r])),
        forall(RequestId, lambda r: implies(s.running.has(r), s.goal[r] <= s.known[r])),
        forall(
            RequestId,
            lambda r: implies(
                s.running.has(r),
                s.covered[r] == ite(s.issued[r] < s.goal[r], s.issued[r], s.goal[r]),
            ),
        ),
    )


@also("STEP-11", on=Serve)
def whole_prompts_stay_whole(s: Engine, e: Serve, t: Engine) -> Bool:
    """Without chunked prefill a prompt runs in one step; only what a recompute cannot fit into the budget is cut."""
    goal = s.goal[e.request]
    whole = ~s.chunked & (e.start < goal) & (goal - e.start <= s.token_budget)
    return implies(whole, e.start + e.tokens == goal)
