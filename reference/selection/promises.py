"""What queues that are shared by service promise, as claims with their constants."""

from ...spec.settings import OF_CLIENTS, Settings


def claims_of_sharing(settings: Settings) -> set[str]:
    """Beside the name of the policy."""
    claims = {"prefill_cap"} if settings.prefilling_requests else set()
    if settings.resident_tokens or settings.client_seats or settings.client_resident_tokens or _has_maxima(settings):
        claims.add("caps")
    if settings.policy not in OF_CLIENTS:
        return claims
    if settings.client_committed_cost:
        claims.add("committed_cap")
    if settings.policy == "lanes":
        claims |= _of_lanes(settings)
    if settings.policy in ("vtc", "drr", "dlpm") and settings.at_blocked_head == "break":
        claims.add("fair_share")
    if settings.policy != "round_robin":
        claims |= _of_service(settings)
    return claims


def _has_maxima(settings: Settings) -> bool:
    return any(lane.maximum_percent < 100 for lane in settings.lanes)


def constants_of_sharing(settings: Settings) -> dict[str, int]:
    constants = {}
    if settings.policy in OF_CLIENTS and settings.client_committed_cost:
        constants["committed_cost"] = settings.client_committed_cost
    if settings.aging_credit and settings.policy != "round_robin":
        constants["aging_credit"] = settings.aging_credit
    if settings.policy in ("drr", "dlpm"):
        constants["quantum"] = settings.quantum
    return constants


def _of_lanes(settings: Settings) -> set[str]:
    """Nothing, where others go past the first of a lane that does not fit."""
    if settings.at_blocked_head == "skip":
        return set()
    claims = {"shares", "burst"}
    if all(lane.maximum_percent == 100 for lane in settings.lanes):
        claims.add("borrowing")
    if any(lane.objective_steps for lane in settings.lanes) and _admits_as_it_serves(settings):
        claims.add("objective")
    return claims


def _of_service(settings: Settings) -> set[str]:
    """A counter of turns has no prices and no credit."""
    claims = {
        "weighted": bool(settings.prices),
        "per_chunk": settings.charge_prompt == "chunk",
        "prediction": settings.charge_prediction,
        "aged_sharing": bool(settings.aging_picks),
        "aging_due": bool(settings.aging_picks) and settings.policy in ("vtc", "lanes"),
    }
    return {claim for claim, promised in claims.items() if promised}


def _admits_as_it_serves(settings: Settings) -> bool:
    """Steps are what an objective counts: each admits, and serves no more than a token of everybody."""
    is_each = settings.batching == "iteration" and settings.admission_period_steps == 1
    return is_each and settings.batch_mix == "hybrid" and not settings.draft_tokens
