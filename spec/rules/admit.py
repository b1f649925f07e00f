"""ADMIT: queues that are bounded, waits that end, refusals that are true.  What fits at all stands in `door.py`."""

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from ..declared_time import DeclaredTime
from ..relation import EXPIRED, FINISHED, registry
from ..service import lane_of
from ..vocabulary import PERMANENT_REASONS
from .base import TraceRule, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..monitor import Monitor
    from ..parking import Parked
    from ..tracks import Track
    from ..vocabulary import Delta, Message, Receipt, Request

monitor = registry.monitor

Row = tuple[str, int, int]
"""A limit: the reason of its refusals, what it allows, and what there is."""


class Limits(TraceRule):
    """Common part of rules about what may be accepted: after each submission, and when somebody enters whom the door
    held, no limit is exceeded; and who is refused for one would have exceeded it."""

    rule = ""
    accepted_says = ""
    refused_says = ""

    def rows(self, m: "Monitor", request: "Request") -> "Iterator[Row]":
        """Limits as they stand for a request, without it unless it was accepted."""
        raise NotImplementedError

    def own(self, reason: str, request: "Request") -> int:
        return request.declared_tokens if reason.endswith("tokens") else 1

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind != "submit":
            return
        request, receipt = message.given, message.answer
        if receipt.verdict == "accepted":
            self._accepted(m, request)
        elif receipt.verdict == "refused":
            for reason, most, there in self.rows(m, request):
                if most and receipt.reason == reason:
                    self._refused(m, request, reason, most, there)

    def on_door(self, m: "Monitor", request: "Request | None", delta: "Delta") -> None:
        if request is not None and delta[0] == "entered":
            self._accepted(m, request)

    def has_room(self, m: "Monitor", request: "Request", reason: str | None = None) -> bool:
        """Whether every limit, or the one of that name, would hold with it."""
        rows = [row for row in self.rows(m, request) if reason in (None, row[0])]
        return all(not most or there + self.own(name, request) <= most for name, most, there in rows)

    def _accepted(self, m: "Monitor", request: "Request") -> None:
        for reason, most, there in self.rows(m, request):
            m.count(self.rule, times=int(most > 0))
            if 0 < most < there:
                facts = {"request": request.id, "reason": reason, "most": most, "there": there}
                m.fail(self.rule, "exceeded", self.accepted_says, **facts)

    def _refused(self, m: "Monitor", request: "Request", reason: str, most: int, there: int) -> None:
        m.count(self.rule)
        with_it = there + self.own(reason, request)
        if with_it <= most:
            facts = {"request": request.id, "reason": reason, "most": most, "there": with_it}
            m.fail(self.rule, "refused", self.refused_says, **facts)


@monitor("ADMIT-3", claims=("bounded_queue",), bugs=("B37",))
class QueuesAreBounded(Limits):
    """What waits for its first admission is within the declared capacity, in requests and in tokens, of the door and of
    each lane, whichever path the requests took; and nobody is refused for a queue that has room.

    Why: an unbounded queue turns overload into waits that nobody survives; Ollama's bound did not count requests for a
    model that was loaded already (https://github.com/ollama/ollama/issues/7758), vLLM was asked for one for years
    (https://github.com/vllm-project/vllm/issues/2901).
    """

    rule = "ADMIT-3"
    accepted_says = "what waits for its first admission is within the capacity of the queue"
    refused_says = "nobody is refused for a queue that has room"

    def __init__(self) -> None:
        self.fresh: dict[Track, None] = {}
        self.requests: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def rows(self, m: "Monitor", request: "Request") -> "Iterator[Row]":
        door = m.settings.door
        yield "queue_requests", door.queue_requests, self.requests.total()
        yield "queue_tokens", door.queue_tokens, self.tokens.total()
        if m.settings.lanes:
            lane = lane_of(m.settings, request)
            yield "lane_requests", lane.queue_requests, self.requests[lane.name]
            yield "lane_tokens", lane.queue_tokens, self.tokens[lane.name]

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.fresh[track] = None
        self._count(track, 1)

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        if track in self.fresh:
            del self.fresh[track]
            self._count(track, -1)

    on_ended = on_admit

    def _count(self, track: "Track", sign: int) -> None:
        self.requests[track.lane] += sign
        self.tokens[track.lane] += sign * track.limit_tokens


@monitor("ADMIT-7", claims=("client_limits",))
class ClientsAreBounded(Limits):
    """What a client has accepted and not ended is within its declared limits, in requests and in declared tokens, and
    so is what all clients have; and nobody is refused for a limit that has room.

    Why: a cap on requests cannot tell a prompt of 4k from one of 500k, so one account fills the memory of all
    (https://github.com/sgl-project/sglang/pull/34011).
    """

    rule = "ADMIT-7"
    accepted_says = "what a client, and all of them, have under way is within the declared limits"
    refused_says = "nobody is refused for a limit that has room"

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def rows(self, m: "Monitor", request: "Request") -> "Iterator[Row]":
        door = m.settings.door
        yield "client_requests", door.client_requests, self.requests[request.client]
        yield "client_tokens", door.client_tokens, self.tokens[request.client]
        yield "committed_tokens", door.committed_tokens, self.tokens.total()

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.requests[track.client] += 1
        self.tokens[track.client] += track.limit_tokens

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.requests[track.client] -= 1
        self.tokens[track.client] -= track.limit_tokens
        if not self.requests[track.client]:
            del self.requests[track.client], self.tokens[track.client]


@monitor("ADMIT-12", claims=("rates",))
class RatesHold(Limits):
    """In every window of rate_window_ns a client is accepted with at most rate_requests requests, of at most
    rate_tokens declared tokens; and nobody is refused for a rate that it keeps.

    Why: windows that begin at fixed times let twice the rate through at their edge
    (https://blog.cloudflare.com/counting-things-a-lot-of-different-things/).
    """

    rule = "ADMIT-12"
    accepted_says = "a client keeps its rate in every window"
    refused_says = "nobody is refused for a rate that it keeps"

    def __init__(self) -> None:
        self.accepted: dict[str, deque[tuple[int, int]]] = {}

    def rows(self, m: "Monitor", request: "Request") -> "Iterator[Row]":
        door, accepted = m.settings.door, self.accepted.get(request.client, ())
        counts = [tokens for when, tokens in accepted if when + door.rate_window_ns > m.now_ns]
        yield "rate_requests", door.rate_requests, len(counts)
        yield "rate_tokens", door.rate_tokens, sum(counts)

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        accepted = self.accepted.setdefault(track.client, deque())
        while accepted and accepted[0][0] + m.settings.door.rate_window_ns <= m.now_ns:
            accepted.popleft()
        accepted.append((m.now_ns, track.limit_tokens))


# --- time ----------------------------------------------------------------------------------------------------


@monitor("ADMIT-4", claims=("queue_age",))
class WaitsEnd(TraceRule):
    """Nobody waits longer than queue_age_ns for its first admission: by the first call after that, but for a result
    that comes twice, it has expired, with one event, and not before; who was admitted once does not expire for it; and
    who comes to an empty system is not refused for the wait that is predicted.

    Why: work that nobody waits for any more is run all the same, and those behind it become late in turn
    (https://github.com/vllm-project/vllm/issues/16391).
    """

    def __init__(self) -> None:
        self.since_ns: dict[Track, int] = {}
        self.is_repeated = False
        self.parked_too_long: Track | None = None

    def on_call(self, m: "Monitor", message: "Message") -> None:
        self.is_repeated = message.kind == "complete" and message.given.step not in m.in_flight

    def on_unparked(self, m: "Monitor", parked: "Parked", how: str) -> None:
        self.parked_too_long = parked.track if how == "expired" else None

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.since_ns[track] = m.now_ns

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self._ends(m, track, expired=False, admitted=True)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        expired = record(m, track.id).phase == EXPIRED
        if expired and track.epoch and track is not self.parked_too_long:
            says = "nobody expires that was admitted once"
            m.fail("ADMIT-4", "admitted", says, request=track.id, now_ns=m.now_ns)
        self._ends(m, track, expired=expired)

    def _ends(self, m: "Monitor", track: "Track", *, expired: bool, admitted: bool = False) -> None:
        since_ns, most = self.since_ns.pop(track, None), m.settings.door.queue_age_ns
        if since_ns is None:
            return
        waited_ns = m.now_ns - since_ns
        m.count("ADMIT-4", times=int(expired))
        if admitted and self._is_over(m, waited_ns):
            self._is_late(m, track, waited_ns)
        if expired and waited_ns <= most:
            m.fail("ADMIT-4", "early", "nobody expires before its time", request=track.id, waited=waited_ns, most=most)

    @staticmethod
    def _is_over(m: "Monitor", waited_ns: int) -> bool:
        """0 is no limit."""
        return 0 < m.settings.door.queue_age_ns < waited_ns

    @staticmethod
    def _is_late(m: "Monitor", track: "Track", waited_ns: int) -> None:
        says = "nobody waits longer than the queue-age deadline"
        m.fail("ADMIT-4", "late", says, request=track.id, waited=waited_ns, most=m.settings.door.queue_age_ns)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind in ("observe", "end") or self.is_repeated:
            return
        track, since_ns = next(iter(self.since_ns.items()), (None, m.now_ns))
        if track is not None and self._is_over(m, m.now_ns - since_ns):
            self._is_late(m, track, m.now_ns - since_ns)
            del self.since_ns[track]
        if message.kind == "submit" and message.answer.verdict == "refused" and message.answer.reason == "queue_age":
            m.count("ADMIT-4")
            if not m.live:
                says = "nobody is refused for the queue of an empty system"
                m.fail("ADMIT-4", "refused", says, request=message.given.id, predicted=message.answer.value)


@monitor("ADMIT-5", claims=("retry_after",), bugs=("B28",))
class RefusalsAreTrue(TraceRule):
    """A refusal says its reason, the limit and the value, and when to come again: never, if the request is too large
    even alone; else at a time at which, if nobody else has come and steps took no longer than declared, it is accepted.

    Why: clients that are sent away without a time come again at once, and all together
    (https://github.com/sgl-project/sglang/issues/33858).
    """

    def __init__(self) -> None:
        self.time: DeclaredTime | None = None
        self.told: dict[tuple[Any, ...], tuple[int, int]] = {}

    def on_call(self, m: "Monitor", message: "Message") -> None:
        if self.time is None:
            self.time = DeclaredTime(m.settings.door)
        self.time.hear(m, message)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if message.kind != "submit" or self.time is None:
            return
        request, receipt, delays = message.given, message.answer, self.time.delays
        shape = (request.client, request.lane, request.prompt_tokens, request.max_output_tokens)
        due_ns, delays_before = self.told.get(shape, (m.now_ns + 1, delays))
        if m.now_ns >= due_ns and delays == delays_before:
            m.count("ADMIT-5")
            if receipt.verdict not in ("accepted", "duplicate"):
                says = "who comes again when it was told to is accepted"
                m.fail("ADMIT-5", "retry", says, request=request.id, reason=receipt.reason, due=due_ns)
        if receipt.verdict == "accepted" or request.id in m.held:
            self.told.clear()
        elif receipt.verdict == "refused":
            self._is_explicit(m, request, receipt)
            if receipt.retry_after_ns is not None:
                self.told[shape] = m.now_ns + receipt.retry_after_ns, delays

    def _is_explicit(self, m: "Monitor", request: "Request", receipt: "Receipt") -> None:
        facts = {"request": request.id, "reason": receipt.reason}
        if receipt.reason in PERMANENT_REASONS and receipt.retry_after_ns is not None:
            says = "who can never be accepted is not told to come again"
            m.fail("ADMIT-5", "permanent", says, **facts, retry_after=receipt.retry_after_ns)
        if receipt.limit is None or receipt.value is None:
            m.fail("ADMIT-5", "explicit", "a refusal says the limit and the value", **facts)


@monitor("ADMIT-8", claims=("promise",))
class AdmittedIsMet(TraceRule):
    """While steps take no longer than declared, whoever is accepted is admitted within queue_age_ns, and has its first
    token within first_token_ns.

    Why: work that will miss its objective is better refused than served late: what it takes is missing to those who
    could be in time (early rejection of Mooncake, FAST 2025, https://arxiv.org/abs/2407.00079).
    """

    def __init__(self) -> None:
        self.time: DeclaredTime | None = None
        self.promised: dict[Track, tuple[int, int]] = {}

    def on_call(self, m: "Monitor", message: "Message") -> None:
        if self.time is None:
            self.time = DeclaredTime(m.settings.door)
        self.time.hear(m, message)

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.promised[track] = m.now_ns, self.delays

    @property
    def delays(self) -> int:
        return 0 if self.time is None else self.time.delays

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        since_ns, delays = self.promised.pop(track, (m.now_ns, -1))
        if record(m, track.id).phase == EXPIRED and delays == self.delays:
            says = "who is accepted is admitted before its queue-age deadline"
            m.fail("ADMIT-8", "expired", says, request=track.id, waited=m.now_ns - since_ns)

    def on_complete(self, m: "Monitor", deltas: "Sequence[Delta]") -> None:
        for delta in deltas:
            if delta[0] == "delivered":
                for request in delta[1]:
                    self._first_token(m, m.tracks[request])

    def _first_token(self, m: "Monitor", track: "Track") -> None:
        since_ns, delays = self.promised.pop(track, (m.now_ns, -1))
        most = m.settings.door.first_token_ns
        if delays != self.delays:
            return
        m.count("ADMIT-8")
        if 0 < most < m.now_ns - since_ns:
            says = "who is accepted has its first token in time"
            m.fail("ADMIT-8", "first_token", says, request=track.id, waited=m.now_ns - since_ns, most=most)


# --- keys ----------------------------------------------------------------------------------------------------


@monitor("ADMIT-6", claims=("one_generation",))
class KeysNameOneGeneration(TraceRule):
    """An idempotency key of a client names one generation: a submission with the key of one that lives, is held at the
    door, or finished or went to another pool or model less than retain_ns ago, is answered with that one; any other is
    a generation of its own.

    Why: a client that timed out comes again, and pays, and waits, for two generations
    (https://docs.stripe.com/api/idempotent_requests).
    """

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.until_ns: dict[str, int] = {}
        self.is_new = False

    def on_call(self, m: "Monitor", message: "Message") -> None:
        self.is_new = message.kind == "submit" and message.given.id not in m.tracks and message.given.id not in m.held

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        if not self.is_new or message.given.idempotency_key is None:
            return
        request, receipt = message.given, message.answer
        held = self._held(message.now_ns, (request.client, request.idempotency_key))
        facts = {"request": request.id, "key": request.idempotency_key}
        m.count("ADMIT-6", times=int(held is not None))
        if held is not None and (receipt.verdict != "duplicate" or receipt.of != held):
            m.fail("ADMIT-6", "second", "a key that is held is answered with its generation", **facts, held=held)
        elif held is None and receipt.verdict == "duplicate":
            m.fail("ADMIT-6", "joined", "a key that nobody holds begins a generation", **facts, of=receipt.of)
        elif receipt.verdict in ("accepted", "deferred", "converted"):
            self.names[request.client, request.idempotency_key] = request.id
            self.keys[request.id] = request.client, request.idempotency_key
            if request.id not in m.held and receipt.verdict == "converted":
                self._ends(m, request.id, has_answer=True)

    def _held(self, now_ns: int, key: tuple[str, str]) -> str | None:
        request = self.names.get(key)
        return None if request is None or self.until_ns.get(request, now_ns + 1) <= now_ns else request

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self._ends(m, track.id, has_answer=record(m, track.id).phase == FINISHED)

    def on_door(self, m: "Monitor", request: "Request | None", delta: "Delta") -> None:
        if request is not None and delta[0] != "entered":
            self._ends(m, request.id, has_answer=False)

    def _ends(self, m: "Monitor", request: str, *, has_answer: bool) -> None:
        key = self.keys.pop(request, None)
        if key is None:
            return
        if has_answer:
            self.until_ns[request] = m.now_ns + m.settings.door.retain_ns
        else:
            del self.names[key]
