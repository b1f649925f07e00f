"""The compiled reading with the cells of a table in its memory, and sets of the whole state written at once: for events
of which many come in a row, as blocks that are taken.

It judges one entry after the other, as the compiled reading does, and leaves the same behind.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from schedspec.spec.compiled import EventFunction, defined
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.terms import Term

from .cells import LIMITS, SET_METHODS, Table
from .pool import ALONE, COUNT, PoolTable

InPlace = Callable[..., None]


def in_place(
    registry: Registry,
    event: str,
    active: Collection[str],
    dropped: str | None,
    *,
    once: str,
    table: Table,
    pool: PoolTable | None = None,
) -> InPlace:
    """A function of a world that has joined the table, the table, and columns of fields: in that of `once` nothing
    comes twice.  With a pool blocks are rows of it, and none of those that come is in a set of several."""
    guards, effects = registry.parts_of(event, lambda c: c.name in active, dropped)
    beside = () if pool is None else (pool.maps, pool.sets, pool.alone, *table.views)
    key = (event, guards, effects, once, table.maps, table.sets, table.often, beside)
    if key not in _FUNCTIONS:
        source = _InPlace(registry, event, guards, effects, once, table, pool).source()
        _FUNCTIONS[key] = defined(f"many_{event}", source, LIMITS | ALONE)
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
        pool: PoolTable | None = None,
    ) -> None:
        super().__init__(registry, event, guards, effects, columns=True)
        self.once, self.table, self.pool = once, table, pool
        self.given = "W, T" if pool is None else "W, T, B"
        self.together: list[str] = []
        self.counted: set[str] = set()

    def _head(self) -> list[str]:
        memory = ["I = T.index", *(f"M_{name} = T.mem_{name}" for name in self.table.maps if name in self._maps())]
        if self.pool is not None:
            named = {p.args[0] for p in self._parts() if p.op == "state"}
            memory.append(f"M_{COUNT} = T.mem_{COUNT}")
            memory += [f"M_{name} = B.mem_{name}" for name in (*self.pool.maps, *self.pool.sets) if name in named]
        return [*super()._head(), *memory]

    def _maps(self) -> set[str]:
        return {part.args[0] for part in self._parts() if part.op == "state" and part.sort.name == "Map"}

    def _record(self, key: Term) -> list[str]:
        """Of a key of the table its row, and the cells that are read there; the record itself where it is asked."""
        if self.pool is not None and key.sort.name == self.pool.key:
            return self._block(self.pool, key)
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

    def _block(self, pool: PoolTable, key: Term) -> list[str]:
        """Of a block its cells: it is its own row."""
        field = key.args[0]
        self.names[("record", *key.key())] = f"R_{key.sort.name}[e_{field}]"
        lines = []
        for part in self._parts():
            if part.key() in self.names or not part.parts or part.parts[-1].key() != key.key():
                continue
            name = part.args[0].args[0] if part.args[0].op == "state" else None
            if part.op == "has" and name in pool.sets:
                self.names[part.key()] = f"(M_{name}[e_{field}] != 0)"
            elif part.op == "select" and name in pool.maps:
                self.names[part.key()] = f"h_{field}_{name}"
                lines.append(f"h_{field}_{name} = M_{name}[e_{field}]")
                if name != pool.alone:
                    lines += [
                        f"if h_{field}_{name} == ASIDE:",
                        f"    h_{field}_{name} = R_{pool.key}[e_{field}].{name}",
                    ]
        for part in self._parts():
            if self._alone_in(part) == key.key():
                self._name_set(part, f"h_{field}_{part.parts[0].args[0].args[0]}")
        return lines

    def _alone_in(self, part: Term) -> tuple[Any, ...] | None:
        """The block of whose holders it asks something."""
        if self.pool is None or part.op not in ("eq", "has") or part.args[0].op != "select":
            return None
        of, key = part.args[0].args
        return key.key() if of.op == "state" and of.args[0] == self.pool.alone else None

    def _name_set(self, part: Term, cell: str) -> None:
        """Whether it is empty, or has somebody."""
        if part.op == "eq" and part.args[1].op == "empty":
            self.names[part.key()] = f"({cell} == NOBODY)"
        elif part.op == "has" and part.args[1].op == "field":
            self.names[part.key()] = f"({cell} == r_{part.args[1].args[0]})"

    def _update(self, variable: str, value: Term, lines: list[str]) -> list[str]:
        if variable in self.table.views:
            return []
        if self.pool is not None and value.op in SET_METHODS and variable in self.pool.sets:
            below = self._update(variable, value.args[0], lines)
            self.counted.add(variable)
            return [*below, f"M_{variable}[e_{value.args[1].args[0]}] = {int(value.op == 'with')}"]
        if self.pool is not None and variable == self.pool.alone and value.op == "store":
            return self._update_alone(variable, *value.args[1:])
        return super()._update(variable, value, lines)

    def _update_alone(self, variable: str, key: Term, cell: Term) -> list[str]:
        block, member = key.args[0], cell.args[1].args[0]
        place, held = f"M_{variable}[e_{block}]", f"h_{block}_{variable}"
        if cell.op == "without":
            return [f"if {held} == r_{member}:", f"    {place} = NOBODY", f"    M_{COUNT}[r_{member}] -= 1"]
        several = f"R_{key.sort.name}[e_{block}].{variable}.add(e_{member})"
        return [
            f"if {held} == NOBODY:",
            f"    {place} = r_{member}",
            f"    M_{COUNT}[r_{member}] += 1",
            f"elif {held} != r_{member}:",
            f"    {several}",
        ]

    def _gathered(self, field: str, name: str) -> list[str]:
        cell = f"h_{field}_{name}"
        lines = [f"{cell} = M_{name}[r_{field}]"]
        if self.table.codes[name] == "q":
            return [*lines, f"if {cell} == ASIDE:", f"    {cell} = R_{self.table.key}[e_{field}].{name}"]
        return [*lines, f"{cell} = {cell} != 0"]

    def _put(self, variable: str, key: Term, place: str, value: str) -> list[str]:
        if self.pool is not None and variable in self.pool.maps and key.op == "field":
            line = f"    M_{variable}[e_{key.args[0]}] = {value}"
            return [f"if LEAST < {value} < MOST:", line, "else:", f"    {place} = {value}"]
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
        self.together.append(f"W.{variable}.{SET_METHODS[value.op]}(c_{value.args[1].args[0]})")
        return []

    def _is_unseen(self, variable: str, value: Term) -> bool:
        """Each entry puts a field into a set, or takes it out, of which no other entry can tell: then it is done behind
        the loop."""
        if value.op not in SET_METHODS or value.args[0].op != "state" or value.args[1].op != "field":
            return False
        member = value.args[1]
        uses = [part for part in self._parts() if part is not value and any(_is(variable, arg) for arg in part.parts)]
        alone = all(part.op == "has" and part.args[1].key() == member.key() for part in uses)
        kept = (*self.table.sets, *(self.pool.sets if self.pool is not None else ()))
        return variable not in kept and alone and (not uses or member.args[0] == self.once)

    def _tail(self) -> list[str]:
        return [*super()._tail(), *self.together, *(f"W.{name}.size = None" for name in sorted(self.counted))]


def _is(variable: str, term: Term) -> bool:
    return term.op == "state" and term.args[0] == variable
