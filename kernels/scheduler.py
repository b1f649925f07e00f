"""A scheduler whose state lies on a device and whose steps never wait for the host.

    scheduler = Scheduler.of(Setup(places=1_024, groups=1, blocks=4_096, block_size=16, seats=256, token_budget=2_048))
    scheduler.submit([Arrival(place=0, arrival=1, prompt_tokens=512, output_tokens=128)])
    plan = scheduler.step()                 # tensors, for the engine to read where they are
    scheduler.complete(plan, stop)          # stop [seats]: per entry of the plan, whether the model ended there

The host chooses places and reads the plan when it likes.  `capture` makes a CUDA graph of one result and one step."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from attrs import define, field, frozen
from torch import Tensor

from .admit_shared import admit_shared_kernel
from .allocate import allocate_kernel
from .arrays import MOST, TILE, WARPS, require_between
from .budget import budget_kernel
from .issue import issue_kernel
from .lift import lift_kernel
from .line import close_up_kernel, kept_kernel, make_room_kernel, merge_kernel, offsets_kernel
from .look import ALL_KNOWN, DECLARED_LENGTH, FIRST_CHUNK, look_along_kernel, look_kernel
from .settle import cancel_kernel, settle_kernel
from .state import COUNT, EPOCH, FIELDS, GROUPS, LAST_LEFT, TOP, VIRTUAL_TIME, Job, Plan, Sizes, State, Status
from .step import Outputs, step
from .victims import victims_kernel
from .vtc_round import CLIENT_BITS, FARTHEST, MOST_PICKS, PICKS, VTC_TILE

RESERVES = {"on_demand": FIRST_CHUNK, "known": ALL_KNOWN, "declared": DECLARED_LENGTH}

MOST_PLACES = 1 << 22
MOST_GROUPS = (1 << CLIENT_BITS) - 1
MOST_KEY = 1 << 62


@frozen(kw_only=True)
class Setup:
    """Sizes and settings, which launches are made for.

    `places`: requests that may live at once.  `groups`: clients or lanes; 1 is one queue, ordered by key and arrival.
    `table_blocks`: blocks of the longest request, all of them unless said otherwise.  `shares`: the group with the
    least counter is next (Virtual Token Counter); else the first in line.  `tile`, `share_tile` and `picks`: how much a
    program holds at a time, a power of 2; nothing depends on it.
    """

    places: int
    blocks: int
    block_size: int
    seats: int
    token_budget: int
    groups: int = 1
    table_blocks: int = 0
    watermark_blocks: int = 0
    chunked_prefill: bool = True
    chunk_tokens: int = 0
    reserve: Literal["on_demand", "known", "declared"] = "on_demand"
    shares: bool = False
    tile: int = TILE
    share_tile: int = VTC_TILE
    picks: int = PICKS

    def __attrs_post_init__(self) -> None:
        require_between("setup", 1, MOST_PLACES, places=self.places, seats=self.seats)
        require_between(
            "setup", 1, MOST, blocks=self.blocks, block_size=self.block_size, token_budget=self.token_budget
        )
        require_between("setup", 0, MOST, watermark_blocks=self.watermark_blocks, chunk_tokens=self.chunk_tokens)
        require_between("setup", 0, self.blocks, table_blocks=self.table_blocks)
        require_between("setup", 1, MOST_GROUPS if self.shares else 1, groups=self.groups)
        require_between("setup", 2, MOST_PICKS, picks=self.picks)
        require_between("setup", 1, TILE, tile=self.tile)  # no larger one is held to spill nothing
        require_between("setup", 1, VTC_TILE, share_tile=self.share_tile)
        for name in ("tile", "share_tile", "picks"):
            if (value := getattr(self, name)) & (value - 1):
                raise ValueError(f"setup: {name} is {value}, but must be a power of 2")
        if self.reserve not in RESERVES:
            raise ValueError(f"setup: reserve is {self.reserve!r}, but must be one of {', '.join(RESERVES)}")

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.places, self.seats, self.blocks, self.table_blocks or self.blocks, self.groups)

    @property
    def most(self) -> int:
        """Tokens of one request in a step."""
        return self.chunk_tokens if self.chunked_prefill and self.chunk_tokens else MOST


@frozen(kw_only=True)
class Arrival:
    """A request as the host submits it.  Less is first: `key`, then `arrival`, which is larger for each that comes and
    never comes twice.  Where groups share, keys are 0: those of a group who run stand in front of those who wait.
    `pick_cost`: what its group pays when it is picked, once; see `Job` for outputs.
    """

    place: int
    arrival: int
    prompt_tokens: int
    output_tokens: int
    group: int = 0
    key: int = 0
    pick_cost: int = 0
    output_cost: int = 0
    square_cost: int = 0

    def require(self, setup: Setup) -> None:
        """Raises ValueError with one sentence."""
        kind, positions = f"request {self.arrival}", self.prompt_tokens + self.output_tokens - 1
        require_between(kind, 0, setup.places - 1, place=self.place)
        require_between(kind, 0, setup.groups - 1, group=self.group)
        require_between(kind, 1, MOST, prompt_tokens=self.prompt_tokens, output_tokens=self.output_tokens)
        require_between(kind, *(0, 0) if setup.shares else (-MOST_KEY, MOST_KEY), key=self.key)
        require_between(kind, 0, FARTHEST, pick_cost=self.pick_cost, cost_of_all_outputs=self.cost_of_outputs)
        require_between(kind, 1, setup.sizes.width, blocks_at_its_end=-(-positions // setup.block_size))
        if not setup.chunked_prefill:
            require_between(kind, 1, setup.token_budget, tokens_to_compute_again=positions)

    @property
    def cost_of_outputs(self) -> int:
        return self.output_cost * self.output_tokens + self.square_cost * self.output_tokens**2

    @property
    def column(self) -> list[int]:
        """All but the epoch, which goes on."""
        job = Job(
            status=Status.WAITING, group=self.group, key=self.key, arrival=self.arrival, known=self.prompt_tokens,
            declared=self.output_tokens, length=self.prompt_tokens + self.output_tokens, pick_cost=self.pick_cost,
            output_cost=self.output_cost, square_cost=self.square_cost,
        )  # fmt: skip
        return [getattr(job, name) for name in FIELDS[: EPOCH.value]]


@define(eq=False)
class Scratch:
    """What launches of a step hand to each other."""

    out: Outputs
    issued: Tensor
    wanted: Tensor
    entering: Tensor
    entering_rows: Tensor
    picked: Tensor
    chunk: Tensor
    reserved: Tensor
    charge: Tensor
    tested: Tensor
    waiting: Tensor
    kept: Tensor
    leaving: Tensor
    round: Tensor

    @classmethod
    def of(cls, setup: Setup, device: torch.device) -> "Scratch":
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        seats = setup.seats
        enter = seats + setup.picks if setup.shares else seats
        asked = setup.places if setup.shares else seats
        return cls(
            out=Outputs.of(seats, enter, device), issued=zeros(seats), wanted=zeros(seats), entering=zeros(enter),
            entering_rows=zeros(enter), picked=zeros(enter), chunk=zeros(asked), reserved=zeros(asked),
            charge=zeros(asked), tested=zeros(asked), waiting=zeros(1), kept=zeros(tiles(setup.places, setup.tile)),
            leaving=zeros(2, seats), round=zeros(3),
        )  # fmt: skip


@define(eq=False)
class Scheduler:
    """`groups`: so many have been seen, by number."""

    setup: Setup
    device: torch.device
    state: State
    scratch: Scratch
    groups: int = field(default=0)

    @classmethod
    def of(cls, setup: Setup, device: str | torch.device = "cpu") -> "Scheduler":
        where = torch.device(device)
        return cls(setup, where, State.of(setup.sizes, where), Scratch.of(setup, where))

    # --- the door: launches of their own, between steps -------------------------------------------------------

    def submit(self, arrivals: Sequence[Arrival]) -> None:
        """Requests in order of arrival, at places that are empty or whose request ended.  Raises ValueError, and
        nothing has changed then."""
        setup, state = self.setup, self.state
        if not arrivals:
            return
        for arrival in arrivals:
            arrival.require(setup)
        if len({arrival.place for arrival in arrivals}) < len(arrivals):
            raise ValueError("submit: two requests have the same place, but a place is for one")
        self._close_up()  # nobody who is gone stands in line when its place is given away
        places = self._sent([arrival.place for arrival in arrivals])
        columns = self._sent([arrival.column for arrival in arrivals]).T.contiguous()
        state.requests[: EPOCH.value].index_copy_(1, places, columns)
        self.groups = max(self.groups, 1 + max(arrival.group for arrival in arrivals))
        state.number(GROUPS).fill_(self.groups)
        arrived = self._sent([len(arrivals)])
        self._lift(places, arrived)
        in_order = sorted(arrivals, key=lambda arrival: (arrival.group, arrival.key, arrival.arrival))
        arriving = self._sent([arrival.place for arrival in in_order])
        make_room_kernel[(1,)](state.numbers, arrived, num_warps=WARPS)
        merge_kernel[(tiles(setup.places, setup.tile),)](
            state.requests, state.line, state.numbers, arriving, arrived, setup.places, setup.tile, num_warps=WARPS
        )

    def cancel(self, place: int) -> None:
        """Whoever lives there ends."""
        require_between("cancel", 0, self.setup.places - 1, place=place)
        setup, state, scratch = self.setup, self.state, self.scratch
        cancel_kernel[(1,)](
            self._sent([place]), state.requests, state.running, state.rows, state.held, state.tables, state.free,
            state.waits, state.numbers, scratch.leaving, scratch.out.ends, state.tables.shape[1], setup.shares,
            setup.places, setup.seats, setup.tile, num_warps=WARPS,
        )  # fmt: skip

    def set_burst(self, group: int, burst: int) -> None:
        """So far behind the virtual time a group may come back."""
        require_between("set_burst", 0, self.setup.groups - 1, group=group)
        require_between("set_burst", 0, FARTHEST, burst=burst)
        self.state.bursts[group : group + 1].fill_(burst)

    # --- a step -----------------------------------------------------------------------------------------------

    def complete(self, plan: Plan, stop: Tensor) -> None:
        """Results of a plan, once: it has no entries afterwards.  Plans may be completed late and in any order."""
        setup, state, scratch = self.setup, self.state, self.scratch
        settle_kernel[(1,)](
            plan.place, plan.epoch, plan.start, plan.tokens, plan.samples, plan.counts, stop, state.requests,
            state.running, state.rows, state.held, state.tables, state.free, state.counters, state.numbers,
            scratch.leaving, scratch.out.ends, state.tables.shape[1], setup.shares, setup.places, setup.seats,
            setup.tile, num_warps=WARPS,
        )  # fmt: skip

    def flags(self, values: Sequence[bool]) -> Tensor:
        """`stop` for entries of a plan, for whoever has it on the host."""
        return self._sent([*map(int, values), *(0,) * (self.setup.seats - len(values))])

    def step(self, into: Plan | None = None) -> Plan:
        """The next plan, in new tensors or in those of one that is done with."""
        plan = into or Plan.of(self.setup.seats, self.device)
        self._close_up()
        self._look()
        if self.setup.shares:
            self._decide_shared()
        else:
            self._decide()
        self._issue(plan)
        return plan

    def capture(self, plan: Plan, stop: Tensor) -> Any:
        """A graph whose replay completes the plan and makes the next one in the same tensors."""
        if self.device.type != "cuda":
            raise RuntimeError(
                f"capture: a graph needs a CUDA device, but this scheduler is on {self.device}: use step"
            )
        saved = [tensor.clone() for tensor in self._tensors(plan)]
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):  # kernels are compiled and loaded before anything is captured
            self.complete(plan, stop)
            self.step(plan)
        torch.cuda.current_stream().wait_stream(warm)
        for tensor, value in zip(self._tensors(plan), saved, strict=True):
            tensor.copy_(value)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.complete(plan, stop)
            self.step(plan)
        return graph

    # --- launches ---------------------------------------------------------------------------------------------

    def _close_up(self) -> None:
        setup, state, kept = self.setup, self.state, self.scratch.kept
        grid = (len(kept),)
        kept_kernel[grid](state.requests, state.line, state.numbers, kept, setup.places, setup.tile, num_warps=WARPS)
        offsets_kernel[(1,)](state.numbers, kept, setup.tile, num_warps=WARPS)
        close_up_kernel[grid](
            state.requests, state.line, state.numbers, kept, setup.places, setup.tile, num_warps=WARPS
        )

    def _look(self) -> None:
        setup, state, scratch = self.setup, self.state, self.scratch
        reserve = RESERVES[setup.reserve]
        look_kernel[(1,)](
            state.requests, state.running, state.rows, state.line, state.numbers, scratch.wanted, scratch.issued,
            scratch.entering, scratch.entering_rows, scratch.chunk, scratch.reserved, scratch.waiting, setup.most,
            reserve, setup.shares, setup.places, setup.seats, setup.tile, num_warps=WARPS,
        )  # fmt: skip
        if setup.shares:
            look_along_kernel[(len(scratch.kept),)](
                state.requests, state.line, state.numbers, state.begin, scratch.charge, scratch.chunk,
                scratch.reserved, setup.most, reserve, setup.places, setup.tile, num_warps=WARPS,
            )  # fmt: skip

    def _decide(self) -> None:
        setup, state, scratch = self.setup, self.state, self.scratch
        step(
            scratch.wanted, scratch.issued, state.held, state.rows, state.number(COUNT), scratch.chunk, scratch.tested,
            scratch.reserved, scratch.waiting, scratch.entering_rows, state.tables, state.free, state.number(TOP),
            scratch.out, token_budget=setup.token_budget, seats=setup.seats, watermark=setup.watermark_blocks,
            chunked=setup.chunked_prefill, block_size=setup.block_size, tile=setup.tile,
        )  # fmt: skip

    def _decide_shared(self) -> None:
        setup, state, scratch = self.setup, self.state, self.scratch
        out, size, tile = scratch.out, setup.block_size, setup.tile
        stay, requester, entered, why, budget, blocks, *_ = out.numbers.split(1)
        count, top, virtual_time, last_left, groups = map(state.number, (COUNT, TOP, VIRTUAL_TIME, LAST_LEFT, GROUPS))
        budget_kernel[(1,)](
            scratch.wanted, scratch.issued, state.held, count, out.tokens, out.needs, budget, setup.token_budget, size,
            tile, num_warps=WARPS,
        )  # fmt: skip
        victims_kernel[(1,)](out.needs, state.held, count, top, stay, blocks, requester, tile, num_warps=WARPS)
        admit_shared_kernel[(1,)](
            state.counters, state.begin, state.waits, groups, scratch.charge, scratch.chunk, scratch.tested,
            scratch.reserved, count, stay, budget, blocks, state.line, state.numbers, scratch.picked, scratch.entering,
            out.entering_tokens, out.entering_needs, entered, why, scratch.round, virtual_time, last_left,
            setup.seats, setup.watermark_blocks, setup.chunked_prefill, size, setup.places, setup.picks,
            setup.picks.bit_length() - 1, CLIENT_BITS, setup.share_tile, num_warps=WARPS,
        )  # fmt: skip
        allocate_kernel[(1,)](
            state.tables, state.tables.shape[1], state.rows, state.held, out.needs, count, stay, scratch.entering_rows,
            out.entering_needs, entered, state.free, top, out.ends, tile, num_warps=WARPS,
        )  # fmt: skip

    def _issue(self, plan: Plan) -> None:
        setup, state, scratch = self.setup, self.state, self.scratch
        out = scratch.out
        issue_kernel[(1,)](
            state.requests, state.running, state.held, state.numbers, out.tokens, scratch.entering,
            out.entering_tokens, out.entering_needs, out.numbers, plan.place, plan.epoch, plan.start, plan.tokens,
            plan.samples, plan.victims, plan.entering, plan.counts, setup.places, setup.tile, num_warps=WARPS,
        )  # fmt: skip
        self._lift(plan.victims, plan.counts[1:2])

    def _lift(self, places: Tensor, count: Tensor) -> None:
        """So many of the places wait from now on."""
        setup, state = self.setup, self.state
        if setup.shares:
            lift_kernel[(1,)](
                state.requests, state.counters, state.waits, state.bursts, state.numbers, places, count,
                setup.places, setup.share_tile, num_warps=WARPS,
            )  # fmt: skip

    # --- tensors ----------------------------------------------------------------------------------------------

    def _sent(self, values: Sequence[Any]) -> Tensor:
        """To the device, without waiting for it."""
        here = torch.tensor(values, dtype=torch.int64)
        return here.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else here

    def _tensors(self, plan: Plan) -> list[Tensor]:
        """All that a result and a step change and that lasts."""
        state = self.state
        lasting = [getattr(state, name) for name in State.__slots__ if name != "__weakref__"]
        return [*lasting, *(getattr(plan, name) for name in Plan.__slots__ if name != "__weakref__")]


def tiles(count: int, tile: int) -> int:
    return -(-count // tile)
