"""Moments of runs of the twins: all state before a call, and the call.  A kernel gets the same state as tensors, with
leftovers wherever nothing counts."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import chain
from random import Random
from types import ModuleType
from typing import Any

from attrs import asdict, define

from schedspec.kernels.scheduler import Arrival, Setup
from schedspec.kernels.state import FIELDS, NUMBERS, Plain, PlainPlan, Status

from .plain_scheduler import Shown, Twins, empty
from .states import DEVICE, array

CALLS = ("submit", "lift", "cancel", "close_up", "step", "shared", "complete", "again")
"""`lift` is a submission where groups share, `shared` a step there, `close_up` a step after many are gone; `again`
brings a result once more."""
SHARED = ("lift", "shared")
LARGE = 1 << 33


@define
class Moment:
    setup: Setup
    call: str
    state: Plain
    plan: PlainPlan
    given: Any
    seed: int


def moments(call: str) -> Iterator[Moment]:
    """The same ones each time.  Kinds of them take turns, so that each is among the first few."""
    kinds = KINDS[call]
    seed = found = 0
    while True:
        seed += 1
        dice = Random(f"{call} {seed}")
        kind = kinds[found % len(kinds)]
        shares = call in SHARED or (call in ("cancel", "complete", "again") and found % 2 == 0)
        setup = setup_of(dice, shares=shares, is_roomy=kind is has_room)
        twins, plans = run(dice, setup, dice.randint(1, 14))
        moment = asked(dice, Moment(setup, call, twins.state.value, PlainPlan(), None, seed), plans, twins)
        if kind(moment):
            found += 1
            yield moment


def asked(dice: Random, moment: Moment, plans: list[PlainPlan], twins: Twins) -> Moment:
    """With what the call is given."""
    state, call = moment.state, moment.call
    ended = [place for place, job in enumerate(state.jobs) if job.status > Status.RUNNING]
    if call in ("close_up", "submit", "lift"):
        for place in dice.sample(state.line, len(state.line) // dice.choice((1, 3))):
            twins.cancel(place)
    if call in ("submit", "lift"):
        moment.given = arrivals_of(dice, twins, 1000, dice.choice((1, 6, 9)))
    elif call == "cancel":
        moment.given = dice.choice([0, *state.running[:2], *state.line, *ended])
    elif call in ("complete", "again"):
        moment.plan = dice.choice(plans[-2:])
        ending = dice.choice((10, 60))
        moment.given = [dice.randrange(100) < ending for _ in moment.plan.entries]
    elif call in ("step", "shared") and dice.random() < 0.5:
        twins.submit(arrivals_of(dice, twins, 1000, 9))
    return moment


@cache
def first_moments(call: str, count: int) -> list[Moment]:
    return [moment for moment, _ in zip(moments(call), range(count), strict=False)]


def next_plan(moment: Moment) -> PlainPlan:
    plan: PlainPlan = Twins(moment.setup, Shown(deepcopy(moment.state))).step().value
    return plan


def has_room(moment: Moment) -> bool:
    return len(next_plan(moment).entering) > 5


def has_victims(moment: Moment) -> bool:
    return len(next_plan(moment).victims) > 1


def resumes(moment: Moment) -> bool:
    jobs = moment.state.jobs
    return any(jobs[place].charged and jobs[place].pick_cost for place in next_plan(moment).entering)


def has_a_line(moment: Moment) -> bool:
    state = moment.state
    return len(state.line) > 4 and len(state.running) < len(state.line)


def is_quiet(moment: Moment) -> bool:
    """Nobody waits, and the first who comes has had more service than the virtual time says."""
    state, arrivals = moment.state, moment.given
    if any(state.waits) or len({arrival.group for arrival in arrivals}) < 3:
        return False
    first: int = arrivals[0].group
    return state.counters[first] > max(state.virtual_time, state.counters[state.last_left], 0)


def has_left(moment: Moment) -> bool:
    """Nobody waits, and who left last has had more service than the virtual time says, and than who comes."""
    state = moment.state
    if any(state.waits) or state.last_left < 0 or not moment.given:
        return False
    left: int = state.counters[state.last_left]
    coming: int = state.counters[moment.given[0].group]
    return left > max(state.virtual_time, coming)


def has_advanced(moment: Moment) -> bool:
    """The least who wait have had more service than the virtual time says, and stand in the first tile of groups."""
    state = moment.state
    waiting = [group for group, some in enumerate(state.waits) if some]
    least = min(waiting, key=lambda group: state.counters[group], default=9)
    if least >= moment.setup.share_tile or state.counters[least] <= state.virtual_time:
        return False
    others = [state.counters[group] for group in waiting if group >= moment.setup.share_tile]
    coming = {arrival.group for arrival in moment.given} - set(waiting)
    return min(others, default=1 << 60) > state.counters[least] and any(
        state.counters[group] < state.counters[least] - state.bursts[group] for group in coming
    )


def has_a_long_line(moment: Moment) -> bool:
    """More tiles than a tile has entries."""
    return len(moment.state.line) > moment.setup.tile**2


def cancels(*states: Status) -> Callable[[Moment], bool]:
    return lambda moment: moment.state.jobs[moment.given].status in states


def has_results(moment: Moment) -> bool:
    return len(moment.plan.entries) > 4


KINDS: dict[str, tuple[Callable[[Moment], bool], ...]] = {
    "submit": (has_a_line,),
    "lift": (has_a_line, is_quiet, has_advanced, has_left),
    "cancel": (cancels(Status.WAITING), cancels(Status.RUNNING), cancels(Status.STOPPED, Status.AT_LENGTH)),
    "close_up": (has_a_line, has_a_long_line),
    "step": (has_room, has_victims),
    "shared": (has_room, resumes, has_victims),
    "complete": (has_results,),
    "again": (has_results,),
}


def setup_of(dice: Random, *, shares: bool, is_roomy: bool) -> Setup:
    size = dice.choice((1, 2, 4))
    return Setup(
        places=64,
        groups=8 if shares else 1,
        blocks=(90 if is_roomy else dice.choice((24, 40))) // size + 4,
        block_size=size,
        table_blocks=20 // size + 4,
        seats=dice.choice((9, 13)),
        token_budget=dice.choice((9, 30, 60)),
        watermark_blocks=dice.choice((0, 1)),
        chunk_tokens=dice.choice((0, 3)),
        reserve=dice.choice(("on_demand", "on_demand", "declared")),
        shares=shares,
        tile=4,
        share_tile=4,
        picks=2,
    )


def run(dice: Random, setup: Setup, steps: int) -> tuple[Twins, list[PlainPlan]]:
    """So many steps of the twins; results of the last one or two have not come yet."""
    twins = Twins(setup, empty(setup))
    for group in range(setup.groups):
        twins.set_burst(group, dice.choice((0, 4, 30)))
    plans: list[Shown] = []
    for number in range(steps):
        twins.submit(arrivals_of(dice, twins, 10 * number, dice.choice((0, 1, 3, 6))))
        if dice.random() < 0.2 and twins.state.value.line:
            twins.cancel(dice.choice(twins.state.value.line))
        plans.append(twins.step())
        if number > 1 and number < steps - 1:
            plan = plans[-2]
            twins.complete(plan, [dice.random() < 0.05 for _ in plan.value.entries])
    return twins, [plan.value for plan in plans]


def arrivals_of(dice: Random, twins: Twins, first: int, count: int) -> list[Arrival]:
    """Few different keys, so that there are ties, now and then beyond 2³¹; costs as large, where groups share."""
    setup, jobs = twins.setup, twins.state.value.jobs
    standing = set(twins.state.value.line)
    empty = [place for place in range(setup.places) if not jobs[place].is_live and place not in standing]
    scale = dice.choice((1, 1, LARGE)) if setup.shares else 0
    return [
        Arrival(
            place=place,
            arrival=1 + first + number,
            prompt_tokens=dice.randint(1, 9),
            output_tokens=dice.randint(1, 8),
            group=dice.randrange(setup.groups),
            key=0 if setup.shares else dice.choice((0, 1, LARGE, LARGE + 1)),
            pick_cost=scale * dice.randint(0, 9),
            output_cost=scale * dice.randint(0, 2),
            square_cost=scale * dice.randint(0, 1),
        )
        for number, place in enumerate(dice.sample(empty, min(count, len(empty))))
    ]


def is_equal(kernels: ModuleType, moment: Moment) -> bool:
    """Whether a call of a scheduler, as it is in a module, changes the state as its twin does, and tells the same."""
    moment = deepcopy(moment)
    twins = Twins(moment.setup, Shown(moment.state))
    scheduler = scheduler_at(kernels, moment)
    if moment.call in ("submit", "lift"):
        given = [kernels.Arrival(**asdict(arrival)) for arrival in moment.given]
        scheduler.submit(given)
        twins.submit(moment.given)
    elif moment.call == "cancel":
        scheduler.cancel(moment.given)
        twins.cancel(moment.given)
    elif moment.call in ("complete", "again"):
        plan = plan_at(kernels, moment)
        for _ in range(2 if moment.call == "again" else 1):
            scheduler.complete(plan, scheduler.flags(moment.given))
        twins.complete(Shown(moment.plan), moment.given)
    else:
        told, expected = scheduler.step().plain(), twins.step().plain()
        if asdict(told) != asdict(expected):
            return False
    return bool(asdict(scheduler.state.plain()) == asdict(twins.state.plain()))


def scheduler_at(kernels: ModuleType, moment: Moment) -> Any:
    """A scheduler in that state.  Rows are in any order, and where nothing counts there is something."""
    dice, plain = Random(moment.seed), moment.state
    scheduler = kernels.Scheduler.of(kernels.Setup(**asdict(moment.setup)), DEVICE)
    state, sizes = scheduler.state, moment.setup.sizes
    jobs = [[getattr(job, name) for name in FIELDS] for job in plain.jobs]
    state.requests.copy_(array(chain.from_iterable(jobs)).reshape(sizes.places, -1).T)
    rows, running = dice.sample(range(sizes.seats), sizes.seats), plain.running
    numbers = {"running": len(running), "top": len(plain.free), "half": dice.randrange(2), "entries": len(plain.line)}
    numbers |= {"gone": plain.gone, "groups": len(plain.counters), "virtual_time": plain.virtual_time}
    numbers |= {"moved": 9, "last_left": plain.last_left}
    held = [len(plain.tables[place]) for place in running]
    for row, place in zip(rows, running, strict=False):
        table = plain.tables[place]
        state.tables[row] = array([*table, *[7] * (sizes.width - len(table))])
    state.line[:] = array([dice.randrange(sizes.places) for _ in range(2 * sizes.places)]).reshape(2, -1)
    state.line[numbers["half"], : len(plain.line)] = array(plain.line)
    columns = {"running": running, "held": held, "free": plain.free, "counters": plain.counters}
    columns |= {"waits": plain.waits, "bursts": plain.bursts, "rows": rows}
    for name, values in columns.items():
        column = getattr(state, name)
        column[: len(values)] = array(values)
        column[len(values) :] = dice.randint(1, 3) if name in ("running", "held", "free") else 0
    state.numbers[:] = array(numbers[name] for name in NUMBERS)
    scheduler.groups = len(plain.counters)
    return scheduler


def plan_at(kernels: ModuleType, moment: Moment) -> Any:
    plan = kernels.Plan.of(moment.setup.seats, DEVICE)
    entries = moment.plan.entries
    for name in ("place", "epoch", "start", "tokens", "samples"):
        getattr(plan, name)[: len(entries)] = array(getattr(entry, name) for entry in entries)
    plan.counts[0] = len(entries)
    return plan
