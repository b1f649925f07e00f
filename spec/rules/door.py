"""ADMIT: the door."""

from ..relation import RUNNING, WAITING, Accept, Engine, Refuse, RequestId, registry
from ..terms import Bool, forall, implies
from ..vocabulary import REFUSAL_REASONS

rule, also, invariant = registry.rule, registry.also, registry.invariant

KV_BLOCKS, PROMPT, OUTPUT, MODEL, BUDGET, OTHER = map(
    REFUSAL_REASONS.index, ("kv_blocks", "prompt_tokens", "output_tokens", "model_tokens", "token_budget", "other")
)


@rule("ADMIT-1", on=Accept, bugs=("B35",))
def the_accepted_fit_alone(s: Engine, e: Accept, t: Engine) -> tuple[Bool, ...]:
    """Every accepted request is feasible alone on an empty system; an infeasible one is refused at once, with the
    limit that it breaks.

    Why: a prompt that can never fit stays at the head of vLLM's queue and blocks everybody behind it
    (https://github.com/vllm-project/vllm/issues/39734).
    """
    return (
        e.blocks_alone <= s.usable_blocks,
        s.chunked | (e.prompt <= s.token_budget),
    )


@also("ADMIT-1", on=Refuse)
def the_refused_did_not_fit(s: Engine, e: Refuse, t: Engine) -> tuple[Bool, ...]:
    whole = e.prompt + e.max_output - 1
    return (
        implies(e.reason == KV_BLOCKS, s.usable_blocks < e.blocks_alone),
        implies(e.reason == BUDGET, ~s.chunked & (s.token_budget < whole)),
        implies(~(e.reason == OTHER), e.limit < e.value),
    )


@rule("ADMIT-2", on=Accept)
def hard_limits_hold(s: Engine, e: Accept, t: Engine) -> tuple[Bool, ...]:
    """Hard limits hold: prompt length, output reservation, context of the model.

    Why: positions past the model's context have no meaning; vLLM runs such a prompt stuck for ever when the front end
    lets it pass (https://github.com/vllm-project/vllm/issues/39734).
    """
    return (
        e.prompt <= s.max_prompt,
        e.max_output <= s.max_output,
        e.prompt + e.max_output <= s.max_model,
    )


@invariant("ADMIT-2")
def the_waiting_and_running_are_within(s: Engine) -> Bool:
    def within(r: RequestId) -> Bool:
        lengths = (s.prompt[r] <= s.max_prompt) & (s.output_limit[r] <= s.max_output)
        return lengths & (s.prompt[r] + s.output_limit[r] <= s.max_model)

    return forall(RequestId, lambda r: implies((s.phase[r] == WAITING) | (s.phase[r] == RUNNING), within(r)))


@also("ADMIT-2", on=Refuse)
def limits_refuse_what_breaks_them(s: Engine, e: Refuse, t: Engine) -> tuple[Bool, ...]:
    return (
        implies(e.reason == PROMPT, s.max_prompt < e.prompt),
        implies(e.reason == OUTPUT, s.max_output < e.max_output),
        implies(e.reason == MODEL, s.max_model < e.prompt + e.max_output),
    )
