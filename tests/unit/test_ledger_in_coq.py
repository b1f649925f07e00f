"""The model of the theorems and the ledger of the monitor are two texts: generated runs give the same counters."""

from pathlib import Path
from random import Random

import pytest
from attrs import Factory, define
from tests.unit.coq import needs_coqc
from tests.unit.coq_model import CLIENTS, Shown, in_coq, run_term

from schedspec.spec.ledger import Ledger
from schedspec.spec.service import Tariff
from schedspec.spec.settings import Settings
from schedspec.spec.spells import Spells
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Request


@define
class Run:
    """A run of the ledger, as Algorithm 2 with aging and caps picks: each event as Coq has it, what shows after it."""

    settings: Settings
    random: Random
    ledger: Ledger = Factory(lambda self: Ledger(Tariff.of(self.settings), self.settings), takes_self=True)
    spells: Spells = Factory(Spells)
    service: list[int] = Factory(lambda: [0] * CLIENTS)
    waiting: list[Track] = Factory(list)
    running: list[Track] = Factory(list)
    came: int = 0
    preferred: int = 0
    passed: int = 0
    events: list[str] = Factory(list)
    shown: list[Shown] = Factory(list)

    def go_on(self) -> None:
        acts = [self.arrive, self.arrive, self.pick, self.pick, self.serve, self.serve, self.compute, self.leave]
        act = self.random.choice(acts)
        act()

    def arrive(self) -> None:
        client, prompt, most = self.random.randrange(CLIENTS), self.random.randint(1, 4), self.random.randint(1, 4)
        guess = self.random.randint(1, most)
        request = Request(
            id=str(self.came),
            prompt_ids=tuple(range(prompt)),
            max_output_tokens=most,
            client=str(client),
            predicted_output_tokens=guess,
        )
        track = Track.of(request, self.came)
        self.begins(track, preempted=False)
        predicted = guess if self.settings.charge_prediction else 0
        self.note(f"Arrive {self.came} {client} {prompt} {most} {predicted}")
        self.came += 1

    def pick(self) -> None:
        allowed = self.in_turn()
        if not allowed:
            return
        track = self.random.choice(allowed)
        self.passed += self.ledger.everyone.least() != self.ledger.backlogged.least()
        self.preferred += self.ledger.counters[track.client] != self.ledger.backlogged.least()
        cached = self.random.randint(0, track.prompt_tokens)
        self.waits_no_more(track, admitted=True)
        self.running.append(track)
        self.pays(track, self.ledger.pick(track, cached, ()))
        self.note(f"Pick {track.id} {cached}")

    def compute(self) -> None:
        if self.running and self.settings.charge_prompt == "chunk":
            track = self.random.choice(self.running)
            end = self.random.randint(0, track.limit_tokens)
            self.pays(track, self.ledger.compute(track, end))
            self.note(f"Compute {track.id} {end}")

    def serve(self) -> None:
        """Outputs come after the prompt, which is charged by then."""
        paid = [track for track in self.running if track.paid_tokens >= track.prompt_tokens]
        going = [track for track in paid if track.outputs < track.declared_output]
        if going:
            track = self.random.choice(going)
            track.tokens.append(0)
            self.pays(track, self.ledger.serve(track))
            self.note(f"Serve {track.id}")

    def leave(self) -> None:
        """It ends, is cancelled while it waits, or is preempted."""
        if self.waiting and self.random.random() < 0.3:
            track = self.random.choice(self.waiting)
            self.waits_no_more(track, admitted=False)
            self.pays(track, -self.ledger.end(track))
            self.note(f"Withdraw {track.id}")
        elif self.running:
            track = self.running.pop(self.random.randrange(len(self.running)))
            if self.random.random() < 0.5:
                self.pays(track, -self.ledger.end(track))
                self.note(f"Finish {track.id}")
            else:
                track.epoch += 1
                self.begins(track, preempted=True)
                self.note(f"Preempt {track.id}")

    def begins(self, track: Track, *, preempted: bool) -> None:
        self.waiting.append(track)
        self.spells.begin(track)
        self.ledger.enter(track, preempted=preempted)

    def waits_no_more(self, track: Track, *, admitted: bool) -> None:
        self.waiting.remove(track)
        self.spells.over(track, admitted=admitted)

    def in_turn(self) -> list[Track]:
        """Whom FAIR-1 and FAIR-17 allow to be picked."""
        least = self.ledger.backlogged.least()
        return [track for track in self.waiting if least is not None and self.may(track.client, least)]

    def may(self, client: str, least: int) -> bool:
        s, seen = self.settings, max(map(self.spells.seen, self.ledger.waiting[client].values()))
        credit = s.aging_credit if seen >= s.aging_picks else 0
        return client in self.ledger.since and self.ledger.counters[client] <= least + credit

    def pays(self, track: Track, amount: int) -> None:
        self.service[int(track.client)] += amount

    def note(self, event: str) -> None:
        ledger = self.ledger
        shown = [ledger.virtual_time, int(ledger.last_left or -1), ledger.certificate]
        for client in range(CLIENTS):
            name = str(client)
            shown += [ledger.counters.get(name, 0), self.service[client], ledger.running_of(name).committed]
        self.events.append(event)
        self.shown.append((shown, [int(track.id) for track in reversed(self.in_turn())]))

    def in_coq(self) -> str:
        prices = [dict(self.settings.prices).get(str(client), 1) for client in range(CLIENTS)]
        return run_term("books", self.settings, prices, [], self.events)


def generated(seed: int, events: int = 60) -> Run:
    random = Random(seed)
    credit = random.choice([0, 0, 10, 40])
    settings = Settings(
        policy="vtc",
        request_weight=random.choice([0, 0, 2]),
        input_weight=random.randint(0, 3),
        output_weight=random.randint(1, 3),
        product_weight=random.choice([0, 0, 1]),
        square_weight=random.choice([0, 0, 1]),
        charge_prompt=random.choice(["pick", "chunk"]),
        charge_prediction=random.random() < 0.5,
        aging_credit=credit,
        aging_picks=random.randint(1, 4) if credit else 0,
        client_seats=random.choice([0, 0, 1, 2]),
        client_resident_tokens=random.choice([0, 0, 12]),
        prices={str(client): random.randint(1, 3) for client in range(random.choice([0, CLIENTS]))},
    )
    run = Run(settings, random)
    for _ in range(events):
        run.go_on()
    return run


@needs_coqc
def test_the_model_and_the_ledger_agree(tmp_path: Path) -> None:
    runs = [generated(seed) for seed in range(60)]
    seen = {event.split()[0] for run in runs for event in run.events}
    assert seen == {"Arrive", "Pick", "Compute", "Serve", "Finish", "Withdraw", "Preempt"}
    assert sum(len(run.events) for run in runs) > 1000
    for run, rows in zip(runs, in_coq(tmp_path, [run.in_coq() for run in runs]), strict=True):
        assert run.shown == rows, run.in_coq()


def test_the_runs_are_no_trivial_ones() -> None:
    """Somebody is ahead of the least and may be picked, and somebody is passed because a cap holds it."""
    runs = [generated(seed) for seed in range(60)]
    assert sum(run.preferred > 0 for run in runs) > 5
    assert sum(run.passed > 0 for run in runs) > 5


PLANTED = (
    ("enter (lifts_victims S) j", "enter false j"),
    ("then Some (mark (counter s l)) else None", "then None else None"),
    ("Z.min c (virtual_time s)", "Z.min c (virtual_time s - 1)"),
    ("(amount + committed u (k :: running s) + passed_over s)", "(amount + passed_over s)"),
    ("(k :: running s) + passed_over s)", "(k :: running s))"),
    ("patience S <=? picks s - since j", "patience S <? picks s - since j"),
    ("negb (holds S (waiting s) (running s) u)\n", "true\n"),
    ("(paid_outputs j) (outputs j) now.", "(paid_outputs j) (outputs j) (since j)."),
    ("prompt j + limit j + declared rest", "prompt j + declared rest"),
    ("if Nat.ltb (id j) (id k) then", "if Nat.ltb (id k) (id j) then"),
)


@needs_coqc
@pytest.mark.parametrize(
    ("old", "new"), [PLANTED[0], *(pytest.param(*planted, marks=pytest.mark.deep) for planted in PLANTED[1:])]
)
def test_another_model_does_not_agree(tmp_path: Path, old: str, new: str) -> None:
    runs = [generated(seed) for seed in range(30)]
    assert [run.shown for run in runs] != in_coq(tmp_path, [run.in_coq() for run in runs], ("Model", old, new))
