"""What a search covered: which calls followed which, what happened to a request after what, which settings and claims
it had to do with, and how often the precondition of each conjunct held.

A run is listened to as it goes (`ear.py`), and counted when it is over; nothing of it is kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from attrs import Factory, define, fields_dict, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.printed import printed
from schedspec.spec.programs import MOST_PROGRAMS
from schedspec.spec.registry import Conjunct
from schedspec.spec.transfers import registry as transfers
from schedspec.spec.vocabulary import Capabilities, Settings, Unsupported

from .ear import Ear
from .names import counted
from .negotiate import named
from .scenarios import scenarios
from .script import Op

MOST_VALUES = 40
OTHERS = "others"
FEWEST_OF_A_PAIR = 50
"""Both kinds were seen so often, and yet never one after the other: that is worth a word."""


@frozen
class Unmet:
    """A precondition that never held: of which rule or conjunct, what it is, and what might make it hold."""

    rule: str
    conjunct: str
    condition: str
    hint: str


@define(eq=False)
class Coverage:
    """`settings`: name -> value -> runs; of values beyond the first MOST_VALUES only that there were others.
    `preconditions`: conjunct -> how often it held, of those that bound somebody."""

    calls: Counter[tuple[str, str]] = Factory(Counter)
    lives: Counter[tuple[str, str]] = Factory(Counter)
    settings: dict[str, Counter[str]] = Factory(dict)
    claims: Counter[str] = Factory(Counter)
    observes: Counter[str] = Factory(Counter)
    preconditions: Counter[str] = Factory(Counter)
    runs: int = 0
    pairs: int = 0
    steps: int = 0

    def add(self, ear: Ear, settings: Settings, capabilities: Capabilities, held: Iterable[tuple[str, int]]) -> None:
        """A run that is over."""
        self.runs += 1
        self.pairs += ear.pairs
        self.steps += ear.steps
        self.calls.update(ear.calls)
        self.lives.update(ear.lives)
        self.claims.update(capabilities.claims)
        self.observes[capabilities.observes] += 1
        for name in fields_dict(Settings):
            self._count_value(name, getattr(settings, name))
        for conjunct, times in held:
            self.preconditions[conjunct] += times

    def _count_value(self, name: str, value: Any) -> None:
        values = self.settings.setdefault(name, Counter())
        text = str(value) if isinstance(value, int | str | bool) else "given" if value != _PLAIN[name] else "none"
        values[text if text in values or len(values) < MOST_VALUES else OTHERS] += 1

    # --- saying it ---------------------------------------------------------------------------------------

    @property
    def varied(self) -> dict[str, list[str]]:
        """Settings that had more than one value."""
        return {name: sorted(values) for name, values in self.settings.items() if len(values) > 1}

    def never(self, pairs: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
        """Kinds that were seen often, and never one right after the other."""
        before: Counter[str] = Counter()
        after: Counter[str] = Counter()
        for (first, second), times in pairs.items():
            before[first] += times
            after[second] += times
        often = [kind for kind in before if before[kind] >= FEWEST_OF_A_PAIR]
        return [
            (first, second)
            for first in often
            for second in after
            if first and after[second] >= FEWEST_OF_A_PAIR and (first, second) not in pairs
        ]

    def unmet(self, exercised: Mapping[str, int], refused: Mapping[str, Unsupported]) -> Iterator[Unmet]:
        """Preconditions that never held, of rules and conjuncts that bind the subject."""
        silent = [rule for rule, times in exercised.items() if not times]
        for rule in silent:
            yield Unmet(rule, "", self._condition_of(rule), self._hint(rule, refused))
        for name, times in self.preconditions.items():
            rule = name.rpartition(".")[0]
            if not times and exercised.get(rule):
                yield Unmet(rule, name, _condition(_conjuncts()[name]), self._hint(rule, refused, conjunct=True))

    def _condition_of(self, rule: str) -> str:
        card = registry.rules[rule]
        if card.counts:
            return f"that {' or '.join(card.counts)} happens"
        own = [_condition(conjunct) for name, conjunct in _conjuncts().items() if conjunct.rule == rule]
        return "; or ".join(dict.fromkeys(own)) if own else _IN_WORDS[card.form]

    def _hint(self, rule: str, refused: Mapping[str, Unsupported], *, conjunct: bool = False) -> str:
        """Which directed run would show it, and what of its settings the subject refuses."""
        made = [(name, settings, ops) for name, shows, settings, ops in _scenarios() if rule in shows]
        if conjunct or not made:
            return ""
        name, settings, ops = made[0]
        unlike = [
            named(field, getattr(settings, field))
            for field in fields_dict(Settings)
            if getattr(settings, field) != _PLAIN[field]
        ]
        no = [text for text in unlike if text in refused]
        if no:
            return f"the scenario '{name}' shows it with {', '.join(no)}, which the subject refuses"
        calls = ", ".join(dict.fromkeys(op.kind for op in ops))
        switched = [text for text in unlike if text.partition("=")[0] not in _SIZES]
        with_ = f"with {', '.join(switched)}; " if switched else ""
        return f"the scenario '{name}' is made for it ({with_}calls: {calls})"

    def as_json(self, exercised: Mapping[str, int], refused: Mapping[str, Unsupported]) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "steps": self.steps,
            "pairs": self.pairs,
            "calls": _plain(self.calls),
            "calls_never": [list(pair) for pair in self.never(self.calls)],
            "lives": _plain(self.lives),
            "lives_never": [list(pair) for pair in self.never(self.lives)],
            "settings": {name: _most_often_first(values) for name, values in self.settings.items()},
            "claims": _most_often_first(self.claims),
            "observes": dict(self.observes),
            "preconditions": dict(sorted(self.preconditions.items(), key=_in_order)),
            "unmet": [
                {"rule": one.rule, "conjunct": one.conjunct, "condition": one.condition, "hint": one.hint}
                for one in self.unmet(exercised, refused)
            ],
        }

    def in_short(self) -> str:
        """One sentence for a terminal."""
        held = sum(times > 0 for times in self.preconditions.values())
        return (
            f"covered: {counted(len(self.calls), 'pair')} of calls, "
            f"{counted(len(self.lives), 'pair')} of events in the life of a request, "
            f"{len(self.varied)} of {len(self.settings)} settings varied, {counted(len(self.claims), 'claim')}, "
            f"{held} of {len(self.preconditions)} preconditions; {self.pairs:,} (request, step) pairs in "
            f"{counted(self.steps, 'step')}"
        )


_PLAIN: dict[str, Any] = {name: getattr(Settings(), name) for name in fields_dict(Settings)}
_SIZES = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "quantum", "reserve")
_IN_WORDS = {
    "term": "its guard",
    "monitor": "what it looks at, which its card says, never came up",
    "shadow": "that contents of blocks are read or indexed",
    "snapshot": "that a snapshot shows what it compares",
    "run": "that a run is made again",
}


def held_in(monitor: Any) -> Iterator[tuple[str, int]]:
    """Conjunct -> how often its precondition held in a run; of two pools in any of the monitors, and between them."""
    if monitor.kind == "pooled":
        yield from _held(transfers.conjuncts, monitor.world.exercised, monitor.capabilities)
        for part in (monitor.whole, *monitor.pools.values()):
            yield from held_in(part)
        return
    yield from _held(registry.conjuncts, monitor.world.exercised, monitor.capabilities)


def _held(conjuncts: Sequence[Conjunct], times: Sequence[int], shown: Capabilities) -> Iterator[tuple[str, int]]:
    for number in _guards(conjuncts is transfers.conjuncts, shown.observes, shown.ordered, shown.claims):
        yield conjuncts[number].name, times[number]


@lru_cache(MOST_PROGRAMS)
def _guards(between: bool, observes: Any, ordered: bool, claims: frozenset[str]) -> tuple[int, ...]:
    """The guards that bind such a subject."""
    shown = Capabilities(observes=observes, ordered=ordered, claims=claims)
    conjuncts = (transfers if between else registry).conjuncts
    return tuple(
        number
        for number, conjunct in enumerate(conjuncts)
        if conjunct.kind == "guard" and conjunct.binding.missing(shown) is None
    )


@cache
def _conjuncts() -> dict[str, Conjunct]:
    return {c.name: c for c in (*registry.conjuncts, *transfers.conjuncts) if c.kind == "guard"}


def _condition(conjunct: Conjunct) -> str:
    """What a guard asks for before it says anything."""
    book = transfers if conjunct in transfers.conjuncts else registry
    when = f"on {conjunct.event}"
    if conjunct.term.op != "implies":
        return when
    return f"{when}: {printed(conjunct.term.args[0], book.names, book.state.sorts)}"


@cache
def _scenarios() -> tuple[tuple[str, tuple[str, ...], Settings, tuple[Op, ...]], ...]:
    return tuple((one.name, one.shows, one.script.settings, one.script.ops) for one in scenarios(0))


def _plain(pairs: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """First -> second -> times."""
    plain: dict[str, dict[str, int]] = {}
    for (first, second), times in sorted(pairs.items()):
        plain.setdefault(first or "the beginning", {})[second] = times
    return plain


def _in_order(item: tuple[str, int]) -> tuple[tuple[int, int], str]:
    rule = item[0].rpartition(".")[0]
    return registry.rules[rule].order, item[0]


def _most_often_first(times: Counter[Any]) -> dict[Any, int]:
    """Of those that are alike by name: sets of names come in another order in each process."""
    return dict(sorted(times.items(), key=lambda item: (-item[1], str(item[0]))))
