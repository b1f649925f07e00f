"""The records of all engines, merged in the order of their names, and what the rules of a fleet say of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

from attrs import Factory, define, field, frozen

from .router_log import RouterEvent, RouterLog
from .rules import JUDGES, RULES, Broken
from .stays import NS_PER_WINDOW

MOST_CLIENTS = 32
"""Service is compared between those who waited in most windows: pairs of all would be too many, and none is wronged."""
MOST_KEPT = 1_000


@frozen
class Stay:
    """A request at an engine, and what its row says.  `end_ns` and `how` are None while it has not ended;
    `retain_ns` is the engine's."""

    engine: str
    retain_ns: int
    request: str
    client: str
    key: str | None
    begin_ns: int
    end_ns: int | None
    how: str | None


@define(slots=False)
class Fleet:
    """`engines`: name -> what `Witness.plain` said of its traces, one after the other.  `skew_ns`: how far apart their
    clocks may be."""

    engines: Mapping[str, Sequence[Mapping[str, Any]]]
    router: RouterLog | None = None
    skew_ns: int = 0
    window_ns: int = NS_PER_WINDOW
    counts: Counter[str] = field(init=False, default=Factory(Counter))

    def count(self, rule: str, times: int = 1) -> None:
        self.counts[rule] += times

    @cached_property
    def stays(self) -> dict[str, list[Stay]]:
        """Of each request, in the order in which they began."""
        found: dict[str, list[Stay]] = {}
        for engine, parts in self.engines.items():
            for part in parts:
                for row in part["stays"]:
                    stay = Stay(engine, part["retain_ns"], *row)
                    found.setdefault(stay.request, []).append(stay)
        for stays in found.values():
            stays.sort(key=_begin)
        return dict(sorted(found.items(), key=lambda item: (item[1][0].begin_ns, item[0])))

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Stay]]:
        found: dict[tuple[str, str], list[Stay]] = {}
        for stays in self.stays.values():
            for stay in stays:
                if stay.key is not None:
                    found.setdefault((stay.client, stay.key), []).append(stay)
        for stays in found.values():
            stays.sort(key=_begin)
        return found

    @cached_property
    def routed(self) -> dict[str, list[RouterEvent]]:
        found: dict[str, list[RouterEvent]] = {}
        for event in self.router.events if self.router is not None else ():
            if event.kind != "end":
                found.setdefault(event.request, []).append(event)
        return found

    @cached_property
    def missing(self) -> set[str]:
        """Engines that the router names, and of which there is no record."""
        return set(self.router.engines) - self.engines.keys() if self.router is not None else set()

    @cached_property
    def is_whole(self) -> bool:
        """Each engine recorded to its end, and so did those that the router names."""
        return not self.missing and all(parts[-1]["has_end"] for parts in self.engines.values())

    # --- service -----------------------------------------------------------------------------------------

    @cached_property
    def services(self) -> list[Mapping[str, Any]]:
        return [part["service"] for parts in self.engines.values() for part in parts if part["service"] is not None]

    @cached_property
    def bound(self) -> int:
        """By how much two that wait may differ: n engines, 2(U + S) of the engine that has most."""
        return len(self.engines) * 2 * max((service["bound"] for service in self.services), default=0)

    @cached_property
    def _charged(self) -> Counter[tuple[str, int]]:
        charged: Counter[tuple[str, int]] = Counter()
        for service in self.services:
            for client, told in service["clients"].items():
                for window, amount in told["charged"]:
                    charged[client, window] += amount
        return charged

    @cached_property
    def _waited(self) -> dict[str, set[int]]:
        """Client -> windows all through which it waited somewhere."""
        waited: dict[str, set[int]] = {}
        for service in self.services:
            for client, told in service["clients"].items():
                for first, last in told["waited"]:
                    waited.setdefault(client, set()).update(range(first, last + 1))
        return waited

    def service(self, client: str, window: int) -> int:
        return self._charged[client, window]

    def pairs(self) -> Iterator[tuple[str, str]]:
        most = sorted(self._waited, key=lambda client: (-len(self._waited[client]), client))[:MOST_CLIENTS]
        yield from combinations(sorted(most), 2)

    def windows_in_which_both_wait(self, first: str, second: str) -> list[int]:
        return sorted(self._waited[first] & self._waited[second])


def _begin(stay: Stay) -> tuple[int, int, str]:
    """Of two that began at one time, who had ended by then came first."""
    return stay.begin_ns, stay.end_ns if stay.end_ns is not None else 1 << 64, stay.engine


@define
class FleetVerdict:
    """`broken`: the first ones, by time; `breaks`: how many there are of each rule."""

    verdicts: dict[str, str]
    exercised: dict[str, int]
    breaks: dict[str, int]
    broken: list[Broken]


def judge_fleet(fleet: Fleet) -> FleetVerdict:
    """All rules that bind this fleet."""
    claims = fleet.router.claims if fleet.router is not None else frozenset()
    verdicts: dict[str, str] = {}
    broken: list[Broken] = []
    breaks: Counter[str] = Counter()
    for rule, judge in JUDGES.items():
        if not set(RULES[rule].binding.claims) <= claims:
            verdicts[rule] = "not claimed"
            continue
        if rule == "FLEET-4" and (fleet.missing or not fleet.services):
            verdicts[rule] = "not observable"
            continue
        for number, one in enumerate(judge(fleet)):
            breaks[rule] += 1
            if number < MOST_KEPT:
                broken.append(one)
        exercised = "pass" if fleet.counts[rule] else "not exercised"
        verdicts[rule] = "fail" if breaks[rule] else exercised
    broken.sort(key=lambda one: (one.now_ns, one.rule, one.request))
    return FleetVerdict(verdicts, {rule: fleet.counts[rule] for rule in JUDGES}, dict(breaks), broken)
