"""A queue per client, or one of clients per lane, and what service they are charged."""

from collections.abc import Iterator, Sequence

from attrs import Factory, define, field

from ..spec.service import Tariff, lane_of, lane_prices
from ..spec.settings import Settings
from .arrays import Rows
from .caps import Caps
from .ints import LARGEST, Ints
from .job import Job, Line
from .members import Arrivals, Group, Lanes, Patience
from .queue import Queue
from .service import Counters
from .sharing import SHARINGS, ByArrival, Vtc


@define(eq=False)
class ClientQueue(Queue):
    """`of_clients` and `of_lanes` are counters.  `is_charged`: there are counters of service, or a cap on it.
    `steepest`: no output of anybody costs more, in any counter."""

    keeps_order = False
    hears_who_leaves = True
    settings: Settings
    tariff: Tariff
    caps: Caps = field(init=False)
    of_clients: Counters = Factory(Counters)
    of_lanes: Counters = Factory(Counters)
    prices: dict[str, int] = Factory(dict)
    group: Group = field(init=False)
    has_counters: bool = field(init=False)
    is_charged: bool = field(init=False)
    steepest: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "ClientQueue":
        prices = lane_prices(settings) if settings.lanes else {}
        return cls(settings, Tariff.of(settings), prices=prices)

    def __attrs_post_init__(self) -> None:
        s = self.settings
        self.caps = Caps(s, self._due)
        sharing, patience = SHARINGS[s.policy](s), Patience(s.aging_picks)
        self.has_counters = sharing.shows_counters
        self.is_charged = self.has_counters or s.client_committed_cost > 0
        if s.lanes:
            may = self.caps.lane_may
            self.group = Lanes(sharing, self.of_lanes, 0, self._clients_of, may, self._holds, patience, s.aging_credit)
        else:
            may = self.caps.client_may
            self.group = Group(sharing, self.of_clients, 0, _by_arrival, may, self._holds, patience, s.aging_credit)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.group.size

    # --- who is next -----------------------------------------------------------------------------------------

    def push(self, job: Job) -> None:
        if not job.members:
            self._introduce(job)
        self.group.push(job)

    def pop(self) -> Job | None:
        return self.group.pop()

    def put_back(self, job: Job) -> None:
        self.group.put_back(job)

    def left(self, job: Job) -> None:
        self.group.left(job)

    @property
    def has_caps(self) -> bool:
        return self.caps.are_there

    def may(self, job: Job) -> bool:
        return self.caps.client_may(job) and self.caps.lane_may(job)

    def picked(self, job: Job) -> None:
        if self.caps.are_there:
            self.caps.change(job, 1)
        self.group.picked(job)
        if self.is_charged and not job.is_charged:
            self._charge_the_pick(job)
        if self.caps.are_there:
            self.group.review(job.request.client)

    def released(self, job: Job) -> None:
        if self.caps.are_there:
            self.caps.change(job, -1)
            self.group.review(job.request.client)

    def _introduce(self, job: Job) -> None:
        """Its client, in its lane, and what its outputs cost."""
        client, group = job.request.client, self.group
        if self.settings.lanes:
            lane = group.member(lane_of(self.settings, job.request).name)
            assert isinstance(lane.line, Group)
            job.members = (lane, lane.line.member(client))
        else:
            job.members = (group.member(client),)
        if self.is_charged and not self.tariff.square:
            job.rate = self.tariff.outputs(client, job.prompt, 0, 1)
            self.steepest = max(self.steepest, job.rate * self._price(job))
        if self.is_charged:
            job.pick_cost = self._cost_of_a_pick(job)

    def _clients_of(self, lane: str) -> Line:
        order = next(known.order for known in self.settings.lanes if known.name == lane)
        sharing = Vtc() if order == "vtc" else ByArrival()
        return Group(sharing, self.of_clients, 1, _by_arrival, self.caps.client_may, self._holds)

    @property
    def _holds(self) -> bool:
        """Where those who do not fit are skipped nobody is held: behind one who is over a cap the next may be within
        it."""
        return self.caps.are_there and self.settings.at_blocked_head == "break"

    # --- service -------------------------------------------------------------------------------------------

    def ran(self, job: Job, end: int) -> None:
        """Of a prompt that is charged chunk by chunk."""
        tokens = min(end, job.prompt) - job.charged_prompt
        if tokens > 0:
            job.charged_prompt += tokens
            self._charge(job, self.tariff.prompt(job.request.client, tokens))

    @property
    def hears_of_chunks(self) -> bool:
        return self.is_charged and self.settings.charge_prompt == "chunk"

    def served(self, rows: Rows, which: Ints) -> None:
        if not self.is_charged:
            return
        if self._counts_one_by_one or self.steepest * len(which) >= LARGEST:
            self._serve_one_by_one(rows, which)
            return
        for counters, accounts, rates in self._levels(rows, which):
            if self.settings.charge_prediction:
                rates = rates * (rows.outputs[which] > rows.charged_outputs[which])
            counters.add_each(accounts, rates, self.steepest)

    def ended(self, job: Job) -> None:
        """What was charged for outputs that will not come."""
        if not self.settings.charge_prediction:
            return
        charged = self._charged_outputs(job)
        if charged > job.outputs:
            amount = self.tariff.outputs(job.request.client, job.prompt, job.outputs, charged)
            self.group.refund(job, amount)

    def seated(self, rows: Rows, which: Ints, jobs: Sequence[Job]) -> None:
        rows.client[which] = [job.members[-1].account for job in jobs]
        rows.rate[which] = [min(job.rate, LARGEST) for job in jobs]
        if self.settings.lanes:
            rows.lane[which] = [job.members[0].account for job in jobs]
            rows.lane_rate[which] = [min(job.rate * self._price(job), LARGEST) for job in jobs]
        if self.settings.charge_prediction:
            rows.charged_outputs[which] = [job.request.expected_output_tokens for job in jobs]

    def may_tick(self, running: int, ticks: int) -> bool:
        if not self.is_charged:
            return True
        if self._counts_one_by_one or self.settings.charge_prediction:
            return False
        return self.steepest * running * ticks < LARGEST

    def join_clock(self, rows: Rows, which: Ints) -> None:
        if self.is_charged:
            for counters, accounts, rates in self._levels(rows, which):
                counters.join(accounts, rates, self.steepest)

    def leave_clock(self, rows: Rows, which: Ints) -> None:
        if self.is_charged:
            for counters, accounts, rates in self._levels(rows, which):
                counters.leave(accounts, rates, self.steepest)

    def tick(self) -> None:
        self.of_clients.ticks += 1
        self.of_lanes.ticks += 1

    def stop_clock(self) -> None:
        self.of_clients.stop()
        self.of_lanes.stop()

    def counters(self) -> dict[str, int]:
        if self.settings.lanes or not self.has_counters:
            return {}
        return {name: self.group.counter(member) for name, member in self.group.members.items()}

    def _levels(self, rows: Rows, which: Ints) -> Iterator[tuple[Counters, Ints, Ints]]:
        yield self.of_clients, rows.client[which], rows.rate[which]
        if self.settings.lanes:
            yield self.of_lanes, rows.lane[which], rows.lane_rate[which]

    @property
    def _counts_one_by_one(self) -> bool:
        """Each output costs another amount, or is looked at by a cap."""
        return bool(self.tariff.square or self.settings.client_committed_cost)

    def _serve_one_by_one(self, rows: Rows, which: Ints) -> None:
        numbers = rows.outputs[which].tolist(), rows.charged_outputs[which].tolist()
        for job, outputs, charged in zip(rows.jobs_at(which), *numbers, strict=True):
            job.outputs = outputs
            if outputs > charged:
                self._charge(job, self.tariff.outputs(job.request.client, job.prompt, outputs - 1, outputs))

    def _charge_the_pick(self, job: Job) -> None:
        """Once in its life."""
        job.is_charged = True
        if self.settings.charge_prompt == "pick":
            job.charged_prompt = job.prompt
        self._charge(job, job.pick_cost)

    def _cost_of_a_pick(self, job: Job) -> int:
        client, settings = job.request.client, self.settings
        cost = self.tariff.entry(client)
        if settings.charge_prompt == "pick":
            cost += self.tariff.prompt(client, job.prompt)
        if settings.charge_prediction:
            cost += self.tariff.outputs(client, job.prompt, 0, job.request.expected_output_tokens)
        return cost

    def _charge(self, job: Job, amount: int) -> None:
        if self.has_counters:
            self.of_clients.add(job.members[-1].account, amount)
        if self.settings.lanes:
            self.of_lanes.add(job.members[0].account, amount * self._price(job))
        if amount and self.settings.client_committed_cost:
            self.caps.charged(job, amount)
            self.group.review(job.request.client)

    def _due(self, job: Job) -> int:
        """What it may still be charged."""
        client = job.request.client
        entry = 0 if job.is_charged else self.tariff.entry(client)
        prompt = self.tariff.prompt(client, job.prompt - job.charged_prompt)
        return entry + prompt + self.tariff.outputs(client, job.prompt, self._charged_outputs(job), job.declared)

    def _charged_outputs(self, job: Job) -> int:
        if self.settings.charge_prediction and job.is_charged:
            return max(job.request.expected_output_tokens, job.outputs)
        return job.outputs

    def _price(self, job: Job) -> int:
        return self.prices[job.members[0].name] if self.settings.lanes else 1


def _by_arrival(client: str) -> Line:
    return Arrivals()
