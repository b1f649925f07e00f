"""The calendar beside plain requests, one by one: who needs a block, who ends, and what is written into the rows."""

from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import define

from schedspec.optimized.arrays import Rows
from schedspec.optimized.calendar import Calendar


@define
class Plain:
    """A request that decodes."""

    row: int
    issued: int
    held: int
    left: int
    outputs: int
    computed: int


@define(eq=False)
class Beside:
    """Rows with a calendar, and the same requests as objects.  One step is in flight at most."""

    dice: Random
    size: int
    rows: Rows
    plain: list[Plain]
    calendar: Calendar
    unused: list[int]

    @classmethod
    def of(cls, seed: int) -> "Beside":
        dice = Random(seed)
        size, count = dice.choice((1, 2, 3, 16)), dice.choice((2, 5, 40))
        rows = Rows.of(128)
        numbers = dice.sample(range(128), 128)
        plain = [drawn(dice, row, size) for row in numbers[:count]]
        for one in plain:
            put(rows, one)
        calendar = Calendar.of(rows, np.array(numbers[:count]), size)
        return cls(dice, size, rows, plain, calendar, numbers[count:])

    def step(self) -> None:
        """Who stands at an edge gets a block; then some join."""
        places = self.calendar.at_edge()
        assert places.tolist() == [place for place, one in enumerate(self.plain) if one.issued >= one.held * self.size]
        rows = self.calendar.grown(places)
        assert rows.tolist() == [self.plain[place].row for place in places.tolist()]
        self.rows.held[rows] += 1
        for place in places.tolist():
            self.plain[place].held += 1
        for one in self.plain:
            one.issued += 1
            one.left -= 1
        self.calendar.steps += 1
        if self.dice.random() < 0.4:
            self.join()

    def join(self) -> None:
        joining = [drawn(self.dice, self.unused.pop(), self.size) for _ in range(self.dice.randint(1, 3))]
        for one in joining:
            one.computed = 0
            put(self.rows, one)
        which = np.array([one.row for one in joining])
        issued, held = (np.array([getattr(one, name) for one in joining]) for name in ("issued", "held"))
        self.calendar.join(self.rows, which, issued, held)
        self.plain += joining

    def result(self) -> None:
        """Of the step that is in flight; some stop, some have all their outputs, and leave, unless all would."""
        stopped = np.array([self.dice.random() < 0.05 for _ in self.plain])
        ending = [place for place, one in enumerate(self.plain) if stopped[place] or one.left == 0]
        assert self.calendar.ending(stopped, self.calendar.done + 1).tolist() == ending
        self.calendar.done += 1
        self.calendar.fresh = 0
        for one in self.plain:
            one.outputs += 1
            one.computed = one.issued
        if not ending:
            return
        gone = [self.plain[place] for place in ending]
        self.plain = [one for one in self.plain if one not in gone]
        if self.plain:
            self.calendar.is_closed = True
            left = self.calendar.leave(self.rows, np.array(ending))
            assert left.tolist() == [one.row for one in gone]
            assert self.rows.outputs[left].tolist() == [one.outputs for one in gone]
            assert not self.calendar.is_closed
            self.unused = [one.row for one in gone] + self.unused

    def look(self) -> None:
        calendar, rows = self.calendar, self.rows.copy()
        assert calendar.order.tolist() == [one.row for one in self.plain]
        assert calendar.generation.tolist() == self.rows.generation[calendar.order].tolist()
        assert calendar.next_end == calendar.steps + min(one.left for one in self.plain)
        assert calendar.one_each().tolist() == [1] * len(self.plain)
        calendar.write(rows)
        for one in self.plain:
            names = {"issued": one.issued, "samples_left": one.left, "outputs": one.outputs, "left": 1}
            names |= {"held": one.held, "computed": one.computed}
            assert {name: int(getattr(rows, name)[one.row]) for name in names} == names

    def look_ahead(self) -> None:
        """The next steps, none of which anybody ends in; at most as many as a block has positions."""
        steps = self.dice.randint(1, self.size)
        expected: list[tuple[int, int]] = []
        for step in range(steps):
            expected += [
                (step, place) for place, one in enumerate(self.plain) if one.issued + step == one.held * self.size
            ]
        places, ticks = self.calendar.edges_ahead(steps)
        assert list(zip(ticks.tolist(), places.tolist(), strict=True)) == expected


def drawn(dice: Random, row: int, size: int) -> Plain:
    """All that is issued has its result, and the table covers it, now and then with a block to spare."""
    issued, outputs = dice.randint(1, 40), dice.randint(0, 5)
    held = -(-issued // size) + dice.choice((0, 0, 1))
    return Plain(row, issued, held, dice.randint(1, 12), outputs, issued)


def put(rows: Rows, one: Plain) -> None:
    rows.issued[one.row], rows.held[one.row], rows.samples_left[one.row] = one.issued, one.held, one.left
    rows.outputs[one.row], rows.computed[one.row], rows.left[one.row] = one.outputs, one.computed, 7


@pytest.mark.parametrize("seed", range(40))
def test_clocks_stand_for_what_one_by_one_would_be(seed: int) -> None:
    beside = Beside.of(seed)
    for _ in range(60):
        beside.look()
        beside.look_ahead()
        beside.step()
        beside.look()
        beside.result()
        if not beside.plain:
            break


def test_many_at_one_edge_keep_their_order() -> None:
    """A sort that is not stable shows from seventeen on."""
    rows, order = Rows.of(256), np.arange(200)
    rows.issued[order], rows.held[order] = 16 - order % 2, 1
    rows.samples_left[order] = 99
    places, ticks = Calendar.of(rows, order, 16).edges_ahead(2)
    assert places.tolist() == [*range(0, 200, 2), *range(1, 200, 2)]
    assert ticks.tolist() == [0] * 100 + [1] * 100


def test_a_copy_of_columns_is_what_an_engine_was_given() -> None:
    """Who joins and leaves later changes no array of a step that was handed out."""
    rows: Any = Rows.of(16)
    order = np.arange(4)
    rows.issued[order], rows.held[order], rows.samples_left[order] = 5, 2, (1, 9, 9, 9)
    calendar = Calendar.of(rows, order, 4)
    given = [calendar.order, calendar.generation, calendar.one_each()]
    before = [array.tolist() for array in given]
    calendar.steps = calendar.done = 1
    calendar.leave(rows, np.array([0]))
    calendar.join(rows, np.array([9, 10]), np.array([3, 3]), np.array([1, 1]))
    calendar.grown(calendar.at_edge())
    assert [array.tolist() for array in given] == before
