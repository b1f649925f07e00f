"""PRE-10, PRE-11: what a preemption costs by the declared times, and whether another way would have cost less."""

from typing import TYPE_CHECKING

from ..recovery import avoided_ns, recompute_ns, swap_ns
from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView, Victim
    from ..tracks import Track

monitor = registry.monitor


def cost_ns(m: "Monitor", victim: "Victim") -> int:
    """What becomes of its KV, by the declared times."""
    return (swap_ns if victim.is_swapped else recompute_ns)(m.settings, victim.computed_tokens)


@monitor("PRE-10", needs="tables", claims=("swap", "cheaper_recovery"))
class TheCheaperWay(TraceRule):
    """A victim is recomputed or swapped, whichever costs less by the declared times: its blocks out and back in, or its
    positions once more. Who cannot be swapped (something of it is in flight, nothing is computed, too few host blocks
    are free) is recomputed.

    Why: recomputing wins for small blocks, swapping for large ones, each by a factor that one of them alone would pay
    (Kwon et al., SOSP 2023, section 7.3, https://arxiv.org/abs/2309.06180).
    """

    def on_preempt(self, m: "Monitor", victim: "Victim") -> None:
        if not (victim.may_be_swapped or victim.is_swapped):
            return
        m.count("PRE-10")
        swapping, recomputing = (cost(m.settings, victim.computed_tokens) for cost in (swap_ns, recompute_ns))
        facts = {"victim": victim.track.id, "swap_ns": swapping, "recompute_ns": recomputing}
        if victim.is_swapped and swapping > recomputing:
            m.fail("PRE-10", "swapped", "who costs less to recompute is not swapped", **facts)
        elif not victim.is_swapped and recomputing > swapping:
            m.fail("PRE-10", "recomputed", "who costs less to swap is not recomputed", **facts)


@monitor("PRE-11", claims=("urgency_pays",))
class UrgencyPays(TraceRule):
    """Whoever is admitted in the place of others costs them less, by the declared times, than the delay that it avoids:
    the declared outputs that they have left, the most of any of them, a step each.

    Why: an interactive request that evicts a long one just before its end throws away minutes of work for a step or two
    (vLLM preempts by priority without asking what is lost, https://github.com/vllm-project/vllm/issues/40004).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.settings.decode_step_ns:
            return
        for track in view.admitted:
            victims = [victim for victim in view.victims if victim.requester == track.id]
            if victims:
                self._judge(m, track, victims)

    @staticmethod
    def _judge(m: "Monitor", track: "Track", victims: "list[Victim]") -> None:
        m.count("PRE-11")
        costs = sum(cost_ns(m, victim) for victim in victims)
        avoids = avoided_ns(m.settings, max(victim.outputs_left for victim in victims))
        if costs >= avoids:
            says = "who takes the place of others costs less than the delay that it avoids"
            names = [victim.track.id for victim in victims]
            m.fail("PRE-11", "dear", says, admitted=track.id, victims=names, costs_ns=costs, avoids_ns=avoids)
