"""PRE: preemption, where a term says it.  PRE-1, 4, 5 and 6 look at whole steps: `trace_rules.py`."""

from ..relation import RUNNING, WAITING, Admit, BeginStep, End, Engine, Give, Preempt, RequestId, Serve, registry
from ..terms import Bool, forall, implies, ite, least, most

rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition


@rule("PRE-2", on=Preempt, claims=("newest_first",))
def the_newest_is_the_victim(s: Engine, e: Preempt, t: Engine) -> Bool:
    """The victim is the one that the declared rule names.

    Why: whoever loses work must be predictable: newest-first protects sunk cost (PagedAttention, SOSP 2023,
    section 4.5).
    """
    return s.victim_key[e.request] == most(s.victim_key, s.running, 0)


@also("PRE-2", on=Preempt, claims=("lowest_priority",))
def the_lowest_is_the_victim(s: Engine, e: Preempt, t: Engine) -> Bool:
    return s.victim_key[e.request] == most(s.victim_key, s.running, 0)


@also("PRE-2", on=Admit)
def an_admission_sets_the_key(s: Engine, e: Admit, t: Engine) -> Bool:
    return t.victim_key == s.victim_key.set(e.request, e.victim_key)


@rule("PRE-3", on=Preempt, needs="tables", level="SHOULD", bugs=("B24",))
def a_preemption_frees_something(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    """A preemption raises what the blocked request can use, or the victim is the requester.

    Why: a victim whose blocks are all shared frees nothing and loses its place for it
    (https://github.com/deepspeedai/DeepSpeed-MII/pull/403).
    """
    return (implies(~e.for_itself, s.freed >= 1), t.freed == 0)


@also("PRE-3", on=Give)
def freed_blocks_are_counted(s: Engine, e: Give, t: Engine) -> Bool:
    return t.freed == ite(s.refs[e.block] == 1, s.freed + 1, s.freed)


@also("PRE-3", on=BeginStep)
def a_step_starts_the_count(s: Engine, e: BeginStep, t: Engine) -> Bool:
    return t.freed == 0


@rule("PRE-7", on=Admit, claims=("resume_order",))
def nobody_overtakes_a_victim(s: Engine, e: Admit, t: Engine) -> tuple[Bool, ...]:
    """A preempted request returns to its place in the queue, and is resumed before anybody behind it.

    Why: a victim that goes to the back of the queue waits twice
    (https://github.com/vllm-project/vllm/issues/41951).
    """
    return (
        implies(~s.displaced.is_empty(), s.place[e.request] <= least(s.place, s.displaced, s.place[e.request])),
        implies(e.resumed, s.displaced.has(e.request)),
        implies(s.displaced.has(e.request), e.resumed),
        t.displaced == s.displaced.remove(e.request),
    )


@also("PRE-7", on=Preempt)
def a_victim_is_displaced(s: Engine, e: Preempt, t: Engine) -> Bool:
    return t.displaced == s.displaced.add(e.request)


@also("PRE-7", on=End)
def who_ends_gives_up_its_place(s: Engine, e: End, t: Engine) -> Bool:
    return t.displaced == s.displaced.remove(e.request)


@invariant("PRE-7")
def the_displaced_wait(s: Engine) -> Bool:
    return forall(RequestId, lambda r: implies(s.displaced.has(r), s.phase[r] == WAITING))


def _is_preempted(s: Engine, t: Engine, r: RequestId) -> Bool:
    return (s.phase[r] == RUNNING) & (t.phase[r] == WAITING)


@transition("PRE-7")
def the_preempted_are_displaced(s: Engine, t: Engine) -> Bool:
    return forall(RequestId, lambda r: implies(_is_preempted(s, t, r), t.displaced.has(r)))


@rule("PRE-8", on=Serve)
def recompute_keeps_outputs(s: Engine, e: Serve, t: Engine) -> Bool:
    """Recompute keeps prompt and outputs, and computes each of them once more before the next token is
    sampled.

    Why: a request that forgets its outputs repeats them to the client; SGLang's retraction had to learn to keep them
    (https://github.com/sgl-project/sglang/pull/39312).
    """
    goal = s.goal[e.request]
    return implies((s.prompt[e.request] < goal) & (e.samples == 1), goal <= e.start + e.tokens)


@also("PRE-8", on=Preempt)
def recompute_starts_over(s: Engine, e: Preempt, t: Engine) -> tuple[Bool, ...]:
    return (
        t.issued == s.issued.set(e.request, 0),
        t.computed == s.computed.set(e.request, 0),
    )


@transition("PRE-8")
def a_victim_keeps_its_tokens(s: Engine, t: Engine) -> Bool:
    def keeps(r: RequestId) -> Bool:
        kept = (t.prompt[r] == s.prompt[r]) & (t.outputs[r] == s.outputs[r])
        return implies(_is_preempted(s, t, r), kept & (t.issued[r] == 0) & (t.computed[r] == 0))

    return forall(RequestId, keeps)
