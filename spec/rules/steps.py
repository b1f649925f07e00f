"""STEP and PRE rules that look at a whole step: who was left out, and whether memory was really short."""

from typing import TYPE_CHECKING

from ..relation import WAITING, registry
from ..vocabulary import blocks_for
from .base import TraceRule, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView, Victim
    from ..tracks import Track
    from ..vocabulary import Delta

monitor = registry.monitor


@monitor("STEP-8", claims=("hybrid",), bugs=("B62",))
class NobodyIsLeftOut(TraceRule):
    """A running request with its blocks in hand is in every step that has budget left, whatever happened to others.

    Why: after one failed allocation vLLM's loop ended for everybody behind it
    (https://github.com/vllm-project/vllm/pull/36390).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        running = m.world.running
        if view.budget_left < 1 or not running:
            return
        m.count("STEP-8")
        if len(running) == len(view.plan.request):
            return
        for request in sorted(running.difference(view.plan.request)):
            if self._could_run(m, record(m, request)):
                says = "a running request with its blocks in hand is in every step that has budget left"
                m.fail("STEP-8", "left_out", says, request=request, budget_left=view.budget_left)

    @staticmethod
    def _could_run(m: "Monitor", r: "object") -> bool:
        wants = r.issued < r.known and r.outputs + r.in_flight < r.output_limit  # type: ignore[attr-defined]
        if m.claims("disjoint_steps"):
            wants = wants and r.computed == r.issued  # type: ignore[attr-defined]
        if m.shows_tables:
            return bool(wants and r.issued < r.room)  # type: ignore[attr-defined]
        return bool(wants and r.issued % m.settings.block_size != 0)  # type: ignore[attr-defined]


def _spared_without(m: "Monitor", view: "StepView") -> int:
    """Blocks that would have been left, had the last victim of the step stayed and grown as far as it could.

    Negative: it had to go.  By counts where blocks are not shown; they do not see sharing, so then nobody is judged.
    """
    last = view.victims[-1]
    freed = sum(victim.freed_blocks for victim in view.victims[:-1])
    return view.available_before + freed - view.growth_blocks - last.wanted_blocks - _starving_blocks(m, view)


def _starving_blocks(m: "Monitor", view: "StepView") -> int:
    """Blocks that those who run, but not in this step, could ask for: who preempts after it has composed a step does it
    for them."""
    left_out = [record(m, request) for request in m.world.running.difference(view.plan.request)]
    wanted = (blocks_for(r.known, m.settings.block_size) - r.room // m.settings.block_size for r in left_out)
    return sum(max(0, blocks) for blocks in wanted)


def _asks_for_classes(m: "Monitor") -> bool:
    return m.settings.preempt_lower_class or m.claims("class_preemption")


@monitor("PRE-1", needs="tables", bugs=("B24",))
class OnlyWhenMemoryIsShort(TraceRule):
    """Preemption happens only when something that must run cannot get memory, or a declared priority rule asks for it.

    Why: work is thrown away for nothing; SGLang retracted a running request because test and charge differed
    (https://github.com/sgl-project/sglang/pull/22495).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not view.victims:
            return
        m.count("PRE-1")
        spared = _spared_without(m, view)
        if spared >= 0 and not view.admitted:
            victim = view.victims[-1]
            m.fail(
                "PRE-1",
                "needless",
                "the last victim of a step was needed: growth did not fit without what it freed",
                victim=victim.track.id,
                free_before=view.available_before,
                growth=view.growth_blocks,
                victim_wanted=victim.wanted_blocks,
                left_over=spared,
            )


@monitor("PRE-4", needs="tables", bugs=("B23",))
class AdmissionPreemptsNobody(TraceRule):
    """Admission of a waiting request preempts nobody; where the settings ask for it, or `class_preemption` is claimed,
    nobody but running requests of a class that is strictly lower than that of the admitted.

    Why: sharing the allocation path of running requests, admission evicted them, and the run became orders of magnitude
    slower (Dynamo, https://github.com/ai-dynamo/dynamo/issues/9718).
    """

    says = "what a preemption freed went to requests that ran before, not to an admission"

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if view.admitted and len(m.world.running) > len(view.admitted):
            m.count("PRE-4")
        if not view.victims:
            return
        if view.admitted and (spared := _spared_without(m, view)) >= 0 and not self._for_better(m, view, spared):
            return
        for victim in view.victims:
            who = victim.requester
            if who is None or who == victim.track.id or who not in m.tracks:
                continue
            if self._is_no_resident(m, view, m.tracks[who]) and not self._gives_way(m, victim, m.tracks[who]):
                m.fail("PRE-4", "requester", self.says, victim=victim.track.id, requester=who)

    @staticmethod
    def _is_no_resident(m: "Monitor", view: "StepView", requester: "Track") -> bool:
        """It waits; or it was admitted in the step, by one who says that it may take the place of others."""
        if _asks_for_classes(m) and requester in view.admitted:
            return True
        return record(m, requester.id).phase == WAITING and requester not in {v.track for v in view.victims}

    def _for_better(self, m: "Monitor", view: "StepView", spared: int) -> bool:
        """The last victim was not needed by those who ran: it left for somebody who was admitted."""
        victim = view.victims[-1]
        named = [track for track in view.admitted if track.id == victim.requester] or view.admitted
        if any(self._gives_way(m, victim, track) for track in named):
            return True
        m.fail("PRE-4", "for_admission", self.says, victim=victim.track.id, admitted=named[0].id, left_over=spared)
        return False

    @staticmethod
    def _gives_way(m: "Monitor", victim: "Victim", admitted: "Track") -> bool:
        return _asks_for_classes(m) and m.class_of(admitted) < m.class_of(victim.track)


@monitor("PRE-5", claims=("newest_first",))
class NobodyEarlierForSomebodyLater(TraceRule):
    """Among equals, nobody admitted earlier is preempted to keep somebody admitted later.

    Why: sunk cost is protected; and the oldest must always get through, or nobody may (PagedAttention, SOSP 2023,
    section 4.5).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not view.victims:
            return
        m.count("PRE-5")
        fresh = {track.id for track in view.admitted}
        kept = sorted(request for request in m.world.running if request not in fresh)
        latest: dict[int, int] = {}
        for request in kept:
            priority = m.tracks[request].priority
            latest[priority] = max(latest.get(priority, 0), record(m, request).victim_key)
        for victim in view.victims:
            priority, earlier = victim.track.priority, record(m, victim.track.id).victim_key
            if latest.get(priority, 0) > earlier:
                says = "nobody admitted earlier is preempted to keep somebody admitted later"
                later = (r for r in kept if record(m, r).victim_key > earlier and m.tracks[r].priority == priority)
                m.fail("PRE-5", "earlier", says, victim=victim.track.id, kept=next(later))


@monitor("PRE-6", bugs=("B24",))
class SomebodyAdvances(TraceRule):
    """A preemption leaves somebody running, or makes place for a better class, and completed tokens grow within a
    bounded number of steps.

    Why: DeepSpeed-MII threw away the KV of every request when none could grow, and started over, the same way
    (https://github.com/deepspeedai/DeepSpeed-MII/pull/403); a lone request of vLLM that outgrows the pool preempts
    itself for ever (https://github.com/vllm-project/vllm/issues/39734).
    """

    def __init__(self) -> None:
        self.barren_steps = 0
        self.look_again_at = 16

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if view.victims and not m.has_obligations:  # of which they, too, may take their part
            m.count("PRE-6")
            victims = [victim.track.id for victim in view.victims]
            for_others = bool(view.admitted) and _asks_for_classes(m)
            if len(victims) > 1 and not for_others and not m.world.running - {track.id for track in view.admitted}:
                m.fail("PRE-6", "all", "a preemption leaves somebody running who ran before", victims=victims)
            elif not m.world.running:
                says = "who runs alone is not preempted: it comes back to the same memory, and that for ever"
                m.fail("PRE-6", "alone", says, victim=victims[0])
        if view.plan.request:
            self.barren_steps += 1
            if self.barren_steps >= self.look_again_at:
                self._look(m)

    def on_complete(self, m: "Monitor", deltas: "Sequence[Delta]") -> None:
        if any(delta[0] == "delivered" and delta[1] for delta in deltas):
            self._begin_again()

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        """Steps that were spent on a request that is cancelled are lost, and nobody but its client is to blame."""
        self._begin_again()

    def _begin_again(self) -> None:
        self.barren_steps = 0
        self.look_again_at = 16

    def _look(self, m: "Monitor") -> None:
        """Steps without a token are spent on prefill: at most every known position once, and one step each."""
        live = [record(m, request).known + 2 for request, track in m.tracks.items() if not track.ended]
        bound = sum(live) + m.settings.overlap_depth
        if self.barren_steps > bound:
            m.fail(
                "PRE-6",
                "barren",
                "completed tokens grow within a bounded number of steps",
                steps=self.barren_steps,
                bound=bound,
            )
            self.barren_steps = 0
        self.look_again_at = bound + 1
