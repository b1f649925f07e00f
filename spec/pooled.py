"""The monitor of a scheduler with a prefill pool and a decode pool.

Each pool is judged as a scheduler of its own, by the ordinary monitor: it gets those messages, deltas and rows that are
about it.  The life of a request, from the door to its one end, is judged by a third one that sees decisions only.  What
goes on between the pools is the second relation (`transfers.py`).  Ids of blocks say whose they are.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from attrs import evolve

from .compiled import Program, compile_program, state_reads
from .errors import ProtocolError
from .flows import GONE, Flow, observation_of
from .monitor import Monitor
from .pool_headers import CLAIM, has_two_pools, of_all, of_pool
from .pools import DECODE, POOLS, PREFILL
from .printed import printed
from .programs import MOST_PROGRAMS
from .routing import Parts, Routing
from .rules.departures import DISCONNECTED
from .terms import walk
from .transfers import registry as transfers
from .verdicts import Violation
from .vocabulary import (
    Capabilities,
    Header,
    Message,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
)

OF_ALL = frozenset({"LIFE-1", "LIFE-2", "LIFE-3", "LIFE-4", "LIFE-5", "LIFE-6", "LIFE-7", "LIFE-10"})
"""Rules about the whole life of a request; those of the door, too, are judged once."""
DOOR = "ADMIT"
MOST_IDLE_STEPS = 2
MOST_VIOLATIONS = 1_000


def new_monitor(header: Header, make: type[Monitor] = Monitor, **how: Any) -> Any:
    """The monitor for that subject: of two pools, or that of one, which `make` makes.  Both answer the same questions,
    but the one of two pools has no state of its own that another rule could read."""
    return PooledMonitor(header, **how) if has_two_pools(header) else make(header, **how)


class PooledMonitor(Routing):
    """Has what the suite asks of a monitor: `feed`, `execute`, `exercised`, `live`, `violations`."""

    kind = "pooled"

    def __init__(
        self,
        header: Header,
        *,
        content: bool = True,
        explain: bool = False,
        horizon: int = 4096,
        dropped: str | None = None,
    ) -> None:
        if not header.capabilities.ordered:
            hint = "declare ordered, and give deltas in the order in which things happened"
            raise ProtocolError("capabilities", "ordered", False, f"the claim {CLAIM!r} needs it", hint)
        self.settings, self.capabilities = header.settings, header.capabilities
        self.explain, self.horizon = explain, horizon
        how: dict[str, Any] = {"explain": explain, "horizon": horizon, "dropped": dropped}
        self.whole = Monitor(of_all(header), content=False, **how)
        self.pools = {pool: Monitor(of_pool(header, pool), content=content, **how) for pool in POOLS}
        self.program = _program(header.capabilities.observes, header.capabilities.claims)
        self.world = self.program.world()
        self.world.transfer_ns = header.settings.pools.transfer_ns
        self.flows: OrderedDict[str, Flow] = OrderedDict()
        self.steps: OrderedDict[int, str] = OrderedDict()
        self.planned: dict[int, dict[str, str]] = {}
        self.transfers: dict[int, Flow] = {}
        self.done: set[int] = set()
        self.failed: set[int] = set()
        self.names: dict[str, str] = {}
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.message = 0
        self.now_ns = 0
        self.live = 0
        self.held: dict[str, Request] = {}  # at the door: nobody is, and nobody is parked
        self.parks, self.parking = False, self.whole.parking
        self.idle_steps = 0
        self._found: list[Violation] = []
        self._reads: dict[str, Any] = {}
        self._pool: str | None = None

    # --- asking ------------------------------------------------------------------------------------------

    def feed(self, message: Message) -> list[Violation]:
        """Judge one message.  Raises ProtocolError if it makes no sense at all."""
        self._found = []
        self.message += 1
        self.now_ns = message.now_ns
        try:
            _FEEDS[message.kind](self, message)
        except ProtocolError:
            if not self._found:
                raise  # else what a pool makes of it after that says nothing
        self.violations += self._found
        del self.violations[:-MOST_VIOLATIONS]
        return self._found

    def execute(self, step: int) -> list[int]:
        return self.pools[self.steps[step]].execute(step)

    def binds(self, rule: str) -> bool:
        return self.pools[PREFILL].binds(rule) or self.whole.binds(rule) or rule in transfers.rules

    def exercised(self) -> dict[str, int]:
        """Rule -> how often its precondition held, in any part."""
        totals = Counter(self.counts)
        for conjunct, count in zip(transfers.conjuncts, self.world.exercised, strict=True):
            if not transfers.rules[conjunct.rule].counts:
                totals[conjunct.rule] += count
        for rule in transfers.rules.values():
            for event in rule.counts:
                totals[rule.id] += self.world.events[event]
        for rule_id, count in self.whole.exercised().items():
            totals[rule_id] += count if _is_of_all(rule_id) else 0
        for monitor in self.pools.values():
            for rule_id, count in monitor.exercised().items():
                totals[rule_id] += 0 if _is_of_all(rule_id) else count
        return {rule_id: totals[rule_id] for rule_id in self.whole.exercised()}

    # --- messages ----------------------------------------------------------------------------------------

    def _submit(self, message: Message) -> None:
        request: Request = message.given
        receipt: Receipt = message.answer
        parts = self.routed("submit", receipt.deltas)
        is_new = receipt.verdict == "accepted" and request.id not in self.flows
        if is_new:
            flow = self.flows[request.id] = Flow.of(request)
            self.live += 1
            self.idle_steps = 0
            parts.comers[PREFILL].append(self.stay(flow, PREFILL))
        self._told(parts)
        self._judge_all(evolve(message, answer=evolve(receipt, deltas=parts.of_all)))
        self._close()
        self._forget()

    def _cancel(self, message: Message) -> None:
        flow = self.flows.get(message.given)
        place = flow.place if flow is not None else GONE
        parts = self.routed("cancel", message.answer)
        mains = {}
        if flow is not None and place in POOLS:
            mains[place] = Message("cancel", message.now_ns, flow.alias, parts.deltas[place])
        self._told(parts, mains)
        self._judge_all(evolve(message, answer=parts.of_all))
        self._close()

    def _notify(self, message: Message) -> None:
        event, number = message.given, message.given.get("transfer")
        flow = self.transfers.get(number) if type(number) is int else None
        if flow is not None and self._stands(flow, number):
            self._reported(event.get("type"), flow)
        parts = self.routed("notify", message.answer)
        self._told(parts)
        of_all = event if event.get("type") == DISCONNECTED else {}
        self._judge_all(evolve(message, given=of_all, answer=parts.of_all))
        self._close()

    def _reported(self, kind: object, flow: Flow) -> None:
        if kind == "transfer_started":
            self.fire("Write", flow.id)
        elif kind in ("transfer_done", "transfer_failed") and flow.number not in self.done | self.failed:
            (self.done if kind == "transfer_done" else self.failed).add(flow.number)
            self.fire("Report", flow.id)
            if kind == "transfer_done":
                self._copy(flow)

    def _step(self, message: Message) -> None:
        plan: Plan = message.answer
        if plan.pool is None:
            hint = f"say whose step it is: {PREFILL} or {DECODE}"
            raise ProtocolError("step", "plan.pool", None, "there are two pools", hint)
        was_idle = not any(monitor.in_flight for monitor in self.pools.values()) and not self.world.moving
        self._pool = plan.pool
        parts = self.routed("step", plan.deltas)
        self._pool = None
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            self.fire("Run", self.flow_of("step", "plan.request", request).id, plan.pool == DECODE, start, tokens)
        aliases = {request: self.flows[request].alias for request in plan.request}
        self.steps[plan.step] = plan.pool
        self.planned[plan.step] = aliases
        of_pool = evolve(plan, request=list(aliases.values()), deltas=parts.deltas[plan.pool])
        self._told(parts, {plan.pool: Message("step", message.now_ns, None, of_pool)})
        self._judge_all(evolve(message, answer=evolve(plan, deltas=parts.of_all)))
        self._close()
        self._notice_idleness(plan, was_idle=was_idle)

    def _notice_idleness(self, plan: Plan, *, was_idle: bool) -> None:
        """LIVE-1 of the two together: one of them schedules something, or the decode pool asks for something."""
        if not self.live or not was_idle:
            self.idle_steps = 0
            return
        self.counts["LIVE-1"] += 1
        self.idle_steps = 0 if plan.request or plan.deltas else self.idle_steps + 1
        if self.idle_steps >= MOST_IDLE_STEPS:
            says = "with unfinished work and nothing in flight, some token is scheduled"
            self._fail("LIVE-1", "pools", says, unfinished=self.live)
            self.idle_steps = 0

    def _complete(self, message: Message) -> None:
        outcome: Outcome = message.given
        pool = self.steps.get(outcome.step)
        if pool is None:
            raise ProtocolError("complete", "outcome.step", outcome.step, "was never planned")
        aliases = self.planned[outcome.step]
        is_repeated = outcome.step not in self.pools[pool].in_flight
        parts = self.routed("complete", message.answer)
        requests = [aliases.get(request, request) for request in outcome.request]
        given = evolve(outcome, request=requests)
        self._told(parts, {pool: Message("complete", message.now_ns, given, parts.deltas[pool])})
        self._judge_all(evolve(message, answer=parts.of_all))
        if not is_repeated:  # that changes nothing, whatever is overdue (LIFE-7)
            self._close()
        self._forget()

    def _observe(self, message: Message) -> None:
        shown: Observation | None = message.answer
        if shown is None:
            return
        self._compare_obligations(shown)
        of_all = {
            request: evolve(view, state="running" if self._runs(request) else view.state)
            for request, view in shown.requests.items()
        }
        self._judge_all(evolve(message, answer=Observation(requests=of_all)))
        first = self.settings.blocks
        ids = {PREFILL: range(first), DECODE: range(first, first + self.settings.pools.decode_blocks)}
        for pool, monitor in self.pools.items():
            mine = {flow.id: flow for flow in self.flows.values() if flow.place == pool}
            requests = {}
            for request, flow in mine.items():
                if request in shown.requests:
                    view = shown.requests[request]
                    entered = monitor.world.RequestId[flow.alias].phase != 1 or pool == PREFILL
                    requests[flow.alias] = flow.view(view) if entered else flow.waiting_view(view)
            prefix = "decode_" if pool == DECODE else ""
            part = observation_of(shown, mine, ids[pool], prefix, requests)
            self._judge(pool, Message("observe", message.now_ns, None, part))

    def _runs(self, request: str) -> bool:
        flow = self.flows.get(request)
        return flow is not None and flow.has_run

    def _compare_obligations(self, shown: Observation) -> None:
        """What is lent or awaited, by whom, is what the deltas say."""
        if self.capabilities.observes != "tables":
            return
        world = self.world
        of = {"XFER-3": ("lent", world.lent), "KV-9": ("awaited", world.awaited)}
        says = "obligations are what their deltas say"
        blocks = self.settings.blocks
        for rule, (name, true) in of.items():
            named = {block: owner for block, owner, _ in shown.obligations if (block < blocks) == (rule == "XFER-3")}
            odd = sorted(set(named) ^ true)
            if odd:
                self._fail(rule, name, says, block=odd[0], shown=odd[0] in named, true=odd[0] in true)
                return
            if freed := sorted(true.intersection(shown.free)):
                self._fail(rule, "free", "a block under an obligation is not free", block=freed[0])
                return
            for block, owner in named.items():
                if block not in getattr(world.RequestId[owner], f"{name}_of"):
                    says = "an obligation has the owner that its deltas say"
                    self._fail(rule, "owner", says, block=block, shown=owner)
                    return

    def _end(self, message: Message) -> None:
        self._judge_all(message)
        for pool in POOLS:
            self._judge(pool, message)
        late = [flow.id for flow in self.flows.values() if not flow.has_ended]
        if late:
            says = "when the run ends every accepted request has ended"
            self._fail("LIVE-2", "never", says, unfinished=late[:5])

    # --- parts -------------------------------------------------------------------------------------------

    def _stands(self, flow: Flow, number: int) -> bool:
        return flow.number == number and flow.id in self.world.moving

    def _copy(self, flow: Flow) -> None:
        """The link has written: what the source blocks hold now is in the target blocks, whoever owns them."""
        source, target = (self.pools[pool].shadow for pool in POOLS)
        if source is None or target is None or flow.id not in self.world.writing:
            return
        for place, (here, there) in enumerate(zip(flow.source, flow.target, strict=False)):
            upto = flow.positions - place * self.settings.block_size
            target.blocks[there] = list(source.blocks.get(here, ())[: max(0, upto)])
            for track in target.holders(there):
                track.doubt(there)

    def _told(self, parts: Parts, mains: dict[str, Message] | None = None) -> None:
        """Each pool its part of the call."""
        for pool, monitor in self.pools.items():
            monitor.put_back(parts.back[pool])
            for request in parts.comers[pool]:
                self._judge(pool, Message("submit", self.now_ns, request, Receipt(verdict="accepted")))
            main = (mains or {}).get(pool)
            if main is None and parts.deltas[pool]:
                main = Message("notify", self.now_ns, {}, parts.deltas[pool])
            if main is not None:
                self._judge(pool, main)
            monitor.set_aside(parts.aside[pool])

    def _judge(self, pool: str, message: Message) -> None:
        for violation in self.pools[pool].feed(message):
            if not _is_of_all(violation.rule):
                facts = {"pool": pool} | {name: self._named(value) for name, value in violation.facts.items()}
                self._found.append(evolve(violation, message=self.message, facts=facts))

    def _judge_all(self, message: Message) -> None:
        for violation in self.whole.feed(message):
            if _is_of_all(violation.rule):
                self._found.append(evolve(violation, message=self.message))

    def _named(self, value: Any) -> Any:
        """Requests as their clients know them."""
        if isinstance(value, (list, tuple)):
            return [self._named(item) for item in value]
        return self.names.get(value, value) if isinstance(value, str) else value

    def _close(self) -> None:
        self.fire("Close", self.now_ns)

    def fire(self, event: str, *fields: Any) -> None:
        world = self.world
        reads = {}
        if self.explain:
            reads = {name: {t: _shown(r(world, *fields)) for t, r in of.items()} for name, of in _reads(event).items()}
        self.program.one[event](world, *fields)
        for number, _ in world.failed:
            conjunct = transfers.conjuncts[number]
            names = transfers.events[event].sorts
            spoken = {part.args[0] for part in walk(conjunct.term) if part.op == "field"}
            facts = {name: value for name, value in zip(names, fields, strict=True) if name in spoken}
            if "request" in names:
                facts |= {"request": fields[0]}
            facts |= reads.get(conjunct.name, {})
            says = printed(conjunct.term, transfers.names, transfers.state.sorts)
            self._found.append(
                Violation(rule=conjunct.rule, conjunct=conjunct.name, says=says, message=self.message, facts=facts)
            )
        world.failed.clear()

    def _fail(self, rule: str, place: str, says: str, **facts: Any) -> None:
        self._found.append(
            Violation(rule=rule, conjunct=f"{rule}.{place}", says=says, message=self.message, facts=facts)
        )

    def _forget(self) -> None:
        """What ended long ago leaves no trace, and neither do steps and transfers."""
        while len(self.flows) - self.live > self.horizon:
            flow = next(iter(self.flows.values()))
            if not flow.has_ended or flow.id in self.world.source or flow.id in self.world.target:
                self.flows.move_to_end(flow.id)
                if flow.has_ended:
                    return
                continue
            del self.flows[flow.id]
            self.world.RequestId.pop(flow.id, None)
            self.names = {alias: id for alias, id in self.names.items() if id != flow.id}
        while len(self.steps) > 4 * self.horizon:
            step, _ = self.steps.popitem(last=False)
            self.planned.pop(step, None)


def _is_of_all(rule: str) -> bool:
    return rule in OF_ALL or rule.startswith(DOOR)


@lru_cache(MOST_PROGRAMS)
def _program(observes: str, claims: frozenset[str]) -> Program:
    mine = Capabilities(observes=observes, ordered=True, claims=claims)  # type: ignore[arg-type]
    return compile_program(transfers, lambda conjunct: conjunct.binding.missing(mine) is None)


@cache
def _reads(event: str) -> dict[str, dict[str, Callable[..., Any]]]:
    return {c.name: state_reads(transfers, c) for c in transfers.guards(event)}


def _shown(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else value


_FEEDS: dict[str, Callable[[PooledMonitor, Message], None]] = {
    "submit": PooledMonitor._submit,
    "cancel": PooledMonitor._cancel,
    "notify": PooledMonitor._notify,
    "step": PooledMonitor._step,
    "complete": PooledMonitor._complete,
    "observe": PooledMonitor._observe,
    "end": PooledMonitor._end,
}
