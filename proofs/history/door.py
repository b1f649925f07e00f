"""ADMIT-1, ADMIT-2: who is let in, and who is turned away for what."""

from collections.abc import Callable

from schedspec.spec.relation import REFUSED, RUNNING, WAITING, Refuse, RequestId
from schedspec.spec.rules.door import BUDGET, KV_BLOCKS, MODEL, OTHER, OUTPUT, PROMPT
from schedspec.spec.terms import Bool, Int, forall, implies

from .watched import Watched, on, promise


@promise("ADMIT-1")
def _who_is_in_fits_alone(s: Watched) -> tuple[Bool, ...]:
    """The last token is never written."""

    def inside(r: RequestId) -> Bool:
        return (s.phase[r] == WAITING) | (s.phase[r] == RUNNING)

    def fits(r: RequestId) -> Bool:
        return s.prompt[r] + s.output_limit[r] - 1 <= s.usable_blocks * s.block_size

    return (
        forall(RequestId, lambda r: implies(inside(r), fits(r))),
        forall(RequestId, lambda r: implies(inside(r) & ~s.chunked, s.prompt[r] <= s.token_budget)),
    )


@on("ADMIT-1", on=Refuse)
def _turned_away(s: Watched, e: Refuse, t: Watched) -> tuple[Bool, ...]:
    r = e.request
    return (
        t.asked_prompt == s.asked_prompt.set(r, e.prompt),
        t.asked_output == s.asked_output.set(r, e.max_output),
        t.reason == s.reason.set(r, e.reason),
        t.named_limit == s.named_limit.set(r, e.limit),
        t.named_value == s.named_value.set(r, e.value),
    )


def _refused_for(s: Watched, reason: int, broken: Callable[[RequestId], Bool]) -> Bool:
    return forall(RequestId, lambda r: implies((s.phase[r] == REFUSED) & (s.reason[r] == reason), broken(r)))


@promise("ADMIT-1")
def _who_is_turned_away_did_not_fit(s: Watched) -> tuple[Bool, ...]:
    def whole(r: RequestId) -> Int:
        return s.asked_prompt[r] + s.asked_output[r] - 1

    return (
        _refused_for(s, KV_BLOCKS, lambda r: s.usable_blocks * s.block_size < whole(r)),
        _refused_for(s, BUDGET, lambda r: ~s.chunked & (s.token_budget < whole(r))),
        forall(
            RequestId,
            lambda r: implies((s.phase[r] == REFUSED) & ~(s.reason[r] == OTHER), s.named_limit[r] < s.named_value[r]),
        ),
    )


@promise("ADMIT-2")
def _who_is_turned_away_was_too_long(s: Watched) -> tuple[Bool, ...]:
    return (
        _refused_for(s, PROMPT, lambda r: s.max_prompt < s.asked_prompt[r]),
        _refused_for(s, OUTPUT, lambda r: s.max_output < s.asked_output[r]),
        _refused_for(s, MODEL, lambda r: s.max_model < s.asked_prompt[r] + s.asked_output[r]),
    )
