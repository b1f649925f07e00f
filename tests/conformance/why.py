"""`schedspec why`: the story of one request of a recorded run, in plain sentences.

When it came, and what the door did with it; what it waited for, and how long for each; by which rule it was next, and
who went past it by which; why it lost its place; how its prompt was computed; how it ended.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from schedspec.spec.entering import is_held
from schedspec.spec.monitor import Monitor, StepView
from schedspec.spec.pool_headers import has_two_pools
from schedspec.spec.rules.base import TraceRule
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Delta, Header, Message, Plan, Receipt, Request
from schedspec.spec.waiting import LIMITS, Reason, reason_of

from .archives import read_recorded
from .names import counted
from .story import ENDS, Event, Overtaking, Story, Wait, answered, seconds
from .why_pools import Course

MOST_NAMED = 8
MOST_COMPARED, LONGEST_ASKED = 10_000, 200
"""Who is meant by a name that nobody has is looked for among so many."""
HELD = "held at the door"
OWN_KEYS = {"priority": "priority", "aging": "priority", "edf": "deadline_ns"}
"""Policy -> the field of a request that it orders by, where one field says it."""


ORDERS = {
    "line": "it came first of those who waited",
    "aging": "it had waited so long that it is preferred",
    "skip": "whoever stood before it did not fit",
    "adapter": "the adapter of whoever came earlier could not be loaded",
}
"""Why somebody is next, but for the policy."""
DISPLACED = {"blocks": "others needed its blocks", "class": "a request of a better class took its place"}


class Listener(TraceRule):
    """Hears of one request; time since the last call belongs to what it was doing then."""

    def __init__(self, story: Story, requests: dict[str, Request]) -> None:
        self.story = story
        self.requests = requests
        self.doing = "waiting for its first step"
        self.since_ns = 0
        self.step = 0
        self.logged = "order"
        self.is_told = False

    def on_logged(self, m: Monitor, track: Track, limit: str) -> None:
        """In its own words, where the scheduler has any."""
        if self.is_it(track):
            self.logged = limit

    def on_accept(self, m: Monitor, track: Track) -> None:
        if not self.is_it(track):
            return
        if self.doing == HELD:
            self.turn(m, "waiting for its first step")
            self.note(m, "entered", f"enters; {counted(m.waiting - track.waits, 'request')} waited already")
        else:
            self.since_ns = m.now_ns
            waited = counted(m.waiting - track.waits, "request")
            self.note(m, "accepted", f"came and was accepted; {waited} waited already")
        if track.id in m.parking.parked:
            self.is_parked(m, self.story.request.dependencies)

    def is_turned(self, m: Monitor, receipt: Receipt) -> bool:
        """What the door said; whether it is over for the request here."""
        self.story.came_ns = self.since_ns = m.now_ns
        if receipt.verdict == "accepted":
            return False
        held = is_held(receipt)
        at = f", at now_ns {m.now_ns:,}" if m.now_ns and not held else ""
        self.note(m, receipt.verdict, answered(receipt) + at)
        self.doing = HELD
        if held:
            return False
        self.story.ended_ns = m.now_ns
        return True

    def on_admit(self, m: Monitor, track: Track) -> None:
        if self.is_it(track):
            self.logged = "order"
            self.turn(m, "running")
            self.note(m, "admitted", "admitted")
            return
        own = m.tracks.get(self.story.request.id)
        if own is not None and own.waits and not own.ended and track.arrival > own.arrival:
            self.story.overtaken.append(Overtaking(track.id, self.number(m), self.why_before(m, track)))

    def on_decided(self, m: Monitor, track: Track, delta: Delta) -> None:
        """By which rule, in the words of the scheduler, where it has any: after the delta that says what happened."""
        kind, rule = delta[0], delta[2]
        if kind == "displaced" and self.is_it(track):
            self.story.events[-1] = evolve(self._last(), says=f"{self._last().says}; {DISPLACED[rule]}")
        elif kind == "chosen" and self.is_it(track):
            before, after = delta[3:]
            place = f"; place {before} by arrival, {after} to be admitted" if before != after else ""
            self.story.events[-1] = evolve(self._last(), says=f"admitted: {self._order(m, track, rule)}{place}")
        elif kind == "chosen" and self.story.overtaken and self.story.overtaken[-1].request == track.id:
            last = self.story.overtaken[-1]
            self.story.overtaken[-1] = evolve(last, says=f"by {rule}: {self._order(m, track, rule)}")

    def _last(self) -> Event:
        last = self.story.events[-1]
        assert isinstance(last, Event)
        return last

    def _order(self, m: Monitor, track: Track, rule: str) -> str:
        return ORDERS.get(rule) or (f"under {m.settings.policy}" if self.is_it(track) else self.by_policy(m, track))

    def on_wait(self, m: Monitor, track: Track) -> None:
        if self.is_it(track):
            self.logged = "order"
            requester = m.view.victims[-1].requester if m.view is not None and m.view.victims else None
            self.turn(m, "waiting after a preemption")
            saved = ", what it has computed saved in host memory" if m.is_swapped(track) else ""
            self.note(m, "preempted", f"preempted{saved}; {_for_whom(requester, track.id)}")

    def on_parked(self, m: Monitor, track: Track, dependencies: Sequence[str]) -> None:
        if self.is_it(track):
            self.is_parked(m, dependencies)

    def on_waits_again(self, m: Monitor, track: Track) -> None:
        if self.is_it(track):
            self.logged = "order"
            self.turn(m, "waiting after it was parked")
            self.note(m, "unparked", "has what it was parked for, and waits again")

    def is_parked(self, m: Monitor, dependencies: Sequence[str]) -> None:
        names = ", ".join(dependencies)
        self.turn(m, f"parked for {names}")
        self.note(m, "parked", f"parked until it has {names}, at most {seconds(m.settings.park_timeout_ns)}")

    def on_step(self, m: Monitor, view: StepView) -> None:
        self.step = view.plan.step
        own = m.tracks.get(self.story.request.id)
        if own is None or own.ended:
            return
        if own.waits:
            self.wait(m, view, own)
        elif own.id not in m.parking.parked:
            self.run(m, view.plan)

    def is_it(self, track: Track) -> bool:
        return track.id == self.story.request.id

    def number(self, m: Monitor) -> int:
        return m.view.plan.step if m.view is not None else self.step

    def note(self, m: Monitor, what: str, says: str, until: int | None = None) -> None:
        self.story.events.append(Event(m.now_ns, self.number(m), what, says, until))

    def turn(self, m: Monitor, doing: str) -> None:
        self.story.parts_ns[self.doing] += m.now_ns - self.since_ns
        self.doing, self.since_ns = doing, m.now_ns

    def wait(self, m: Monitor, view: StepView, own: Track) -> None:
        reason = Reason(self.logged) if m.claims("wait_log") else reason_of(m, view, own)
        events = self.story.events
        self.turn(m, f"waiting: {reason.limit}")
        last = events[-1] if events else None
        if isinstance(last, Wait) and last.reason.limit == reason.limit:
            last.last_step, last.until_ns, last.steps = view.plan.step, m.now_ns, last.steps + 1
        else:
            events.append(Wait(reason, view.plan.step, view.plan.step, m.now_ns, m.now_ns))

    def run(self, m: Monitor, plan: Plan) -> None:
        own = self.story.request.id
        if own not in plan.request:
            self.note(m, "left out", "has its place, but runs in no part of this step")
            return
        place = list(plan.request).index(own)
        start, tokens = plan.start[place], plan.tokens[place]
        if start + tokens <= self.story.request.prompt_tokens or tokens > 1:
            self.note(m, "prefill", f"computes positions {start:,}", start + tokens - 1)

    def why_before(self, m: Monitor, track: Track) -> str:
        """By which rule, as far as a trace without a log of decisions tells."""
        if m.is_promoted(track):
            return f"by aging: {ORDERS['aging']}"
        return self.by_policy(m, track)

    def by_policy(self, m: Monitor, track: Track) -> str:
        """As far as it orders by one field of a request."""
        policy = m.settings.policy
        key = OWN_KEYS.get(policy)
        own, other = self.story.request, self.requests.get(track.id)
        if key is None or other is None:
            return f"under {policy}"
        return f"under {policy}: its {key.removesuffix('_ns')} is {getattr(other, key)} against {getattr(own, key)}"

    def hear(self, m: Monitor, deltas: Iterable[Delta]) -> None:
        """What the relation keeps no hook for: tokens and the kind of end."""
        own = self.story.request.id
        for delta in deltas:
            if delta[0] == "delivered" and own in delta[1] and self.story.first_token_ns is None:
                self.story.first_token_ns = m.now_ns
                self.note(m, "first token", "its first output token is delivered")
                events = self.story.events
                if isinstance(events[-2], Event) and events[-2].what == "parked":  # by that same token
                    events[-2:] = reversed(events[-2:])
            elif delta[0] in ENDS and delta[1] == own and self.story.ended_ns is None:
                self.story.ended_ns = m.now_ns
                self.turn(m, "over")
                self.note(m, delta[0], " ".join([delta[0], *(f"({word})" for word in delta[2:])]))


def _for_whom(requester: str | None, own: str) -> str:
    if requester is None or requester == own:
        return "no other request is named that the memory was for"
    return f"the memory was for {requester}"


def tell(path: Path, request: str) -> Story:
    """Read a trace for one request.  Raises ValueError if it is not in it."""
    header, messages = read_recorded(path)
    return tell_of(header, messages, request)


def tell_of(header: Header, messages: Iterable[Message], request: str) -> Story:
    """The same for messages at hand.  Requests that came before are remembered only as long as they live."""
    if has_two_pools(header):
        return _of_two_pools(messages, request)
    monitor = Monitor(header, content=False)
    requests: dict[str, Request] = {}
    listener: Listener | None = None
    names: dict[str, None] = {}
    for message in messages:
        if message.kind == "submit":
            names[message.given.id] = None
            requests[message.given.id] = message.given
            if message.given.id == request and listener is None:
                listener = Listener(Story(message.given), requests)
                monitor.listen(listener)
        monitor.feed(message)
        if listener is not None and message.kind == "submit" and message.given.id == request and not listener.is_told:
            listener.is_told = True
            if listener.is_turned(monitor, message.answer):
                return listener.story
        if listener is not None:
            listener.hear(monitor, _deltas(message))
            if listener.story.ended_ns is not None:
                break
    if listener is None:
        raise ValueError(f"no request {request!r} in this trace; {_hint(request, names)}")
    return listener.story


def _of_two_pools(messages: Iterable[Message], request: str) -> Story:
    """As its deltas tell it: there is no one queue of which a reason could be told."""
    course: Course | None = None
    names: dict[str, None] = {}
    for message in messages:
        if message.kind == "submit":
            names[message.given.id] = None
            if message.given.id == request and course is None:
                course = Course(Story(message.given))
        if course is not None:
            course.hear(message, _deltas(message))
            if course.story.ended_ns is not None:
                break
    if course is None:
        raise ValueError(f"no request {request!r} in this trace; {_hint(request, names)}")
    return course.story


def _deltas(message: Message) -> Iterable[Delta]:
    if message.kind in ("step", "submit"):
        deltas: Iterable[Delta] = message.answer.deltas
        return deltas
    return message.answer if message.kind in ("complete", "cancel", "notify") else ()


def _hint(request: str, names: dict[str, None]) -> str:
    close = get_close_matches(request[:LONGEST_ASKED], list(names)[:MOST_COMPARED], n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"it has {', '.join(list(names)[:MOST_NAMED])}" if names else "nothing was submitted"


# --- in words ----------------------------------------------------------------------------------------------


def sentences(story: Story) -> list[str]:
    """The story, a line each; times count from when the request came, and are left out where the clock stood still."""
    own = story.request
    lines = [
        f"{own.id}: client {own.client}, {counted(own.prompt_tokens, 'prompt token')},"
        f" up to {counted(own.max_output_tokens, 'output token')}"
    ]
    timed = bool(story.parts_ns.total())
    lines += [_line(story, event, timed=timed) for event in _folded(story.events)]
    if story.overtaken:
        lines += _overtaken(story.overtaken)
    if story.ended_ns is None:
        lines.append("The trace ends before it does.")
    elif timed:
        lines.append(_parts(story, story.ended_ns))
    return lines


def _folded(events: list[Event | Wait]) -> list[Event | Wait]:
    """Chunks in a row are one line."""
    folded: list[Event | Wait] = []
    for event in events:
        last = folded[-1] if folded else None
        if isinstance(event, Event) and isinstance(last, Event) and event.what == last.what in ("prefill", "left out"):
            folded[-1] = evolve(last, until=event.until, last_step=event.step)
        else:
            folded.append(event)
    return folded


def _line(story: Story, event: Event | Wait, *, timed: bool) -> str:
    if isinstance(event, Event):
        says = event.says if event.until is None else f"{event.says} to {event.until:,}"
        until = "" if event.last_step in (None, event.step) else f", until step {event.last_step}"
        return _when(event.at_ns - story.came_ns, event.step, timed) + says + until
    reason, numbers = event.reason, ""
    if reason.needed is not None:
        numbers = f" ({reason.needed:,} needed, {reason.left:,} left)"
    steps = f" {counted(event.steps, 'step')}, to step {event.last_step}," if event.steps > 1 else ""
    says = f"waits{steps} for {reason.limit}: {LIMITS[reason.limit]}{numbers}"
    return _when(event.from_ns - story.came_ns, event.first_step, timed) + says


def _when(ns: int, step: int, timed: bool) -> str:
    return (f"{seconds(ns):>11}" if timed else "") + f"  {f'step {step}' if step else '':<10} "


def _overtaken(overtaken: list[Overtaking]) -> list[str]:
    lines = [f"{counted(len(overtaken), 'request')} that came later went past it:"]
    lines += [f"  step {one.step:<5}  {one.request} {one.says}" for one in overtaken[:MOST_NAMED]]
    more = len(overtaken) - MOST_NAMED
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def _parts(story: Story, ended_ns: int) -> str:
    spent = [f"{seconds(ns)} {what}" for what, ns in story.parts_ns.most_common() if ns]
    first = (
        "" if story.first_token_ns is None else f", {seconds(story.first_token_ns - story.came_ns)} to its first token"
    )
    return f"{seconds(ended_ns - story.came_ns)} in all{first}: {', '.join(spent)}"


def as_json(story: Story) -> dict[str, Any]:
    return {
        "request": story.request.id,
        "came_ns": story.came_ns,
        "first_token_ns": story.first_token_ns,
        "ended_ns": story.ended_ns,
        "parts_ns": dict(story.parts_ns),
        "events": [{"kind": type(event).__name__.lower(), **asdict(event)} for event in story.events],
        "overtaken_by": [asdict(one) for one in story.overtaken],
    }
