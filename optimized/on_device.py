"""The scheduler of `kernels` behind the protocol: `schedspec check kernels`.

It decides on a CUDA device, or under Triton's interpreter where there is none.  It is for judging and not for speed: it
reads all state back after each call, and deltas are what is different then."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import Factory, define

from ..spec.service import Tariff, lane_of, lane_prices
from ..spec.settings import AGING_ARRIVALS, SJF_ARRIVALS, Settings, unsupported
from ..spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
    Unsupported,
)
from .door import turned_away

if TYPE_CHECKING:
    from ..kernels.scheduler import Arrival, Scheduler, Setup
    from ..kernels.state import Job, Plain
    from ..kernels.state import Plan as DevicePlan

HONOURED = (
    *("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "policy", "reserve", "chunked_prefill"),
    *("chunk_tokens", "overlap_depth", "max_prompt_tokens", "max_output_tokens", "max_model_tokens", "quantum"),
    *("request_weight", "input_weight", "output_weight", "product_weight", "square_weight", "prices", "lanes"),
)
ONE_QUEUE = ("fcfs", "priority", "edf", "sjf", "aging")
"""Policies of one queue whose keys never change."""
SHARED = ("vtc", "lanes")
RESERVES = ("on_demand", "known", "declared")
SIZES = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "chunk_tokens")
WEIGHTS = ("request_weight", "input_weight", "output_weight", "product_weight", "square_weight")

MOST_BLOCKS = 1 << 16
MOST_SEATS = 1 << 12
LARGEST = 1 << 8
"""Of weights and prices: their products with lengths have to fit into what a round of picks sorts."""
PLACES = 1_024
"""Requests that may live at once, and clients that may ever come."""
INTERPRETED = {"places": 256, "share_tile": 16, "picks": 4}
"""A sort of more takes seconds under the interpreter."""
NEVER_NS = 1 << 62
"""After every deadline."""
NEEDS_TRITON = (
    "the scheduler of kernels needs torch and triton: pip install 'schedspec[kernels]', or check optimized, which needs"
    " neither"
)


def refuse(settings: Settings) -> None:
    """Raises Unsupported with the first setting that it cannot honour."""
    name = unsupported(settings, HONOURED)
    if settings.policy not in (*ONE_QUEUE, *SHARED):
        name = "policy"
    elif settings.reserve not in RESERVES:
        name = "reserve"
    elif any(lane.order != "fifo" or lane.maximum_percent < 100 for lane in settings.lanes):
        name = "lanes"
    elif any(price > LARGEST for _, price in settings.prices):
        name = "prices"
    largest = {"blocks": MOST_BLOCKS, "seats": MOST_SEATS} | dict.fromkeys(WEIGHTS, LARGEST)
    too_large = [size for size, most in largest.items() if getattr(settings, size) > most]
    too_large += [size for size in SIZES if getattr(settings, size) > 1 << 40]
    if name is None and too_large:
        name = too_large[0]
    if name is not None:
        raise Unsupported(name, getattr(settings, name))


class Maker:
    """Makes subjects.  torch and triton are loaded with the first of them, so that nobody else needs them."""

    def prepare(self) -> None:
        """Loads them, which takes seconds.  Raises RuntimeError with one sentence where one is not installed."""
        if any(importlib.util.find_spec(name) is None for name in ("torch", "triton")):
            raise RuntimeError(NEEDS_TRITON)
        import torch

        if not torch.cuda.is_available():
            os.environ.setdefault("TRITON_INTERPRET", "1")  # before anybody imports triton
        from ..kernels import scheduler as scheduler

    def __call__(self, settings: Settings, seed: int) -> "OnDevice":
        self.prepare()
        refuse(settings)
        import torch

        from ..kernels.scheduler import Scheduler

        if torch.cuda.is_available():
            return OnDevice(settings, Scheduler.of(setup_of(settings), "cuda"))
        return OnDevice(settings, Scheduler.of(setup_of(settings, **INTERPRETED), "cpu"))


make = Maker()


def setup_of(settings: Settings, **sizes: int) -> "Setup":
    from ..kernels.scheduler import Setup

    shares = settings.policy in SHARED
    return Setup(
        places=sizes.pop("places", PLACES),
        groups=PLACES if shares else 1,
        blocks=settings.blocks,
        block_size=settings.block_size,
        seats=settings.seats,
        token_budget=settings.token_budget,
        watermark_blocks=settings.watermark_blocks,
        chunked_prefill=settings.chunked_prefill,
        chunk_tokens=settings.chunk_tokens,
        reserve=settings.reserve,  # type: ignore[arg-type]
        shares=shares,
        **sizes,
    )


@define(eq=False)
class OnDevice:
    """A subject.  `names` of places, `places` of live requests, `groups`: number of each client or lane that was seen,
    `preempted`: places of those who wait to be resumed, `arriving`: who is submitted with the next other call."""

    settings: Settings
    scheduler: "Scheduler"
    seen: set[str] = Factory(set)
    names: dict[int, str] = Factory(dict)
    places: dict[str, int] = Factory(dict)
    groups: dict[str, int] = Factory(dict)
    preempted: set[int] = Factory(set)
    in_flight: "dict[int, DevicePlan]" = Factory(dict)
    arriving: "list[Arrival]" = Factory(list)
    steps: int = 0
    arrivals: int = 0

    # --- the protocol ------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        from .promises import capabilities

        return capabilities("kernels", self.settings)

    def submit(self, request: Request, now_ns: int) -> Receipt:
        away = turned_away(self.settings, self.seen, request)
        if away is not None:
            return away
        self.arrivals += 1
        place = next(place for place in range(self.scheduler.setup.places) if place not in self.names)
        self.names[place] = request.id
        self.places[request.id] = place
        self.arriving.append(self.arrival_of(request, place))
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        place = self.places.get(request_id)
        if place is None:
            return []
        before = self.state()
        self.scheduler.cancel(place)
        return self.ended(before)

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return []

    def step(self, now_ns: int) -> Plan:
        self.steps += 1
        before = self.state()
        tensors = self.scheduler.step()
        plan = tensors.plain()
        if plan.entries:
            self.in_flight[self.steps] = tensors
        deltas: list[Delta] = []
        for place in plan.victims:
            name, asks = self.names[place], self.names[place if plan.requester < 0 else plan.requester]
            deltas += [*self.gave(before, place), ("preempted", name, "recompute", asks)]
        self.preempted |= set(plan.victims)
        after = self.state()
        for place in after.running:
            if taken := after.tables[place][len(before.tables.get(place, ())) :]:
                deltas.append(("took", self.names[place], taken))
            if place in plan.entering:
                deltas.append(("resumed" if place in self.preempted else "admitted", self.names[place], 0))
        self.preempted -= set(plan.entering)
        return Plan(
            step=self.steps,
            request=[self.names[entry.place] for entry in plan.entries],
            start=[entry.start for entry in plan.entries],
            tokens=[entry.tokens for entry in plan.entries],
            samples=[entry.samples for entry in plan.entries],
            deltas=deltas,
        )

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        tensors = self.in_flight.pop(outcome.step, None)
        if tensors is None:
            return []
        tokens = dict(zip(outcome.request, outcome.token, strict=True))
        stops = {request for request, stop in zip(outcome.request, outcome.stop, strict=True) if stop}
        before = self.state()
        entries = tensors.plain().entries
        stands = [entry.epoch == before.jobs[entry.place].epoch for entry in entries]
        delivered = [self.names[entry.place] for entry, s in zip(entries, stands, strict=True) if s and entry.samples]
        stopped = [s and self.names[entry.place] in stops for entry, s in zip(entries, stands, strict=True)]
        self.scheduler.complete(tensors, self.scheduler.flags(stopped))
        told: list[Delta] = [("delivered", delivered, [tokens[name] for name in delivered])] if delivered else []
        return told + self.ended(before)

    def observe(self) -> Observation:
        state = self.state()
        tables = {self.names[place]: table for place, table in state.tables.items() if table}
        waiting = len(self.places) - len(state.running)
        shown = self.groups if self.settings.policy == "vtc" else {}
        return Observation(
            counters={
                "running": len(state.running),
                "waiting": waiting,
                "free_blocks": len(state.free),
                "used_blocks": self.settings.blocks - len(state.free),
            },
            requests={name: view(state.jobs[place]) for name, place in self.places.items()},
            tables=tables,
            free=state.free,
            evictable=[],
            ref_counts={block: 1 for table in tables.values() for block in table},
            index=[],
            client_counters={name: state.counters[group] for name, group in shown.items()},
        )

    # --- the door ----------------------------------------------------------------------------------------

    def arrival_of(self, request: Request, place: int) -> "Arrival":
        from ..kernels.scheduler import Arrival

        shape = {"place": place, "arrival": self.arrivals}
        shape |= {"prompt_tokens": request.prompt_tokens, "output_tokens": request.max_output_tokens}
        if self.settings.policy in ONE_QUEUE:
            return Arrival(**shape, key=self.key_of(request))
        tariff, client = Tariff.of(self.settings), request.client
        name, price = client, 1
        if self.settings.policy == "lanes":
            name = lane_of(self.settings, request).name
            price = lane_prices(self.settings)[name]
        prompt = request.prompt_tokens
        return Arrival(
            **shape,
            group=self.group_of(name, price),
            pick_cost=price * (tariff.entry(client) + tariff.prompt(client, prompt)),
            output_cost=price * tariff.price(client) * (tariff.output + tariff.product * prompt),
            square_cost=price * tariff.price(client) * tariff.square,
        )

    def key_of(self, request: Request) -> int:
        if self.settings.policy == "priority":
            return request.priority
        if self.settings.policy == "aging":
            return request.priority * AGING_ARRIVALS + self.arrivals
        if self.settings.policy == "edf":
            return NEVER_NS if request.deadline_ns is None else min(request.deadline_ns, NEVER_NS)
        return request.expected_output_tokens * SJF_ARRIVALS + self.arrivals if self.settings.policy == "sjf" else 0

    def group_of(self, name: str, price: int) -> int:
        """Groups are numbered as they come; a lane may be `burst` service behind."""
        if name not in self.groups:
            self.groups[name] = len(self.groups)
            for lane in self.settings.lanes:
                if lane.name == name:
                    self.scheduler.set_burst(self.groups[name], price * lane.burst)
        return self.groups[name]

    def state(self) -> "Plain":
        """With all who were submitted."""
        self.scheduler.submit(self.arriving)
        self.arriving.clear()
        return self.scheduler.state.plain()

    # --- what is different ---------------------------------------------------------------------------------

    def ended(self, before: "Plain") -> list[Delta]:
        """Who ended by a call, in the order of the running list, and then those who waited."""
        from ..kernels.state import Status

        after = self.scheduler.state.plain()
        told: list[Delta] = []
        for place in [*before.running, *(place for place in before.line if place not in before.running)]:
            job = after.jobs[place]
            if job.is_live or place not in self.names:
                continue
            name = self.names.pop(place)
            del self.places[name]
            self.preempted.discard(place)
            reason = "stop" if job.status == Status.STOPPED else "length"
            how: Delta = ("cancelled", name) if job.status == Status.CANCELLED else ("finished", name, reason)
            told += [*self.gave(before, place, name), how]
        return told

    def gave(self, before: "Plain", place: int, name: str = "") -> list[Delta]:
        blocks = before.tables.get(place, [])[::-1]
        return [("gave", name or self.names[place], blocks)] if blocks else []


def view(job: "Job") -> RequestView:
    from ..kernels.state import Status

    return RequestView(
        state="running" if job.status == Status.RUNNING else "waiting",
        issued=job.issued,
        computed=job.computed,
        outputs=job.outputs,
        in_flight=job.in_flight,
    )
