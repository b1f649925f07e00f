"""The driver's calls made of the kernels' twins, behind the same door; and both at once, held against each other."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from attrs import asdict, define

from schedspec.kernels.admit_fcfs import admit_fcfs_plain
from schedspec.kernels.admit_shared import admit_shared_plain
from schedspec.kernels.allocate import allocate_plain
from schedspec.kernels.budget import budget_plain
from schedspec.kernels.issue import issue_plain
from schedspec.kernels.lift import lift_plain
from schedspec.kernels.line import close_up_plain, merge_plain
from schedspec.kernels.look import look_plain
from schedspec.kernels.scheduler import RESERVES, Arrival, Scheduler, Setup
from schedspec.kernels.settle import cancel_plain, settle_plain
from schedspec.kernels.state import FIELDS, Job, Plain
from schedspec.kernels.victims import victims_plain


@define
class Shown:
    """What is asked for a plain copy, as tensors are."""

    value: Any

    def plain(self) -> Any:
        return deepcopy(self.value)


def empty(setup: Setup) -> Shown:
    jobs = [Job() for _ in range(setup.places)]
    free = list(range(setup.blocks - 1, -1, -1))
    return Shown(Plain(jobs, [], {}, free, [], 0, [], [], [], 0, -1))


@define
class Twins:
    """`state` is changed as the kernels change a device's."""

    setup: Setup
    state: Shown

    @classmethod
    def of(cls, setup: Setup) -> "Twins":
        return cls(setup, empty(setup))

    def flags(self, values: Sequence[bool]) -> list[int]:
        return [int(value) for value in values]

    def submit(self, arrivals: Sequence[Arrival]) -> None:
        if not arrivals:
            return
        state = self.state.value
        close_up_plain(state)
        for arrival in arrivals:
            epoch = state.jobs[arrival.place].epoch
            state.jobs[arrival.place] = Job(**dict(zip(FIELDS, arrival.column, strict=False)), epoch=epoch)
            new = 1 + arrival.group - len(state.counters)
            for column in (state.counters, state.waits, state.bursts):
                column += [0] * new
        places = [arrival.place for arrival in arrivals]
        if self.setup.shares:
            lift_plain(state, places)
        merge_plain(state, places)

    def set_burst(self, group: int, burst: int) -> None:
        state = self.state.value
        for column in (state.counters, state.waits, state.bursts):
            column += [0] * (1 + group - len(column))
        state.bursts[group] = burst

    def cancel(self, place: int) -> None:
        cancel_plain(self.state.value, place, shares=self.setup.shares)

    def complete(self, plan: Shown, stop: Sequence[int]) -> None:
        settle_plain(self.state.value, plan.value, stop, shares=self.setup.shares)

    def step(self) -> Shown:
        setup, state = self.setup, self.state.value
        close_up_plain(state)
        seen = look_plain(state, most=setup.most, reserve=RESERVES[setup.reserve])
        tables = [state.tables[place] for place in state.running]
        held = [len(table) for table in tables]
        tokens, needs, budget = budget_plain(
            seen.wanted, seen.issued, held, token_budget=setup.token_budget, block_size=setup.block_size
        )
        stay, blocks, requester = victims_plain(needs, held, free=len(state.free))
        entering = self.entering(stay, budget, blocks)
        allocated = allocate_plain(
            tables, needs, stay=stay, entering_needs=[blocks for *_, blocks in entering], free=state.free
        )
        for place in state.running[stay:]:
            del state.tables[place]
        state.tables |= {place: table for (place, *_), table in zip(entering, allocated, strict=True)}
        plan = issue_plain(state, tokens, stay, requester, [(place, given) for place, given, _ in entering])
        if setup.shares:
            lift_plain(state, plan.victims)
        return Shown(plan)

    def entering(self, stay: int, budget: int, blocks: int) -> list[tuple[int, int, int]]:
        setup, state = self.setup, self.state.value
        seen = look_plain(state, most=setup.most, reserve=RESERVES[setup.reserve])
        room = {"running": len(state.running), "stay": stay, "budget": budget, "blocks": blocks}
        room |= {"seats": setup.seats, "watermark": setup.watermark_blocks}
        if setup.shares:
            return admit_shared_plain(
                state, seen, **room, chunked=setup.chunked_prefill, block_size=setup.block_size, picks=setup.picks
            )
        entered = admit_fcfs_plain(
            seen.chunk, [0] * len(seen.chunk), seen.reserved, **room, chunked=setup.chunked_prefill,
            block_size=setup.block_size,
        )  # fmt: skip
        return list(zip(seen.waiting, entered.tokens, entered.blocks, strict=False))


@define
class Equal:
    """Tensors, and what the twins have: a plain copy of both has to be the same."""

    tensors: Any
    twin: Shown

    def plain(self) -> Any:
        shown, expected = self.tensors.plain(), self.twin.plain()
        assert asdict(shown) == asdict(expected), f"{shown} is not {expected}"
        return shown


@define
class Both:
    """The driver and the twins: every call goes to both."""

    setup: Setup
    kernels: Scheduler
    twins: Twins
    state: Equal

    @classmethod
    def of(cls, kernels: Scheduler) -> "Both":
        twins = Twins.of(kernels.setup)
        return cls(kernels.setup, kernels, twins, Equal(kernels.state, twins.state))

    def flags(self, values: Sequence[bool]) -> tuple[Any, list[int]]:
        return self.kernels.flags(values), self.twins.flags(values)

    def submit(self, arrivals: Sequence[Arrival]) -> None:
        self.kernels.submit(arrivals)
        self.twins.submit(arrivals)

    def set_burst(self, group: int, burst: int) -> None:
        self.kernels.set_burst(group, burst)
        self.twins.set_burst(group, burst)

    def cancel(self, place: int) -> None:
        self.kernels.cancel(place)
        self.twins.cancel(place)

    def step(self) -> Equal:
        return Equal(self.kernels.step(), self.twins.step())

    def complete(self, plan: Equal, stop: tuple[Any, list[int]]) -> None:
        self.kernels.complete(plan.tensors, stop[0])
        self.twins.complete(plan.twin, stop[1])
