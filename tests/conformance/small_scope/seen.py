"""What was seen on all ways through a scope together."""

from collections import Counter

from attrs import Factory, define

from ..coverage import held_in
from ..ear import Ear
from .judge import Judge


@define(eq=False)
class Seen:
    """`exercised`: rule -> how often its precondition held, `held`: the same of conjuncts."""

    exercised: Counter[str] = Factory(Counter)
    held: Counter[str] = Factory(Counter)
    ear: Ear = Factory(Ear)

    def add(self, judge: Judge) -> None:
        """A way that is over."""
        self.exercised.update(judge.monitor.exercised())
        for conjunct, times in held_in(judge.monitor):
            self.held[conjunct] += times
        self.ear.merge(judge.ear)
