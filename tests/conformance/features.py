"""Whose turn it is and what it costs, drawn by plain dice: policies, weights, prices, lanes, caps, predictions.

Both kinds of search add these to a world that they have drawn, each with dice of its own, so that all else stays what
it was.  Four worlds of ten have none of it.  Only what makes sense is drawn.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import evolve

from schedspec.spec.vocabulary import (
    OF_CLASSES,
    OF_CLIENTS,
    OF_QUANTA,
    OF_SERVICE,
    OPEN,
    Door,
    Lane,
    Policy,
    Settings,
)

from .script import RETRY, Op, leave, with_setting

POLICIES: tuple[Policy, ...] = ("srpt", "mlfq", "lpm", "drr", "dlpm", "lanes")
WEIGHTS = (
    {"input_weight": 3, "output_weight": 1},
    {"input_weight": 1, "output_weight": 1},
    {"product_weight": 1},
    {"square_weight": 1},
    {"request_weight": 5},
    {"request_weight": 1, "input_weight": 0, "output_weight": 0},
)
SHARES = ((70, 30), (20, 80), (40, 35), (60, 25, 15), (10, 30, 60))
"""All different: two lanes that promise the same would be one."""

PREDICTED = ("sjf", "srpt")
ADAPTERS = ("x", "y", "z")


def with_features(dice: Random, settings: Settings, policies: Sequence[Policy] = ()) -> Settings:
    """`policies`: those that may be drawn, if not all; what is drawn beside belongs to the one that it is."""
    settings = of_policies(dice, settings, policies)
    if dice.random() < 0.3:
        return settings
    if dice.random() < 0.5:
        choices = [policy for policy in POLICIES if not policies or policy in policies]
        settings = with_setting(settings, "policy", dice.choice(choices or [settings.policy]))
    drawn = _of_memory(dice, settings) | _of_turns(dice, settings)
    if settings.policy in OF_SERVICE:
        drawn |= dice.choice(WEIGHTS) if dice.random() < 0.5 else {}
        drawn |= _of_charges(dice)
    if settings.policy in OF_CLIENTS:
        drawn |= _of_clients(dice, settings)
    if settings.policy == "lanes":
        drawn["lanes"] = _lanes(dice)
    drawn |= _of_iterations(dice, settings)
    return evolve(settings, **drawn)


def of_policies(dice: Random, settings: Settings, policies: Sequence[Policy]) -> Settings:
    """With one of those that may be drawn."""
    if not policies or settings.policy in policies:
        return settings
    return with_setting(settings, "policy", dice.choice(policies))


def _sometimes(dice: Random, percent: int, name: str, *values: object) -> dict[str, Any]:
    return {name: dice.choice(values)} if dice.randrange(100) < percent else {}


def _of_memory(dice: Random, settings: Settings) -> dict[str, Any]:
    drawn = _sometimes(dice, 20, "reserve", "peak", "peak", "predicted", "power_of_two", "model")
    if drawn.get("reserve") == "model":
        positions = settings.blocks * settings.block_size
        drawn["max_model_tokens"] = max(2, min(settings.max_model_tokens, positions // dice.choice((1, 2, 3))))
    drawn |= _sometimes(dice, 12, "prefilling_requests", 1, 2)
    return drawn | _sometimes(dice, 8, "resident_tokens", 12, 24, 40) | _sometimes(dice, 12, "adapter_slots", 1, 2)


def _of_turns(dice: Random, settings: Settings) -> dict[str, Any]:
    drawn = {"quantum": dice.randint(1, 8)} if settings.policy in OF_QUANTA else {}
    if settings.policy not in OF_CLIENTS:
        drawn |= _sometimes(dice, 20, "max_overtaken", 1, 2, 4)
    if settings.policy in OF_CLASSES:
        drawn |= _sometimes(dice, 30, "preempt_lower_class", True)
    return drawn


def _of_iterations(dice: Random, settings: Settings) -> dict[str, Any]:
    """Last of all, so that what was drawn before stays what it was."""
    drawn = _sometimes(dice, 12, "batch_mix", "exclusive") | _sometimes(
        dice, 15, "phase_first", "decode", "prefill", "alternate"
    )
    drawn |= _sometimes(dice, 6, "batching", "request") | _sometimes(dice, 6, "admission_period_steps", 2, 3)
    return drawn | (_sometimes(dice, 25, "disjoint_steps", True) if settings.overlap_depth > 1 else {})


def _of_charges(dice: Random) -> dict[str, Any]:
    drawn = _sometimes(dice, 30, "prices", {"a": 2}, {"a": 1, "b": 3})
    return drawn | _sometimes(dice, 30, "charge_prompt", "chunk") | _sometimes(dice, 25, "charge_prediction", True)


def _of_clients(dice: Random, settings: Settings) -> dict[str, Any]:
    drawn = _sometimes(dice, 12, "client_seats", 1, min(2, settings.seats))
    drawn |= _sometimes(dice, 8, "client_resident_tokens", 8, 12) | _sometimes(dice, 8, "client_committed_cost", 10, 30)
    if dice.randrange(100) < 20:
        drawn |= {"aging_picks": dice.randint(1, 4), "aging_credit": dice.choice((1, 5, 20))}
    return drawn


def _lanes(dice: Random) -> tuple[Lane, ...]:
    """The first takes short prompts, the second everybody else, a third only whoever names it."""
    shares = dice.choice(SHARES)
    shapes: tuple[dict[str, Any], ...] = ({"max_prompt_tokens": 4}, {}, {"by_shape": False})
    return tuple(_lane(dice, *lane) for lane in zip(("chat", "long", "batch"), shares, shapes, strict=False))


def _lane(dice: Random, name: str, share: int, shape: dict[str, Any]) -> Lane:
    drawn = _sometimes(dice, 40, "order", "vtc") | _sometimes(dice, 25, "maximum_percent", share, max(share, 50))
    drawn |= _sometimes(dice, 30, "burst", 4, 20)
    if dice.randrange(100) < 5:
        # An objective is reckoned for a machine and the load of all lanes: a drawn one is no promise that anybody could
        # keep, so directed scenarios ask for it. The draws stay, since runs are known by what they drew.
        _ = dice.randint(2, 12), dice.choice((6, 12, 20))
    return Lane(name=name, share_percent=share, **shape, **drawn)


# --- victims -----------------------------------------------------------------------------------------------


def with_host(dice: Random, settings: Settings) -> Settings:
    """Now and then victims may be swapped, and somebody who would take their place asks what that costs."""
    if dice.random() < 0.88:
        return settings
    drawn: dict[str, Any] = {"swap_block_ns": dice.choice((1, 3, 8)), "recompute_token_ns": dice.choice((1, 2, 4))}
    drawn |= {"recover": dice.choice(("swap", "cheaper")), "host_blocks": dice.choice((1, 2, 4, settings.blocks))}
    if settings.preempt_lower_class:
        drawn |= _sometimes(dice, 50, "decode_step_ns", 1, 4, 20)
    return evolve(settings, **drawn)


def with_drafts(dice: Random, settings: Settings) -> Settings:
    """Now and then decodes have drafts, where that goes with the rest."""
    if dice.random() < 0.9 or settings.overlap_depth > 1 or settings.pools.are_two or settings.door.has_time_model:
        return settings
    return evolve(settings, draft_tokens=dice.choice((1, 2, 3)))


# --- who comes -----------------------------------------------------------------------------------------------


def with_victims(dice: Random, settings: Settings) -> Settings:
    """Now and then the victim is another one than goes with the policy."""
    other = "newest" if settings.victim == "lowest_priority" else "lowest_priority"
    is_other = dice.random() < 0.1 and not settings.pools.are_two
    return with_setting(settings, "victim", other) if is_other else settings


def with_depth(dice: Random, settings: Settings) -> Settings:
    """Where steps overlap, now and then three of them do, if nothing that was drawn is about two."""
    is_free = settings.overlap_depth == 2 and not settings.pools.are_two and settings.door == OPEN
    return evolve(settings, overlap_depth=3) if is_free and dice.random() < 0.3 else settings


def on_the_clock(dice: Random, ops: Sequence[Op], settings: Settings) -> Sequence[Op]:
    """Now and then time passes between calls, most often where it is told what it was spent on."""
    if dice.random() >= (0.7 if settings.log_decisions else 0.1):
        return ops
    ticks = [(op, Op("tick", ns=dice.choice((1, 7, 50)))) if dice.random() < 0.5 else (op,) for op in ops]
    return [one for some in ticks for one in some]


def too_large(dice: Random, ops: Sequence[Op], settings: Settings) -> Sequence[Op]:
    """Now and then some are larger than the pool, by their prompt or by what they may answer."""
    return [_swollen(dice, op, settings) for op in ops] if dice.random() < 0.04 else ops


def _swollen(dice: Random, op: Op, settings: Settings) -> Op:
    request, positions = op.request, settings.blocks * settings.block_size
    if request is None or dice.random() < 0.7:
        return op
    more = positions + dice.randint(2, 5) - request.declared_tokens
    if more <= 0:
        return op
    if dice.random() < 0.5:
        return evolve(op, request=evolve(request, max_output_tokens=request.max_output_tokens + more))
    return evolve(op, request=evolve(request, prompt_ids=(*request.prompt_ids, *range(5_000, 5_000 + more))))


# --- the door ----------------------------------------------------------------------------------------------


def with_door(dice: Random, settings: Settings, *, always: bool = False) -> Settings:
    """Now and then there are limits at the door; in half of such worlds waits can be predicted."""
    if dice.random() < 0.1:
        settings = evolve(settings, log_waits=True)
    if dice.random() < 0.1:
        settings = evolve(settings, cancel_on_disconnect=True)
    if not always and dice.random() < 0.88:
        return settings
    if dice.random() < 0.5:
        settings = _predictable(settings)
    longest_ns = settings.overlap_depth * (STEP_NS + settings.token_budget)
    drawn = _sometimes(dice, 40, "queue_requests", 1, 2, 3) | _sometimes(dice, 25, "queue_tokens", 12, 30)
    drawn |= _sometimes(dice, 25, "client_requests", 1, 2, 3) | _sometimes(dice, 20, "client_tokens", 12, 24)
    drawn |= _sometimes(dice, 20, "committed_tokens", 24, 60) | _sometimes(dice, 25, "retain_ns", 40, 200)
    if dice.random() < 0.25:
        drawn |= {"rate_window_ns": dice.choice((20, 100, 300))}
        drawn |= {"rate_requests": dice.choice((1, 2, 3))} if dice.random() < 0.6 else {"rate_tokens": 24}
    if dice.random() < 0.7:
        drawn |= {"step_ns": STEP_NS, "token_ns": 1}
        drawn |= _sometimes(dice, 30, "inter_token_ns", longest_ns, 2 * longest_ns)
        drawn |= _sometimes(dice, 50, "first_token_ns", *(longest_ns * n for n in (1, 2, 4)))
    drawn |= _sometimes(dice, 60, "queue_age_ns", *(longest_ns * n for n in (1, 1, 2, 4)))
    lanes = tuple(evolve(lane, queue_requests=1) if dice.random() < 0.3 else lane for lane in settings.lanes)
    return evolve(settings, lanes=lanes, door=Door(**drawn))


def with_alternatives(dice: Random, settings: Settings) -> Settings:
    """Now and then decisions are logged; every second door with limits has something else than a refusal."""
    if dice.random() < 0.1:
        settings = evolve(settings, log_decisions=True)
    door = settings.door
    if not any(getattr(door, name) for name in PASSING) or dice.random() < 0.5:
        return settings
    drawn = _sometimes(dice, 25, "pool_tokens", 6, 12, 1_000) | _sometimes(dice, 25, "model_tokens", 6, 12, 1_000)
    drawn |= _sometimes(dice, 60, "asynchronous_requests", 1, 2)
    if dice.random() < 0.6:
        drawn |= {"defer_ns": dice.choice((5, 40, 200)), "deferred_requests": dice.choice((1, 2, 4))}
    return evolve(settings, door=evolve(door, **drawn))


PASSING = ("queue_requests", "queue_tokens", "client_requests", "client_tokens", "committed_tokens", "rate_window_ns")
"""Limits that break and hold again."""

STEP_NS = 10


def _predictable(settings: Settings) -> Settings:
    """Nobody is preempted, and no cap holds anybody who waits."""
    names = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "prefix_caching", "chunk_tokens")
    return Settings(reserve="declared", **{name: getattr(settings, name) for name in names})


def at_the_door(dice: Random, op: Op, settings: Settings) -> Sequence[Op]:
    """Who would be cancelled may leave instead; a submission may have a key, declare to survive that, or come from a
    door that converted it; after a result somebody who was refused may come again, or time may pass."""
    door = settings.door
    if settings.cancel_on_disconnect and op.kind == "cancel":
        return (leave(op.id),)
    if op.request is not None and settings.cancel_on_disconnect and dice.random() < 0.3:
        op = evolve(op, request=evolve(op.request, survives_disconnect=True))
    if op.request is not None and door.has_alternatives and dice.random() < 0.15:
        op = evolve(op, request=evolve(op.request, was_converted=True))
    if op.request is not None and door.retain_ns and dice.random() < 0.6:
        return (evolve(op, request=evolve(op.request, idempotency_key=dice.choice(("k", "m")))),)
    if op.kind == "complete" and door != OPEN and dice.random() < 0.4:
        return op, RETRY if dice.random() < 0.8 else Op("tick", ns=dice.choice((3, 30, 150)))
    return (op,)


def is_predicted(settings: Settings) -> bool:
    """Predictions change what is decided."""
    reserves = settings.reserve in ("predicted", "power_of_two")
    return reserves or settings.charge_prediction or settings.policy in PREDICTED


def of_feature(dice: Random, op: Op, settings: Settings) -> Op:
    """A submission with what those settings ask of it: its lane, its prediction, its adapter."""
    if op.request is None:
        return op
    drawn: dict[str, Any] = {}
    if settings.lanes and dice.random() < 0.3:
        drawn["lane"] = dice.choice(("chat", "long", "batch", "nobody"))
    if is_predicted(settings) and dice.random() < 0.7:
        right = op.stop_after or op.request.max_output_tokens
        drawn["predicted_output_tokens"] = dice.choice((right, right, right + 1, max(0, right - 2), 1, 30))
    if settings.adapter_slots and dice.random() < 0.7:
        drawn["adapter"] = dice.choice(ADAPTERS)
    return evolve(op, request=evolve(op.request, **drawn)) if drawn else op
