"""The compiled reading with the cells of a table in its memory, and sets of the whole state written at once: for events
of which many come in a row, as blocks that are taken.

It judges one entry after the other, as the compiled reading does, and leaves the same behind.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from schedspec.spec.compiled import EventFunction, defined
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Term

from .cells import LIMITS, Table

InPlace = Callable[..., None]


def in_place(
    registry: Registry, event: str, active: Collection[str], dropped: str | None, *, once: str, table: Table
) -> InPlace:
    """A function of a world that has joined the table, the table, and columns of fields: in that of `once` nothing
    comes twice."""
    guards = tuple(c for c in registry.guards(event) if c.name in active and c.name != dropped)
    effects = tuple(c for c in registry.effects(event).values() if c.name != dropped)
    key = (event, guards, effects, once, table.maps, table.sets, table.often)
    if key not in _FUNCTIONS:
        source = _InPlace(registry, event, guards, effects, once, table).source()
        _FUNCTIONS[key] = defined(f"many_{event}", source, LIMITS)
    return _FUNCTIONS[key]


_FUNCTIONS: dict[tuple[Any, ...], InPlace] = {}


class _InPlace(EventFunction):
    """Names: `M_` the memory of a map, `r_` a row in it, `h_` a cell there."""

    given = "W, T"

    def __init__(
        self,
        registry: Registry,
        event: str,
        guards: Sequence[Conjunct],
        effects: Sequence[Conjunct],
        once: str,
        table: Table,
    ) -> None:
        super().__init__(registry, event, guards, effects, columns=True)
        self.once, self.table = once, table
        self.together: list[str] = []

    def _head(self) -> list[str]:
        memory = ["I = T.index", *(f"M_{name} = T.mem_{name}" for name in self.table.maps if name in self._maps())]
        return [*super()._head(), *memory]

    def _maps(self) -> set[str]:
        return {part.args[0] for part in self._parts() if part.op == "state" and part.sort.name == "Map"}

    def _record(self, key: Term) -> list[str]:
        """Of a key of the table its row, and the cells that are read there; the record itself where it is asked."""
        if key.sort.name != self.table.key:
            return super()._record(key)
        field = key.args[0]
        self.names[("record", *key.key())] = f"R_{key.sort.name}[e_{field}]"
        lines = [f"r_{field} = I[e_{field}]"]
        for part in self._parts():
            if part.op == "select" and part.args[0].op == "state" and part.args[1].key() == key.key():
                name = part.args[0].args[0]
                if name in self.table.maps and part.key() not in self.names:
                    self.names[part.key()] = f"h_{field}_{name}"
                    lines += self._gathered(field, name)
        return lines

    def _gathered(self, field: str, name: str) -> list[str]:
        cell = f"h_{field}_{name}"
        lines = [f"{cell} = M_{name}[r_{field}]"]
        if self.table.codes[name] == "q":
            return [*lines, f"if {cell} == ASIDE:", f"    {cell} = R_{self.table.key}[e_{field}].{name}"]
        return [*lines, f"{cell} = {cell} != 0"]

    def _put(self, variable: str, key: Term, place: str, value: str) -> list[str]:
        if variable not in self.table.maps or key.op != "field":
            return super()._put(variable, key, place, value)
        row = f"r_{key.args[0]}"
        write = [f"M_{variable}[{row}] = {value}"]
        if variable not in self.table.often:
            write.append(f"T.written.add({row})")
        if self.table.codes[variable] != "q":
            return write
        return [f"if LEAST < {value} < MOST:", *("    " + line for line in write), "else:", f"    {place} = {value}"]

    def _effect(self, variable: str, value: Term, lines: list[str]) -> list[str]:
        if not self._is_unseen(variable, value):
            return super()._effect(variable, value, lines)
        self.together.append(f"W.{variable}.{_TOGETHER[value.op]}(c_{value.args[1].args[0]})")
        return []

    def _is_unseen(self, variable: str, value: Term) -> bool:
        """Each entry puts a field into a set, or takes it out, of which no other entry can tell: then it is done behind
        the loop."""
        if value.op not in _TOGETHER or value.args[0].op != "state" or value.args[1].op != "field":
            return False
        member = value.args[1]
        uses = [part for part in self._parts() if part is not value and any(_is(variable, arg) for arg in part.parts)]
        alone = all(part.op == "has" and part.args[1].key() == member.key() for part in uses)
        return variable not in self.table.sets and alone and (not uses or member.args[0] == self.once)

    def _tail(self) -> list[str]:
        return [*super()._tail(), *self.together]


_TOGETHER = {"with": "update", "without": "difference_update"}


def _is(variable: str, term: Term) -> bool:
    return term.op == "state" and term.args[0] == variable
