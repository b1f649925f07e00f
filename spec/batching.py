"""Steps that admit nobody because the settings say so: a declared reason to leave seats, budget and memory idle."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .monitor import Monitor, StepView


def admits_nobody(m: "Monitor", view: "StepView") -> bool:
    """Request by request, while anybody runs who was admitted before; and where prefill and decode share no step, and
    prefill does not come first, in a step that decodes.  There, too, whoever is swapped waits while others prefill, and
    prompts wait for a step after it is back.  Whoever claims to admit at each iteration has no such reason.
    """
    if m.claims("iteration_level"):
        return False
    settings = m.settings
    if settings.batching == "request" and m.world.running.difference(track.id for track in view.admitted):
        return True
    if settings.batch_mix != "exclusive":
        return False
    if m.world.decode:
        return settings.phase_first != "prefill" or view.brought_back
    return bool(m.swapped and m.world.prefill)
