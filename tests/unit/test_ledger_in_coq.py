"""The model of the theorems and the ledger of the monitor are two texts: generated runs give the same counters."""

from pathlib import Path
from random import Random

import pytest
from attrs import Factory, define
from tests.unit.coq import Change, computed, needs_coqc

from schedspec.spec.ledger import Ledger
from schedspec.spec.service import Tariff
from schedspec.spec.settings import Settings
from schedspec.spec.tracks import Track
from schedspec.spec.vocabulary import Request

CLIENTS = 3

# The scheduler of the model by the settings of the ledger, and what is looked at after every event.
MODEL = """Definition made (request input output product square credit : Z) (by_chunk : bool) (prices : list Z) :=
  let price u := nth u prices 1 in
  Scheduler
    (Tariff (fun u => price u * request) (fun u n => price u * (input * n))
            (fun u p n => price u * ((output + product * p) * n + square * n * n)))
    credit 1 by_chunk (fun _ _ => true) true true true true.

Definition shown (S : scheduler) (s : state) : list Z :=
  [virtual_time s; certificate s; match last_left s with Some u => Z.of_nat u | None => -1 end]
  ++ flat_map (fun u => [counter s u; service s u; committed S u (running s)]) (seq 0 CLIENTS).

Fixpoint watched (S : scheduler) (s : state) (events : list event) : list (list Z) :=
  match events with
  | [] => []
  | e :: rest => match step S s e with Some t => shown S t :: watched S t rest | None => [] end
  end.
""".replace("CLIENTS", f"{CLIENTS}%nat")


@define
class Run:
    """A run of the ledger, as Algorithm 2 with aging picks; each event as Coq has it, and what shows after it."""

    settings: Settings
    random: Random
    ledger: Ledger = Factory(lambda self: Ledger(Tariff.of(self.settings), self.settings), takes_self=True)
    service: list[int] = Factory(lambda: [0] * CLIENTS)
    waiting: list[Track] = Factory(list)
    running: list[Track] = Factory(list)
    came: int = 0
    events: list[str] = Factory(list)
    shown: list[list[int]] = Factory(list)

    def go_on(self) -> None:
        act = self.random.choice([self.arrive, self.pick, self.pick, self.serve, self.serve, self.compute, self.leave])
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
        self.waiting.append(track)
        self.ledger.enter(track, preempted=False)
        predicted = guess if self.settings.charge_prediction else 0
        self.note(f"Arrive {self.came} {client} {prompt} {most} {predicted}")
        self.came += 1

    def pick(self) -> None:
        least = self.ledger.everyone.least()
        if least is None:
            return
        allowed = least + self.settings.aging_credit
        track = self.random.choice([t for t in self.waiting if self.ledger.counters[t.client] <= allowed])
        cached = self.random.randint(0, track.prompt_tokens)
        self.waiting.remove(track)
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
            track = self.waiting.pop(self.random.randrange(len(self.waiting)))
            self.pays(track, -self.ledger.end(track))
            self.note(f"Withdraw {track.id}")
        elif self.running:
            track = self.running.pop(self.random.randrange(len(self.running)))
            if self.random.random() < 0.5:
                self.pays(track, -self.ledger.end(track))
                self.note(f"Finish {track.id}")
            else:
                track.epoch += 1
                self.waiting.append(track)
                self.ledger.enter(track, preempted=True)
                self.note(f"Preempt {track.id}")

    def pays(self, track: Track, amount: int) -> None:
        self.service[int(track.client)] += amount

    def note(self, event: str) -> None:
        ledger = self.ledger
        shown = [ledger.virtual_time, ledger.certificate, int(ledger.last_left or -1)]
        for client in range(CLIENTS):
            name = str(client)
            shown += [ledger.counters.get(name, 0), self.service[client], ledger.running_of(name).committed]
        self.events.append(event)
        self.shown.append(shown)

    def in_coq(self) -> str:
        s = self.settings
        weights = (s.request_weight, s.input_weight, s.output_weight, s.product_weight, s.square_weight, s.aging_credit)
        by_chunk = "true" if s.charge_prompt == "chunk" else "false"
        prices = "; ".join(str(dict(s.prices).get(str(client), 1)) for client in range(CLIENTS))
        made = f"made {' '.join(map(str, weights))} {by_chunk} [{prices}]"
        return f"watched ({made}) initial [{'; '.join(self.events)}]"


def generated(seed: int, events: int = 60) -> Run:
    random = Random(seed)
    credit = random.choice([0, 0, 3])
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
        aging_picks=min(credit, 1),
        prices={str(client): random.randint(1, 3) for client in range(random.choice([0, CLIENTS]))},
    )
    run = Run(settings, random)
    for _ in range(events):
        run.go_on()
    return run


def in_coq(folder: Path, runs: list[Run], *changes: Change) -> list[object]:
    """What Coq shows after each event of each run."""
    return computed(folder, ("Model",), (run.in_coq() for run in runs), *changes, prelude=MODEL)


@needs_coqc
def test_the_model_and_the_ledger_agree(tmp_path: Path) -> None:
    runs = [generated(seed) for seed in range(60)]
    seen = {event.split()[0] for run in runs for event in run.events}
    assert seen == {"Arrive", "Pick", "Compute", "Serve", "Finish", "Withdraw", "Preempt"}
    assert sum(len(run.events) for run in runs) > 1000
    for run, rows in zip(runs, in_coq(tmp_path, runs), strict=True):
        assert run.shown == rows, run.in_coq()


@needs_coqc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("enter (lifts_victims S) j", "enter false j"),
        ("then Some (mark (counter s l)) else None", "then None else None"),
        ("Z.min c (virtual_time s)", "Z.min c (virtual_time s - 1)"),
        ("(amount + committed u (k :: running s))", "amount"),
    ],
)
def test_another_model_does_not_agree(tmp_path: Path, old: str, new: str) -> None:
    runs = [generated(seed) for seed in range(30)]
    assert [run.shown for run in runs] != in_coq(tmp_path, runs, ("Model", old, new))
