"""DistServe: prefill and decode in two pools, and KV pulled over a link with back-pressure.

Zhong et al., OSDI 2024, section 4; `distserve/block_manager.py`, `context_stage_scheduler.py` and
`decoding_stage_scheduler.py` of its artefact.  Each pool is a scheduler of the one loop with blocks of its own.  A
request whose prefill is complete leaves the prefill pool's running set and keeps its blocks there, as an obligation,
until the decode pool has them; the decode pool pulls, in the order of completion, when it has room for all that the
admission will take.  So the prefill pool's memory is the buffer, and it stops admitting when that is full.  A victim of
the decode pool goes back to be prefilled again, with its outputs (the paper swaps it out); so does a request whose
transfer failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from ...spec.pools import DECODE, PREFILL, decode_settings, prefill_settings
from ...spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    RequestView,
    Settings,
    Unsupported,
    blocks_for,
    unsupported,
)
from ..decide import Room
from ..job import ENDED, Job
from ..pool import Pool
from ..scheduler import Scheduler, claims_of, constants_of
from ..state import Admission, State
from ..transfer import UNPULLED, Link, Transfer

HONOURED = (
    *("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "at_blocked_head", "reserve"),
    *("chunked_prefill", "chunk_tokens", "overlap_depth", "max_prompt_tokens", "max_output_tokens"),
    *("max_model_tokens", "pools"),
)
RESERVES = ("on_demand", "known", "declared")
ASK = 'two, as in --setting \'pools={"decode_blocks": 1024, "decode_seats": 64, "decode_token_budget": 64}\''
MOST_STEPS = 2
"""One of each pool may be in flight."""


class Half(Scheduler):
    """One of the two: its deltas are those of the call, whose time has been told already."""

    def __init__(self, state: State, owner: "Disaggregated") -> None:
        self.state = state
        self.record = True
        self.owner = owner

    def begin_call(self, now_ns: int) -> None:
        pass

    def come(self, job: Job) -> None:
        state = self.state
        state.arrivals += 1
        job.arrival = state.arrivals
        state.jobs[job.id] = job
        state.queue.push(job)

    def leave(self, job: Job) -> None:
        """It goes on elsewhere: what may come back for it here is not its own any more."""
        state = self.state
        if state.running.pop(job.id, None) is not None:
            state.queue.released(job)
        job.state = ENDED
        job.epoch += 1
        del state.jobs[job.id]

    def end(self, job: Job, event: Delta) -> None:
        super().end(job, event)
        del self.owner.requests[job.id]

    def give_back(self, request_id: str, blocks: Sequence[int]) -> None:
        """An obligation ends."""
        for block in blocks:
            self.state.pool.give(block)
        self.state.deltas.append(("released", request_id, list(blocks)))


class PrefillPool(Half):
    """Runs prompts, and hands them over with the token after them."""

    def begin(self, request: Request, tokens: Sequence[int]) -> None:
        """The prompt and all outputs so far are to be computed, and one token after them."""
        self.come(Job.of(evolve(request, prompt_ids=tuple(tokens), max_output_tokens=1), 0))

    def go_on(self, job: Job, *, has_stopped: bool) -> bool:
        if has_stopped or self.owner.is_at_its_end(job):
            return super().go_on(job, has_stopped=has_stopped)
        self.hand_over(job)
        return True

    def hand_over(self, job: Job) -> None:
        """It runs here no more; its blocks stay, under an obligation."""
        blocks, job.table = job.table, []
        self.state.deltas.append(("held", job.id, blocks, UNPULLED))
        self.leave(job)
        self.owner.offer(job, blocks)


class DecodePool(Half):
    """Runs those whose KV has arrived.  All blocks that an admission takes were set aside when the KV was asked for."""

    def job_of(self, transfer: Transfer) -> Job:
        left = transfer.request.max_output_tokens - transfer.outputs
        stay = evolve(transfer.request, prompt_ids=tuple(transfer.tokens), max_output_tokens=left)
        return Job.of(stay, 0)

    def needed_blocks(self, transfer: Transfer) -> int:
        """Of its next token, or of all that is reserved: the admission asks for these and no others."""
        job = self.job_of(transfer)
        return blocks_for(self.reserved_tokens(job, job.known), self.state.settings.block_size)

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        return super().admit(budget, self.owner.link.arrived_blocks())

    def blocks_of(self, admission: Admission, room: Room) -> int:
        return len(admission.cached_blocks)

    def fit(self, job: Job, room: Room, *, anything_runs: bool) -> Admission | None:
        target = self.owner.link.arrived[job.id].target
        admission = Admission(job, target, job.known - 1, 1, self.reserved_tokens(job, job.known))
        self.take(admission, room)
        return admission

    def share(self, job: Job, blocks: list[int]) -> None:
        del self.owner.link.arrived[job.id]
        job.table.extend(blocks)
        self.state.deltas.append(("adopted", job.id, list(blocks)))

    def preempt(self, job: Job, requester: Job) -> None:
        """Its KV is lost, so it is to be prefilled again, which is the other pool's."""
        super().preempt(job, requester)
        self.state.queue.left(job)
        self.leave(job)
        self.owner.prefill.begin(self.owner.requests[job.id], job.tokens)


class Disaggregated:
    """A subject (`schedspec.spec.vocabulary.Subject`) of two schedulers and a link.  The link is the world's: it is
    asked by a delta, and tells by `notify`."""

    prefill_pool = PrefillPool
    decode_pool = DecodePool

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        refuse(settings)
        self.settings = settings
        self.link = Link()
        own, first = decode_settings(settings), settings.blocks
        pool = Pool(own.blocks, list(range(first + own.blocks - 1, first - 1, -1)))
        self.prefill = self.prefill_pool(State.of(prefill_settings(settings)), self)
        self.decode = self.decode_pool(State.of(own, pool), self)
        self.halves: tuple[Half, Half] = (self.prefill, self.decode)
        self.requests: dict[str, Request] = {}
        self.seen: set[str] = set()
        self.deltas: list[Delta] = []
        self.now_ns = 0
        self.steps = 0
        self.turn = 0

    # --- the protocol ------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        """What both pools claim, and what the two do together."""
        first, second = (half.state.settings for half in self.halves)
        claims = (claims_of(first) & claims_of(second)) | {"two_pools", "strict_split"}
        constants = constants_of(first) if "mixes_prefill" in claims else {}
        return Capabilities(
            name="reference",
            version="1",
            observes="tables",
            ordered=True,
            claims=claims | {"overlap"} if self.settings.overlap_depth > 1 else claims,
            constants=constants,
        )

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.begin_call(now_ns)
        receipt = self.answer(request)
        self.pull()
        return evolve(receipt, deltas=self.deltas) if self.deltas else receipt

    def answer(self, request: Request) -> Receipt:
        """A request has to fit into each pool, alone."""
        if request.id in self.seen:
            return Receipt(verdict="duplicate", of=request.id)
        self.seen.add(request.id)
        refusal = self.prefill.refusal(request) or self.decode.refusal(request)
        if refusal is not None:
            reason, limit, value = refusal
            return Receipt(verdict="refused", reason=reason, limit=limit, value=value)
        self.requests[request.id] = request
        self.prefill.begin(request, request.prompt_ids)
        return Receipt(verdict="accepted")

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        self.begin_call(now_ns)
        transfer = self.link.of(request_id)
        jobs = [(half, half.state.jobs[request_id]) for half in self.halves if request_id in half.state.jobs]
        for half, job in jobs:
            half.end(job, ("cancelled", request_id))
        if not jobs and self.requests.pop(request_id, None) is not None:
            self.deltas.append(("cancelled", request_id))
        if transfer is not None:
            self.abandon(transfer)
        self.pull()
        return self.deltas

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        """What the link tells of a transfer that stands; all else changes nothing."""
        self.begin_call(now_ns)
        number = event.get("transfer")
        transfer = self.link.standing.get(number) if isinstance(number, int) else None
        if transfer is not None:
            self.hear(transfer, event.get("type"))
        self.pull()
        return self.deltas

    def step(self, now_ns: int) -> Plan:
        """A step of one pool: in turn, or of the one that has none in flight."""
        self.begin_call(now_ns)
        idle = [number for number, half in enumerate(self.halves) if not half.state.in_flight]
        number = self.turn if self.turn in idle or not idle else idle[0]
        half, self.turn = self.halves[number], 1 - number
        half.state.step = self.steps
        plan = half.step(now_ns) if idle else Plan(step=self.steps + 1, deltas=self.deltas)
        self.steps = plan.step
        self.pull()
        return evolve(plan, pool=PREFILL if half is self.prefill else DECODE)

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        half = next((half for half in self.halves if outcome.step in half.state.in_flight), None)
        if half is None:
            return []
        self.begin_call(now_ns)
        half.complete(outcome, now_ns)
        self.pull()
        return self.deltas

    def observe(self) -> Observation:
        shown = [half.observe() for half in self.halves]
        obligations = list(self.link.obligations())
        tables = {request: table for one in shown for request, table in one.tables.items()}
        counters = dict(shown[0].counters) | {f"decode_{name}": n for name, n in shown[1].counters.items()}
        for block, _, _ in obligations:
            counters["used_blocks" if block < self.settings.blocks else "decode_used_blocks"] -= 1
        return Observation(
            counters=counters,
            requests=self.views(),
            tables=tables,
            free=[*shown[0].free, *shown[1].free],
            obligations=obligations,
            ref_counts=dict.fromkeys((block for table in tables.values() for block in table), 1),
        )

    def views(self) -> dict[str, RequestView]:
        views = {}
        for half, shown in ((half, half.observe().requests) for half in self.halves):
            for request, view in shown.items():
                before = half.state.jobs[request].request.prompt_tokens - self.requests[request].prompt_tokens
                views[request] = evolve(view, outputs=view.outputs + before)
        for request in self.requests:
            transfer = self.link.of(request)
            if transfer is not None:
                positions = len(transfer.tokens) - 1
                views[request] = RequestView(
                    state="transferring", issued=positions, computed=positions, outputs=transfer.outputs, in_flight=0
                )
        return views

    # --- between the pools ---------------------------------------------------------------------------------------

    def begin_call(self, now_ns: int) -> None:
        """Every call first sees whose time is up."""
        self.now_ns, self.deltas = now_ns, []
        for half in self.halves:
            half.state.now_ns, half.state.deltas = now_ns, self.deltas
        for transfer in self.link.overdue(now_ns):
            self.lose(transfer, "timeout")

    def is_at_its_end(self, job: Job) -> bool:
        request = self.requests[job.id]
        return len(job.tokens) - request.prompt_tokens >= request.max_output_tokens

    def offer(self, job: Job, blocks: list[int]) -> None:
        self.link.offer(Transfer(self.requests[job.id], list(job.tokens), blocks))

    def pull(self) -> None:
        """In the order in which prefill was complete, as long as there is room."""
        while (transfer := self.link.first()) is not None:
            needed = self.decode.needed_blocks(transfer)
            if not self.has_room(needed):
                return
            target = [self.decode.state.pool.take()[0] for _ in range(needed)]
            self.link.ask(transfer, target, self.now_ns + self.settings.pools.transfer_ns)
            self.deltas.append(("pulled", transfer.id, list(target), transfer.number))

    def has_room(self, blocks: int) -> bool:
        landing, most = self.link.landing_blocks(), self.settings.pools.landing_blocks
        is_within = not most or not landing or landing + blocks <= most
        return is_within and blocks <= self.decode.state.pool.available

    def hear(self, transfer: Transfer, told: object) -> None:
        if told == "transfer_started":
            transfer.is_written = True
        elif told == "transfer_done":
            self.arrive(transfer)
        elif told == "transfer_failed":
            self.lose(transfer, "failed")

    def arrive(self, transfer: Transfer) -> None:
        """The decode pool has it, so the prefill pool lets go of it; both do if nobody wants it any more."""
        self.over(transfer, "done")
        if transfer.is_wanted:
            self.link.arrived[transfer.id] = transfer
            self.decode.come(self.decode.job_of(transfer))
        else:
            self.decode.give_back(transfer.id, transfer.target)

    def lose(self, transfer: Transfer, outcome: str) -> None:
        """Both pools let go, and who is wanted is prefilled again."""
        self.over(transfer, outcome)
        self.decode.give_back(transfer.id, transfer.target)
        if transfer.is_wanted:
            self.prefill.begin(transfer.request, transfer.tokens)

    def over(self, transfer: Transfer, outcome: str) -> None:
        del self.link.standing[transfer.number]
        self.deltas.append(("transferred", transfer.id, outcome))
        self.prefill.give_back(transfer.id, transfer.source)

    def abandon(self, transfer: Transfer) -> None:
        """Nobody wants it any more.  What the link writes to stays aside until the link has ended."""
        transfer.is_wanted = False
        if transfer.id in self.link.waiting:
            del self.link.waiting[transfer.id]
            self.prefill.give_back(transfer.id, transfer.source)
        elif transfer.id in self.link.arrived:
            del self.link.arrived[transfer.id]
            self.decode.give_back(transfer.id, transfer.target)
        elif not transfer.is_written:
            self.lose(transfer, "dropped")


def refuse(settings: Settings) -> None:
    """Raises Unsupported with the first setting that it cannot honour."""
    name = unsupported(settings, HONOURED)
    if not settings.pools.are_two:
        name = "pools"
    elif settings.reserve not in RESERVES:
        name = "reserve"
    elif settings.overlap_depth > MOST_STEPS:
        name = "overlap_depth"
    if name is not None:
        raise Unsupported(name, getattr(settings, name), ASK if name == "pools" else "")


def make(settings: Settings, seed: int) -> Disaggregated:
    """The factory."""
    return Disaggregated(settings, seed)
