"""Steps that the door must leave possible."""

from schedspec.spec.terms import Bool, least

from ..door import Accept, Call, End, Expire, Forget, Gate, Release, Return, registry
from .step import Steps

DOOR = Steps(registry)
step = DOOR.step


@step(Accept)
def the_last_place_of_everything_is_taken(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """One that fills the queue, its lane, what its client may have, what all may have, and the rate is accepted."""
    lane, client = s.lane[e.request], s.client[e.request]
    return (
        (t.queued == s.queue_requests) & (t.queued_tokens == s.queue_tokens) & (s.tokens[e.request] >= 1),
        (t.queued_of[lane] == s.lane_requests[lane]) & (t.queued_tokens_of[lane] == s.lane_tokens[lane]),
        (t.live_of[client] == s.client_requests) & (t.live_tokens_of[client] == s.client_tokens),
        (t.committed == s.committed_tokens) & (client == s.who) & (t.recents == s.rate) & (s.rate >= 1),
    )


@step(Accept)
def one_comes_at_the_first_moment_of_a_window(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """It is in the window, and somebody who came before is still recent."""
    return (
        (s.now == s.edge) & (s.window >= 2) & t.inside.has(e.request) & ~t.early.has(e.request),
        (s.recents >= 1) & ~s.early.is_empty() & (s.client[e.request] == s.who),
    )


@step(Accept)
def another_client_comes_though_the_rate_is_used_up(s: Gate, e: Accept, t: Gate) -> tuple[Bool, ...]:
    """The rate of one client is used up, and one of another is accepted."""
    return (
        (s.recents == s.rate) & (s.rate >= 1) & ~(s.client[e.request] == s.who),
        (t.recents == s.recents) & ~t.recent.has(e.request) & ~t.inside.has(e.request) & ~t.early.has(e.request),
    )


@step(Accept)
def another_client_comes_though_the_rate_is_not_used_up(s: Gate, e: Accept, t: Gate) -> Bool:
    """What one client has left says nothing of others."""
    return (s.recents + 1 <= s.rate) & ~(s.client[e.request] == s.who)


@step(Accept)
def the_key_of_one_that_was_given_up_begins_anew(s: Gate, e: Accept, t: Gate) -> Bool:
    """A key that answered for somebody else begins another generation."""
    key = s.key[e.request]
    return ~(s.answers[key] == e.request) & s.known.has(s.answers[key]) & (t.answers[key] == e.request)


@step(Call)
def a_call_comes_at_the_same_moment(s: Gate, e: Call, t: Gate) -> Bool:
    """The clock may stand still."""
    return (e.now == s.now) & (s.now >= 1) & ~s.busy & t.busy


@step(Expire)
def one_expires_just_after_its_time(s: Gate, e: Expire, t: Gate) -> Bool:
    """A nanosecond after the deadline it may expire."""
    return (s.now == s.since[e.request] + s.age + 1) & (s.age >= 1)


@step(End)
def one_ends_while_it_waits(s: Gate, e: End, t: Gate) -> Bool:
    """A request that waits may end, and has no answer: its key is free."""
    return s.queue.has(e.request) & ~e.has_answer & ~t.held.has(s.key[e.request])


@step(End)
def one_finishes(s: Gate, e: End, t: Gate) -> Bool:
    """A request that runs finishes; its key answers on."""
    key = s.key[e.request]
    return ~s.queue.has(e.request) & e.has_answer & t.held.has(key) & t.retained.has(key) & (s.retain >= 1)


@step(Forget)
def one_counts_no_more_at_the_end_of_its_window(s: Gate, e: Forget, t: Gate) -> Bool:
    """A window ends as long after a request as it is long; then it is forgotten, while another window is open."""
    return (s.since[e.request] + s.window == s.now) & (s.window >= 1) & (s.now < s.edge + s.window)


@step(Release)
def a_key_is_given_up_at_once_when_it_may_be(s: Gate, e: Release, t: Gate) -> Bool:
    """At the very moment."""
    return (s.until[e.key] == s.now) & (s.now >= 1)


@step(Return)
def a_call_ends_with_one_at_its_deadline(s: Gate, e: Return, t: Gate) -> Bool:
    """Whoever has waited as long as it may still waits."""
    is_due = s.now == least(s.since, s.queue, s.now) + s.age
    return ~s.queue.is_empty() & is_due & (s.age >= 1) & ~t.busy


@step(Return)
def a_call_ends_late_with_an_empty_queue(s: Gate, e: Return, t: Gate) -> Bool:
    """Where nobody waits nobody has waited too long, whatever the clock says."""
    return s.queue.is_empty() & (s.now >= s.age + s.age + 9) & (t.returns == 1) & (s.age >= 1)
