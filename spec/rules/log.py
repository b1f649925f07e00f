"""OBS: the log, of why requests wait and of what was decided about them."""

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from ..relation import registry
from ..vocabulary import WAIT_LIMITS
from ..waiting import may_hold
from .base import TraceRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView
    from ..tracks import Track
    from ..vocabulary import Delta, Message, Request

monitor = registry.monitor

SURE = ("victims", "seats", "budget")
"""Limits that hold of everybody who waits, if they hold at all."""


class Log(TraceRule):
    """Common part: what the log says of those who wait; of whom it says nothing, waits for the order."""

    def __init__(self) -> None:
        self.logged: dict[Track, str] = {}

    def on_logged(self, m: "Monitor", track: "Track", limit: str) -> None:
        self.logged[track] = limit

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self.logged.pop(track, None)

    on_ended = on_wait = on_waits_again = on_admit


@monitor("OBS-1", claims=("wait_log",))
class WaitsAreLogged(Log):
    """A waiting request has one reason from the closed set, and the log has its changes and nothing else: of whom it
    says nothing, waits for the order; and in no step does everybody wait for the order.

    Why: "capacity" for everything told nobody that an engine stood still with an empty cache
    (https://github.com/vllm-project/vllm-metal/issues/479).
    """

    def on_logged(self, m: "Monitor", track: "Track", limit: str) -> None:
        m.count("OBS-1")
        if not track.waits:
            m.fail("OBS-1", "waits", "only who waits has a reason to", request=track.id, limit=limit)
        if self.logged.get(track, "order") == limit:
            m.fail("OBS-1", "changes", "a reason is logged when it changes", request=track.id, limit=limit)
        super().on_logged(m, track, limit)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.waiting or m.is_broken:
            return
        m.count("OBS-1")
        if all(limit == "order" for limit in self.logged.values()):
            m.fail("OBS-1", "order", "not everybody waits for the order", waiting=m.waiting)


@monitor("OBS-2", claims=("wait_log",))
class ReasonsAreTrue(Log):
    """The reason that is logged is a limit that holds at the end of the step, and the first of those in the declared
    order that does.

    Why: an operator who raises the limit that is named wants to see the request run; two labels were too coarse to say
    which (https://github.com/vllm-project/vllm/pull/38435).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if m.is_broken:
            return
        sure = [limit for limit in SURE if self._is_sure(m, view, limit)]
        for track, limit in self.logged.items():
            if limit == "order":
                continue
            m.count("OBS-2")
            if not may_hold(m, view, track, limit):
                m.fail(
                    "OBS-2", "holds", "the reason that is logged is a limit that holds", request=track.id, limit=limit
                )
            elif sure and WAIT_LIMITS.index(sure[0]) < WAIT_LIMITS.index(limit):
                says = "the reason that is logged is the first limit that holds"
                m.fail("OBS-2", "first", says, request=track.id, limit=limit, first=sure[0])

    @staticmethod
    def _is_sure(m: "Monitor", view: "StepView", limit: str) -> bool:
        if limit == "victims":
            return bool(view.victims) and not view.admitted
        return len(m.world.running) >= m.settings.seats if limit == "seats" else view.budget_left < 1


# --- decisions -----------------------------------------------------------------------------------------------


@monitor("OBS-4", claims=("decision_log",), bugs=("B52",))
class DurationsAreTrue(TraceRule):
    """When a request ends the log says how long it was held at the door, waited and ran: no part is negative, they sum
    to the whole, and they are the times between its deltas.

    Why: a stamp that is overwritten at each queueing, and one that is set once, gave queue times below zero
    (https://github.com/sgl-project/sglang/pull/39312).
    """

    def __init__(self) -> None:
        self.doing: dict[str, tuple[int, int]] = {}
        self.parts: dict[str, list[int]] = {}
        self.unsaid: dict[str, list[int]] = {}

    HELD, WAITED, RAN = range(3)

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self._turns(m, track.id, self.WAITED)

    def on_wait(self, m: "Monitor", track: "Track") -> None:
        self._turns(m, track.id, self.WAITED)

    def on_parked(self, m: "Monitor", track: "Track", dependencies: "Sequence[str]") -> None:
        """That counts as waiting."""
        self._turns(m, track.id, self.WAITED)

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self._turns(m, track.id, self.RAN)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self._ends(m, track.id)

    def on_door(self, m: "Monitor", request: "Request | None", delta: "Delta") -> None:
        if request is not None and delta[0] != "entered":
            self._ends(m, request.id)

    def on_decided(self, m: "Monitor", track: "Track", delta: "Delta") -> None:
        if delta[0] != "spent":
            return
        *parts, whole = delta[2:]
        true = self.unsaid.pop(track.id, None)
        m.count("OBS-4")
        facts = {"request": track.id, "shown": parts, "whole": whole}
        if min(parts) < 0:
            m.fail("OBS-4", "negative", "no duration is negative", **facts)
        elif sum(parts) != whole:
            m.fail("OBS-4", "sum", "the parts of the time of a request sum to the whole", **facts)
        elif parts != true:
            m.fail("OBS-4", "true", "durations are the times between the deltas of a request, once", **facts, true=true)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind == "submit" and message.given.id in m.held and message.given.id not in self.doing:
            self._turns(m, message.given.id, self.HELD)
        for request, true in self.unsaid.items():
            m.fail("OBS-4", "said", "durations of a request are logged when it ends", request=request, true=true)
        self.unsaid.clear()

    def _turns(self, m: "Monitor", request: str, doing: int) -> None:
        before, since_ns = self.doing.get(request, (doing, m.now_ns))
        self.parts.setdefault(request, [0, 0, 0])[before] += m.now_ns - since_ns
        self.doing[request] = doing, m.now_ns

    def _ends(self, m: "Monitor", request: str) -> None:
        if request in self.doing:
            self._turns(m, request, self.doing[request][0])
            self.unsaid[request] = self.parts.pop(request)
            del self.doing[request]


@monitor("OBS-5", claims=("decision_log",))
class OrderIsLogged(TraceRule):
    """Each admission is logged with the rule by which that request was next (the line of arrival, aging, a head that
    does not fit, the policy, an adapter), and with its place by arrival before the step and its place among the
    admissions of the step: who goes before somebody that came earlier is not next in line, and who is next because it
    has waited long is logged so.

    Why: low bands starved under strict priority, and whoever asked had to guess which rule let others go past
    (https://github.com/kubernetes-sigs/gateway-api-inference-extension/issues/1861).
    """

    def __init__(self) -> None:
        self.line: list[int] = []
        self.back: set[int] = set()
        self.taken: list[int] = []
        self.places: dict[str, tuple[int, int]] = {}
        self.aged: set[str] = set()

    def on_call(self, m: "Monitor", message: "Message") -> None:
        self.back, self.taken, self.places, self.aged = set(), [], {}, set()

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        if track.waits:
            insort(self.line, track.arrival)

    def on_wait(self, m: "Monitor", track: "Track") -> None:
        self.back.add(track.arrival)  # it stands in line from the next step on

    on_waits_again = on_wait

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        before = bisect_left(self.line, track.arrival) + sum(other < track.arrival for other in self.taken) + 1
        self.places[track.id] = before, len(self.taken) + 1
        if m.is_promoted(track):
            self.aged.add(track.id)
        self.taken.append(track.arrival)
        self._leaves(track.arrival)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self._leaves(track.arrival)

    def on_decided(self, m: "Monitor", track: "Track", delta: "Delta") -> None:
        if delta[0] != "chosen":
            return
        by, *places = delta[2:]
        true = self.places.pop(track.id, None)
        m.count("OBS-5")
        facts = {"request": track.id, "by": by, "before": places[0], "after": places[1]}
        if true != tuple(places):
            says = "a choice is logged once, with the place by arrival before the step and the place in the step"
            m.fail("OBS-5", "places", says, **facts, true=true)
        elif not self._may_be(m, track, by, places[0] > places[1]):
            m.fail("OBS-5", "rule", "the rule that is logged may be what put the request first", **facts)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        for request, places in self.places.items():
            m.fail("OBS-5", "said", "the rule of each admission is logged", request=request, true=places)
        for arrival in self.back:
            insort(self.line, arrival)

    def _may_be(self, m: "Monitor", track: "Track", by: str, goes_past: bool) -> bool:
        if m.claims("bounded_overtaking"):
            # Who lost its place in the step in which another came in has seen that admission, or not: it is one moment.
            is_sure = not m.settings.preempt_lower_class
            if by == "aging" or (is_sure and track.id in self.aged):
                return by == "aging" and track.id in self.aged
        elif by == "aging":
            return m.settings.aging_picks > 0 or m.settings.max_overtaken > 0
        possible = {
            "line": not goes_past,
            "skip": m.settings.at_blocked_head == "skip",
            "policy": m.settings.policy != "fcfs",
            "adapter": m.settings.adapter_slots > 0,
        }
        return possible[by] and (by == "line" or goes_past)

    def _leaves(self, arrival: int) -> None:
        self.back.discard(arrival)
        place = bisect_left(self.line, arrival)
        if place < len(self.line) and self.line[place] == arrival:
            del self.line[place]


@monitor("OBS-6", claims=("decision_log",))
class PreemptionsAreExplained(TraceRule):
    """Each preemption is logged with its cause: others need its blocks, or a request of a better class, which is
    admitted in that step, takes its place.

    Why: preemption counts per request were asked for over two years, and a count does not say whether memory or
    priorities are to be changed (https://github.com/vllm-project/vllm/issues/5051).
    """

    def __init__(self) -> None:
        self.victims: dict[str, str | None] = {}
        self.causes: list[tuple[str, str]] = []
        self.admitted: set[str] = set()

    def on_call(self, m: "Monitor", message: "Message") -> None:
        self.victims, self.causes, self.admitted = {}, [], set()

    def on_wait(self, m: "Monitor", track: "Track") -> None:
        self.victims[track.id] = None if m.view is None else m.view.victims[-1].requester

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self.admitted.add(track.id)

    def on_decided(self, m: "Monitor", track: "Track", delta: "Delta") -> None:
        if delta[0] == "displaced":
            self.causes.append((track.id, delta[2]))

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        m.count("OBS-6", times=len(self.victims))
        said = sorted(request for request, _ in self.causes)
        if said != sorted(self.victims):
            says = "each preemption is logged with one cause, and nothing else is"
            m.fail("OBS-6", "said", says, logged=said, preempted=sorted(self.victims))
            return
        for request, cause in self.causes:
            true = "class" if self.victims[request] in self.admitted else "blocks"
            if cause != true:
                says = "a preemption is for a better class where that one is admitted in the step, and else for blocks"
                m.fail("OBS-6", "true", says, request=request, cause=cause, true=true)
