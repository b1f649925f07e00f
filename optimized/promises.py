"""What it honours of the settings, and what it claims under them."""

from ..spec.settings import OF_CLIENTS, Settings, unsupported
from ..spec.vocabulary import Capabilities, Unsupported
from .ints import LARGEST
from .queue import ORDERS
from .sharing import SHARINGS

VERSION = "1"

HONOURED = (
    "blocks",
    "block_size",
    "seats",
    "token_budget",
    "watermark_blocks",
    "policy",
    "victim",
    "at_blocked_head",
    "reserve",
    "chunked_prefill",
    "chunk_tokens",
    "overlap_depth",
    "max_prompt_tokens",
    "max_output_tokens",
    "max_model_tokens",
    "max_overtaken",
    "quantum",
    "request_weight",
    "input_weight",
    "output_weight",
    "product_weight",
    "square_weight",
    "prices",
    "charge_prompt",
    "charge_prediction",
    "aging_picks",
    "aging_credit",
    "client_seats",
    "client_resident_tokens",
    "client_committed_cost",
    "lanes",
    "resident_tokens",
    "prefilling_requests",
)
RESERVES = {"on_demand": ("on_demand_reserve",), "known": ("full_reserve",), "declared": ("declared_reserve",)}
VICTIMS = {"newest": "newest_first", "lowest_priority": "lowest_priority"}
KEEPS_PLACES = ("fcfs", "priority", "edf", "sjf", "aging")
"""Policies under which a preempted request has the place that it had."""


def refuse(settings: Settings) -> None:
    """Raises Unsupported with the first setting that it cannot honour."""
    name = unsupported(settings, HONOURED)
    if settings.policy not in (*ORDERS, *SHARINGS):
        name = "policy"
    elif settings.reserve not in RESERVES:
        name = "reserve"
    elif any(lane.has_queue_limits for lane in settings.lanes):
        name = "lanes"
    elif settings.blocks * settings.block_size >= LARGEST:
        name = "block_size"  # positions would not fit into the arrays
    if name is not None:
        ask = "fewer or smaller blocks, all of them have fewer than 2^62 positions" if name == "block_size" else ""
        raise Unsupported(name, getattr(settings, name), ask)


def has_caps(settings: Settings) -> bool:
    caps = settings.resident_tokens or settings.client_seats or settings.client_resident_tokens
    return bool(caps) or any(lane.maximum_percent < 100 for lane in settings.lanes)


def capabilities(name: str, settings: Settings) -> Capabilities:
    """Of the scheduler of this name: on a CPU and on a device alike."""
    return Capabilities(
        name=name,
        version=VERSION,
        observes="tables",
        ordered=True,
        claims=claims_of(settings),
        constants=constants_of(settings),
    )


def claims_of(settings: Settings) -> frozenset[str]:
    claims = {"hard_budget", "hybrid", "iteration_level", "watermark", settings.policy, settings.at_blocked_head}
    claims |= {VICTIMS[settings.victim], *RESERVES[settings.reserve]}
    is_strict = settings.at_blocked_head == "break"
    conditions = {
        "resume_order": is_strict and not settings.max_overtaken and settings.policy in KEEPS_PLACES,
        "bounded_overtaking": is_strict and settings.max_overtaken > 0,
        "full_chunks": settings.chunked_prefill,
        "no_preemption": settings.reserve == "declared",
        "iteration_fcfs": settings.reserve == "declared" and settings.policy == "fcfs" and is_strict,
        "prefill_cap": settings.prefilling_requests > 0,
        "caps": has_caps(settings),
        "prompt_share": settings.chunked_prefill and settings.chunk_tokens > 0,
        "stall_free": leaves_no_decode_out(settings),
        "mixes_prefill": leaves_no_decode_out(settings),
        "overlap": settings.overlap_depth > 1,
    }
    if settings.policy in OF_CLIENTS:
        conditions |= of_sharing(settings)
    return frozenset(claims | {claim for claim, holds in conditions.items() if holds})


def of_sharing(settings: Settings) -> dict[str, bool]:
    """A counter of turns has no prices and no credit."""
    of_service = settings.policy != "round_robin"
    of_lanes = settings.policy == "lanes" and settings.at_blocked_head == "break"
    return {
        "committed_cap": settings.client_committed_cost > 0,
        "fair_share": settings.policy in ("vtc", "drr") and settings.at_blocked_head == "break",
        "weighted": of_service and bool(settings.prices),
        "per_chunk": of_service and settings.charge_prompt == "chunk",
        "prediction": of_service and settings.charge_prediction,
        "aged_sharing": of_service and settings.aging_picks > 0,
        "aging_due": settings.policy in ("vtc", "lanes") and settings.aging_picks > 0,
        "shares": of_lanes,
        "burst": of_lanes,
        "borrowing": of_lanes and all(lane.maximum_percent == 100 for lane in settings.lanes),
        "objective": of_lanes and any(lane.objective_steps for lane in settings.lanes),
    }


def constants_of(settings: Settings) -> dict[str, int]:
    constants = {"prefill_only_steps": 0} if leaves_no_decode_out(settings) else {}
    if settings.max_overtaken and settings.at_blocked_head == "break":
        constants["max_overtaken"] = settings.max_overtaken
    if settings.client_committed_cost:
        constants["committed_cost"] = settings.client_committed_cost
    if settings.aging_credit and settings.policy != "round_robin":
        constants["aging_credit"] = settings.aging_credit
    return constants | ({"quantum": settings.quantum} if settings.policy == "drr" else {})


def leaves_no_decode_out(settings: Settings) -> bool:
    """The budget has for every seat what a request may take: a chunk, or where prompts run in one piece a token."""
    most = settings.chunk_tokens or settings.token_budget if settings.chunked_prefill else 1
    return settings.seats * most <= settings.token_budget
