"""The model of the theorems as generated runs ask it: a scheduler by its settings, and what shows after each event."""

from collections.abc import Sequence
from pathlib import Path

from tests.unit.coq import Change, computed, listed

from schedspec.spec.settings import Settings

CLIENTS = 3

MODEL = """Definition made (request input output product square credit patience quantum seats tokens : Z)
    (by_chunk : bool) (prices bursts : list Z) :=
  let price u := nth u prices 1 in
  Scheduler
    (Tariff (fun u => price u * request) (fun u n => price u * (input * n))
            (fun u p n => price u * ((output + product * p) * n + square * n * n)))
    credit patience (fun u => nth u bursts 0) quantum by_chunk (fun _ _ => true) (at_a_cap seats tokens)
    true true true true.

Definition whose_turn (S : scheduler) (s : state) : list Z :=
  map (fun j => Z.of_nat (id j)) (filter (fun j => in_turn S j s) (waiting s)).

Definition left (s : state) : Z := match last_left s with Some u => Z.of_nat u | None => -1 end.

Definition counters (S : scheduler) (s : state) : list Z * list Z :=
  (virtual_time s :: left s :: map (counter s) (seq 0 CLIENTS), whose_turn S s).

Definition books (S : scheduler) (s : state) : list Z * list Z :=
  (virtual_time s :: left s :: certificate s
   :: flat_map (fun u => [counter s u; service s u; committed S u (running s)]) (seq 0 CLIENTS), whose_turn S s).

Fixpoint watched (look : scheduler -> state -> list Z * list Z) (S : scheduler) (s : state) (events : list event)
    : list (list Z * list Z) :=
  match events with
  | [] => []
  | e :: rest => match step S s e with Some t => look S t :: watched look S t rest | None => [] end
  end.
""".replace("CLIENTS", f"{CLIENTS}%nat")

Shown = tuple[list[int], list[int]]
"""What counters and the like are, and whose turn it is: ids of requests, the last that came to wait first."""


def run_term(look: str, s: Settings, prices: Sequence[int], bursts: Sequence[int], events: Sequence[str]) -> str:
    """What `look` shows after each of the events."""
    weights = (s.request_weight, s.input_weight, s.output_weight, s.product_weight, s.square_weight)
    quantum = s.quantum if s.policy in ("drr", "dlpm") else 1
    numbers = (*weights, s.aging_credit, s.aging_picks, quantum, s.client_seats, s.client_resident_tokens)
    by_chunk = "true" if s.charge_prompt == "chunk" else "false"
    scheduler = f"made {' '.join(map(str, numbers))} {by_chunk} {listed(prices)} {listed(bursts)}"
    return f"watched {look} ({scheduler}) initial [{'; '.join(events)}]"


def in_coq(folder: Path, terms: Sequence[str], *changes: Change) -> list[object]:
    return computed(folder, ("Model",), terms, *changes, prelude=MODEL)
