"""The loops and scans of the theorems are those of the code: generated inputs run through Coq and through Python.

`Scans.v` is held against `optimized/`, `Loops.v` against `reference/`; `tests/kernels` does so with the kernels.  All
inputs of a run go through coqc at once.  A case has a term, and what Python makes of the same input.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from tests.unit.coq import Change, computed, listed, made, naturals, needs_coqc

from schedspec.optimized.batch import Batch
from schedspec.optimized.blocks import Blocks, parts
from schedspec.optimized.calendar import Calendar
from schedspec.optimized.clients import ClientQueue
from schedspec.optimized.job import Job as Waiting
from schedspec.optimized.scheduler import Scheduler as Optimized
from schedspec.reference.job import RUNNING
from schedspec.reference.job import Job as Referred
from schedspec.reference.scheduler import Scheduler as Reference
from schedspec.spec.vocabulary import Request, Settings, blocks_for

FILES = ("Loops", "Scans")
SEEDS = range(60)
Runner = tuple[int, int, int, int]


@frozen
class Case:
    """A term of Coq, and the value that it must have."""

    term: str
    value: object


# --- who runs ----------------------------------------------------------------------------------------------------


@frozen
class Scene:
    """Running requests (left, samples left, issued, held), and what they share."""

    running: list[Runner]
    chunk: int
    size: int
    budget: int
    free: int

    @classmethod
    def drawn(cls, random: Random) -> "Scene":
        size, count = random.choice((1, 2, 3, 8)), random.randint(0, 9)
        running = []
        for _ in range(count):
            held = random.randint(0, 4)
            issued = max(0, held * size - random.randint(0, size))
            running.append((random.choice((0, 1, 1, 1, 5, 20)), random.randint(0, 3), issued, held))
        chunk, budget = random.choice((0, 0, 1, 4)), random.choice((1, count or 1, 2 * count + 1, 100))
        return cls(running, chunk, size, budget, random.randint(0, 6))

    @property
    def settings(self) -> Settings:
        return Settings(
            blocks=200,
            block_size=self.size,
            seats=20,
            token_budget=self.budget,
            chunk_tokens=self.chunk,
            watermark_blocks=0,
        )

    @property
    def in_coq(self) -> str:
        return f"{self.chunk} {self.size} {self.budget}"

    @property
    def runners(self) -> str:
        return listed(made("Runner", *fields) for fields in self.running)

    def optimized(self) -> Optimized:
        """With these in rows of their own, the last admitted in the first."""
        scheduler, count = Optimized(self.settings), len(self.running)
        scheduler.order = np.arange(count, dtype=np.int64)[::-1].copy()
        rows = scheduler.rows
        for row, fields in zip(scheduler.order, self.running, strict=True):
            rows.left[row], rows.samples_left[row], rows.issued[row], rows.held[row] = fields
        scheduler.blocks.free = self.free
        scheduler.in_flight[0] = Batch(0)  # only while something is under way may a row have no samples left
        return scheduler

    def reference(self) -> Reference:
        scheduler = Reference(self.settings)
        pool, blocks = scheduler.state.pool, iter(range(1_000, 2_000))
        for number, (left, samples, issued, held) in enumerate(self.running):
            request = Request(id=str(number), prompt_ids=(1,), max_output_tokens=samples + 1)
            job = Referred.of(request, number)
            job.state, job.admission, job.outputs = RUNNING, number, 1
            job.known, job.issued, job.table = issued + left, issued, [next(blocks) for _ in range(held)]
            pool.refs |= dict.fromkeys(job.table, 1)
            scheduler.state.running[job.id] = job
        pool.free = list(range(self.free))
        return scheduler


def runners_at(scheduler: Optimized, rows: Any) -> list[Runner]:
    r = scheduler.rows
    return [(int(r.left[i]), int(r.samples_left[i]), int(r.issued[i]), int(r.held[i])) for i in rows]


def needs_of(growth: Any) -> list[int]:
    needs = np.zeros(len(growth.row), dtype=np.int64)
    needs[growth.growing] = growth.blocks
    return list(needs.tolist())


def budgets(random: Random) -> Iterator[Case]:
    scene = Scene.drawn(random)
    scheduler = scene.optimized()
    growth = scheduler.compose(scheduler.order)
    left = scene.budget - int(growth.tokens.sum())
    value = (growth.tokens.tolist(), needs_of(growth), left)
    yield Case(f"compose_scan {scene.in_coq} {scene.runners}", value)
    referred = scene.reference()
    jobs = list(referred.state.running.values())
    given, need, left = referred.compose(jobs)
    tokens = {job.id: some for job, some in given}
    yield Case(
        f"let p := compose {scene.in_coq} {scene.runners} in (tokens_of p, total (needs_of p), snd p)",
        ([tokens.get(job.id, 0) for job in jobs], need, left),
    )


def victims(random: Random) -> Iterator[Case]:
    scene = Scene.drawn(random)
    scheduler = scene.optimized()
    growth, gone = scheduler.with_victims(scheduler.compose(scheduler.order))
    yield Case(
        f"let p := preempt_scan {scene.in_coq} {scene.free} {scene.runners} in "
        f"(p, total (needs_of (compose_scan {scene.in_coq} (fst p))))",
        (runners_at(scheduler, growth.row), runners_at(scheduler, gone), growth.needed),
    )
    decision = scene.reference().decide()
    yield Case(
        f"let '(stay, gone) := preempt {scene.in_coq} {scene.free} (rev {scene.runners}) [] in "
        f"(gone, filter (Z.ltb 0) (tokens_of (compose {scene.in_coq} stay)))",
        ([scene.running[int(job.id)] for job in decision.victims], [tokens for _, tokens in decision.growth]),
    )


# --- blocks ------------------------------------------------------------------------------------------------------


def blocks(random: Random) -> Iterator[Case]:
    count = random.randint(1, 6)
    counts, held = ([random.randint(0, 5) for _ in range(count)] for _ in range(2))
    free = sum(counts) + random.randint(0, 4)
    stack = random.sample(range(100), free)
    rows = np.array(random.sample(range(10), count), dtype=np.int64)
    pool = Blocks(np.array([*stack, *range(200, 300)], dtype=np.int64), free, np.zeros((10, 4), dtype=np.int64))
    taken = pool.append(rows, np.array(held), np.array(counts))
    tables = [pool.table(row, some + more)[some:] for row, some, more in zip(rows, held, counts, strict=True)]
    assert tables == list(parts(taken, np.array(counts)))
    value = (tables, pool.stack[: pool.free].tolist())
    yield Case(f"grow_scan {naturals(counts)} {listed(stack)}", value)
    yield Case(f"grow {naturals(counts)} {listed(stack)}", value)
    left = pool.stack[: pool.free].tolist()
    pool.give_all(rows, np.array(held) * 0 + [some + more for some, more in zip(held, counts, strict=True)])
    leaving = listed(listed([0] * some + table) for some, table in zip(held, tables, strict=True))
    given = pool.stack[: pool.free].tolist()
    yield Case(f"release_scan {leaving} {listed(left)}", given)
    yield Case(f"release {leaving} {listed(left)}", given)


# --- the calendar ------------------------------------------------------------------------------------------------


def calendars(random: Random) -> Iterator[Case]:
    """Clocks, and beside them general steps, from where all decode."""
    size, count, steps = random.choice((1, 2, 3, 5)), random.randint(1, 6), random.randint(0, 12)
    running = []
    for _ in range(count):
        issued = random.randint(1, 12)
        running.append((1, steps + random.randint(0, 2), issued, blocks_for(issued, size) + random.choice((0, 0, 1))))
    scene = Scene(running, random.choice((0, 1, 3)), size, count + random.randint(0, 1), 150)
    scheduler = scene.optimized()
    rows, order = scheduler.rows, scheduler.order
    calendar, grown = Calendar.of(rows, order, size), []
    for _ in range(steps):
        growing = calendar.grown(calendar.at_edge())
        rows.held[growing] += 1
        calendar.steps += 1
        grown.append([order.tolist().index(row) for row in growing])
    calendar.write(rows)
    starts, holds = listed(issued for _, _, issued, _ in running), listed(held for *_, held in running)
    yield Case(
        f"let '(holds, grown) := ticks {size} 0 {steps}%nat {starts} {holds} in "
        f"(written {steps} {scene.runners} holds, grown)",
        (runners_at(scheduler, order), grown),
    )
    scheduler, needs = scene.optimized(), []
    for _ in range(steps):
        growth = scheduler.compose(scheduler.order)
        needs.append(needs_of(growth))
        scheduler.rows.held[growth.row] += needs[-1]
        scheduler.issue(growth, [])
    value = (runners_at(scheduler, scheduler.order), needs)
    yield Case(f"steps {scene.in_coq} {steps}%nat {scene.runners}", value)


# --- who enters --------------------------------------------------------------------------------------------------


def asking(number: int, prompt: int, client: str = "") -> Request:
    return Request(id=str(number), prompt_ids=tuple(range(prompt)), max_output_tokens=3, client=client)


def admissions(random: Random) -> Iterator[Case]:
    size, chunked = random.choice((1, 2, 4)), random.random() < 0.7
    reserve: Any = random.choice(("on_demand", "known"))
    chunk = random.choice((0, 3)) if chunked else 0
    settings = Settings(
        blocks=40,
        block_size=size,
        seats=random.randint(2, 6),
        token_budget=40,
        chunked_prefill=chunked,
        chunk_tokens=chunk,
        watermark_blocks=random.choice((0, 2, 4)),
        reserve=reserve,
        max_model_tokens=40,
    )
    scheduler, queue = Optimized(settings), []
    running = random.randint(0, min(2, settings.seats))
    scheduler.order = np.arange(running, dtype=np.int64)
    for number in range(random.randint(1, 8)):
        prompt = random.randint(1, 9)
        scheduler.queue.push(Waiting.of(asking(number, prompt), number))
        queue.append(made("Candidate", min(prompt, chunk) if chunk else prompt, 0, prompt if reserve == "known" else 0))
    budget, free = random.randint(4, 40), random.randint(0, 9)
    admitted = scheduler.admit(budget, free)
    room = made("Room", settings.seats, settings.watermark_blocks, settings.chunked_prefill, size)
    entered = [(tokens, needed) for _, tokens, needed in admitted]
    left = (budget - sum(tokens for tokens, _ in entered), free - sum(needed for _, needed in entered))
    for form in ("enter_scan", "enter"):
        term = f"let '(entered, _, tokens, room) := {form} {room} {running} {budget} {free} {listed(queue)}"
        yield Case(f"{term} in (entered, tokens, room)", (entered, *left))


def picks(random: Random) -> Iterator[Case]:
    """All counters begin at 0, and a pick costs its prompt."""
    queue = ClientQueue.of(Settings(policy="vtc", input_weight=1, output_weight=1))
    prompts: list[list[int]] = [[random.randint(1, 5) for _ in range(random.randint(1, 5))] for _ in range(4)]
    arrival = 0
    for client, all_of_it in enumerate(prompts):
        for prompt in all_of_it:
            arrival += 1
            queue.push(Waiting.of(asking(arrival, prompt, str(client)), arrival))
    picked, counters, places = [], [0] * 4, [0] * 4
    for _ in range(random.randint(1, 12)):
        job = queue.pop()
        if job is None:
            break
        client = int(job.request.client)
        picked.append((counters[client], (client, places[client])))
        queue.picked(job)
        counters[client], places[client] = queue.counters()[str(client)], places[client] + 1
    clients = listed(made("Client", 0, "0%nat", listed(all_of_it)) for all_of_it in prompts)
    yield Case(f"picks_scan {len(picked)} {clients}", picked)
    yield Case(f"picks {len(picked)} {clients}", picked)


Part = Callable[[Random], Iterator[Case]]
PARTS: tuple[Part, ...] = (budgets, victims, blocks, calendars, admissions, picks)


def cases(seeds: range, parts: Sequence[Part] = PARTS) -> list[Case]:
    """Those of a part and a seed are the same in every run."""
    return [case for seed in seeds for part in parts for case in part(Random(f"{part.__name__} {seed}"))]


def differences(folder: Path, there: Sequence[Case], *changes: Change) -> list[str]:
    values = computed(folder, FILES, (case.term for case in there), *changes)
    return [
        f"Compute {case.term}.\n= {value}, but in Python {case.value}"
        for case, value in zip(there, values, strict=True)
        if value != case.value
    ]


@needs_coqc
def test_the_definitions_of_the_theorems_are_the_code(tmp_path: Path) -> None:
    """What differs is told with its input."""
    assert differences(tmp_path, cases(SEEDS)) == []


def test_the_inputs_are_no_trivial_ones() -> None:
    """Budgets bind, somebody is a victim, blocks are taken at edges, somebody does not fit, picks take turns."""
    there = cases(SEEDS)
    gone: list[Any] = [case.value for case in there if case.term.startswith("let p := preempt_scan")]
    assert sum(bool(stay) and bool(victims) for stay, victims, _ in gone) > 5
    edges: list[Any] = [case.value for case in there if "ticks" in case.term]
    assert sum(any(grown) for _, grown in edges) > 20
    entered: list[Any] = [case.value for case in there if "enter_scan" in case.term]
    assert len({len(entering) for entering, *_ in entered}) > 4
    turns: list[Any] = [case.value for case in there if case.term.startswith("picks_scan")]
    assert sum(len({client for _, (client, _) in picked}) > 1 for picked in turns) > 30


PLANTED = (
    (budgets, "Scans", "Z.min w (Z.max (budget - (given + before wishes i)) 0)", "Z.min w (Z.max (budget - given) 0)"),
    (budgets, "Loops", "if 0 <? samples_left r then", "if 0 <=? samples_left r then"),
    (budgets, "Loops", "then blocks_for missing size else 0", "then 1 else 0"),
    (budgets, "Loops", "Z := - (- n / size)", "Z := n / size"),
    (budgets, "Loops", "x :: rest => x + total rest", "x :: rest => x"),
    (victims, "Scans", "free + all <? given + upto sums i", "free + all <=? given + upto sums i"),
    (victims, "Scans", "(firstn stay running, rev (skipn stay running))", "(firstn stay running, skipn stay running)"),
    (victims, "Loops", "(victims ++ [last])", "(last :: victims)"),
    (blocks, "Scans", "(rev (skipn (length stack - count) stack),", "(skipn (length stack - count) stack,"),
    (blocks, "Scans", "stack ++ concat (map (@rev Z) leaving)", "stack ++ concat leaving"),
    (calendars, "Scans", "(edges size starts holds) 0 <=? tick", "(edges size starts holds) 0 <? tick"),
    (calendars, "Scans", "h * size - start) starts", "(h + 1) * size - start) starts"),
    (admissions, "Scans", "if 0 <? place + Z.of_nat i + running then", "if 0 <? place + Z.of_nat i then"),
    (admissions, "Scans", "if seats R <=? place", "if seats R <? place"),
    (picks, "Scans", "(Nat.ltb i j ||", "(Nat.ltb j i ||"),
    (picks, "Loops", "if counter d <? counter c then", "if counter d <=? counter c then"),
)


@needs_coqc
@pytest.mark.parametrize(
    ("part", "file", "old", "new"),
    [PLANTED[0], *(pytest.param(*planted, marks=pytest.mark.deep) for planted in PLANTED[1:])],
)
def test_another_definition_is_not_the_code(tmp_path: Path, part: Part, file: str, old: str, new: str) -> None:
    assert differences(tmp_path, cases(SEEDS, [part]), (file, old, new)) != []
