"""Runs the units of a campaign, and gives their results in the order of the units."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

from attrs import define, frozen

from .journal import Journal
from .units import CampaignError, Unit, sentence_of

__all__ = ["CampaignError", "Event", "Executor", "Here", "Watch", "run_campaign"]

MOST_TRIES = 3
"""A unit whose worker is lost so often is at fault itself."""


@frozen
class Event:
    """`done`: the answer of a unit as JSON; `again`: its worker was lost, and why, so it is run once more; `failed`: it
    raised something, or lost its workers too often; `alive`: nothing yet."""

    kind: Literal["done", "again", "failed", "alive"]
    place: int = -1
    text: str = ""


class Executor(Protocol):
    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Iterator[Event]:
        """Ends when each unit to do is done or has failed; what runs is stopped when it is closed before."""


@define
class Watch:
    """Told of what happens: how many units there are and are done, and each event with the result, if it has one."""

    begin: Callable[[int, int], None] = lambda total, done: None
    hear: Callable[[Unit | None, Event, Any], None] = lambda unit, event, result: None


@define
class Here:
    """One process: this one."""

    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Iterator[Event]:
        from .units import done

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
    events = executor.run(units, todo)
    try:
        for event in events:
            if event.kind == "done" and not journal.keep(event.place, event.text):
                continue
            if event.kind == "failed":
                failed[event.place] = event.text
            unit = units[event.place] if event.place >= 0 else None
            watch.hear(unit, event, journal.results.get(event.place))
    finally:
        if isinstance(events, Iterator) and hasattr(events, "close"):
            events.close()
    if failed:
        first = min(failed)
        more = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
        raise CampaignError(f"{units[first].name}: {failed[first]}{more}")
    return [journal.results[place] for place in range(len(units))]
