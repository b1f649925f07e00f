"""Counters of service: of clients, of lanes."""

import numpy as np
from attrs import Factory, define

from .ints import LARGEST, NOTHING, Ints, integers

FEW_MEMBERS = 16


@define(eq=False)
class Counters:
    """A number per member: what is `written`, a Python integer, and what came since, in arrays: outputs as they come,
    and, while a clock runs, `rates` once for each of its `ticks`.

    `bound`: no sum in the arrays is above it; before it can overflow they are emptied.
    """

    written: list[int] = Factory(list)
    since: Ints = Factory(lambda: integers(FEW_MEMBERS))
    rates: Ints = NOTHING
    ticks: int = 0
    bound: int = 0

    def new(self) -> int:
        """The number of a member that was not seen before."""
        self.written.append(0)
        if len(self.written) > len(self.since):
            self.since = np.concatenate((self.since, np.zeros_like(self.since)))
        return len(self.written) - 1

    def of(self, member: int) -> int:
        counter: int = self.written[member] + self.since.item(member)
        if self.ticks and member < len(self.rates):
            counter += self.ticks * self.rates.item(member)
        return counter

    def add(self, member: int, amount: int) -> None:
        self.written[member] += amount

    def add_each(self, members: Ints, amounts: Ints, most: int) -> None:
        """One amount for each entry, none above `most`; many may be of one member."""
        self._make_room(most * len(members))
        np.add.at(self.since, members, amounts)

    def start(self, members: Ints, rates: Ints) -> None:
        self.rates = integers(len(self.written))
        np.add.at(self.rates, members, rates)

    def stop(self, most: int) -> None:
        """`most`: no member's rate is above it."""
        self._make_room(most * self.ticks)
        self.since[: len(self.rates)] += self.ticks * self.rates
        self.rates, self.ticks = NOTHING, 0

    def _make_room(self, more: int) -> None:
        self.bound += more
        if self.bound >= LARGEST:
            self.written = [self.written[member] + int(self.since[member]) for member in range(len(self.written))]
            self.since[:] = 0
            self.bound = more
