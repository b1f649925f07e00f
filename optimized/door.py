"""The door: whom a scheduler refuses before anything is queued, on a CPU and on a device alike."""

from ..spec.vocabulary import Receipt, Request, Settings, blocks_alone


def turned_away(settings: Settings, seen: set[str], request: Request) -> Receipt | None:
    """The receipt of whoever came before, or breaks a limit; None of whoever is let in.  From now on it is `seen`."""
    if request.id in seen:
        return Receipt(verdict="duplicate", of=request.id)
    seen.add(request.id)
    return refusal(settings, request)


def refusal(settings: Settings, request: Request) -> Receipt | None:
    """Of the first limit that the request breaks, in the order in which they are looked at; None if it breaks none."""
    s, prompt, output = settings, request.prompt_tokens, request.max_output_tokens
    limits = [
        ("prompt_tokens", s.max_prompt_tokens, prompt),
        ("output_tokens", s.max_output_tokens, output),
        ("model_tokens", s.max_model_tokens, prompt + output),
        ("kv_blocks", s.blocks, blocks_alone(prompt, output, s.block_size)),
    ]
    if not s.chunked_prefill:  # recompute after a preemption takes prompt and outputs in one step
        limits.append(("token_budget", s.token_budget, prompt + output - 1))
    for reason, limit, value in limits:
        if value > limit:
            return Receipt(verdict="refused", reason=reason, limit=limit, value=value)
    return None
