"""The terms of sharing by counters and the ledgers of the monitor are two texts: generated runs give the same."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from attrs import Factory, define

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import ROUND, Op, cancel, submit
from schedspec.proofs import manifest
from schedspec.proofs.counters import COUNTERS, Shares
from schedspec.reference import make
from schedspec.reference.selection.race import Member
from schedspec.reference.selection.sharing import Drr, Members
from schedspec.spec.compiled import Program, compile_program, without
from schedspec.spec.lane_ledger import LaneLedger
from schedspec.spec.ledger import Ledger
from schedspec.spec.registry import Registry
from schedspec.spec.service import Tariff
from schedspec.spec.settings import Lane, Settings
from schedspec.spec.terms import Event, Term
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Request

NAMES = ("a", "b", "c")


def with_facts() -> Registry:
    """The terms, and what the proofs take for granted of an event as further guards."""
    registry = Registry(Shares, {}, COUNTERS.registry.rules, COUNTERS.registry.events)
    registry.conjuncts += COUNTERS.registry.conjuncts
    for event, terms in COUNTERS.events.items():
        registry.also("FAIR-1", on=COUNTERS.registry.events[event])(_constant(terms))
    return registry


def _constant(terms: tuple[Term, ...]) -> Callable[..., Any]:
    def assumed(s: Shares, e: Event, t: Shares) -> tuple[Term, ...]:
        return terms

    return assumed


PROGRAM = compile_program(with_facts())
HELD = [c.name for c in COUNTERS.registry.of_kind("invariant")]


@define
class Terms:
    """The terms beside a ledger.  `differs`: where the two do not agree, or what is proved does not hold."""

    program: Program
    credit: int = 0
    grain: int = 0
    world: Any = Factory(lambda self: self.program.world(), takes_self=True)
    service: Counter[str] = Factory(Counter)
    began: tuple[int, int] = (0, 0)
    turns: int = 0
    seen: Counter[str] = Factory(Counter)
    differs: list[str] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self.world.credit, self.world.grain = self.credit, self.grain
        self.world.one, self.world.other = NAMES[:2]
        for name in NAMES:
            self.world.Member[name].counter = 0

    def fire(self, event: str, *fields: Any) -> None:
        world = self.world
        self.seen[event] += 1
        self.program.one[event](world, *fields)
        if world.failed:
            names = [self.program.registry.conjuncts[number].name for number, _ in world.failed]
            self.differs.append(f"{event}{fields}: {', '.join(names)} fails")
            world.failed.clear()
        self.differs += [f"{name} after {event}{fields}" for name in HELD if not self.program.holds[name](world)]

    def serves(self, member: str, amount: int) -> None:
        self.service[member] += amount

    def picks(self, member: str, charge: int) -> None:
        self.serves(member, charge)
        self.turns += member == NAMES[1] and charge >= 1

    def opens(self) -> None:
        """From time to time it is looked at how two members fare."""
        self.began = (self.service[NAMES[0]], self.service[NAMES[1]])
        self.fire("Open")

    def counts_turns(self) -> None:
        self.turns = 0
        self.fire("Wait")

    def same(self, what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            self.differs.append(f"{what}: {ours} in the terms, {theirs} in the ledger")

    def compare(self, ledger: Ledger | LaneLedger, committed: Callable[[str], int]) -> None:
        world = self.world
        for name in NAMES:
            self.same(f"counter of {name}", world.Member[name].counter, ledger.counters.get(name, 0))
            self.same(f"committed of {name}", world.Member[name].committed, committed(name))
        self.same("waiting", world.waiting, set(ledger.waiting))
        self.same("virtual time", world.virtual_time, ledger.virtual_time)
        self.same("U", world.certificate, ledger.certificate)
        self.same("last", world.last_left, ledger.last_left)
        if world.open:
            ahead = self.service[NAMES[0]] - self.began[0] - self.service[NAMES[1]] + self.began[1]
            self.same("ahead", world.ahead, ahead)
        if world.patient:
            self.same("turns", world.turns, self.turns)


@define
class Run:
    """Clients or lanes by one name each, under whoever keeps the ledger; what waits and what runs."""

    random: Random
    settings: Settings
    terms: Terms
    waiting: list[Track] = Factory(list)
    running: list[Track] = Factory(list)
    came: int = 0

    def go_on(self) -> None:
        acts = (self.arrive, self.pick, self.pick, self.serve, self.serve, self.serve, self.leave, self.look)
        self.random.choice(acts)()
        self.compare()

    def arrive(self) -> None:
        name, prompt, most = self.random.choice(NAMES), self.random.randint(1, 4), self.random.randint(1, 4)
        request = Request(
            id=str(self.came),
            prompt_ids=tuple(range(prompt)),
            max_output_tokens=most,
            client=name,
            lane=name,
            predicted_output_tokens=self.random.randint(1, most),
        )
        track = Track.of(request, self.came)
        self.came += 1
        self.enters(track, preempted=False)
        self.waits(track)

    def waits(self, track: Track) -> None:
        track.waits = True
        self.waiting.append(track)

    def pick(self) -> None:
        ready = self.ready()
        if ready:
            track = self.random.choice(ready)
            self.waiting.remove(track)
            self.running.append(track)
            self.picks(track)
            track.waits = False

    def serve(self) -> None:
        """Sometimes of somebody who was preempted meanwhile."""
        late = [track for track in self.waiting if track.epoch]
        going = [t for t in (*self.running, *late) if t.outputs < t.declared_output]
        if going:
            track = self.random.choice(going)
            track.tokens.append(0)
            self.serves(track)

    def leave(self) -> None:
        if self.waiting and self.random.random() < 0.3:
            self.ends(self.waiting.pop(self.random.randrange(len(self.waiting))))
        elif self.running:
            track = self.running.pop(self.random.randrange(len(self.running)))
            if self.random.random() < 0.5:
                self.ends(track)
            else:
                track.epoch += 1
                self.enters(track, preempted=True)
                self.waits(track)

    def look(self) -> None:
        waiting = {self.name(track) for track in self.waiting}
        if set(NAMES[:2]) <= waiting and self.random.random() < 0.5:
            self.terms.opens()
        if NAMES[0] in waiting and self.random.random() < 0.5:
            self.terms.counts_turns()

    def name(self, track: Track) -> str:
        raise NotImplementedError

    def ready(self) -> list[Track]:
        """Whom the algorithm may pick."""
        raise NotImplementedError

    def enters(self, track: Track, *, preempted: bool) -> None:
        raise NotImplementedError

    def picks(self, track: Track) -> None:
        raise NotImplementedError

    def serves(self, track: Track) -> None:
        raise NotImplementedError

    def ends(self, track: Track) -> None:
        raise NotImplementedError

    def compare(self) -> None:
        raise NotImplementedError


@define
class OfClients(Run):
    ledger: Ledger = Factory(lambda self: Ledger(Tariff.of(self.settings), self.settings), takes_self=True)

    def name(self, track: Track) -> str:
        return track.client

    def allowed(self) -> int | None:
        least = self.ledger.backlogged.least()
        return None if least is None else least + self.settings.aging_credit

    def ready(self) -> list[Track]:
        allowed = self.allowed()
        free = [t for t in self.waiting if not self.ledger.is_held(t.client)]
        return [] if allowed is None else [t for t in free if self.ledger.counters[t.client] <= allowed]

    def enters(self, track: Track, *, preempted: bool) -> None:
        ledger, client = self.ledger, track.client
        if preempted:
            self.terms.fire("Release", client, ledger.unpaid(track))
        if client not in ledger.waiting:
            self.terms.fire("Return", client, _ground(ledger, ledger.everyone.least()))
        ledger.enter(track, preempted=preempted)

    def picks(self, track: Track) -> None:
        ledger, client = self.ledger, track.client
        least, ready = ledger.everyone.least(), ledger.backlogged.least()
        assert least is not None
        assert ready is not None
        charge = ledger.pick(track, self.random.randint(0, track.prompt_tokens), ())
        is_last = client not in ledger.waiting
        self.terms.picks(client, charge)
        self.terms.fire("Pick", client, least, charge, ledger.unpaid(track), ready - least, is_last)

    def serves(self, track: Track) -> None:
        if self.ledger.charges_chunks and track in self.running:
            self.charges("Charge", track, self.ledger.compute(track, self.random.randint(0, track.limit_tokens)))
        late = self.ledger.waits(track)
        self.charges("LateCharge" if late else "Charge", track, self.ledger.serve(track))

    def charges(self, event: str, track: Track, amount: int) -> None:
        self.terms.serves(track.client, amount)
        self.terms.fire(event, track.client, amount)

    def ends(self, track: Track) -> None:
        ledger, client = self.ledger, track.client
        waited, unpaid = ledger.waits(track), ledger.unpaid(track)
        unused = max(track.paid_outputs, track.outputs)
        due = ledger.tariff.outputs(client, track.prompt_tokens, track.outputs, unused)
        refund = ledger.end(track)
        if not waited:
            self.terms.fire("Release", client, unpaid)
        elif client not in ledger.waiting:
            self.terms.fire("Withdraw", client)
        self.terms.serves(client, -refund)
        self.terms.fire("Refund", client, due)

    def compare(self) -> None:
        self.terms.compare(self.ledger, lambda client: self.ledger.running_of(client).committed)


@define
class OfLanes(Run):
    ledger: LaneLedger = Factory(lambda self: LaneLedger.of(self.settings), takes_self=True)

    def __attrs_post_init__(self) -> None:
        for lane in NAMES:
            self.terms.world.Member[lane].burst = self.ledger.burst(lane)

    def name(self, track: Track) -> str:
        return track.lane

    def ready(self) -> list[Track]:
        least = self.ledger.least()
        allowed = 0 if least is None else least + self.terms.credit
        return [track for track in self.waiting if self.ledger.counters[track.lane] <= allowed]

    def owed(self, track: Track) -> int:
        return self.ledger.owed.get(track.id, 0) * self.ledger.prices[track.lane]

    def enters(self, track: Track, *, preempted: bool) -> None:
        ledger, lane = self.ledger, track.lane
        self.terms.fire("Release", lane, self.owed(track))
        if lane not in ledger.waiting:
            self.terms.fire("Return", lane, _ground(ledger, ledger.least()))
        ledger.enter(track)

    def picks(self, track: Track) -> None:
        """Now and then past a lane that a cap holds."""
        ledger, lane = self.ledger, track.lane
        held = {other for other in ledger.waiting if other != lane and self.random.random() < 0.1}
        least, ready = ledger.least(), ledger.least(held)
        assert least is not None
        assert ready is not None
        ledger.pick(track, self.cost(track), held)
        owed = self.owed(track)
        ledger.leave(track)
        self.terms.picks(lane, 0)
        self.terms.fire("Pick", lane, least, 0, owed, ready - least, lane not in ledger.waiting)

    def cost(self, track: Track) -> int:
        tariff, client, prompt = self.ledger.tariff, track.client, track.prompt_tokens
        whole = tariff.entry(client) + tariff.prompt(client, prompt)
        return whole + tariff.outputs(client, prompt, 0, track.declared_output)

    def serves(self, track: Track) -> None:
        """What its first token costs includes the prompt."""
        tariff, client, prompt = self.ledger.tariff, track.client, track.prompt_tokens
        amount = tariff.outputs(client, prompt, track.outputs - 1, track.outputs)
        amount += tariff.entry(client) + tariff.prompt(client, prompt) if track.outputs == 1 else 0
        weighted = self.ledger.charge(track, amount)
        self.terms.serves(track.lane, weighted)
        self.terms.fire("LateCharge" if track.waits else "Charge", track.lane, weighted)

    def ends(self, track: Track) -> None:
        """As if more outputs had been paid than there are."""
        ledger, lane = self.ledger, track.lane
        track.paid_outputs = track.outputs + self.random.randint(0, 2)
        due = ledger.tariff.outputs(track.client, track.prompt_tokens, track.outputs, track.paid_outputs)
        if track.waits:
            ledger.leave(track)
            if lane not in ledger.waiting:
                self.terms.fire("Withdraw", lane)
        self.terms.fire("Release", lane, self.owed(track))
        self.terms.serves(lane, -ledger.end(track))
        self.terms.fire("Refund", lane, due * ledger.prices[lane])

    def compare(self) -> None:
        self.terms.compare(self.ledger, lambda lane: self.ledger.owed_by_lane[lane] * self.ledger.prices[lane])


def _ground(ledger: Ledger | LaneLedger, least: int | None) -> int:
    if least is not None:
        return least
    return ledger.virtual_time if ledger.last_left is None else ledger.counters[ledger.last_left]


def of_clients(seed: int, program: Program = PROGRAM) -> Run:
    random = Random(seed)
    credit = random.choice([0, 0, 3])
    settings = Settings(
        policy="vtc",
        input_weight=random.randint(0, 3),
        output_weight=random.randint(1, 3),
        charge_prompt=random.choice(["pick", "chunk"]),
        charge_prediction=random.random() < 0.5,
        aging_credit=credit,
        aging_picks=min(credit, 1),
        client_seats=random.choice([0, 0, 1]),
        prices={name: random.randint(1, 3) for name in random.choice([(), NAMES])},
    )
    return gone(OfClients(random, settings, Terms(program, credit)))


def of_lanes(seed: int, program: Program = PROGRAM) -> Run:
    random = Random(seed)
    shares = random.choice([(50, 30, 20), (60, 10, 20), (5, 10, 15)])
    burst = random.choice([0, 4])
    lanes = tuple(Lane(name=name, share_percent=share, burst=burst) for name, share in zip(NAMES, shares, strict=True))
    settings = Settings(policy="lanes", lanes=lanes)
    return gone(OfLanes(random, settings, Terms(program, random.choice([0, 5]))))


def gone(run: Run, events: int = 80) -> Run:
    for _ in range(events):
        run.go_on()
        if run.terms.differs:
            break
    return run


SEEDS = range(60)
KINDS = (of_clients, of_lanes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_terms_and_the_ledger_agree(kind: Callable[[int], Run]) -> None:
    runs = [kind(seed) for seed in SEEDS]
    for seed, run in zip(SEEDS, runs, strict=True):
        assert run.terms.differs == [], f"seed {seed}"
    seen = sum((run.terms.seen for run in runs), Counter[str]())
    assert set(seen) == set(COUNTERS.registry.events)
    assert sum(seen.values()) > 3000


UNPROVED = [m.conjunct for m in manifest.read().mutants if m.theory == "counters" and m.expected != "refuted"]


@pytest.mark.parametrize("conjunct", UNPROVED)
def test_what_no_proof_pins_the_ledger_does(conjunct: str) -> None:
    changed = without(PROGRAM, conjunct)
    assert any(kind(seed, changed).terms.differs for kind in KINDS for seed in range(20))


# --- rounds -------------------------------------------------------------------------------------------------------

QUANTUM = 8
PLENTY = 10_000  # more than the requests of a run cost: the reference keeps no commitments


@define
class Rounds:
    """The terms beside the reference's round robin: told what happens to a member, before it does."""

    terms: Terms = Factory(lambda: Terms(PROGRAM, grain=QUANTUM - 1))

    def enters(self, drr: Drr, queues: Members, member: Member) -> None:
        last = queues.least() or queues.last_left
        self.terms.fire("Return", member.name, drr.mark(last.counter if last else queues.virtual_time))

    def picked(self, drr: Drr, queues: Members, member: Member) -> None:
        least = queues.least() or member
        self.terms.fire("Pick", member.name, drr.mark(least.counter), 0, PLENTY, 0, member.waiting == 1)

    def charge(self, drr: Drr, queues: Members, member: Member, amount: int) -> None:
        self.terms.fire("Charge", member.name, amount)

    def refund(self, drr: Drr, queues: Members, member: Member, amount: int) -> None:
        self.terms.fire("Refund", member.name, amount)

    def agrees(self, queues: Members, member: Member) -> None:
        self.terms.same("counter", self.terms.world.Member[member.name].counter, member.counter)
        self.terms.same("virtual time", self.terms.world.virtual_time, queues.virtual_time)


def watch(rounds: Rounds, patch: pytest.MonkeyPatch) -> None:
    for name in ("enters", "picked", "charge", "refund"):
        patch.setattr(Drr, name, beside(getattr(rounds, name), getattr(Drr, name), rounds.agrees))
    left = Members.left

    def leaves(queues: Members, job: Any) -> None:
        if queues.member_of(job).waiting == 1:
            rounds.terms.fire("Withdraw", queues.name_of(job))
        left(queues, job)

    patch.setattr(Members, "left", leaves)


def beside(told: Callable[..., None], does: Callable[..., None], agrees: Callable[..., None]) -> Callable[..., None]:
    def method(drr: Drr, queues: Members, member: Member, *amount: int) -> None:
        told(drr, queues, member, *amount)
        does(drr, queues, member, *amount)
        agrees(queues, member)

    return method


def operations(random: Random) -> list[Op]:
    ops: list[Op] = []
    for number in range(40):
        if random.random() < 0.6:
            lengths = (random.randint(1, 12), random.randint(2, 12))
            ends = random.choice([None, 1])
            ops.append(submit(str(number), *lengths, stop_after=ends, client=random.choice(NAMES)))
        ops += ROUND if random.random() < 0.9 or not ops else [cancel(str(random.randrange(number + 1)))]
    return ops


@pytest.mark.parametrize("policy", ["drr", "dlpm"])
def test_the_rounds_of_the_reference_are_those_of_the_terms(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    for seed in range(6):
        random, rounds = Random(seed), Rounds()
        with monkeypatch.context() as patch:
            watch(rounds, patch)
            settings = Settings(
                blocks=random.choice([16, 64]),
                block_size=2,
                seats=random.choice([1, 3]),
                policy=policy,
                quantum=QUANTUM,
                prefix_caching=policy == "dlpm",
                charge_prediction=random.random() < 0.5,
            )
            driver = Driver.start(make, settings, seed)
            driver.run(operations(random))
            driver.drain()
        assert driver.fault is None, str(driver.fault)
        assert rounds.terms.differs == [], f"seed {seed}"
        seen += rounds.terms.seen
    assert set(seen) >= {"Return", "Pick", "Charge", "Refund", "Withdraw"}


def test_another_round_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(Terms(PROGRAM, grain=QUANTUM // 2))
    with monkeypatch.context() as patch:
        watch(rounds, patch)
        driver = Driver.start(make, Settings(policy="drr", quantum=QUANTUM, seats=1), 0)
        driver.run(operations(Random(0)))
    assert rounds.terms.differs
