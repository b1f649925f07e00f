"""Rounds that go on as they did: what is certain of the next rounds is not asked again.

While the same requests are served, computed and delivered to in turn, most cells grow by the same amount in each round,
so most comparisons come out as before for a number of rounds that is known in advance.  A `Lap` looks at all
comparisons twice, finds by the effects of the events how each cell grows, and from then on asks only what may change:
fields of the messages, cells that other events write, and numbers of the whole state.  Whatever is otherwise (another
column of requests, another order of events, a cell that somebody else wrote, a comparison that is due) goes the whole
way again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from attrs import Factory, define, field, frozen

from schedspec.spec.terms import Term, rebuild, walk

from .cells import Table
from .columns import Column, Source, Together, function_from
from .growth import FOR_EVER, Forms, form_of, growth_of, rise_of, rounds_left, scalars_in
from .scans import Scan, cell_of, varies

FEWEST_ROUNDS = 2
"""Where a comparison is due sooner than that, nothing is gained."""


def leaves_of(scan: Scan) -> list[Term]:
    """All comparisons, cells and fields that are true or false."""
    found: dict[tuple[Any, ...], Term] = {}
    for part in (part for term in scan.terms for part in walk(term)):
        if part.sort.name == "Bool" and part.op in _LEAVES and varies(part):
            found.setdefault(part.key(), part)
    return list(found.values())


_LEAVES = ("eq", "le", "lt", "has", "select", "field")
_COMPARE = ("eq", "le", "lt")


@frozen(eq=False)
class Part:
    """An event in a round, where its leaves came out as they did: None is not the same for all entries.  `defined`:
    fields that are a number, or a cell, as leaves say that are asked each time; `scan`: with all that put in."""

    whole: Scan
    leaves: Sequence[Term]
    case: tuple[bool | None, ...]
    defined: Mapping[str, Term] = field(init=False)
    asked_first: frozenset[tuple[Any, ...]] = field(init=False)
    scan: Scan = field(init=False)

    def __attrs_post_init__(self) -> None:
        known = {leaf.key(): value for leaf, value in self.known() if value is not None}
        defined, asked = {}, set()
        for leaf, value in self.known():
            meaning = _definition(leaf, value)
            if meaning is not None and meaning[0] not in defined:
                defined[meaning[0]] = meaning[1]
                asked.add(leaf.key())
        object.__setattr__(self, "defined", defined)
        object.__setattr__(self, "asked_first", frozenset(asked))
        object.__setattr__(self, "scan", self.whole.where(known).told(lambda term: _put(term, defined)))

    def known(self) -> Iterable[tuple[Term, bool | None]]:
        return zip(self.leaves, self.case, strict=True)

    def put(self, leaf: Term) -> Term:
        return leaf if leaf.key() in self.asked_first else _put(leaf, self.defined)


def _definition(leaf: Term, value: bool | None) -> tuple[str, Term] | None:
    """The field that a leaf says all of, and what it says."""
    if value is None:
        return None
    if leaf.op == "field":
        return str(leaf.args[0]), Term("const", (value,), leaf.sort)
    if leaf.op == "eq" and value:
        for one, other in (leaf.args, leaf.args[::-1]):
            if one.op == "field" and (other.op == "const" or cell_of(other) is not None):
                return str(one.args[0]), other
    return None


def _put(term: Term, defined: Mapping[str, Term]) -> Term:
    if term.op == "field":
        return defined.get(term.args[0], term)
    if cell_of(term) is not None:
        return term  # its key is a field, too
    return rebuild(term, tuple(_put(part, defined) if isinstance(part, Term) else part for part in term.args))


# --- how cells grow -------------------------------------------------------------------------------------------------


def after(part: Part, forms: Forms) -> Forms:
    """The forms behind an event."""
    return {**forms, **{name: form_of(cell, forms) for name, cell in part.scan.cells.items()}}


def slope_of(leaf: Term, part: Part, forms: Forms, grows: Mapping[str | None, int]) -> int | None:
    """By how much right and left come apart in a round; None if that is unknown."""
    sides = leaf.args if leaf.op in _COMPARE else (leaf,)
    slopes = [rise_of(_put(side, part.defined), forms, grows) for side in sides]
    if None in slopes:
        return None
    return slopes[-1] - slopes[0] if len(slopes) > 1 else slopes[0]  # type: ignore[operator]


# --- functions ------------------------------------------------------------------------------------------------------


class _Leaves(Source):
    """How the leaves come out, and right less left of those that are compared."""

    def of(self, leaves: Sequence[Term]) -> str:
        self.constants([part for leaf in leaves for part in (leaf, *leaf.parts)])
        self.gathered(leaves)
        cases = "".join(f"same({self.text(leaf)}, n), " for leaf in leaves)
        return self.function("leaves", [f"return ({cases})"])


class _Apart(Source):
    def of(self, leaf: Term) -> str:
        self.constants(leaf.args)
        self.gathered([leaf])
        left, right = map(self.text, leaf.args)
        return self.function("apart", [f"return {right} - {left}"])


class _Steady(Source):
    """True, and all is done, if what is asked each time came out as before; else nothing happened."""

    def of(self, part: Part, asked: Sequence[tuple[Term, bool]]) -> str:
        scan = self.scan
        terms = [part.put(leaf) for leaf, _ in asked]
        self.constants([*terms, *scan.terms, *scan.assigned.values()])
        self.bounds(scan, terms)
        self.gathered([*terms, *scan.terms])
        self.shared([*terms, *scan.terms])
        alike, each = [], []
        for term, (_, value) in zip(terms, asked, strict=True):
            column = _column_that_is(term, value)
            if column is not None:
                alike.append(f"not {column}")
            else:
                each.append(self.text(term) if value else self.denied(term))
        alike += [f"count_nonzero({' & '.join(each)}) != n"] if each else []
        tests = [f"if {' or '.join(alike)}:", "    return False"] if alike else []
        ends = [*tests, *self.demands(), *self.writes(), f"W.events[{scan.event!r}] += n"]
        return self.function("steady", [*ends, "if reach > T.reach:", "    T.reach = reach", "return True"])

    def denied(self, term: Term) -> str:
        if term.op == "eq" and term.key() not in self.names:
            return f"({self.text(term.args[0])} != {self.text(term.args[1])})"
        return f"(~{self.text(term)})"


def _column_that_is(term: Term, value: bool) -> str | None:
    """That a field is the same in all entries is asked of its column."""
    if term.op == "field" and term.sort.name == "Bool":
        return f"c_{term.args[0]}.is_all({value})"
    if value and term.op == "eq" and term.args[0].op == "field" and term.args[1].op == "const":
        return f"c_{term.args[0].args[0]}.is_all({term.args[1].args[0]!r})"
    return None


@cache
def _look_function(scan: Scan) -> tuple[list[Term], Callable[..., Any]]:
    leaves = leaves_of(scan)
    return leaves, function_from("leaves", _Leaves(scan).of(leaves))


@cache
def _part(scan: Scan, case: tuple[bool | None, ...]) -> Part:
    return Part(scan, _look_function(scan)[0], case)


@cache
def _apart(scan: Scan, number: int) -> Callable[..., Any]:
    return function_from("apart", _Apart(scan).of(_look_function(scan)[0][number]))


@cache
def _steady_function(part: Part, asked: tuple[int, ...]) -> Callable[..., bool]:
    chosen = [(part.leaves[number], bool(part.case[number])) for number in asked]
    return function_from("steady", _Steady(part.scan).of(part, chosen))


# --- rounds ---------------------------------------------------------------------------------------------------------


@define(eq=False)
class Turn:
    """An event in the round of a group.  `left`: for so many more rounds `function` may be asked; `apart`: right less
    left, least and most, of the leaves that are compared; `scalars`: numbers of the whole state that it reads, as they
    were last, and their `growth` in a round."""

    part: Part
    apart: Mapping[int, tuple[int, int]] | None
    function: Callable[..., bool] | None = None
    left: int = 0
    scalars: dict[str, int] = Factory(dict)
    growth: dict[str, int] = Factory(dict)

    def look_at(self, world: Any, before: "Turn | None") -> None:
        """Numbers of the whole state, and by how much they have grown since."""
        part = self.part
        self.scalars = {name: getattr(world, name) for name in scalars_in((*part.leaves, *part.scan.cells.values()))}
        if before is not None:
            self.growth = {n: value - before.scalars[n] for n, value in self.scalars.items() if n in before.scalars}

    def is_as_forecast(self, world: Any) -> bool:
        """Whether they have grown by as much again."""
        for name, growth in self.growth.items():
            value = getattr(world, name)
            if value - self.scalars[name] != growth:
                return False
            self.scalars[name] = value
        return True


@define(eq=False)
class Rounds:
    """What has been fired of late at one group of requests: first it is learned which events follow on each other, then
    all leaves are looked at for two rounds, and if they came out alike, the next rounds are forecast.

    `foreign`: cells that other events write while rounds go on.  `forecast`: events that were."""

    table: Table
    foreign: frozenset[str]
    group: Any = None
    order: list[str] = Factory(list)
    place: int = 0
    laps: int = 0
    turns: dict[str, Turn] = Factory(dict)
    forecast: int = 0

    def fire(self, function: Together, group: Any, world: Any, columns: Sequence[Column]) -> bool:
        """What the function does, and no more is asked than has to be."""
        event, given = function.scan.event, (world, self.table, group.at, len(group.rows), *columns)
        if not self._goes_on(event, group):
            self._begin(event, group)
        turn = self.turns.get(event)
        if turn is not None and turn.function is not None:
            if turn.left > 0 and turn.is_as_forecast(world) and turn.function(*given):
                turn.left -= 1
                self.forecast += 1
                return True
            self._begin(event, group)
        elif self.laps:
            self._look(function.scan, given)
        done = function(*given)
        if not done:
            self.group = None
        return done

    def _goes_on(self, event: str, group: Any) -> bool:
        """The same requests, to whom nobody else has written, and it is the turn of this event."""
        written, self.table.written = self.table.written, set()
        if group is not self.group or (written and not written.isdisjoint(group.rows)):
            return False
        if self.laps == 0 and event not in self.order:
            self.order.append(event)
            return True
        self.place = (self.place + 1) % len(self.order) if self.laps else 0
        if self.order[self.place] != event:
            return False
        if self.place == 0:
            self._next_lap()
        return True

    def _begin(self, event: str, group: Any) -> None:
        self.group, self.order, self.place, self.laps, self.turns = group, [event], 0, 0, {}

    def _look(self, scan: Scan, given: Sequence[Any]) -> None:
        """How the leaves come out; from the second time on also how far what is compared is apart."""
        leaves, look = _look_function(scan)
        part = _part(scan, look(*given))
        before = self.turns.get(scan.event)
        apart: dict[int, tuple[int, int]] | None = None
        if before is not None and before.part is part:
            apart = {}
            for number in (number for number, leaf in enumerate(leaves) if leaf.op in _COMPARE):
                column = _apart(scan, number)(*given)
                apart[number] = int(column.min()), int(column.max())
        turn = self.turns[scan.event] = Turn(part, apart)
        turn.look_at(given[0], before)

    def _next_lap(self) -> None:
        self.laps += 1
        turns = [self.turns.get(event) for event in self.order]
        if all(turn is not None and turn.apart is not None and turn.function is None for turn in turns):
            self._forecast()

    def _forecast(self) -> None:
        forms: Forms = {name: (name, 0) for name in self.table.codes if name not in self.foreign}
        before: dict[str, Forms] = {}
        for event in self.order:
            before[event] = forms
            forms = {n: f for n, f in after(self.turns[event].part, forms).items() if n not in self.foreign}
        grows = growth_of(forms, self._growth_of_scalars())
        for event in self.order:
            self._promise(self.turns[event], before[event], grows)

    def _growth_of_scalars(self) -> dict[str, int]:
        """Where it is the same at each event that reads them."""
        seen: dict[str, set[int]] = {}
        for turn in self.turns.values():
            for name, growth in turn.growth.items():
                seen.setdefault(f"W.{name}", set()).add(growth)
        return {name: growths.pop() for name, growths in seen.items() if len(growths) == 1}

    def _promise(self, turn: Turn, forms: Forms, grows: Mapping[str | None, int]) -> None:
        part, apart, asked, left = turn.part, turn.apart or {}, [], FOR_EVER
        trusted = scalars_in(part.scan.cells.values())
        for number, (leaf, value) in enumerate(part.known()):
            if value is None:
                continue
            slope = None if leaf.key() in part.asked_first else slope_of(leaf, part, forms, grows)
            rounds = 0
            if slope is not None:
                rounds = rounds_left(leaf.op, value, slope, *apart.get(number, (0, 0)))
            if rounds < FEWEST_ROUNDS:
                asked.append(number)
            else:
                left = min(left, rounds)
                trusted |= scalars_in([leaf])
        turn.growth = {name: growth for name, growth in turn.growth.items() if name in trusted}
        turn.function, turn.left = _steady_function(part, tuple(asked)), left
