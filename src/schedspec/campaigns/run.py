"""Runs the units of a campaign, and gives their results in the order of the units."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Literal, Protocol

from attrs import Factory, define, frozen

from .journal import Journal
from .signals import held_back
from .units import CampaignError, Unit, done, sentence_of

MOST_TRIES = 3
"""A unit whose worker is lost so often is at fault itself."""
MOST_EXCUSED = 60
"""Of a worker that was lost with its whole machine that is not said, up to so often."""


@frozen
class Event:
    """`done`: the answer of a unit as JSON; `again`: its worker was lost, and why, so it is run once more; `failed`: it
    raised something, or lost its workers too often; `alive`: nothing yet."""

    kind: Literal["done", "again", "failed", "alive"]
    place: int = -1
    text: str = ""


@define
class Line:
    """Places of the units that wait for a worker, and how often each of them was given to one."""

    waiting: deque[int]
    tries: Counter[int] = Factory(Counter)
    excused: Counter[int] = Factory(Counter)

    def take(self) -> int:
        place = self.waiting.popleft()
        self.tries[place] += 1
        return place

    def lost(self, place: int, why: str, *, by_node: bool = False) -> Event:
        """Its worker, `by_node`: with the machine that it was on: it is the next again, or given up."""
        self.excused[place] += by_node
        if self.tries[place] - min(self.excused[place], MOST_EXCUSED) < MOST_TRIES:
            self.waiting.appendleft(place)
            return Event("again", place, f"its worker {why}")
        return Event("failed", place, f"its worker {why}, {self.tries[place]} times, so it is given up")


class Executor(Protocol):
    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        """Ends when each unit to do is done or has failed; what runs is stopped when it is closed before."""


@define
class Watch:
    """Told of what happens: how many units there are and are done, and each event with the result, if it has one."""

    begin: Callable[[int, int], None] = lambda total, done: None
    hear: Callable[[Unit | None, Event, Any], None] = lambda unit, event, result: None


@define
class Here:
    """One process: this one."""

    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        for place in todo:
            try:
                yield Event("done", place, done(units[place].plain, lambda: None))
            except Exception as error:
                yield Event("failed", place, sentence_of(error))


def run_campaign(units: Sequence[Unit], executor: Executor, journal: Journal, watch: Watch) -> list[Any]:
    """Results in the order of the units.  A unit that fails does not stop the others; then CampaignError names the
    first, and what is done stays in the journal."""
    failed: dict[int, str] = {}
    todo = [place for place in range(len(units)) if place not in journal.results]
    watch.begin(len(units), len(units) - len(todo))
    with closing(executor.run(units, todo)) as events:
        for event in events:
            with held_back():
                if event.kind == "done" and not journal.keep(event.place, event.text):
                    continue
                if event.kind == "failed":
                    failed[event.place] = event.text
                unit = units[event.place] if event.place >= 0 else None
                watch.hear(unit, event, journal.results.get(event.place))
    if failed:
        first = min(failed)
        more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
        raise CampaignError(f"{units[first].name}: {failed[first]}{more}")
    return [journal.results[place] for place in range(len(units))]
