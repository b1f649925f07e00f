"""The door: whom the scheduler refuses, by which limit, and when the same request would be accepted.

Every limit is one row: what it allows, what there would be with the request, what the request asks of it alone, and how
long until it would hold.  The first row that does not hold is the refusal; a request that is too large even alone is
refused for good.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping

from attrs import Factory, define, field, frozen

from ..spec.admission import OPEN, Door
from ..spec.service import lane_of
from ..spec.settings import Lane, Settings
from ..spec.vocabulary import Receipt, Request
from .alternatives import OF_ITS_CLIENT, Alternatives, Refusal
from .forecast import Forecast, Work
from .job import RUNNING, Job


@frozen
class Limit:
    """`value`: with the request; `alone`: of it alone; `after_ns`: until it holds if nobody else comes, None if nobody
    knows; `lasts`: if it holds now it will then, too."""

    reason: str
    most: int
    value: int
    alone: int
    after_ns: int | None
    lasts: bool = True

    @property
    def is_broken(self) -> bool:
        return 0 < self.most < self.value

    @property
    def is_hopeless(self) -> bool:
        return 0 < self.most < self.alone


@define
class Use:
    """Requests, and their declared tokens."""

    requests: int = 0
    tokens: int = 0

    def add(self, request: Request, sign: int = 1) -> None:
        self.requests += sign
        self.tokens += sign * request.declared_tokens


def just_after(when_ns: int) -> int:
    """At that very moment the call that changes it may be still to come."""
    return when_ns + 1


@define(eq=False)
class Window:
    """Whom of a client the door has accepted lately: when, and with how many tokens."""

    length_ns: int
    accepted: deque[tuple[int, int]] = Factory(deque)

    def look(self, now_ns: int) -> None:
        """What is older than the window counts no more."""
        while self.accepted and self.accepted[0][0] + self.length_ns <= now_ns:
            self.accepted.popleft()

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.accepted)

    def until_fewer(self, most: int, now_ns: int) -> int:
        """Until at most so many requests count."""
        leaving = len(self.accepted) - most
        return self.accepted[leaving - 1][0] + self.length_ns - now_ns if leaving > 0 else 0

    def until_smaller(self, most: int, now_ns: int) -> int:
        """Until at most so many tokens count."""
        left = self.tokens
        for when, tokens in self.accepted:
            if left <= most:
                break
            left -= tokens
            until = when + self.length_ns - now_ns
        return until if self.tokens > most else 0


@define(eq=False)
class Gate:
    """What the door knows: who waits for its first admission and since when (`queue`, in order of acceptance), what
    clients have under way and whom they sent lately, which keys are answered for, what those who wait have to do, and
    until when steps are under way.  Whom it holds stands in `alternatives`."""

    settings: Settings
    alternatives: Alternatives = field(init=False)
    queue: dict[str, tuple[Job, int]] = Factory(dict)
    queued: Use = Factory(Use)
    lanes: dict[str, Use] = Factory(dict)
    clients: dict[str, Use] = Factory(dict)
    committed: Use = Factory(Use)
    windows: dict[str, Window] = Factory(dict)
    keys: dict[tuple[str, str], str] = Factory(dict)
    answered: deque[tuple[int, tuple[str, str]]] = Factory(deque)
    flights: dict[int, int] = Factory(dict)
    free_ns: int = 0
    waiting: dict[str, Work] = Factory(dict)
    work: Work = Factory(Work)
    sizes: Counter[int] = Factory(Counter)

    def __attrs_post_init__(self) -> None:
        self.alternatives = Alternatives(self.door)

    @property
    def door(self) -> Door:
        return self.settings.door

    # --- limits ------------------------------------------------------------------------------------------

    def refusal(self, request: Request, running: Iterator[Job], now_ns: int) -> Refusal | None:
        """The limit that the request breaks, if it breaks one."""
        limits = list(self.limits(request, running, now_ns))
        hopeless = next((limit for limit in limits if limit.is_hopeless), None)
        if hopeless is not None:
            return Refusal(hopeless.reason, hopeless.most, hopeless.alone)
        broken = next((limit for limit in limits if limit.is_broken), None)
        if broken is None:
            return None
        waits = [limit.after_ns for limit in limits if limit.is_broken or (limit.most and not limit.lasts)]
        known = [after_ns for after_ns in waits if after_ns is not None]
        is_known = len(known) == len(waits) and not self.alternatives.held  # who is held may go before
        return Refusal(broken.reason, broken.most, broken.value, max(known) if is_known else None)

    def limits(self, request: Request, running: Iterator[Job], now_ns: int) -> Iterator[Limit]:
        forecast = self.forecast(running, now_ns) if self.door.has_time_model else None
        yield from self.limits_of_clients(request, forecast)
        yield from self.limits_of_rates(request, now_ns)
        admitted_ns = None if forecast is None else just_after(forecast.wait_ns(request))
        yield from self.limits_of_queues(request, admitted_ns)
        if forecast is not None:
            yield from self.limits_of_time(request, forecast)

    def limits_of_clients(self, request: Request, forecast: Forecast | None) -> Iterator[Limit]:
        """They hold again at the latest when everybody who is in now has ended."""
        own, tokens, door = self.clients.get(request.client, Use()), request.declared_tokens, self.door
        drained_ns = None if forecast is None else just_after(forecast.drained_ns())
        yield Limit("client_requests", door.client_requests, own.requests + 1, 1, drained_ns)
        yield Limit("client_tokens", door.client_tokens, own.tokens + tokens, tokens, drained_ns)
        yield Limit("committed_tokens", door.committed_tokens, self.committed.tokens + tokens, tokens, drained_ns)

    def limits_of_rates(self, request: Request, now_ns: int) -> Iterator[Limit]:
        window, tokens, door = self.windows.get(request.client), request.declared_tokens, self.door
        if window is None:
            yield Limit("rate_tokens", door.rate_tokens, tokens, tokens, 0)
            return
        window.look(now_ns)
        until = window.until_fewer(door.rate_requests - 1, now_ns) if door.rate_requests else 0
        yield Limit("rate_requests", door.rate_requests, len(window.accepted) + 1, 1, until)
        until = window.until_smaller(max(0, door.rate_tokens - tokens), now_ns) if door.rate_tokens else 0
        yield Limit("rate_tokens", door.rate_tokens, window.tokens + tokens, tokens, until)

    def limits_of_queues(self, request: Request, admitted_ns: int | None) -> Iterator[Limit]:
        """Once it would have been admitted itself, everybody who waits now has been."""
        tokens, door = request.declared_tokens, self.door
        yield Limit("queue_requests", door.queue_requests, self.queued.requests + 1, 1, admitted_ns)
        yield Limit("queue_tokens", door.queue_tokens, self.queued.tokens + tokens, tokens, admitted_ns)
        lane = self.lane(request)
        if lane is not None:
            own = self.lanes.get(lane.name, Use())
            yield Limit("lane_requests", lane.queue_requests, own.requests + 1, 1, admitted_ns)
            yield Limit("lane_tokens", lane.queue_tokens, own.tokens + tokens, tokens, admitted_ns)

    def limits_of_time(self, request: Request, forecast: Forecast) -> Iterator[Limit]:
        """What is predicted falls by as much as the clock goes on, until it is low enough, or until nobody waits any
        more.  If it would be too high even then, it is not when all have ended."""
        empty, calm = Forecast.of(self.settings), forecast.calm()
        rows = (
            ("queue_age", self.door.queue_age_ns, forecast.wait_ns(request), 0, calm.wait_ns(request)),
            (
                "first_token",
                self.door.first_token_ns,
                forecast.first_token_ns(request),
                empty.first_token_ns(request),
                calm.first_token_ns(request),
            ),
        )
        for reason, most, value_ns, alone_ns, calm_ns in rows:
            lasts = calm_ns <= most
            after_ns = max(0, value_ns - most) if lasts else just_after(forecast.drained_ns())
            yield Limit(reason, most, value_ns, alone_ns, after_ns, lasts)

    def lane(self, request: Request) -> Lane | None:
        return lane_of(self.settings, request) if self.settings.lanes else None

    def forecast(self, running: Iterator[Job], now_ns: int) -> Forecast:
        of_running = [Work.of(job, self.settings) for job in running]
        longest = max((work.steps for work in (*of_running, *self.waiting.values())), default=0)
        work, largest = sum(of_running, self.work), max(self.sizes, default=0)
        return Forecast(self.settings, work, largest, longest, max(0, self.free_ns - now_ns))

    # --- instead of a refusal ----------------------------------------------------------------------------

    def instead(self, request: Request, refusal: Refusal, running: Iterator[Job], now_ns: int) -> Receipt | None:
        """What the request gets instead of that refusal, if anything."""
        is_hopeless = refusal.is_permanent or any(limit.is_hopeless for limit in self.limits(request, running, now_ns))
        receipt = self.alternatives.instead(request, refusal, is_hopeless=is_hopeless)
        if receipt is None:
            return None
        key = self.key(request)
        if key is not None:
            self.keys[key] = request.id
        if receipt.verdict == "deferred" or receipt.how == "asynchronous":
            self.alternatives.hold(request, receipt, now_ns)
        elif key is not None:
            self.answered.append((now_ns + self.door.retain_ns, key))
        return receipt

    def entering(self, running: Mapping[str, Job], now_ns: int) -> Iterator[Request]:
        """Who of those whom the door holds may enter; each has entered when the next is looked at."""
        for held in list(self.alternatives.held.values()):
            refusal = self.refusal(held.request, iter(running.values()), now_ns)
            if refusal is None:
                del self.alternatives.held[held.request.id]
                yield held.request
            elif refusal.reason not in OF_ITS_CLIENT:
                return

    def leaves_the_door(self, request: Request) -> None:
        """It was held, and is not any more; it has no answer."""
        del self.alternatives.held[request.id]
        key = self.key(request)
        if key is not None:
            del self.keys[key]

    # --- keys --------------------------------------------------------------------------------------------

    def generation_of(self, request: Request, now_ns: int) -> str | None:
        """The generation that answers for the request's key."""
        while self.answered and self.answered[0][0] <= now_ns:
            self.keys.pop(self.answered.popleft()[1], None)
        key = self.key(request)
        return None if key is None else self.keys.get(key)

    def key(self, request: Request) -> tuple[str, str] | None:
        """Keys are a client's own."""
        if request.idempotency_key is None or not self.door.retain_ns:
            return None
        return request.client, request.idempotency_key

    # --- what happens ------------------------------------------------------------------------------------

    def overdue(self, now_ns: int) -> Iterator[Job]:
        """Who has waited too long for its first admission."""
        for job, since_ns in list(self.queue.values()):
            if not self.door.queue_age_ns or now_ns - since_ns <= self.door.queue_age_ns:
                return
            yield job

    def accepts(self, job: Job, now_ns: int) -> None:
        request, lane, key = job.request, self.lane(job.request), self.key(job.request)
        self.queue[job.id] = job, now_ns
        self.queued.add(request)
        if lane is not None:
            self.lanes.setdefault(lane.name, Use()).add(request)
        self.clients.setdefault(request.client, Use()).add(request)
        self.committed.add(request)
        if self.door.rate_window_ns:
            window = self.windows.setdefault(request.client, Window(self.door.rate_window_ns))
            window.accepted.append((now_ns, request.declared_tokens))
        if key is not None:
            self.keys[key] = job.id
        self.waits(job)

    def waits(self, job: Job) -> None:
        if self.door.has_time_model:
            work = self.waiting[job.id] = Work.of(job, self.settings)
            self.work += work
            self.sizes[work.blocks] += 1

    def leaves_queue(self, job: Job) -> None:
        """It is admitted, or ends while it waits."""
        work = self.waiting.pop(job.id, None)
        if work is not None:
            self.work -= work
            self.sizes -= Counter([work.blocks])
        if self.queue.pop(job.id, None) is None:
            return
        self.queued.add(job.request, -1)
        lane = self.lane(job.request)
        if lane is not None:
            self.lanes[lane.name].add(job.request, -1)

    def ends(self, job: Job, how: str, now_ns: int) -> None:
        if job.state != RUNNING:
            self.leaves_queue(job)
        self.clients[job.request.client].add(job.request, -1)
        if not self.clients[job.request.client].requests:
            del self.clients[job.request.client]
        self.committed.add(job.request, -1)
        self.forget_key(job, how, now_ns)

    def forget_key(self, job: Job, how: str, now_ns: int) -> None:
        """A generation that finished answers for its key a while longer; one that did not has no answer."""
        key = self.key(job.request)
        if key is None:
            return
        if how == "finished":
            self.answered.append((now_ns + self.door.retain_ns, key))
        else:
            del self.keys[key]

    def plans(self, step: int, tokens: int, now_ns: int) -> None:
        """A step is under way, for as long as the time model says at most."""
        if tokens and self.door.has_time_model:
            self.flights[step] = self.door.takes_ns(tokens)
            self.free_ns = max(self.free_ns, now_ns) + self.flights[step]

    def completes(self, step: int, now_ns: int) -> None:
        self.flights.pop(step, None)
        self.free_ns = now_ns + sum(self.flights.values())


def new_gate(settings: Settings) -> Gate | None:
    """None where every door is open."""
    has_limits = settings.door != OPEN or any(lane.has_queue_limits for lane in settings.lanes)
    return Gate(settings) if has_limits else None


# --- promises ----------------------------------------------------------------------------------------------


def claims_of_door(s: Settings) -> set[str]:
    door = s.door
    promises: Mapping[str, object] = {
        "bounded_queue": door.queue_requests or door.queue_tokens or any(lane.has_queue_limits for lane in s.lanes),
        "queue_age": door.queue_age_ns,
        "client_limits": door.client_requests or door.client_tokens or door.committed_tokens,
        "rates": door.rate_window_ns,
        "one_generation": door.retain_ns,
        "alternatives": door.has_alternatives,
        "inter_token": door.inter_token_ns,
        "retry_after": door.has_time_model and is_predictable(s),
        "early": door.has_time_model and (door.queue_age_ns or door.first_token_ns) and is_predictable(s),
        "promise": (door.queue_age_ns or door.first_token_ns) and keeps_promises(s),
    }
    return {claim for claim, holds in promises.items() if holds}


def is_predictable(s: Settings) -> bool:
    """Whoever waits, waits for seats, blocks or budget, nobody is preempted, and no seat waits for a result: what
    `forecast.py` takes for granted."""
    has_caps = s.client_seats or s.client_resident_tokens or s.client_committed_cost or s.resident_tokens
    has_caps = has_caps or s.prefilling_requests or s.adapter_slots
    has_caps = has_caps or any(lane.maximum_percent < 100 for lane in s.lanes)
    is_plain = s.reserve == "declared" and s.at_blocked_head == "break" and s.chunked_prefill
    is_plain = is_plain and s.batch_mix == "hybrid" and s.batching == "iteration" and s.phase_first == "admission"
    is_plain = is_plain and s.admission_period_steps == 1 and not s.disjoint_steps
    return is_plain and s.overlap_depth == 1 and not has_caps and not s.preempt_lower_class


def keeps_promises(s: Settings) -> bool:
    """And nobody who comes later goes before."""
    return s.policy == "fcfs" and s.door.has_time_model and is_predictable(s)
