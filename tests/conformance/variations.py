"""Variations: directed scenarios in which a few things are changed by plain dice.

A scenario leads into a corner and does one thing there.  Beside it somebody else may be cancelled, come with the same
prompt, or stop early; results may be late; the pool may be a block smaller, steps may overlap, victims be swapped.  So
whatever a scenario was made for is met under conditions that nobody has written down.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

from attrs import evolve

from schedspec.spec.vocabulary import Policy, Settings

from .features import of_policies
from .scenarios import Scenario, scenarios
from .script import (
    BEGIN_TRANSFER,
    COMPLETE,
    END_TRANSFER,
    FAIL_TRANSFER,
    REPEAT_TRANSFER,
    ROUND,
    STEP,
    Op,
    Script,
    answer,
    cancel,
    leave,
    tool,
    with_setting,
)
from .transfers import OF_TWO_POOLS

LONGEST_OPS = 200
"""Of a scenario that is varied: those that count far are for themselves."""

Ops = list[Op]
Change = Callable[[Random, Ops, Settings], Ops]


@cache
def _corners() -> tuple[Scenario, ...]:
    return tuple(scenario for scenario in scenarios(0) if len(scenario.script.ops) <= LONGEST_OPS)


def varied(seed: int, policies: Sequence[Policy] = ()) -> Script:
    """The same script for the same seed, and the same policies that may be asked for."""
    dice = Random(f"variation {seed}")
    script = dice.choice(_corners()).script
    settings, ops = _without_objectives(script.settings), list(script.ops)
    for _ in range(dice.choice((1, 2, 2, 3, 4))):
        if dice.random() < 0.3:
            settings = _another_world(dice, settings)
        else:
            ops = dice.choice(_changes(settings))(dice, ops, settings)
    return Script(of_policies(dice, settings, policies), seed, ops)


# --- settings ------------------------------------------------------------------------------------------------


def _without_objectives(settings: Settings) -> Settings:
    """What a lane declares of its waits under a load is about one world, and who comes into it."""
    return evolve(settings, lanes=tuple(evolve(lane, objective_steps=0, load_tokens=0) for lane in settings.lanes))


def _another_world(dice: Random, settings: Settings) -> Settings:
    """One setting is another one, if that makes sense."""
    values = dict(_other_values(dice, settings))
    names = [name for name in values if name in OF_TWO_POOLS] if settings.pools.are_two else list(values)
    name = dice.choice(names)
    with suppress(ValueError):
        return with_setting(settings, name, values[name])
    return settings


def _other_values(dice: Random, s: Settings) -> Iterator[tuple[str, Any]]:
    yield "blocks", max(1, s.blocks + dice.choice((-2, -1, -1, 1, 2)))
    yield "block_size", dice.choice((1, 2, 3, 4))
    yield "seats", max(1, s.seats + dice.choice((-1, 1, 2)))
    yield "token_budget", max(1, s.token_budget + dice.choice((-2, -1, 1, s.token_budget)))
    yield "overlap_depth", 3 - s.overlap_depth
    yield "prefix_caching", not s.prefix_caching
    yield "recover", dice.choice(("recompute", "swap"))
    yield "reserve", dice.choice(("on_demand", "known", "declared"))
    yield "victim", dice.choice(("newest", "lowest_priority"))
    yield "at_blocked_head", dice.choice(("break", "skip"))
    yield "chunk_tokens", dice.choice((0, 2, 3))
    yield "phase_first", dice.choice(("admission", "decode", "prefill"))
    yield "watermark_blocks", dice.choice((0, 1))
    yield "defer_frees", s.overlap_depth > 1
    yield "max_overtaken", dice.choice((0, 1, 2))


# --- operations ----------------------------------------------------------------------------------------------


def _changes(settings: Settings) -> list[Change]:
    changes: list[Change] = [_somebody_goes, _somebody_goes, _another_comes, _another_comes, _somebody_is_otherwise]
    changes += [_somebody_is_otherwise, _a_step_more, _a_result_is_late, _a_result_comes_twice, _time_passes]
    if settings.park_timeout_ns:
        changes += [_news_are_otherwise, _news_are_otherwise, _somebody_calls_a_tool]
    if settings.pools.are_two:
        changes += [_the_link_tells] * 3
    return changes


def _ids(ops: Ops) -> list[str]:
    return [op.request.id for op in ops if op.request is not None]


def _inserted(dice: Random, ops: Ops, more: Sequence[Op]) -> Ops:
    place = dice.randint(1, len(ops))
    return [*ops[:place], *more, *ops[place:]]


def _somebody_goes(dice: Random, ops: Ops, settings: Settings) -> Ops:
    """Not before it has come, as a rule."""
    id = dice.choice(_ids(ops))
    came = next(place for place, op in enumerate(ops) if op.request is not None and op.request.id == id)
    place = dice.randint(came + 1, len(ops))
    goes = leave(id) if settings.cancel_on_disconnect and dice.random() < 0.7 else cancel(id)
    return [*ops[:place], goes, *ops[place:]]


def _another_comes(dice: Random, ops: Ops, settings: Settings) -> Ops:
    """Like somebody who is there: with the same prompt, or one more token."""
    like = dice.choice([op for op in ops if op.request is not None])
    assert like.request is not None
    prompt = like.request.prompt_ids + ((999,) if dice.random() < 0.3 else ())
    changes: dict[str, Any] = {"id": f"v{len(ops)}", "prompt_ids": prompt, "idempotency_key": None}
    if dice.random() < 0.3:
        changes["priority"] = dice.randrange(3)
    other = evolve(like.request, **changes)
    return _inserted(dice, ops, (evolve(like, request=other), *ROUND * dice.choice((0, 0, 1))))


def _somebody_is_otherwise(dice: Random, ops: Ops, settings: Settings) -> Ops:
    """It stops early, asks for more or less, or has the prompt of another."""
    places = [place for place, op in enumerate(ops) if op.request is not None]
    place = dice.choice(places)
    op, other = ops[place], ops[dice.choice(places)].request
    assert op.request is not None
    assert other is not None
    output, prompt = op.request.max_output_tokens, op.request.prompt_ids
    kind = dice.choice(("stops", "stops", "output", "prompt", "same prompt"))
    if kind == "stops":
        return _replaced(ops, place, evolve(op, stop_after=dice.randint(1, output)))
    choices: dict[str, dict[str, Any]] = {
        "output": {"max_output_tokens": max(1, output + dice.choice((-1, 1, 2, 4)))},
        "prompt": {"prompt_ids": (*prompt, 998) if dice.random() < 0.6 else prompt[:-1] or prompt},
        "same prompt": {"prompt_ids": other.prompt_ids},
    }
    return _replaced(ops, place, evolve(op, request=evolve(op.request, **choices[kind])))


def _replaced(ops: Ops, place: int, op: Op) -> Ops:
    return [*ops[:place], op, *ops[place + 1 :]]


def _a_step_more(dice: Random, ops: Ops, settings: Settings) -> Ops:
    return _inserted(dice, ops, dice.choice(((STEP,), ROUND, ROUND * 2)))


def _a_result_is_late(dice: Random, ops: Ops, settings: Settings) -> Ops:
    places = [place for place, op in enumerate(ops) if op.kind == "complete"]
    if not places:
        return ops
    place = dice.choice(places)
    rest = [*ops[:place], *ops[place + 1 :]]
    later = dice.randint(place, len(rest))
    return [*rest[:later], COMPLETE, *rest[later:]]


def _a_result_comes_twice(dice: Random, ops: Ops, settings: Settings) -> Ops:
    return _inserted(dice, ops, (Op("repeat", back=dice.randint(1, 2)),))


def _time_passes(dice: Random, ops: Ops, settings: Settings) -> Ops:
    longest = settings.park_timeout_ns or settings.pools.transfer_ns or settings.door.queue_age_ns or 50
    return _inserted(dice, ops, (Op("tick", ns=dice.choice((1, longest // 2, longest, longest + 1))),))


def _news_are_otherwise(dice: Random, ops: Ops, settings: Settings) -> Ops:
    """Something fails, is not told, or is told of somebody else."""
    places = [place for place, op in enumerate(ops) if op.kind == "answer"]
    if not places or dice.random() < 0.3:
        dependency = dice.choice(("transfer", "grammar", tool(1), tool(2)))
        return _inserted(dice, ops, (answer(dice.choice(_ids(ops)), dependency, is_there=dice.random() < 0.6),))
    place = dice.choice(places)
    if dice.random() < 0.6:
        return _replaced(ops, place, evolve(ops[place], is_there=not ops[place].is_there))
    return [*ops[:place], *ops[place + 1 :]]


def _somebody_calls_a_tool(dice: Random, ops: Ops, settings: Settings) -> Ops:
    places = [place for place, op in enumerate(ops) if op.request and op.request.max_output_tokens > 1]
    if not places:
        return ops
    place = dice.choice(places)
    request = ops[place].request
    assert request is not None
    pauses = {*ops[place].pauses, dice.randint(1, request.max_output_tokens - 1)}
    return _replaced(ops, place, evolve(ops[place], pauses=tuple(sorted(pauses))))


def _the_link_tells(dice: Random, ops: Ops, settings: Settings) -> Ops:
    told = dice.choice((BEGIN_TRANSFER, BEGIN_TRANSFER, END_TRANSFER, FAIL_TRANSFER, REPEAT_TRANSFER))
    return _inserted(dice, ops, (told,))
