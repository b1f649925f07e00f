"""What it honours of the settings, and what it claims under them."""

from ..spec.settings import OF_CLIENTS, Settings, unsupported
from ..spec.vocabulary import Unsupported
from .arrays import LARGEST
from .clients import SHARINGS
from .queue import ORDERS

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
    "quantum",
    "request_weight",
    "input_weight",
    "output_weight",
    "product_weight",
    "square_weight",
    "prices",
    "resident_tokens",
    "prefilling_requests",
)
RESERVES = {"on_demand": (), "known": ("full_reserve",), "declared": ("declared_reserve",)}
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
    elif settings.blocks * settings.block_size >= LARGEST:
        name = "block_size"  # positions would not fit into the arrays
    if name is not None:
        raise Unsupported(name, getattr(settings, name))


def claims_of(settings: Settings) -> frozenset[str]:
    claims = {"hard_budget", "hybrid", "watermark", settings.policy, settings.at_blocked_head}
    claims |= {VICTIMS[settings.victim], *RESERVES[settings.reserve]}
    if settings.at_blocked_head == "break" and settings.policy in KEEPS_PLACES:
        claims.add("resume_order")
    if settings.at_blocked_head == "break" and settings.policy == "vtc":
        claims.add("fair_share")
    if settings.policy in OF_CLIENTS and settings.policy != "round_robin" and settings.prices:
        claims.add("weighted")
    if settings.prefilling_requests:
        claims.add("prefill_cap")
    if settings.chunked_prefill and settings.chunk_tokens:
        claims.add("prompt_share")
    if leaves_no_decode_out(settings):
        claims |= {"stall_free", "mixes_prefill"}
    if settings.overlap_depth > 1:
        claims.add("overlap")
    return frozenset(claims)


def constants_of(settings: Settings) -> dict[str, int]:
    return {"prefill_only_steps": 0} if leaves_no_decode_out(settings) else {}


def leaves_no_decode_out(settings: Settings) -> bool:
    """The budget has for every seat what a request may take: a chunk, or where prompts run in one piece a token."""
    most = settings.chunk_tokens or settings.token_budget if settings.chunked_prefill else 1
    return settings.seats * most <= settings.token_budget
