"""A recorded failure made short: the trace projected to the requests that matter.

A foreign run cannot be done again, only left out of.  A projection is good if the same conjunct fails at its last
message and no other rule newly does.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from math import inf

from attrs import evolve, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.pooled import new_monitor
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Delta, Header, Message, Outcome, Plan


@frozen
class Shortening:
    """How long one may take: so many `seconds`, or where it has to come out the same wherever it is done, until so many
    messages were looked at."""

    seconds: float = inf
    most_messages: float = inf


def shortened(
    header: Header, messages: Sequence[Message], violation: Violation, also: frozenset[str], how: Shortening
) -> tuple[Violation, list[Message]]:
    """The shortest projection found in that time, and the violation in it.  `messages` end with the broken one."""
    best, found = list(messages), violation
    deadline, looked_at = time.monotonic() + how.seconds, 0
    improved = True
    while improved and time.monotonic() < deadline:
        improved = False
        for candidate in _candidates(best, violation):
            looked_at += len(candidate)
            if time.monotonic() > deadline or looked_at > how.most_messages:
                break
            hit = _fails_alike(header, candidate, violation.conjunct, also)
            if hit is not None:
                best, found, improved = candidate, hit, True
                break
    return (_explained(header, messages, violation) if found is violation else found), best


def _fails_alike(header: Header, messages: Sequence[Message], conjunct: str, also: frozenset[str]) -> Violation | None:
    """The violation, if that conjunct is the first to fail, at the last message, with no rule that is new."""
    monitor = new_monitor(header, explain=False)
    try:
        for place, message in enumerate(messages):
            broken = monitor.feed(message)
            if broken and place < len(messages) - 1 and not {v.rule for v in broken} <= _advice(broken):
                return None
    except ProtocolError:
        return None
    last = [v for v in monitor.violations if v.message == len(messages)]
    if not {v.rule for v in last} <= also:
        return None
    hit = next((v for v in last if v.conjunct == conjunct), None)
    return None if hit is None else _explained(header, messages, hit)


def _advice(broken: Sequence[Violation]) -> set[str]:
    """Rules of level SHOULD among them: their break leaves the state sound."""
    return {v.rule for v in broken if registry.rules[v.rule].level == "SHOULD"}


def _explained(header: Header, messages: Sequence[Message], violation: Violation) -> Violation:
    """The same at the last message, with the values that it read."""
    monitor = new_monitor(header, explain=True)
    try:
        for message in messages:
            monitor.feed(message)
    except ProtocolError:
        return violation  # the answer was none
    last = (v for v in monitor.violations if v.conjunct == violation.conjunct and v.message == len(messages))
    return next(last, violation)


def _candidates(messages: list[Message], violation: Violation) -> Iterator[list[Message]]:
    ids = [m.given.id for m in messages if m.kind == "submit"]
    named = {value for value in violation.facts.values() if isinstance(value, str)} & set(ids)
    is_fair = registry.rules[violation.rule].family == "FAIR"
    if named and len(named) < len(ids) and not is_fair:
        yield project(messages, named)
    if any(m.kind == "observe" for m in messages[:-1]):
        yield [m for m in messages[:-1] if m.kind != "observe"] + messages[-1:]
    if any(_is_idle(m) for m in messages[:-1]):
        yield [m for m in messages[:-1] if not _is_idle(m)] + messages[-1:]
    if is_fair:
        return  # without the service of others the counters would not be those of this run
    size = len(ids) // 2
    while size >= 1:
        for start in range(0, len(ids), size):
            gone = set(ids[start : start + size])
            yield project(messages, set(ids) - gone)
        size //= 2
    for place in range(len(messages) - 2, -1, -1):
        if messages[place].kind in ("observe", "cancel", "notify") or _is_idle(messages[place]):
            yield messages[:place] + messages[place + 1 :]


def _is_idle(message: Message) -> bool:
    """A step that decided nothing."""
    return message.kind == "step" and not message.answer.request and not message.answer.deltas


def project(messages: Sequence[Message], kept: set[str]) -> list[Message]:
    """The trace with everything about other requests left out; a call of which nothing remains goes too."""
    result: list[Message] = []
    named: set[int] = set()
    empty_steps: set[int] = set()
    last = len(messages) - 1
    for place, message in enumerate(messages):
        projected = _PROJECTIONS[message.kind](message, kept, named)
        if message.kind == "step":
            nothing = not projected.answer.request and not projected.answer.deltas
            if nothing and message.answer.request and place < last:
                empty_steps.add(message.answer.step)
                continue
        if message.kind == "complete" and message.given.step in empty_steps and place < last:
            continue
        if message.kind in ("submit", "cancel") and _subject_of(message) not in kept and place < last:
            continue
        result.append(projected)
    return result


def _subject_of(message: Message) -> str:
    return message.given.id if message.kind == "submit" else str(message.given)


def _same(message: Message, kept: set[str], named: set[int]) -> Message:
    return message


def _deltas_only(message: Message, kept: set[str], named: set[int]) -> Message:
    return evolve(message, answer=_deltas(message.answer, kept, named))


def _step(message: Message, kept: set[str], named: set[int]) -> Message:
    plan: Plan = message.answer
    rows = [row for row, request in enumerate(plan.request) if request in kept]
    return evolve(
        message,
        answer=Plan(
            step=plan.step,
            request=[plan.request[row] for row in rows],
            start=[plan.start[row] for row in rows],
            tokens=[plan.tokens[row] for row in rows],
            samples=[plan.samples[row] for row in rows],
            deltas=_deltas(plan.deltas, kept, named),
            pool=plan.pool,
            drafts={request: count for request, count in plan.drafts.items() if request in kept},
        ),
    )


def _complete(message: Message, kept: set[str], named: set[int]) -> Message:
    outcome: Outcome = message.given
    rows = [row for row, request in enumerate(outcome.request) if request in kept]
    given = Outcome(
        step=outcome.step,
        request=[outcome.request[row] for row in rows],
        token=[outcome.token[row] for row in rows],
        stop=[outcome.stop[row] for row in rows],
        pause=[outcome.pause[row] for row in rows] if outcome.pause else (),
        accepted=[outcome.accepted[row] for row in rows] if outcome.accepted else (),
    )
    return evolve(message, given=given, answer=_deltas(message.answer, kept, named))


def _deltas(deltas: Sequence[Delta], kept: set[str], named: set[int]) -> list[Delta]:
    """`named`: blocks that the index names in the projection; it cannot forget others."""
    result: list[Delta] = []
    for delta in deltas:
        kind = delta[0]
        if kind == "delivered":
            rows = [(r, token) for r, token in zip(delta[1], delta[2], strict=True) if r in kept]
            if rows:
                result.append((kind, [r for r, _ in rows], [token for _, token in rows]))
        elif kind == "unindexed":
            blocks = [block for block in delta[1] if block in named]
            named.difference_update(blocks)
            if blocks:
                result.append((kind, blocks))
        elif delta[1] in kept:
            if kind == "indexed":
                named.update(delta[2])
            result.append(delta)
    return result


_PROJECTIONS: dict[str, Callable[[Message, set[str], set[int]], Message]] = {
    "submit": _same,
    "cancel": _deltas_only,
    "notify": _deltas_only,
    "step": _step,
    "complete": _complete,
    "observe": _same,
    "end": _same,
}
