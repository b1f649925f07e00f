"""Counters of service: of clients, of lanes."""

import numpy as np
from attrs import Factory, define, field

from .ints import LARGEST, Ints, integers

FEW_MEMBERS = 16


@define(eq=False)
class Counters:
    """A number per member: what came `since` the beginning, in an array, and, while a clock runs, `rates` once for each
    of its `ticks`; who joins it later has the ticks before taken off.

    `one_since` and `one_rate` are the same memory, for one member at a time.

    `bound`: no sum in the arrays is further from zero; before it can overflow they are emptied into `written`, Python's
    integers, and then `is_far`.  Whoever starts a clock has it stopped before a rate times its ticks could.
    """

    written: list[int] = Factory(list)
    since: Ints = Factory(lambda: integers(FEW_MEMBERS))
    rates: Ints = Factory(lambda: integers(FEW_MEMBERS))
    one_since: "memoryview[int]" = field(init=False)
    one_rate: "memoryview[int]" = field(init=False)
    ticks: int = 0
    bound: int = 0
    is_far: bool = False

    def __attrs_post_init__(self) -> None:
        self._look_at_one()

    def new(self) -> int:
        """The number of a member that was not seen before."""
        self.written.append(0)
        if len(self.written) > len(self.since):
            self.since = np.concatenate((self.since, np.zeros_like(self.since)))
            self.rates = np.concatenate((self.rates, np.zeros_like(self.rates)))
            self._look_at_one()
        return len(self.written) - 1

    def of(self, member: int) -> int:
        counter = self.written[member] + self.one_since[member]
        return counter + self.ticks * self.one_rate[member] if self.ticks else counter

    def ranks(self, members: Ints) -> Ints | None:
        """`of` each of them; None where one might not fit into 64 bits."""
        if self.is_far:
            return None
        ranks: Ints = self.since[members]
        return ranks + self.ticks * self.rates[members] if self.ticks else ranks

    def add(self, member: int, amount: int) -> None:
        self.bound += abs(amount)
        if self.bound >= LARGEST:
            self._empty()
            self.written[member] += amount
        else:
            self.one_since[member] += amount

    def add_each(self, members: Ints, amounts: Ints, most: int) -> None:
        """One amount for each entry, none above `most`; many may be of one member."""
        self._make_room(most * len(members))
        np.add.at(self.since, members, amounts)

    def join(self, members: Ints, rates: Ints, most: int) -> None:
        """From the next tick on these rates count too, one for each entry, none above `most`."""
        if self.ticks:
            self._make_room(self.ticks * most * len(members))
            np.subtract.at(self.since, members, self.ticks * rates)
        np.add.at(self.rates, members, rates)

    def leave(self, members: Ints, rates: Ints, most: int) -> None:
        """They count no longer; what they counted stays."""
        self._make_room(self.ticks * most * len(members))
        np.add.at(self.since, members, self.ticks * rates)
        np.subtract.at(self.rates, members, rates)

    def stop(self) -> None:
        """Of all, what the clock stands for is added up."""
        self._make_room(self.ticks * int(self.rates.max()))
        self.since += self.ticks * self.rates
        self.rates[:] = 0
        self.ticks = 0

    def _make_room(self, more: int) -> None:
        self.bound += more
        if self.bound >= LARGEST:
            self._empty()
            self.bound = more

    def _look_at_one(self) -> None:
        self.one_since, self.one_rate = self.since.data, self.rates.data

    def _empty(self) -> None:
        self.written = [self.written[member] + int(self.since[member]) for member in range(len(self.written))]
        self.since[:] = 0
        self.bound, self.is_far = 0, True
