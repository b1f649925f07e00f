"""A run as a list of operations: what was done to a subject, apart from what it answered.

A script with its settings and seed is a run: drawn by the search, written down by the driver, cut down by the
shrinker, pasted as a test.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import asdict, evolve, field, fields_dict, frozen

from schedspec.spec.hints import did_you_mean
from schedspec.spec.protocol import read_request, read_setting_value, read_settings
from schedspec.spec.vocabulary import NS_PER_S, OPEN, WEIGHTS, Door, Pools, Request, Settings, strays
from schedspec.spec.vocabulary import to_json as as_plain

OpKind = Literal[
    "submit",
    "cancel",
    "step",
    "complete",
    "repeat",
    "tick",
    "retry",
    "leave",
    "answer",
    "begin_transfer",
    "end_transfer",
    "fail_transfer",
    "repeat_transfer",
]


@frozen
class Op:
    """`submit` has a request and after how many tokens the model stops it; `cancel` an id; `complete` brings the
    oldest result, or the `back`th oldest, `repeat` the one that came `back` results ago once more; `tick` lets time
    pass; `retry` submits who was refused last once more, when it was told to come; `leave` tells that the client of an
    `id` is gone, `answer` that a `dependency` of it is there, or that it failed.  Between two pools the link begins
    with the `back`th oldest transfer that was asked for, has written all of the `back`th oldest that it began, or gives
    it up; or tells of the last that is over once more.  `pauses`: after which output tokens a submitted request calls a
    tool, and depends on that."""

    kind: OpKind
    request: Request | None = None
    stop_after: int | None = None
    id: str = ""
    back: int = 1
    ns: int = 0
    dependency: str = ""
    is_there: bool = True
    pauses: tuple[int, ...] = ()


def _in_order(ops: Iterable[Op]) -> tuple[Op, ...]:
    return tuple(ops)


@frozen
class Script:
    settings: Settings
    seed: int
    ops: tuple[Op, ...] = field(converter=_in_order)


def with_setting(settings: Settings, name: str, value: object) -> Settings:
    """The same settings but for one; what says nothing without it goes with it.  Raises ValueError if that makes no
    sense."""
    changes: dict[str, Any] = {name: value}
    if name == "policy":
        changes |= strays(str(value))
    elif name == "lanes" and not value:
        return with_setting(settings, "policy", Settings().policy)
    elif name in ("aging_picks", "aging_credit") and not value:
        changes |= {"aging_picks": 0, "aging_credit": 0}
    elif name == "pools" and isinstance(value, Pools) and value.are_two:
        changes |= {"prefix_caching": False, "hold_ns": 0, "draft_tokens": 0}
    elif name in ("prefix_caching", "park_timeout_ns") and not value:
        changes |= {"hold_ns": 0}
    elif name == "overlap_depth" and value != 1:
        changes |= {"draft_tokens": 0}
    elif (name, value) == ("recover", "swap"):
        changes["host_blocks"] = settings.host_blocks or settings.blocks
    elif name in ("swap_block_ns", "recompute_token_ns") and not value and settings.recover == "cheaper":
        changes |= {"recover": "swap", "decode_step_ns": 0}
    elif (name, value) == ("reserve", "model"):
        changes["max_model_tokens"] = max(2, min(settings.max_model_tokens, settings.blocks * settings.block_size))
    elif name in ALONE_SAY_NOTHING and value == getattr(Settings(), name):
        changes |= {other: getattr(Settings(), other) for other in ALONE_SAY_NOTHING[name]}
    elif name in WEIGHTS:
        changes = {weight: getattr(Settings(), weight) for weight in WEIGHTS} | changes
    try:
        return evolve(settings, **changes)
    except ValueError:
        plain = _without_objectives(settings)
        if plain == settings:
            raise
    return evolve(plain, **changes)


def _without_objectives(settings: Settings) -> Settings:
    """An objective holds for the limits for which it was reckoned."""
    lanes = tuple(evolve(lane, objective_steps=0, load_tokens=0) for lane in settings.lanes)
    return evolve(settings, lanes=lanes)


ALONE_SAY_NOTHING = {
    "host_blocks": ("recover",),
    "recover": ("host_blocks",),
    "preempt_lower_class": ("decode_step_ns",),
    "recompute_token_ns": ("decode_step_ns",),
}
"""What else goes when one of these is at its default."""


class Contradiction(ValueError):
    """A world that was drawn does not go with the settings that every run has."""


def with_settings(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """The same settings but for these; of the others what contradicts them is given up, a policy and its own ones.
    Raises Contradiction if they make no sense together."""
    several: dict[str, Any] = dict(changes)
    if changes.get("policy", settings.policy) != settings.policy:
        settings = with_setting(settings, "policy", changes["policy"])
    try:
        return evolve(settings, **several)
    except ValueError:
        plain = with_setting(settings, "policy", changes.get("policy", Settings().policy))
    try:
        return evolve(plain, **several)
    except ValueError as error:
        raise Contradiction(str(error)) from None


def read_setting(text: str) -> tuple[str, object]:
    """`name=value` of the command line.  Raises ValueError with one sentence."""
    name, equals, value = text.partition("=")
    if equals and name.startswith(OF_THE_DOOR):
        return name, _read_limit(name, value)
    plain = asdict(Settings())
    if not equals:
        raise ValueError(f"{text!r} is no setting: write NAME=VALUE, such as blocks=64")
    if name not in plain:
        raise ValueError(f"{text!r} is no setting: {did_you_mean(name, plain, 'spec/PROTOCOL.md')}")
    if isinstance(plain[name], tuple | dict):
        return name, _read_json(name, value)
    if isinstance(plain[name], bool):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"setting {name} is {value!r}, but must be true or false")
        return name, value.lower() == "true"
    if isinstance(plain[name], int):
        try:
            return name, int(value)
        except ValueError:
            raise ValueError(f"setting {name} is {value!r}, but must be an integer") from None
    return name, value


OF_THE_DOOR = "door."


def read_settings_of(texts: Iterable[str], common: Mapping[str, Any]) -> dict[str, Any]:
    """Common settings with these.  `door.queue_requests=8` changes one limit, and leaves the others as they are.
    Raises ValueError with one sentence, which names all that are wrong."""
    chosen = dict(common)
    for name, value in _read_each(texts):
        if name.startswith(OF_THE_DOOR):
            limit: dict[str, Any] = {name.removeprefix(OF_THE_DOOR): value}
            chosen["door"] = evolve(chosen.get("door", OPEN), **limit)
        else:
            chosen[name] = value
    return chosen


def _read_each(texts: Iterable[str]) -> list[tuple[str, object]]:
    read, wrong = [], []
    for text in texts:
        try:
            read.append(read_setting(text))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(dict.fromkeys(wrong)))
    return read


def _read_limit(name: str, value: str) -> int:
    limit = name.removeprefix(OF_THE_DOOR)
    if limit not in fields_dict(Door):
        raise ValueError(f"the door has no limit {limit!r}: {did_you_mean(limit, fields_dict(Door))}")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"setting {name} is {value!r}, but must be an integer") from None


def _read_json(name: str, value: str) -> object:
    """Prices, lanes and the door are written as JSON."""
    try:
        plain = json.loads(value)
    except ValueError as error:
        raise ValueError(f"setting {name} is {value!r}, but must be JSON: {error}") from None
    return read_setting_value(name, plain)


STEP = Op("step")
COMPLETE = Op("complete")
RETRY = Op("retry")
BEGIN_TRANSFER = Op("begin_transfer")
END_TRANSFER = Op("end_transfer")
FAIL_TRANSFER = Op("fail_transfer")
REPEAT_TRANSFER = Op("repeat_transfer")
TRANSFER = (BEGIN_TRANSFER, END_TRANSFER)
ROUND = (STEP, COMPLETE)


def submit(
    id: str,
    prompt: int | Sequence[int],
    output: int,
    *,
    stop_after: int | None = None,
    pauses: Sequence[int] = (),
    **others: Any,
) -> Op:
    """A submission; a prompt given as a number is that many tokens that no other request shares.  `others` are fields
    of the request."""
    start = sum(id.encode()) * 1000
    ids = range(start, start + prompt) if isinstance(prompt, int) else prompt
    request = Request(id=id, prompt_ids=tuple(ids), max_output_tokens=output, **others)
    return Op("submit", request, stop_after, pauses=tuple(pauses))


def with_deadline(op: Op) -> Op:
    """A submission with its priority as a deadline in seconds; the first class has none."""
    if op.request is None or not op.request.priority:
        return op
    return evolve(op, request=evolve(op.request, deadline_ns=op.request.priority * NS_PER_S))


def cancel(id: str) -> Op:
    return Op("cancel", id=id)


def leave(id: str) -> Op:
    return Op("leave", id=id)


def tool(place: int) -> str:
    """What a request calls after so many output tokens."""
    return f"tool {place}"


def answer(id: str, dependency: str | int, *, is_there: bool = True) -> Op:
    """News of a dependency; a number stands for the tool that is called after so many output tokens."""
    name = tool(dependency) if isinstance(dependency, int) else dependency
    return Op("answer", id=id, dependency=name, is_there=is_there)


def rounds(count: int) -> tuple[Op, ...]:
    return ROUND * count


def to_json(script: Script) -> dict[str, Any]:
    ops = []
    for op in script.ops:
        plain: dict[str, Any] = {"op": op.kind}
        if op.request is not None:
            plain["request"] = asdict(op.request)
            plain["stop_after"] = op.stop_after
        if op.pauses:
            plain["pauses"] = list(op.pauses)
        if op.kind in ("cancel", "leave", "answer"):
            plain["id"] = op.id
        if op.kind == "answer":
            plain |= {"dependency": op.dependency, "is_there": op.is_there}
        if op.kind == "repeat" or op.back > 1:
            plain["back"] = op.back
        if op.kind == "tick":
            plain["ns"] = op.ns
        ops.append(plain)
    return {"settings": as_plain(script.settings), "seed": script.seed, "ops": ops}


def from_json(plain: dict[str, Any]) -> Script:
    ops = []
    for item in plain["ops"]:
        request = read_request(item["request"]) if "request" in item else None
        ops.append(
            Op(
                item["op"],
                request,
                item.get("stop_after"),
                item.get("id", ""),
                item.get("back", 1),
                item.get("ns", 0),
                item.get("dependency", ""),
                item.get("is_there", True),
                tuple(item.get("pauses", ())),
            )
        )
    return Script(read_settings(plain["settings"]), plain["seed"], ops)
