"""The border of the protocol: an answer becomes the canonical object, or a ProtocolError of one sentence.

An answer is an object of `vocabulary` or the plain dicts and lists that JSON has for it; both go through the
same checks.  A canonical object owns its columns (tuples), so a subject may go on using its own lists.  What
needs a state (a request that nobody knows, one that has ended) is judged where the state is, not here.
"""

import json
import reprlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import isawaitable
from typing import Any, TypeVar

from attrs import NOTHING, fields_dict

from . import vocabulary
from .hints import closest, did_you_mean
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
    fields_as_json,
)

T = TypeVar("T")

Check = Callable[[str, str, Any], Any]
"""(method, field, value) -> the canonical value, or a ProtocolError."""


class ProtocolError(ValueError):
    """An answer that is none.

    >>> str(ProtocolError("step", "tokens[3]", 2.0, "must be an integer", "write 2 instead of 2.0"))
    'step: tokens[3] is 2.0, but must be an integer: write 2 instead of 2.0'

    `rule` names the rule that such an answer breaks beside the protocol, if there is one; `told`: what the subject left
    beside it, the lines of a traceback or the end of its stderr.
    """

    told: tuple[str, ...] = ()

    @property
    def is_hang(self) -> bool:
        """There was no answer in time."""
        return NO_ANSWER in str(self)

    def __init__(
        self, method: str, field: str, value: object, problem: str, hint: str = "", rule: str | None = None
    ) -> None:
        super().__init__(method, field, value, problem, hint, rule)
        self.rule = rule
        self.method = method
        self.field = cut(field)
        self.value = value
        self.problem = cut(problem)
        self.hint = cut(hint, 4 * LONGEST_PART)

    def __str__(self) -> str:
        return f"{self.method}: {self.field} is {shown(self.value)}, but {self.problem}" + _tail(self.hint)


class SubjectFault(ProtocolError):
    """No answer at all: the subject raised, hung or died.

    >>> str(SubjectFault("step", "raised ValueError: no such block"))
    'step raised ValueError: no such block'
    """

    def __init__(self, method: str, problem: str, hint: str = "") -> None:
        super().__init__(method, "", None, problem, hint)
        self.args = (method, problem, hint)  # what pickle calls the class with

    def __str__(self) -> str:
        return f"{self.method} {self.problem}" + _tail(self.hint)


NO_ANSWER = "no answer within"
LONGEST_PART = 240


def cut(text: str, most: int = LONGEST_PART) -> str:
    """A subject may raise, or name a field, at any length: of a long text both ends."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 4 :]}"


def _tail(hint: str) -> str:
    return f": {hint}" if hint else ""


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxdict = 6


def shown(value: object) -> str:
    """A value as an error prints it: one line, cut where it is long."""
    return " ".join(_short.repr(value).split())


# --- values -------------------------------------------------------------------------------------------------


def _integer(least: int | None) -> Check:
    wanted = "must be an integer" if least is None else f"must be an integer of at least {least}"

    def check(method: str, field: str, value: Any) -> int:
        if type(value) is not int:
            raise ProtocolError(method, field, value, wanted, _hint_integer(value))
        if least is not None and value < least:
            raise ProtocolError(method, field, value, wanted)
        return value

    return check


def _hint_integer(value: object) -> str:
    if isinstance(value, bool):
        return "true and false are no numbers, write 1 or 0"
    if isinstance(value, float):
        return f"write {int(value)} instead of {value}" if value.is_integer() else "round it in the subject"
    if isinstance(value, str):
        return "write it without quotes" if value.lstrip("-").isdigit() else ""
    if hasattr(value, "__index__"):
        return f"{type(value).__name__} is no int, convert it with int() or .tolist()"
    return ""


def _text(method: str, field: str, value: Any) -> str:
    if type(value) is not str:
        raise ProtocolError(method, field, value, "must be a string", _hint_text(value))
    return value


def _hint_text(value: object) -> str:
    if isinstance(value, str):
        return f"{type(value).__name__} is no plain string, convert it with str()"
    return f"ids and names are strings, write {str(value)!r}" if type(value) is int else ""


def _flag(method: str, field: str, value: Any) -> bool:
    if type(value) is not bool:
        raise ProtocolError(method, field, value, "must be true or false", "convert it with bool()")
    return value


def _optional(check: Check) -> Check:
    return lambda method, field, value: None if value is None else check(method, field, value)


def _one_of(*allowed: str) -> Check:
    wanted = "must be " + (" or ".join(allowed) if len(allowed) < 3 else "one of " + ", ".join(allowed))

    def check(method: str, field: str, value: Any) -> str:
        if type(value) is not str or value not in allowed:
            close = closest(value, allowed)
            raise ProtocolError(method, field, value, wanted, f"did you mean {close!r}?" if close else "")
        return value

    return check


_any_integer = _integer(None)
_natural = _integer(0)
_positive = _integer(1)

# --- columns ------------------------------------------------------------------------------------------------


class Naturals(array):  # type: ignore[type-arg]
    """Integers of 64 bits, none below 0: whoever reads a file of columns has looked."""

    @cached_property
    def are_bits(self) -> bool:
        return set(self) <= _ZERO_ONE


class Texts(tuple[str, ...]):
    """Strings, and nothing else."""

    @cached_property
    def are_distinct(self) -> bool:
        return len(set(self)) == len(self)


class Flags(tuple[bool, ...]):
    """Booleans, and nothing else."""

    __slots__ = ()


_INTEGERS = {int}
_TEXTS = {str}
_FLAGS = {bool}
_ZERO_ONE = {0, 1}


def _column(method: str, field: str, value: Any) -> tuple[Any, ...]:
    """A column as a tuple of its own: the subject may reuse its list."""
    if type(value) is list or type(value) is tuple:
        return tuple(value)
    if isinstance(value, (list, tuple, range, array)):
        return tuple(value)
    one = "one array for each field, even of one entry"
    hint = "convert the array with .tolist()" if hasattr(value, "tolist") else one
    raise ProtocolError(method, field, value, "must be a list", hint)


def _naturals(method: str, field: str, value: Any) -> Sequence[int]:
    if type(value) is Naturals:
        return value
    column = _column(method, field, value)
    if column and not (set(map(type, column)) <= _INTEGERS and min(column) >= 0):
        _blame(_natural, method, field, column)
    return column


def _texts(method: str, field: str, value: Any) -> tuple[str, ...]:
    if type(value) is Texts:
        return value
    column = _column(method, field, value)
    if not set(map(type, column)) <= _TEXTS:
        _blame(_text, method, field, column)
    return column


def _flags(method: str, field: str, value: Any) -> tuple[bool, ...]:
    if type(value) is Flags:
        return value
    column = _column(method, field, value)
    if not set(map(type, column)) <= _FLAGS:
        _blame(_flag, method, field, column)
    return column


def _samples(method: str, field: str, value: Any) -> Sequence[int]:
    column = _naturals(method, field, value)
    if not (column.are_bits if type(column) is Naturals else set(column) <= _ZERO_ONE):
        place = next(i for i, item in enumerate(column) if item > 1)
        problem = "must be 0 or 1"
        hint = "one token after the last position, or none while a prompt is unfinished"
        raise ProtocolError(method, f"{field}[{place}]", column[place], problem, hint)
    return column


def _blame(check: Check, method: str, field: str, column: Sequence[Any]) -> None:
    """Raise for the first entry that is wrong.  Almost all columns are right, so they are checked whole."""
    for place, item in enumerate(column):
        check(method, f"{field}[{place}]", item)


def _equally_long(method: str, first: str, columns: Mapping[str, Sequence[Any]]) -> None:
    expected = len(columns[first])
    for name, column in columns.items():
        if len(column) != expected:
            problem = f"has {_entries(len(column))} where {first} has {expected}"
            hint = "columns have one entry for each request"
            raise ProtocolError(method, name, list(column), problem, hint)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _each(check: Check) -> Check:
    def check_all(method: str, field: str, value: Any) -> tuple[Any, ...]:
        column = _column(method, field, value)
        return tuple(check(method, f"{field}[{i}]", item) for i, item in enumerate(column))

    return check_all


def _mapping(keys: Check, values: Check) -> Check:
    def check(method: str, field: str, value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise ProtocolError(method, field, value, "must be an object", "a dict from name to value")
        return {
            keys(method, f"a key of {field}", key): values(method, f"{field}[{key!r}]", item)
            for key, item in value.items()
        }

    return check


def _block_key(method: str, field: str, value: Any) -> int:
    """A block id as a key: JSON knows only strings there."""
    if type(value) is str and value.isascii() and value.isdigit():
        return int(value)
    natural: int = _natural(method, field, value)
    return natural


# --- records ------------------------------------------------------------------------------------------------


def _record(method: str, cls: type[T], checks: Mapping[str, Check], answer: Any, prefix: str = "") -> T:
    """Build `cls` of checked fields.  `prefix` names the record where it is part of a larger answer."""
    if isinstance(answer, cls):
        values: Mapping[str, Any] = {name: getattr(answer, name) for name in checks}
    else:
        values = _fields_of(method, cls, checks, answer, prefix)
    return cls(**{name: checks[name](method, prefix + name, value) for name, value in values.items()})


def _fields_of(method: str, cls: type, checks: Mapping[str, Check], answer: Any, prefix: str) -> Mapping[str, Any]:
    what = cls.__name__
    if not isinstance(answer, Mapping):
        problem = f"must be {_article(what)} or an object with its fields"
        field = prefix.rstrip(".") or what.lower()
        raise ProtocolError(method, field, answer, problem, _hint_record(answer))
    for name in answer:
        if name not in checks:
            problem, hint = f"{what} has no such field", did_you_mean(name, checks)
            raise ProtocolError(method, f"{prefix}{name}", answer[name], problem, hint)
    for name in _REQUIRED[cls]:
        if name not in answer:
            fields = "of " + ", ".join(checks)
            raise ProtocolError(method, f"{prefix}{name}", MISSING, f"{what} needs it", fields)
    return answer


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "AEIOU" else f"a {word}"


def _hint_record(answer: object) -> str:
    if answer is None:
        return "has the method a return statement?"
    if isawaitable(answer):
        return "the method is async, the adapter has to wait for it"
    return ""


_REQUIRED: Mapping[type, tuple[str, ...]] = {
    cls: tuple(name for name, a in fields_dict(cls).items() if a.default is NOTHING)
    for cls in (Settings, Lane, Door, Pools, Capabilities, Request, Receipt, Plan, Outcome, RequestView, Observation)
}

# --- deltas -------------------------------------------------------------------------------------------------

_DELTA_FIELDS: Mapping[str, Check] = {
    "request": _text,
    "requests": _texts,
    "requester": _optional(_text),
    "blocks": _naturals,
    "tokens": _naturals,
    "cached_tokens": _natural,
    "how": _one_of(*PREEMPTIONS),
    "reason": _text,
    "limit": _one_of(*WAIT_LIMITS),
    "transfer": _positive,
    "outcome": _one_of(*TRANSFERS),
    "dependencies": _texts,
    "until_ns": _natural,
    "ended_by": _one_of(*LEASE_ENDS),
    "decided_after_ns": _natural,
    "into": _one_of(*CONVERSIONS),
    "by": _one_of(*ORDERINGS),
    "before": _positive,
    "after": _positive,
    "cause": _one_of(*DISPLACEMENTS),
    "held_ns": _any_integer,
    "waited_ns": _any_integer,
    "ran_ns": _any_integer,
    "whole_ns": _any_integer,
}
_FINISH_REASON = _one_of(*FINISH_REASONS)

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
    column = _column(method, field, answer)
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
        problem = f"has {_entries(len(delta) - 1)} after its name"
        raise ProtocolError(method, field, list(delta), problem, f"{name} has {', '.join(DELTAS[name])}")
    parts = zip(checks, delta[1:], strict=True)
    read = [check(method, f"{field}.{part}", value) for (part, check), value in parts]
    if name == "delivered":
        requests, tokens = f"{field}.requests", f"{field}.tokens"
        _equally_long(method, requests, {requests: read[0], tokens: read[1]})
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
    constants: dict[str, int] = _mapping(_one_of(*CONSTANTS), _natural)(method, field, pairs)
    return constants


_CAPABILITIES: Mapping[str, Check] = {
    "name": _text,
    "version": _text,
    "profile": _optional(_text),
    "observes": _one_of(*LEVELS),
    "ordered": _flag,
    "claims": _claims,
    "constants": _constants,
    "executor_order": _one_of("writes_first", "entry_by_entry", "reads_first"),
    "lookahead_tokens": _natural,
    "admission_period_steps": _positive,
    "null_blocks": _naturals,
    "reserved_blocks": _naturals,
}


def read_capabilities(answer: Any, method: str = "capabilities") -> Capabilities:
    capabilities = _record(method, Capabilities, _CAPABILITIES, answer)
    declared = dict(capabilities.constants)
    for claim, constant in NEEDED_CONSTANTS.items():
        if claim in capabilities.claims and constant not in declared:
            problem = f"the claim {claim!r} says nothing without {constant}"
            raise ProtocolError(method, "constants", declared, problem, CONSTANTS[constant])
    return capabilities


_RECEIPT: Mapping[str, Check] = {
    "verdict": _one_of("accepted", "refused", "duplicate", "converted", "deferred"),
    "reason": _optional(_one_of(*REFUSAL_REASONS)),
    "limit": _optional(_any_integer),
    "value": _optional(_any_integer),
    "retry_after_ns": _optional(_natural),
    "of": _optional(_text),
    "how": _optional(_text),
    "decided_after_ns": _optional(_natural),
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
        raise ProtocolError(method, "receipt", None, problem, _hint_record(None), rule="LIFE-3")
    receipt = _record(method, Receipt, _RECEIPT, answer)
    if receipt.verdict in _VERDICT_NEEDS:
        name, problem, hint, rule = _VERDICT_NEEDS[receipt.verdict]
        if getattr(receipt, name) is None:
            raise ProtocolError(method, name, None, problem, hint, rule)
    return receipt


_PLAN: Mapping[str, Check] = {
    "step": _natural,
    "request": _texts,
    "start": _naturals,
    "tokens": _naturals,
    "samples": _samples,
    "deltas": _deltas,
    "pool": _optional(_one_of(*POOLS)),
    "drafts": _mapping(_text, _natural),
}


def read_plan(answer: Any, method: str = "step") -> Plan:
    plan = _record(method, Plan, _PLAN, answer)
    request, start = plan.request, plan.start
    if not len(request) == len(start) == len(plan.tokens) == len(plan.samples):
        names = ("request", "start", "tokens", "samples")
        _equally_long(method, "request", {name: getattr(plan, name) for name in names})
    if not (request.are_distinct if type(request) is Texts else len(set(request)) == len(request)):
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


_OBLIGATION = (_natural, _text, _text)


def _obligation(method: str, field: str, value: Any) -> tuple[int, str, str]:
    column = _column(method, field, value)
    if len(column) != len(_OBLIGATION):
        raise ProtocolError(method, field, value, "must be block, owner and reason")
    parts = zip(_OBLIGATION, column, strict=True)
    block, owner, reason = (check(method, field, item) for check, item in parts)
    return block, owner, reason


_STATES = ("waiting", "parked", "running", "swapped", "transferring")
_REQUEST_VIEW: Mapping[str, Check] = {
    "state": _one_of(*_STATES),
    "issued": _any_integer,
    "computed": _any_integer,
    "outputs": _any_integer,
    "in_flight": _any_integer,
}


def _is_canonical(view: Any) -> bool:
    """Most views are as they should be, and cannot change: those are not made again."""
    if type(view) is not RequestView or view.state not in _STATES:
        return False
    parts = (view.state, view.issued, view.computed, view.outputs, view.in_flight)
    return tuple(map(type, parts)) == (str, int, int, int, int)


def _request_view(method: str, field: str, value: Any) -> RequestView:
    return value if _is_canonical(value) else _record(method, RequestView, _REQUEST_VIEW, value, f"{field}.")


# Numbers of a snapshot may be negative: that is a fault of the scheduler, which a rule reports.
_OBSERVATION: Mapping[str, Check] = {
    "counters": _mapping(_text, _any_integer),
    "requests": _mapping(_text, _request_view),
    "tables": _mapping(_text, _naturals),
    "free": _naturals,
    "evictable": _naturals,
    "reserved": _naturals,
    "null": _naturals,
    "obligations": _each(_obligation),
    "ref_counts": _mapping(_block_key, _any_integer),
    "index": _naturals,
    "client_counters": _mapping(_text, _any_integer),
    "host_tables": _mapping(_text, _naturals),
    "host_free": _naturals,
}


def read_observation(answer: Any, method: str = "observe") -> Observation | None:
    """None: the subject has nothing to show."""
    return None if answer is None else _record(method, Observation, _OBSERVATION, answer)


# --- what a subject is told ---------------------------------------------------------------------------------

_OUTCOME: Mapping[str, Check] = {
    "step": _natural,
    "request": _texts,
    "token": _naturals,
    "stop": _flags,
    "pause": _texts,
    "accepted": _each(_naturals),
}


def read_outcome(given: Any, method: str = "complete") -> Outcome:
    outcome = _record(method, Outcome, _OUTCOME, given)
    columns = {"request": outcome.request, "token": outcome.token, "stop": outcome.stop}
    if outcome.pause:
        columns["pause"] = outcome.pause
    if outcome.accepted:
        columns["accepted"] = outcome.accepted
    _equally_long(method, "request", columns)
    return outcome


# Only the prompt's length is checked: absurd limits and deadlines are what the door is tested with.
_REQUEST: Mapping[str, Check] = {
    "id": _text,
    "prompt_ids": _naturals,
    "max_output_tokens": _any_integer,
    "client": _text,
    "lane": _text,
    "priority": _any_integer,
    "deadline_ns": _optional(_any_integer),
    "idempotency_key": _optional(_text),
    "dependencies": _texts,
    "predicted_output_tokens": _optional(_any_integer),
    "adapter": _optional(_text),
    "survives_disconnect": _flag,
    "was_converted": _flag,
}


def read_request(given: Any, method: str = "submit") -> Request:
    request = _record(method, Request, _REQUEST, given)
    if not request.prompt_ids:
        raise ProtocolError(method, "prompt_ids", [], "a prompt has at least one token")
    return request


_BY_TYPE = {int: _any_integer, bool: _flag}
_LANE: Mapping[str, Check] = {
    name: _BY_TYPE.get(type(attribute.default), _any_integer if name == "share_percent" else _text)
    for name, attribute in fields_dict(Lane).items()
}


def _lanes(method: str, field: str, value: Any) -> tuple[Lane, ...]:
    column = _column(method, field, value)
    return tuple(_record(method, Lane, _LANE, lane, f"{field}[{i}].") for i, lane in enumerate(column))


_DOOR: Mapping[str, Check] = dict.fromkeys(fields_dict(Door), _any_integer)


def _door(method: str, field: str, value: Any) -> Door:
    return _record(method, Door, _DOOR, value, f"{field}.")


_POOLS: Mapping[str, Check] = dict.fromkeys(fields_dict(Pools), _any_integer)


def _pools(method: str, field: str, value: Any) -> Pools:
    return _record(method, Pools, _POOLS, value, f"{field}.")


def _prices(method: str, field: str, value: Any) -> dict[str, int]:
    """An object client -> price, or pairs of them."""
    if not isinstance(value, Mapping):
        pairs = [_column(method, f"{field}[{i}]", pair) for i, pair in enumerate(_column(method, field, value))]
        if any(len(pair) != len(("client", "price")) for pair in pairs):
            raise ProtocolError(method, field, value, "must be an object", "from client to price")
        value = {_text(method, field, client): price for client, price in pairs}
    return dict(_mapping(_text, _any_integer)(method, field, value))


_SETTINGS: Mapping[str, Check] = {
    name: _BY_TYPE.get(type(attribute.default), _text) for name, attribute in fields_dict(Settings).items()
} | {"prices": _prices, "lanes": _lanes, "door": _door, "pools": _pools}


def read_settings(given: Any, method: str = "configure") -> Settings:
    try:
        return _record(method, Settings, _SETTINGS, given)
    except ProtocolError:
        raise
    except ValueError as error:  # Settings reports the faults of its values, all at once
        problem = "has faults: " + str(error).removeprefix("settings: ")
        raise ProtocolError(method, "settings", given, problem) from error


def read_setting_value(name: str, given: Any, method: str = "setting") -> Any:
    """One setting by its type; what it has to do with others is seen when all are there."""
    return _SETTINGS[name](method, name, given)


def read_now_ns(given: Any, method: str) -> int:
    now_ns: int = _natural(method, "now_ns", given)
    return now_ns


def read_whole(given: Any, method: str, field: str) -> int:
    whole: int = _any_integer(method, field, given)
    return whole


def read_text(given: Any, method: str, field: str) -> str:
    return _text(method, field, given)


def read_event(given: Any, method: str = "notify") -> dict[str, Any]:
    """What the world says is free in form; only its keys are names."""
    event: dict[str, Any] = _mapping(_text, lambda method, field, value: value)(method, "event", given)
    return event


# --- JSON ---------------------------------------------------------------------------------------------------


def as_object(value: Any) -> dict[str, Any]:
    """The fields of an object of the vocabulary, or of an object of JSON."""
    return dict(value) if isinstance(value, Mapping) else fields_as_json(value)


def encode(value: Any) -> str:
    """One line of JSON for plain data and objects of the vocabulary alike."""
    return _encoder.encode(value)


def _plain(value: Any) -> Any:
    """What json cannot write by itself.  Columns it can: they never pass through Python one by one."""
    if type(value) in _WITH_PAIRS:
        return fields_as_json(value)
    names = _NAMES.get(type(value))
    if names is not None:
        plain = {name: getattr(value, name) for name in names}
        for name in _SELDOM.get(type(value), ()):
            if not plain[name]:
                del plain[name]
        return plain
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON: {shown(value)}")


_NAMES = {
    cls: tuple(fields_dict(cls))
    for cls in vars(vocabulary).values()
    if isinstance(cls, type) and hasattr(cls, "__attrs_attrs__")
}
_SELDOM = {Plan: ("pool", "drafts"), Outcome: ("pause", "accepted")}
"""Columns that are left out where they say nothing, as in all lines that were written before there were any."""
_WITH_PAIRS = (Settings, Capabilities)
_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), allow_nan=False, check_circular=False)
