"""The door, as terms: what `reference/admission.py` keeps of queues, clients, waits, keys and rates.

A call begins at a time, and ends; in between requests are accepted, admitted for the first time, expire and end.  A
limit that there is not is one that is never reached.  The theorems are about this algorithm: the rules of these names
are plain classes that judge any scheduler by its trace.  `tests/unit/test_door_terms.py` runs these terms beside the
reference.
"""

from schedspec.spec.registry import Registry
from schedspec.spec.terms import (
    BOOL,
    INT,
    Bool,
    Event,
    Int,
    Key,
    Map,
    Set,
    State,
    card,
    forall,
    implies,
    ite,
    least,
    lift,
)

from .theory import Theory


class RequestName(Key):
    __slots__ = ()


class LaneName(Key):
    __slots__ = ()


class ClientName(Key):
    __slots__ = ()


class KeyName(Key):
    """An idempotency key of a client."""

    __slots__ = ()


class Gate(State):
    # parameters
    queue_requests: Int
    queue_tokens: Int
    lane_requests: Map[LaneName, Int]
    lane_tokens: Map[LaneName, Int]
    client_requests: Int
    client_tokens: Int
    committed_tokens: Int
    age: Int
    window: Int
    rate: Int
    retain: Int
    tokens: Map[RequestName, Int]  # declared ones
    lane: Map[RequestName, LaneName]
    client: Map[RequestName, ClientName]
    key: Map[RequestName, KeyName]
    who: ClientName  # whose rate is looked at
    edge: Int  # where some window begins

    now: Int
    busy: Bool  # a call is under way
    known: Set[RequestName]
    since: Map[RequestName, Int]  # when it was accepted

    queue: Set[RequestName]
    queued: Int
    queued_tokens: Int
    queued_of: Map[LaneName, Int]
    queued_tokens_of: Map[LaneName, Int]

    expired: Set[RequestName]
    waited: Map[RequestName, Int]

    live: Set[RequestName]
    committed: Int
    live_of: Map[ClientName, Int]
    live_tokens_of: Map[ClientName, Int]

    answers: Map[KeyName, RequestName]
    held: Set[KeyName]
    retained: Set[KeyName]  # of those, whose generation has finished
    until: Map[KeyName, Int]

    recent: Set[RequestName]  # of `who`, as far as nobody has looked whether they still count
    recents: Int
    early: Set[RequestName]  # of these, who came before the window at `edge`
    inside: Set[RequestName]  # of `who`, who came in that window

    # the same once more, from the other side: what came, and what left
    told: Int  # the time of the last call
    calls: Int
    returns: Int
    ended: Set[RequestName]
    ended_at: Map[RequestName, Int]
    came: Int  # tokens
    left: Int
    gone: Int
    came_of: Map[LaneName, Int]
    left_of: Map[LaneName, Int]
    came_tokens_of: Map[LaneName, Int]
    left_tokens_of: Map[LaneName, Int]
    sent_by: Map[ClientName, Int]
    gone_of: Map[ClientName, Int]
    sent_tokens_by: Map[ClientName, Int]
    gone_tokens_of: Map[ClientName, Int]


class Call(Event):
    now: Int


class Accept(Event):
    request: RequestName


class Admit(Event):
    """For the first time."""

    request: RequestName


class Expire(Event):
    request: RequestName


class End(Event):
    """Any other end; `has_answer`: it finished."""

    request: RequestName
    has_answer: Bool


class Forget(Event):
    """A request is older than the window of the rate."""

    request: RequestName


class Release(Event):
    """A finished generation has answered for its key long enough."""

    key: KeyName


class Return(Event):
    """The call is over."""


registry = Registry(Gate, {})
rule, also, invariant, transition = registry.rule, registry.also, registry.invariant, registry.transition
_YES, _NO = lift(True, BOOL), lift(False, BOOL)


# --- ADMIT-3: queues ---------------------------------------------------------------------------------------------


@rule("ADMIT-3", on=Accept)
def there_is_room_in_the_queue(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """Whoever is accepted is new, and fits into the queue of the door and into that of its lane."""
    r, lane, tokens = e.request, s.lane[e.request], s.tokens[e.request]
    return (
        ~s.known.has(r),
        s.queued + 1 <= s.queue_requests,
        s.queued_tokens + tokens <= s.queue_tokens,
        s.queued_of[lane] + 1 <= s.lane_requests[lane],
        s.queued_tokens_of[lane] + tokens <= s.lane_tokens[lane],
        t.known == s.known.add(r),
        t.queue == s.queue.add(r),
        t.queued == s.queued + 1,
        t.queued_tokens == s.queued_tokens + tokens,
        t.queued_of == s.queued_of.set(lane, s.queued_of[lane] + 1),
        t.queued_tokens_of == s.queued_tokens_of.set(lane, s.queued_tokens_of[lane] + tokens),
        t.came == s.came + tokens,
        t.came_of == s.came_of.set(lane, s.came_of[lane] + 1),
        t.came_tokens_of == s.came_tokens_of.set(lane, s.came_tokens_of[lane] + tokens),
    )


def _leaves_the_queue(s: Gate, r: RequestName, t: Gate) -> tuple[Bool, ...]:
    """If it stands there."""
    lane, tokens, stands = s.lane[r], s.tokens[r], s.queue.has(r)

    def moved(counts: Map[LaneName, Int], by: Int) -> Map[LaneName, Int]:
        return ite(stands, counts.set(lane, counts[lane] + by), counts)

    one, none = lift(1, INT), lift(0, INT)
    return (
        t.queue == s.queue.remove(r),
        t.queued == ite(stands, s.queued - 1, s.queued),
        t.queued_tokens == ite(stands, s.queued_tokens - tokens, s.queued_tokens),
        t.queued_of == moved(s.queued_of, none - one),
        t.queued_tokens_of == moved(s.queued_tokens_of, none - tokens),
        t.left == ite(stands, s.left + tokens, s.left),
        t.left_of == moved(s.left_of, one),
        t.left_tokens_of == moved(s.left_tokens_of, tokens),
    )


@also("ADMIT-3", on=Admit)
def who_is_admitted_leaves_the_queue(s: Gate, e: Admit, t: Gate) -> tuple[Bool, ...]:
    return _leaves_the_queue(s, e.request, t)


@also("ADMIT-3", on=Expire)
def who_expires_leaves_the_queue(s: Gate, e: Expire, t: Gate) -> tuple[Bool, ...]:
    return _leaves_the_queue(s, e.request, t)


@also("ADMIT-3", on=End)
def who_ends_leaves_the_queue(s: Gate, e: End, t: Gate) -> tuple[Bool, ...]:
    return _leaves_the_queue(s, e.request, t)


@invariant("ADMIT-3")
def queues_are_bounded(s: Gate) -> tuple[Bool, ...]:
    return (
        s.queued == card(s.queue),
        s.queued <= s.queue_requests,
        s.queued_tokens <= s.queue_tokens,
        forall(LaneName, lambda lane: s.queued_of[lane] <= s.lane_requests[lane]),
        forall(LaneName, lambda lane: s.queued_tokens_of[lane] <= s.lane_tokens[lane]),
        forall(RequestName, lambda r: implies(s.queue.has(r), s.known.has(r) & s.live.has(r))),
        s.queued_tokens == s.came - s.left,
        forall(LaneName, lambda lane: s.queued_of[lane] == s.came_of[lane] - s.left_of[lane]),
        forall(LaneName, lambda lane: s.queued_tokens_of[lane] == s.came_tokens_of[lane] - s.left_tokens_of[lane]),
    )


# --- ADMIT-4: waits ----------------------------------------------------------------------------------------------


@rule("ADMIT-4", on=Call)
def the_clock_goes_on(s: Gate, e: Call, t: Gate) -> tuple[Bool, ...]:
    """By the end of the first call after its time whoever waits has expired, and nobody before its time."""
    return (
        ~s.busy,
        s.now <= e.now,
        t.now == e.now,
        t.busy == _YES,
        t.told == e.now,
        t.calls == s.calls + 1,
    )


@also("ADMIT-4", on=Accept)
def a_wait_begins(s: Gate, e: Accept, t: Gate) -> Bool:
    return t.since == s.since.set(e.request, s.now)


@also("ADMIT-4", on=Expire)
def it_has_waited_too_long(s: Gate, e: Expire, t: Gate) -> tuple[Bool, ...]:
    r = e.request
    return (
        s.queue.has(r),
        s.age < s.now - s.since[r],
        t.expired == s.expired.add(r),
        t.waited == s.waited.set(r, s.now - s.since[r]),
    )


@also("ADMIT-4", on=Return)
def nobody_has_waited_too_long(s: Gate, e: Return, t: Gate) -> tuple[Bool, ...]:
    return (
        s.busy,
        s.now <= least(s.since, s.queue, s.now) + s.age,
        t.busy == _NO,
        t.returns == s.returns + 1,
    )


@also("ADMIT-4", on=End)
def it_has_ended(s: Gate, e: End, t: Gate) -> tuple[Bool, ...]:
    return (t.ended == s.ended.add(e.request), t.ended_at == s.ended_at.set(e.request, s.now))


@invariant("ADMIT-4")
def waits_end(s: Gate) -> tuple[Bool, ...]:
    def in_time(r: RequestName) -> Bool:
        return implies(s.queue.has(r), s.now <= s.since[r] + s.age)

    return (
        s.now == s.told,
        s.calls == s.returns + ite(s.busy, lift(1, INT), 0),
        implies(~s.busy, forall(RequestName, in_time)),
        forall(RequestName, lambda r: implies(s.expired.has(r), s.age < s.waited[r])),
        forall(RequestName, lambda r: implies(s.known.has(r), s.live.has(r) | s.expired.has(r) | s.ended.has(r))),
    )


@transition("ADMIT-4")
def time_does_not_go_back(s: Gate, t: Gate) -> Bool:
    return s.now <= t.now


# --- ADMIT-6: keys -----------------------------------------------------------------------------------------------


@rule("ADMIT-6", on=Accept)
def a_generation_begins(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """A key names one generation while that lives, and so long after it finished."""
    key = s.key[e.request]
    return (
        ~s.held.has(key),
        t.held == s.held.add(key),
        t.answers == s.answers.set(key, e.request),
    )


@also("ADMIT-6", on=Expire)
def who_expires_has_no_answer(s: Gate, e: Expire, t: Gate) -> Bool:
    return t.held == s.held.remove(s.key[e.request])


@also("ADMIT-6", on=End)
def who_finished_answers_a_while_longer(s: Gate, e: End, t: Gate) -> tuple[Bool, ...]:
    key = s.key[e.request]
    return (
        t.held == ite(e.has_answer, s.held, s.held.remove(key)),
        t.retained == ite(e.has_answer, s.retained.add(key), s.retained),
        t.until == ite(e.has_answer, s.until.set(key, s.now + s.retain), s.until),
    )


@also("ADMIT-6", on=Release)
def an_answer_is_given_up(s: Gate, e: Release, t: Gate) -> tuple[Bool, ...]:
    return (
        s.retained.has(e.key),
        s.until[e.key] <= s.now,
        t.held == s.held.remove(e.key),
        t.retained == s.retained.remove(e.key),
    )


@invariant("ADMIT-6")
def a_key_names_one(s: Gate) -> tuple[Bool, ...]:
    def answered(r: RequestName) -> Bool:
        key = s.key[r]
        return s.held.has(key) & (s.answers[key] == r) & ~s.retained.has(key)

    def one(a: RequestName, b: RequestName) -> Bool:
        return implies(s.live.has(a) & s.live.has(b) & (s.key[a] == s.key[b]), a == b)

    return (
        forall(RequestName, lambda r: implies(s.live.has(r), answered(r))),
        forall(RequestName, lambda a: forall(RequestName, lambda b: one(a, b))),
        forall(KeyName, lambda k: implies(s.retained.has(k), s.held.has(k))),
        forall(KeyName, lambda k: implies(s.held.has(k), s.retained.has(k) | s.live.has(s.answers[k]))),
        forall(KeyName, lambda k: implies(s.held.has(k), s.key[s.answers[k]] == k)),
        forall(KeyName, lambda k: implies(s.retained.has(k), s.until[k] == s.ended_at[s.answers[k]] + s.retain)),
    )


@transition("ADMIT-6")
def no_second_generation(s: Gate, t: Gate) -> tuple[Bool, ...]:
    def stays(k: KeyName) -> Bool:
        return implies(s.held.has(k), s.answers[k] == t.answers[k])

    def is_kept(k: KeyName) -> Bool:
        return implies(s.retained.has(k) & (s.now < s.until[k]) & (s.now == t.now), t.held.has(k))

    return (forall(KeyName, stays), forall(KeyName, is_kept))


# --- ADMIT-7: clients --------------------------------------------------------------------------------------------


@rule("ADMIT-7", on=Accept)
def a_client_has_room(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """What a client has accepted and not ended is within its limits, and so is what all have."""
    client, tokens = s.client[e.request], s.tokens[e.request]
    return (
        s.live_of[client] + 1 <= s.client_requests,
        s.live_tokens_of[client] + tokens <= s.client_tokens,
        s.committed + tokens <= s.committed_tokens,
        t.live == s.live.add(e.request),
        t.committed == s.committed + tokens,
        t.live_of == s.live_of.set(client, s.live_of[client] + 1),
        t.live_tokens_of == s.live_tokens_of.set(client, s.live_tokens_of[client] + tokens),
        t.sent_by == s.sent_by.set(client, s.sent_by[client] + 1),
        t.sent_tokens_by == s.sent_tokens_by.set(client, s.sent_tokens_by[client] + tokens),
    )


def _ends(s: Gate, r: RequestName, t: Gate) -> tuple[Bool, ...]:
    client, tokens = s.client[r], s.tokens[r]
    return (
        t.live == s.live.remove(r),
        t.committed == s.committed - tokens,
        t.live_of == s.live_of.set(client, s.live_of[client] - 1),
        t.live_tokens_of == s.live_tokens_of.set(client, s.live_tokens_of[client] - tokens),
        t.gone == s.gone + tokens,
        t.gone_of == s.gone_of.set(client, s.gone_of[client] + 1),
        t.gone_tokens_of == s.gone_tokens_of.set(client, s.gone_tokens_of[client] + tokens),
    )


@also("ADMIT-7", on=Expire)
def who_expires_is_gone(s: Gate, e: Expire, t: Gate) -> tuple[Bool, ...]:
    return _ends(s, e.request, t)


@also("ADMIT-7", on=End)
def who_ends_is_gone(s: Gate, e: End, t: Gate) -> tuple[Bool, ...]:
    return (s.live.has(e.request), *_ends(s, e.request, t))


@invariant("ADMIT-7")
def clients_are_bounded(s: Gate) -> tuple[Bool, ...]:
    return (
        forall(ClientName, lambda c: s.live_of[c] <= s.client_requests),
        forall(ClientName, lambda c: s.live_tokens_of[c] <= s.client_tokens),
        s.committed <= s.committed_tokens,
        forall(RequestName, lambda r: implies(s.live.has(r), s.known.has(r))),
        s.committed == s.came - s.gone,
        forall(ClientName, lambda c: s.live_of[c] == s.sent_by[c] - s.gone_of[c]),
        forall(ClientName, lambda c: s.live_tokens_of[c] == s.sent_tokens_by[c] - s.gone_tokens_of[c]),
    )


# --- ADMIT-12: rates ---------------------------------------------------------------------------------------------


@rule("ADMIT-12", on=Accept)
def a_rate_is_kept(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """In no window, wherever it begins, are more accepted than the rate: whoever came in one that is not over is among
    the recent ones."""
    r, is_its_own = e.request, s.client[e.request] == s.who
    is_inside = is_its_own & (s.edge <= s.now) & (s.now < s.edge + s.window)
    return (
        implies(is_its_own, s.recents + 1 <= s.rate),
        t.recent == ite(is_its_own, s.recent.add(r), s.recent),
        t.recents == ite(is_its_own, s.recents + 1, s.recents),
        t.early == ite(is_its_own & (s.now < s.edge), s.early.add(r), s.early),
        t.inside == ite(is_inside, s.inside.add(r), s.inside),
    )


@also("ADMIT-12", on=Forget)
def the_old_count_no_more(s: Gate, e: Forget, t: Gate) -> tuple[Bool, ...]:
    r = e.request
    return (
        s.recent.has(r),
        s.since[r] + s.window <= s.now,
        t.recent == s.recent.remove(r),
        t.recents == s.recents - 1,
        t.early == s.early.remove(r),
    )


@invariant("ADMIT-12")
def rates_hold_in_every_window(s: Gate) -> tuple[Bool, ...]:
    is_open = s.now < s.edge + s.window

    def came_inside(r: RequestName) -> Bool:
        return s.known.has(r) & (s.edge <= s.since[r])

    def came_early(r: RequestName) -> Bool:
        return s.recent.has(r) & (s.since[r] < s.edge)

    return (
        card(s.inside) <= s.rate,
        implies(is_open, s.recents == card(s.early) + card(s.inside)),
        forall(RequestName, lambda r: implies(s.inside.has(r), came_inside(r))),
        forall(RequestName, lambda r: implies(s.early.has(r), came_early(r))),
        forall(RequestName, lambda r: implies(s.recent.has(r), s.known.has(r))),
        implies(is_open, forall(RequestName, lambda r: implies(s.recent.has(r), s.early.has(r) | s.inside.has(r)))),
    )


# --- what is taken for granted -----------------------------------------------------------------------------------


def _parameters(s: Gate) -> tuple[Bool, ...]:
    """Limits and lengths are no less than nothing."""
    limits = (s.queue_requests, s.queue_tokens, s.client_requests, s.client_tokens, s.committed_tokens, s.age, s.rate)
    return (
        *(limit >= 0 for limit in (*limits, s.window, s.retain)),
        forall(LaneName, lambda lane: (s.lane_requests[lane] >= 0) & (s.lane_tokens[lane] >= 0)),
        forall(RequestName, lambda r: s.tokens[r] >= 0),
    )


DOOR = Theory(
    registry,
    name="door",
    bounds={rule_id: (rule_id,) for rule_id in ("ADMIT-3", "ADMIT-6", "ADMIT-7")},
    parts={"ADMIT-4": ("ADMIT-4",), "ADMIT-12": ("ADMIT-12",)},
    parameters=_parameters(Gate("state")),
    scope={"RequestName": 2, "LaneName": 1, "ClientName": 2, "KeyName": 2},
)
