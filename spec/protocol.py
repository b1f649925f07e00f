"""The border of the protocol: an answer becomes the canonical object, or a ProtocolError of one sentence.

An answer is an object of `vocabulary` or the plain dicts and lists that JSON has for it; both go through the
same checks.  A canonical object owns its columns (tuples), so a subject may go on using its own lists.  What
needs a state (a request that nobody knows, one that has ended) is judged where the state is, not here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import fields_dict

from . import values
from .errors import ProtocolError, shown
from .hints import did_you_mean
from .values import Check
from .vocabulary import (
    CLAIMS,
    CONSTANTS,
    CONVERSIONS,
    DELTAS,
    DISPLACEMENTS,
    FINISH_REASONS,
    LEASE_ENDS,
    LEVELS,
    NEEDED_CONSTANTS,
    ORDERINGS,
    POOLS,
    PREEMPTIONS,
    REFUSAL_REASONS,
    TRANSFERS,
    WAIT_LIMITS,
    Capabilities,
    Delta,
    Door,
    Lane,
    Observation,
    Outcome,
    Plan,
    Pools,
    Receipt,
    Request,
    RequestView,
    Settings,
)

# --- deltas -------------------------------------------------------------------------------------------------

_DELTA_FIELDS: Mapping[str, Check] = {
    "request": values.text,
    "requests": values.texts,
    "requester": values.optional(values.text),
    "blocks": values.naturals,
    "tokens": values.naturals,
    "cached_tokens": values.natural,
    "how": values.one_of(*PREEMPTIONS),
    "reason": values.text,
    "limit": values.one_of(*WAIT_LIMITS),
    "transfer": values.positive,
    "outcome": values.one_of(*TRANSFERS),
    "dependencies": values.texts,
    "until_ns": values.natural,
    "ended_by": values.one_of(*LEASE_ENDS),
    "decided_after_ns": values.natural,
    "into": values.one_of(*CONVERSIONS),
    "by": values.one_of(*ORDERINGS),
    "before": values.positive,
    "after": values.positive,
    "cause": values.one_of(*DISPLACEMENTS),
    "held_ns": values.any_integer,
    "waited_ns": values.any_integer,
    "ran_ns": values.any_integer,
    "whole_ns": values.any_integer,
}
_FINISH_REASON = values.one_of(*FINISH_REASONS)

# A field of DELTAS that has no check fails here, when the module is imported: nothing passes unread.
_DELTA_CHECKS: Mapping[str, tuple[tuple[str, Check], ...]] = {
    name: tuple(
        (field, _FINISH_REASON if (name, field) == ("finished", "reason") else _DELTA_FIELDS[field]) for field in fields
    )
    for name, fields in DELTAS.items()
}


def read_deltas(answer: Any, method: str = "complete", field: str = "deltas") -> tuple[Delta, ...]:
    """The deltas of an answer, as tuples."""
    if answer is None:
        hint = "has the method a return statement? nothing to report is an empty list"
        raise ProtocolError(method, field, None, "must be a list", hint)
    column = values.column_of(method, field, answer)
    if not column:
        return ()
    return tuple(_of_blocks(delta) or _delta(method, f"{field}[{i}]", delta) for i, delta in enumerate(column))


def _of_blocks(delta: Any) -> Delta | None:
    """A delta that names a block of a request, if it is as it should be: most deltas are."""
    if (type(delta) is not list and type(delta) is not tuple) or len(delta) != _BLOCK_DELTA:
        return None
    name, request, blocks = delta
    if type(name) is not str or name not in _BLOCK_DELTAS or type(request) is not str:
        return None
    if (type(blocks) is not list and type(blocks) is not tuple) or len(blocks) != 1:
        return None
    (block,) = blocks
    return (name, request, (block,)) if type(block) is int and block >= 0 else None


_BLOCK_DELTA = 3
_BLOCK_DELTAS = frozenset(name for name, fields in DELTAS.items() if tuple(fields) == ("request", "blocks"))


def _delta(method: str, field: str, delta: Any) -> Delta:
    if not (type(delta) is tuple or type(delta) is list) or not delta:
        hint = "like ['took', 'r1', [7]]"
        raise ProtocolError(method, field, delta, "must be a list of a name and its fields", hint)
    name = delta[0]
    checks = _DELTA_CHECKS.get(name) if type(name) is str else None
    if checks is None:
        problem, hint = f"no delta is called {shown(name)}", did_you_mean(name, DELTAS, "spec/PROTOCOL.md")
        raise ProtocolError(method, field, delta, problem, hint)
    if len(delta) != len(checks) + 1:
        problem = f"has {values.entries(len(delta) - 1)} after its name"
        raise ProtocolError(method, field, list(delta), problem, f"{name} has {', '.join(DELTAS[name])}")
    parts = zip(checks, delta[1:], strict=True)
    read = [check(method, f"{field}.{part}", value) for (part, check), value in parts]
    if name == "delivered":
        requests, tokens = f"{field}.requests", f"{field}.tokens"
        values.equally_long(method, requests, {requests: read[0], tokens: read[1]})
    return (name, *read)


def _deltas(method: str, field: str, value: Any) -> tuple[Delta, ...]:
    return read_deltas(value, method, field)


# --- what a subject answers ---------------------------------------------------------------------------------


def _claims(method: str, field: str, value: Any) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ProtocolError(method, field, value, "must be a list of claims", "like ['fcfs', 'hard_budget']")
    for claim in value:
        if claim not in CLAIMS:
            hint = did_you_mean(claim, CLAIMS, "spec/PROTOCOL.md")
            raise ProtocolError(method, field, claim, "no rule knows such a claim", hint)
    return frozenset(value)


def _constants(method: str, field: str, value: Any) -> dict[str, int]:
    """As an object, or as the pairs of a canonical one."""
    pairs = dict(value) if type(value) is tuple else value
    constants: dict[str, int] = values.mapping(values.one_of(*CONSTANTS), values.natural)(method, field, pairs)
    return constants


_CAPABILITIES: Mapping[str, Check] = {
    "name": values.text,
    "version": values.text,
    "profile": values.optional(values.text),
    "observes": values.one_of(*LEVELS),
    "ordered": values.flag,
    "claims": _claims,
    "constants": _constants,
    "executor_order": values.one_of("writes_first", "entry_by_entry", "reads_first"),
    "lookahead_tokens": values.natural,
    "admission_period_steps": values.positive,
    "null_blocks": values.naturals,
    "reserved_blocks": values.naturals,
}


def read_capabilities(answer: Any, method: str = "capabilities") -> Capabilities:
    capabilities = values.record(method, Capabilities, _CAPABILITIES, answer)
    declared = dict(capabilities.constants)
    for claim, constant in NEEDED_CONSTANTS.items():
        if claim in capabilities.claims and constant not in declared:
            problem = f"the claim {claim!r} says nothing without {constant}"
            raise ProtocolError(method, "constants", declared, problem, CONSTANTS[constant])
    return capabilities


_RECEIPT: Mapping[str, Check] = {
    "verdict": values.one_of("accepted", "refused", "duplicate", "converted", "deferred"),
    "reason": values.optional(values.one_of(*REFUSAL_REASONS)),
    "limit": values.optional(values.any_integer),
    "value": values.optional(values.any_integer),
    "retry_after_ns": values.optional(values.natural),
    "of": values.optional(values.text),
    "how": values.optional(values.text),
    "decided_after_ns": values.optional(values.natural),
    "deltas": _deltas,
}
_VERDICT_NEEDS: Mapping[str, tuple[str, str, str, str | None]] = {
    "refused": ("reason", "a refusal says why", "one of " + ", ".join(REFUSAL_REASONS), "ADMIT-5"),
    "duplicate": ("of", "a duplicate says of which request", "its id", None),
    "converted": ("how", "a conversion says into what", "one of " + ", ".join(CONVERSIONS), None),
    "deferred": ("decided_after_ns", "a deferral says how long it takes at most", "nanoseconds from now", None),
}


def read_receipt(answer: Any, method: str = "submit") -> Receipt:
    """Whoever is told nothing has neither a place nor an end."""
    if answer is None:
        problem = "must be a Receipt or an object with its fields"
        raise ProtocolError(method, "receipt", None, problem, values.hint_record(None), rule="LIFE-3")
    receipt = values.record(method, Receipt, _RECEIPT, answer)
    if receipt.verdict in _VERDICT_NEEDS:
        name, problem, hint, rule = _VERDICT_NEEDS[receipt.verdict]
        if getattr(receipt, name) is None:
            raise ProtocolError(method, name, None, problem, hint, rule)
    return receipt


_PLAN: Mapping[str, Check] = {
    "step": values.natural,
    "request": values.texts,
    "start": values.naturals,
    "tokens": values.naturals,
    "samples": values.samples,
    "deltas": _deltas,
    "pool": values.optional(values.one_of(*POOLS)),
    "drafts": values.mapping(values.text, values.natural),
}


def read_plan(answer: Any, method: str = "step") -> Plan:
    plan = values.record(method, Plan, _PLAN, answer)
    request, start = plan.request, plan.start
    if not len(request) == len(start) == len(plan.tokens) == len(plan.samples):
        names = ("request", "start", "tokens", "samples")
        values.equally_long(method, "request", {name: getattr(plan, name) for name in names})
    if not (request.are_distinct if type(request) is values.Texts else len(set(request)) == len(request)):
        _refuse_twice(method, plan)
    return plan


def _refuse_twice(method: str, plan: Plan) -> None:
    """A request may have entries of its own for two chunks (a rule judges that), never the same one twice."""
    seen: set[tuple[str, int]] = set()
    for place, entry in enumerate(zip(plan.request, plan.start, strict=True)):
        if entry in seen:
            request, start = entry
            problem = f"the plan lists request {request!r} twice from position {start}"
            hint = "keep one of the two entries"
            raise ProtocolError(method, f"request[{place}]", request, problem, hint, rule="STEP-3")
        seen.add(entry)


_OBLIGATION = (values.natural, values.text, values.text)


def _obligation(method: str, field: str, value: Any) -> tuple[int, str, str]:
    column = values.column_of(method, field, value)
    if len(column) != len(_OBLIGATION):
        raise ProtocolError(method, field, value, "must be block, owner and reason")
    parts = zip(_OBLIGATION, column, strict=True)
    block, owner, reason = (check(method, field, item) for check, item in parts)
    return block, owner, reason


_STATES = ("waiting", "parked", "running", "swapped", "transferring")
_REQUEST_VIEW: Mapping[str, Check] = {
    "state": values.one_of(*_STATES),
    "issued": values.any_integer,
    "computed": values.any_integer,
    "outputs": values.any_integer,
    "in_flight": values.any_integer,
}


def _is_canonical(view: Any) -> bool:
    """Most views are as they should be, and cannot change: those are not made again."""
    if type(view) is not RequestView or view.state not in _STATES:
        return False
    parts = (view.state, view.issued, view.computed, view.outputs, view.in_flight)
    return tuple(map(type, parts)) == (str, int, int, int, int)


def _request_view(method: str, field: str, value: Any) -> RequestView:
    return value if _is_canonical(value) else values.record(method, RequestView, _REQUEST_VIEW, value, f"{field}.")


# Numbers of a snapshot may be negative: that is a fault of the scheduler, which a rule reports.
_OBSERVATION: Mapping[str, Check] = {
    "counters": values.mapping(values.text, values.any_integer),
    "requests": values.mapping(values.text, _request_view),
    "tables": values.mapping(values.text, values.naturals),
    "free": values.naturals,
    "evictable": values.naturals,
    "reserved": values.naturals,
    "null": values.naturals,
    "obligations": values.each(_obligation),
    "ref_counts": values.mapping(values.block_key, values.any_integer),
    "index": values.naturals,
    "client_counters": values.mapping(values.text, values.any_integer),
    "host_tables": values.mapping(values.text, values.naturals),
    "host_free": values.naturals,
}


def read_observation(answer: Any, method: str = "observe") -> Observation | None:
    """None: the subject has nothing to show."""
    return None if answer is None else values.record(method, Observation, _OBSERVATION, answer)


# --- what a subject is told ---------------------------------------------------------------------------------

_OUTCOME: Mapping[str, Check] = {
    "step": values.natural,
    "request": values.texts,
    "token": values.naturals,
    "stop": values.flags,
    "pause": values.texts,
    "accepted": values.each(values.naturals),
}


def read_outcome(given: Any, method: str = "complete") -> Outcome:
    outcome = values.record(method, Outcome, _OUTCOME, given)
    columns = {"request": outcome.request, "token": outcome.token, "stop": outcome.stop}
    if outcome.pause:
        columns["pause"] = outcome.pause
    if outcome.accepted:
        columns["accepted"] = outcome.accepted
    values.equally_long(method, "request", columns)
    return outcome


# Only the prompt's length is checked: absurd limits and deadlines are what the door is tested with.
_REQUEST: Mapping[str, Check] = {
    "id": values.text,
    "prompt_ids": values.naturals,
    "max_output_tokens": values.any_integer,
    "client": values.text,
    "lane": values.text,
    "priority": values.any_integer,
    "deadline_ns": values.optional(values.any_integer),
    "idempotency_key": values.optional(values.text),
    "dependencies": values.texts,
    "predicted_output_tokens": values.optional(values.any_integer),
    "adapter": values.optional(values.text),
    "survives_disconnect": values.flag,
    "was_converted": values.flag,
}


def read_request(given: Any, method: str = "submit") -> Request:
    request = values.record(method, Request, _REQUEST, given)
    if not request.prompt_ids:
        raise ProtocolError(method, "prompt_ids", [], "a prompt has at least one token")
    return request


_BY_TYPE = {int: values.any_integer, bool: values.flag}
_LANE: Mapping[str, Check] = {
    name: _BY_TYPE.get(type(attribute.default), values.any_integer if name == "share_percent" else values.text)
    for name, attribute in fields_dict(Lane).items()
}


def _lanes(method: str, field: str, value: Any) -> tuple[Lane, ...]:
    column = values.column_of(method, field, value)
    return tuple(values.record(method, Lane, _LANE, lane, f"{field}[{i}].") for i, lane in enumerate(column))


_DOOR: Mapping[str, Check] = dict.fromkeys(fields_dict(Door), values.any_integer)


def _door(method: str, field: str, value: Any) -> Door:
    return values.record(method, Door, _DOOR, value, f"{field}.")


_POOLS: Mapping[str, Check] = dict.fromkeys(fields_dict(Pools), values.any_integer)


def _pools(method: str, field: str, value: Any) -> Pools:
    return values.record(method, Pools, _POOLS, value, f"{field}.")


def _prices(method: str, field: str, value: Any) -> dict[str, int]:
    """An object client -> price, or pairs of them."""
    if not isinstance(value, Mapping):
        pairs = [
            values.column_of(method, f"{field}[{i}]", pair)
            for i, pair in enumerate(values.column_of(method, field, value))
        ]
        if any(len(pair) != len(("client", "price")) for pair in pairs):
            raise ProtocolError(method, field, value, "must be an object", "from client to price")
        value = {values.text(method, field, client): price for client, price in pairs}
    return dict(values.mapping(values.text, values.any_integer)(method, field, value))


_SETTINGS: Mapping[str, Check] = {
    name: _BY_TYPE.get(type(attribute.default), values.text) for name, attribute in fields_dict(Settings).items()
} | {"prices": _prices, "lanes": _lanes, "door": _door, "pools": _pools}


def read_settings(given: Any, method: str = "configure") -> Settings:
    try:
        return values.record(method, Settings, _SETTINGS, given)
    except ProtocolError:
        raise
    except ValueError as error:  # Settings reports the faults of its values, all at once
        problem = "has faults: " + str(error).removeprefix("settings: ")
        raise ProtocolError(method, "settings", given, problem) from error


def read_setting_value(name: str, given: Any, method: str = "setting") -> Any:
    """One setting by its type; what it has to do with others is seen when all are there."""
    return _SETTINGS[name](method, name, given)


def read_now_ns(given: Any, method: str) -> int:
    now_ns: int = values.natural(method, "now_ns", given)
    return now_ns


def read_whole(given: Any, method: str, field: str) -> int:
    whole: int = values.any_integer(method, field, given)
    return whole


def read_text(given: Any, method: str, field: str) -> str:
    return values.text(method, field, given)


def read_event(given: Any, method: str = "notify") -> dict[str, Any]:
    """What the world says is free in form; only its keys are names."""
    event: dict[str, Any] = values.mapping(values.text, lambda method, field, value: value)(method, "event", given)
    return event
