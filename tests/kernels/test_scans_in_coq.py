"""The loops of the theorems are the plain twins, and where blocks come to lie is what the kernel does: generated inputs
run through Coq and through Python."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="kernels need torch: `make kernels` installs it")
pytest.importorskip("triton", reason="kernels need triton: `make kernels` installs it")

from tests.unit.coq import Change, computed, listed, made, naturals, needs_coqc

from schedspec.kernels.admit_fcfs import admit_fcfs_plain
from schedspec.kernels.allocate import allocate, allocate_plain
from schedspec.kernels.budget import budget_plain
from schedspec.kernels.victims import victims_plain
from schedspec.kernels.vtc_round import vtc_round_plain

from .states import SMALL_TILE, array

Case = tuple[str, object]
"""A term of Coq, and what Python makes of the same input."""
Part = Callable[[Random], Iterator[Case]]


def budgets(random: Random) -> Iterator[Case]:
    size, count = random.choice((1, 3, 16)), random.randint(0, 9)
    held = [random.randint(0, 4) for _ in range(count)]
    issued = [max(0, blocks * size - random.randint(0, size)) for blocks in held]
    wanted = [random.randint(-1, 8) for _ in range(count)]
    budget = random.choice((0, 1, count, 4 * count))
    tokens, needs, left = budget_plain(wanted, issued, held, token_budget=budget, block_size=size)
    running = listed(made("Runner", wish, 1, start, own) for wish, start, own in zip(wanted, issued, held, strict=True))
    yield f"compose 0 {size} {budget} {running}", (tokens, needs, left)
    cut = f"(tiles {count}%nat {random.randint(1, 4)}%nat {running})"
    yield f"compose_tiles 0 {size} {budget} 0 {cut}", (tokens, needs, left)


def victims(random: Random) -> Iterator[Case]:
    count = random.randint(0, 9)
    needs, held = ([random.randint(0, 3) for _ in range(count)] for _ in range(2))
    free = random.randint(0, 6)
    stay, _, _ = victims_plain(needs, held, free=free)
    running = listed(made("Runner", 0, 0, 0, own) for own in held)
    yield f"Z.of_nat (kept {free} {running} {listed(needs)})", stay
    sums = f"(needs_and_held {running} {listed(needs)})"
    cut = f"(tiles {count}%nat {random.randint(1, 4)}%nat {sums})"
    yield f"Z.of_nat (stay_tiles {free} (all_held {running}) 0 {cut})", stay


def admissions(random: Random) -> Iterator[Case]:
    count, running = random.randint(0, 8), random.randint(0, 2)
    chunk, tested, reserved = ([random.randint(0, 9) for _ in range(count)] for _ in range(3))
    room: dict[str, Any] = {
        "seats": random.randint(0, 8),
        "watermark": random.choice((0, 2)),
        "chunked": random.random() < 0.7,
    }
    size, budget, blocks = random.choice((1, 2, 5)), random.randint(0, 40), random.randint(0, 15)
    entering = admit_fcfs_plain(
        chunk, tested, reserved, running=running, stay=running, budget=budget, blocks=blocks, block_size=size, **room
    )
    entered = list(zip(entering.tokens, entering.blocks, strict=True))
    value = (entered, entering.why, entering.budget_left, entering.blocks_left)
    queue = listed(made("Candidate", *one) for one in zip(chunk, tested, reserved, strict=True))
    fields = made("Room", *room.values(), size)
    yield f"enter {fields} {running} {budget} {blocks} {queue}", value
    cut = f"(tiles {count}%nat {random.randint(1, 4)}%nat {queue})"
    yield f"enter_tiles {fields} {running} {budget} {blocks} 0 0 0 {cut}", value


def blocks(random: Random) -> Iterator[Case]:
    tables = [[10 * table + place for place in range(random.randint(0, 4))] for table in range(random.randint(0, 6))]
    stay = random.randint(0, len(tables))
    needs, entering = ([random.randint(0, 4) for _ in range(count)] for count in (stay, random.randint(0, 3)))
    leaving, free = tables[stay:][::-1], [100 + block for block in range(sum(needs) + sum(entering))]
    pushed = f"(release {listed(map(listed, leaving))} {listed(free)})"
    counts = naturals([*needs, *entering])
    where = numbers_of(tables, stay, needs, entering, list(free))
    held = [len(table) for table in tables]
    found = allocate_plain(tables, needs, stay=stay, entering_needs=entering, free=free)
    grown = [table[some:] for table, some in zip(tables[:stay], held, strict=False)]
    yield f"grow {counts} {pushed}", (grown + found, free)
    shown = "map (fun '(owner, place) => (Z.of_nat owner, Z.of_nat place))"
    yield f"{shown} (map (popped_to {counts}) (seq 0 (sum {counts})))", where
    lengths = naturals(len(table) for table in leaving)
    given = [(i, place) for i, table in enumerate(leaving) for place in reversed(range(len(table)))]
    yield f"{shown} (map (pushed_from {lengths}) (seq 0 (sum {lengths})))", given


def numbers_of(
    tables: list[list[int]], stay: int, needs: list[int], entering: list[int], free: list[int]
) -> list[tuple[int, int]]:
    """Whose block each of the stack becomes in the kernel, from the top down, and which of those that it gets."""
    count, held, top = len(tables), [len(table) for table in tables], len(free)
    stack = array([*free, *[0] * sum(held)])
    places, heights = array([0] * 16 * 20).reshape(20, 16), array([top])
    for row, table in enumerate(tables):
        places[row, : len(table)] = array(table)
    rows, others = [*range(count), 19], [*range(count, count + len(entering)), 18]
    allocate(
        places, array(rows), array([*held, 0]), array([*needs, *[0] * (count - stay), 0]), array([count]),
        array([stay]), array(others), array([*entering, 0]), array([len(entering)]), stack, heights, tile=SMALL_TILE,
    )  # fmt: skip
    counts, number, found = [*needs, *entering], 0, []
    pushed = [*free, *(block for table in tables[stay:][::-1] for block in table[::-1])]
    for owner, got in enumerate(counts):
        row, behind = (owner, held[owner]) if owner < stay else (count + owner - stay, 0)
        for place in range(got):
            assert int(places[row, behind + place]) == pushed[len(pushed) - 1 - number]
            number += 1
            found.append((owner, place))
    return found


def rounds(random: Random) -> Iterator[Case]:
    clients, picks = random.randint(1, 5), random.choice((2, 4, 8))
    counters, waits = ([random.randint(0, most) for _ in range(clients)] for most in (6, 5))
    begin = [sum(waits[:client]) for client in range(clients)]
    count = sum(waits)
    charge, chunk, reserved = ([random.randint(0, 5) for _ in range(count)] for _ in range(3))
    tested = [random.choice((0, 0, 20)) for _ in range(count)]
    room: dict[str, Any] = {
        "seats": random.randint(0, 12),
        "watermark": random.choice((0, 2)),
        "chunked": random.random() < 0.7,
    }
    size, budget, free, time = random.choice((1, 3)), random.randint(0, 40), random.randint(0, 30), random.randint(0, 9)
    queues = listed(
        made("Client", counter, f"{first}%nat", listed(charge[first : first + some]))
        for counter, first, some in zip(counters, begin, waits, strict=True)
    )
    asked = listed(made("Candidate", *one) for one in zip(chunk, tested, reserved, strict=True))
    asks = f"(fun '(_, place) => nth place {asked} (Candidate 0 0 0))"
    after = counters, begin, waits
    found = vtc_round_plain(
        *after, charge, chunk, tested, reserved, running=0, stay=0, budget=budget, blocks=free, block_size=size,
        virtual_time=time, picks=picks, **room,
    )  # fmt: skip
    for form in ("round", "round_scan"):
        term = f"{form} {asks} {made('Room', *room.values(), size)} {picks}%nat 0 {budget} {free} {time} {queues}"
        yield (
            f"let '(picked, entered, why, tokens, room, time, after) := {term} in "
            "(map (fun p => Z.of_nat (snd (snd p))) picked, entered, why, tokens, room, time, "
            "map (fun c => (counter c, Z.of_nat (begin c), Z.of_nat (length (charges c)))) after)",
            (
                found.picked,
                list(zip(found.tokens, found.blocks, strict=True)),
                *(found.why, found.budget_left, found.blocks_left, found.virtual_time),
                list(zip(*after, strict=True)),
            ),
        )


PARTS: tuple[Part, ...] = (budgets, victims, admissions, blocks, rounds)


def differences(folder: Path, parts: Sequence[Part], seeds: range, *changes: Change) -> list[str]:
    there = [case for seed in seeds for part in parts for case in part(Random(f"{part.__name__} {seed}"))]
    values = computed(folder, ("Loops", "Scans"), (term for term, _ in there), *changes)
    return [
        f"Compute {term}.\n= {value}, but in Python {expected}"
        for (term, expected), value in zip(there, values, strict=True)
        if value != expected
    ]


@needs_coqc
def test_the_definitions_of_the_theorems_are_the_kernels(tmp_path: Path) -> None:
    assert differences(tmp_path, PARTS, range(40)) == []


@needs_coqc
@pytest.mark.parametrize(
    ("part", "file", "old", "new"),
    [
        (admissions, "Loops", "seats R <=? running", "seats R <? running"),
        (blocks, "Scans", "Nat.leb (ends middle) number", "Nat.ltb (ends middle) number"),
        (rounds, "Loops", "(Z.max time (counter c)) (pay i clients)", "time (pay i clients)"),
        (rounds, "Scans", "before (charges c) many", "0"),
    ],
)
def test_another_definition_is_not_the_kernels(tmp_path: Path, part: Part, file: str, old: str, new: str) -> None:
    assert differences(tmp_path, [part], range(25), (file, old, new)) != []
