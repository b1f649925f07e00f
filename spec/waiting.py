"""What keeps a waiting request waiting: the first limit that it would have broken at the end of a step.

Computed from a trace, so that it can be said of any scheduler; nothing is searched for.  What the scheduler itself had
in mind is not known.
"""

from typing import TYPE_CHECKING

from attrs import frozen

from .batching import admits_nobody
from .caps import held_by_client, held_by_lane, held_by_peak, held_by_prefill, held_by_tokens, lacks_adapter
from .rules.base import has_stray, needed_blocks, positions_to_run
from .vocabulary import WAIT_LIMITS

if TYPE_CHECKING:
    from .monitor import Monitor, StepView
    from .tracks import Track

LIMITS = {
    "victims": "the step preempted others, and nobody is admitted where somebody loses its place",
    "seats": "every seat was taken",
    "budget": "the step's token budget was used up",
    "period": "nobody is admitted in a step like this one: not in each, or not while others run or decode",
    "results": "results of before its preemption were still under way",
    "client cap": "what its client may have running was used up",
    "lane share": "the most that its lane may have was used up",
    "resident tokens": "the most tokens that all may have resident were used up",
    "adapter": "every slot for adapters was taken by others",
    "prefill cap": "as many prompts as may be were in prefill",
    "peak": "all that runs is to fit at every moment to come, and might not with it",
    "blocks": "too few blocks were free",
    "watermark": "it would have left fewer blocks free than the watermark keeps",
    "order": "it would have fitted; others were before it",
}
"""The closed set of reasons, in the order in which they are asked."""

assert tuple(LIMITS) == WAIT_LIMITS


@frozen
class Reason:
    """Why a request waited in a step, and what it needed of what there was, where the limit counts anything."""

    limit: str
    needed: int | None = None
    left: int | None = None


def reason_of(m: "Monitor", view: "StepView", track: "Track") -> Reason:
    """By the state at the end of the step: who was admitted before it has what it got."""
    s, available = m.settings, m.available()
    if view.victims:
        return Reason("victims")
    if len(m.world.running) >= s.seats:
        return Reason("seats", 1, 0)
    if view.budget_left < needed_budget(m, track):
        return Reason("budget", needed_budget(m, track), max(view.budget_left, 0))
    if admits_nobody(m, view):
        return Reason("period")
    if has_stray(m, track):
        return Reason("results")
    cap = _cap_of(m, track)
    if cap is not None:
        return Reason(cap)
    if not m.shows_tables:
        return Reason("order")
    kept = s.watermark_blocks if m.world.running else 0
    needed = needed_blocks(m, track)
    if needed > available:
        return Reason("blocks", needed, available)
    return Reason("watermark", needed, max(available - kept, 0)) if needed > available - kept else Reason("order")


def may_hold(m: "Monitor", view: "StepView", track: "Track", limit: str) -> bool:
    """Whether a limit may be what keeps a request out: false only if it surely does not."""
    if limit == "victims":
        return bool(view.victims)
    if limit == "seats":
        return len(m.world.running) >= m.settings.seats
    if limit == "budget":
        return view.budget_left < needed_budget(m, track)
    if limit == "period":
        return admits_nobody(m, view) or m.settings.admission_period_steps > 1
    if limit == "results":
        return has_stray(m, track)
    if limit in ("blocks", "watermark"):
        return bool(view.victims) or not m.shows_tables or _is_short(m, track, limit)
    return limit == "order" or bool(_caps(m, track)[limit])


def _is_short(m: "Monitor", track: "Track", limit: str) -> bool:
    kept = m.settings.watermark_blocks if limit == "watermark" and m.world.running else 0
    return needed_blocks(m, track) > m.available() - kept


def needed_budget(m: "Monitor", track: "Track") -> int:
    """A prompt that may be split needs a token, another one all that is known of it."""
    return 1 if m.settings.chunked_prefill else positions_to_run(m, track)


def _cap_of(m: "Monitor", track: "Track") -> str | None:
    return next((limit for limit, holds in _caps(m, track).items() if holds), None)


def _caps(m: "Monitor", track: "Track") -> dict[str, bool]:
    return {
        "client cap": held_by_client(m, track),
        "lane share": held_by_lane(m, track),
        "resident tokens": held_by_tokens(m, track),
        "adapter": lacks_adapter(m, track),
        "prefill cap": held_by_prefill(m),
        "peak": held_by_peak(m, track),
    }
