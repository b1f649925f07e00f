"""The numpy reading: the guards and effects of an event as expressions over columns, for many events in a row.

It exists for events that are a *scan*: one field is a key, every map and set is touched at that key alone, numbers of
the state are only added to.  If then no key comes twice, the entries do not see each other, and all can be judged by
the state before the first.  A function of this reading changes nothing and says False where a guard fails, or where
64 bits might not do: then the compiled reading judges the same entries one by one, and names what is broken.

The cells of those maps and sets lie in a `Table`, a column for each and a row for each key.  The compiled reading
sees the same cells as attributes of records and as sets, so neither ever has to be brought up to date.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, MutableSet, Sequence
from typing import Any

import attrs
import numpy as np

from schedspec.spec.compiled import Records, World, text_of
from schedspec.spec.registry import Conjunct, Registry, settled_after
from schedspec.spec.terms import Sort, State, Term, rebuild, settled, walk

FARTHEST = 1 << 40
"""What is larger is kept beside the table, and its row is left to the compiled reading."""
ROOM = 1 << 62
"""No number of a scan may come beyond it."""
ASIDE = -(1 << 63)

Function = Callable[..., bool]


class NoScan(Exception):
    """The entries of such an event see each other: they have to be judged one by one."""


# --- cells ------------------------------------------------------------------------------------------------


class Table:
    """Cells of some maps and sets over one sort of keys.  `at_<name>` is a column for numpy, `mem_<name>` the same
    memory for one cell at a time.  `reach` bounds all numbers in it; rows in `odd` hold one that has no place in it."""

    def __init__(self, state: type[State], key: str, maps: Collection[str], sets: Collection[str]) -> None:
        self.key = key
        self.maps = tuple(sorted(maps))
        self.sets = tuple(sorted(sets))
        self.codes = {name: "q" if state.sorts[name].args[-1].name == "Int" else "b" for name in self.maps}
        self.codes |= dict.fromkeys(self.sets, "b")
        self.index: dict[Any, int] = {}
        self.spare: list[int] = []
        self.odd: set[int] = set()
        self.reach = FARTHEST
        self.rows = 0
        self._grow(64)

    def _grow(self, rows: int) -> None:
        for name, code in self.codes.items():
            memory = array(code, bytes(rows * array(code).itemsize))
            if self.rows:
                memory[: self.rows] = getattr(self, "mem_" + name)
            setattr(self, "mem_" + name, memory)
            setattr(self, "at_" + name, np.frombuffer(memory, dtype=np.int64 if code == "q" else np.bool_))
        self.spare += range(rows - 1, self.rows - 1, -1)
        self.rows = rows

    def row_of(self, key: Any) -> int:
        row = self.index.get(key)
        if row is None:
            if not self.spare:
                self._grow(2 * self.rows)
            row = self.index[key] = self.spare.pop()
        return row

    def release(self, key: Any) -> None:
        """Its record is gone.  A set may still name it: then it keeps its row."""
        row = self.index[key]
        if not any(getattr(self, "mem_" + name)[row] for name in self.sets):
            del self.index[key]
            self.spare.append(row)
        self.odd.discard(row)

    def measure(self) -> None:
        """Bring the bound down to what is there."""
        reach = FARTHEST
        for name, code in self.codes.items():
            if code == "q":
                column = getattr(self, "at_" + name)
                reach = max(reach, *map(abs, map(int, column[column != ASIDE])))
        self.reach = reach

    def join(self, world: World) -> None:
        """The world's records and sets are this table's from now on; it must be new."""
        before = getattr(world, self.key)
        records = TableRecords(self, before.make)
        for key, record in before.items():
            for name in attrs.fields_dict(before.make):
                setattr(records[key], name, getattr(record, name))
        setattr(world, self.key, records)
        for name in self.sets:
            keys = getattr(world, name)
            setattr(world, name, ColumnSet(self, name))
            for key in keys:
                getattr(world, name).add(key)


class TableRecords(Records):
    """Records whose cells of the table are there, and the others their own."""

    def __init__(self, table: Table, plain: Callable[[], Any]) -> None:
        super().__init__(plain)
        self.table = table
        self.record = _record_class(table, plain)

    def __missing__(self, key: Any) -> Any:
        record = self[key] = self.record(self.table, self.table.row_of(key))
        return record

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            self.table.release(key)
        return super().pop(key, *default)


def _record_class(table: Table, plain: Any) -> Any:
    """A record that keeps in the table what the table has; `big` what is too large for it."""

    def __init__(self: Any, table: Table, row: int) -> None:
        self.table, self.row, self.big = table, row, {}
        plain.__init__(self)

    cells = {name: _cell(name, table.codes[name]) for name in table.maps}
    slots = {"__slots__": ("table", "row", "big"), "__init__": __init__}
    return type(f"Table{plain.__name__}", (plain,), slots | cells)


def _cell(name: str, code: str) -> property:
    memory = "mem_" + name
    source = f"""
def get(record):
    value = record.table.{memory}[record.row]
    return value if value != ASIDE else record.big["{name}"]
def get_flag(record):
    return record.table.{memory}[record.row] != 0
def set(record, value):
    if LEAST < value < MOST:
        record.table.{memory}[record.row] = value
    else:
        record.table.{memory}[record.row] = ASIDE
        record.table.odd.add(record.row)
        record.big["{name}"] = value
"""
    space: dict[str, Any] = {"ASIDE": ASIDE, "LEAST": -FARTHEST, "MOST": FARTHEST}
    exec(source, space)
    return property(space["get" if code == "q" else "get_flag"], space["set"])


class ColumnSet(MutableSet[Any]):
    """A set of keys, as a column of the table."""

    __slots__ = ("at", "memory", "table")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.memory, self.at = table, "mem_" + name, "at_" + name

    def __contains__(self, key: Any) -> bool:
        row = self.table.index.get(key)
        return row is not None and getattr(self.table, self.memory)[row] != 0

    def __iter__(self) -> Iterator[Any]:
        memory = getattr(self.table, self.memory)
        return iter([key for key, row in self.table.index.items() if memory[row]])

    def __len__(self) -> int:
        return int(np.count_nonzero(getattr(self.table, self.at)))

    def __eq__(self, other: object) -> bool:
        if not other:
            return not getattr(self.table, self.at).any()
        return super().__eq__(other)

    def add(self, key: Any) -> None:
        getattr(self.table, self.memory)[self.table.row_of(key)] = 1

    def discard(self, key: Any) -> None:
        row = self.table.index.get(key)
        if row is not None:
            getattr(self.table, self.memory)[row] = 0

    def clear(self) -> None:
        getattr(self.table, self.at)[:] = False

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> Any:
        return set(keys)


# --- terms ------------------------------------------------------------------------------------------------


class Scan:
    """An event as a scan, or NoScan: which field is the key, and which maps and sets are touched at it."""

    def __init__(
        self, registry: Registry, event: str, guards: Sequence[Conjunct], effects: Sequence[Conjunct], key: str
    ) -> None:
        self.event = event
        self.fields = registry.events[event].sorts
        self.key_field = self._key_field(key)
        numbers = {c.name: n for n, c in enumerate(registry.conjuncts)}
        self.guards = [(numbers[c.name], self._folded(settled_after(c.term, effects))) for c in guards]
        self.conditional = {numbers[c.name] for c in guards if c.term.op == "implies"}
        self.effects = {str(c.variable): c.term.args[1] for c in effects}
        self.written = {name for name, value in self.effects.items() if value.op != "state"}
        self.sorts = registry.state.sorts
        self.maps: set[str] = set()
        self.sets: set[str] = set()
        self.added: dict[str, Term | None] = {}
        self.assigned: dict[str, Term] = {}
        self.cells: dict[str, Term] = {}
        for _, term in self.guards:
            self._check(term)
        for name in sorted(self.written):
            self._take(name, self.effects[name])

    def _key_field(self, key: str) -> str:
        keys = [name for name, sort in self.fields.items() if sort.name == key]
        others = {sort.name for name, sort in self.fields.items() if name not in keys}
        if len(keys) != 1 or not others <= {"Int", "Bool"}:
            raise NoScan(f"{self.event} has not one key and numbers beside it")
        return keys[0]

    def at_key(self, term: Term) -> bool:
        return term.op == "field" and bool(term.args[0] == self.key_field)

    def _folded(self, term: Term) -> Term:
        """What an update left behind: the key is itself."""
        if term.op == "eq" and all(map(self.at_key, term.args)):
            return Term("const", (True,), Sort("Bool"))
        return rebuild(term, tuple(self._folded(a) if isinstance(a, Term) else a for a in term.args))

    def varies(self, term: Term) -> bool:
        """It differs from entry to entry."""
        return any(part.op == "field" for part in walk(term))

    def _check(self, term: Term) -> None:
        """Whatever a term reads has to be a cell at the key, a field, or the same for all entries."""
        if not self.varies(term):
            if read := {part.args[0] for part in walk(term) if part.op == "state"} & self.written:
                raise NoScan(f"{min(read)} is read while it changes")
            return
        if term.op == "field":
            if self.at_key(term):
                raise NoScan("keys are compared")
            return
        if term.op in ("select", "has"):
            table, key = term.args
            if table.op != "state" or not self.at_key(key) or term.sort.name not in ("Int", "Bool"):
                raise NoScan(f"a {term.op} is not at the key")
            (self.maps if term.op == "select" else self.sets).add(table.args[0])
            return
        if term.op not in _OPERATORS or any(part.sort.name not in ("Int", "Bool") for part in term.parts):
            raise NoScan(f"{term.op} has no columns")
        for part in term.parts:
            self._check(part)

    def _take(self, name: str, value: Term) -> None:
        sort = self.sorts[name]
        if sort.name in ("Int", "Bool"):
            value = self._folded(settled(value, {}))
            if self.varies(value) or name in {part.args[0] for part in walk(value) if part.op == "state"}:
                self.added[name] = self._increment(name, value)
            else:
                self._check(value)
                self.assigned[name] = value
            return
        cell = self._folded(settled(self._cell(name, value), {}))
        self._check(cell)
        (self.maps if sort.name == "Map" else self.sets).add(name)
        self.cells[name] = cell

    def _increment(self, name: str, value: Term) -> Term | None:
        """What an entry adds to a number; None is nothing."""
        if value.sort.name != "Int":
            raise NoScan(f"{name} is no number that is added to")
        if value.op == "state" and value.args[0] == name:
            return None
        if value.op in ("add", "sub"):
            left, right = value.args
            if value.op == "add" and _reads(right, name):
                left, right = right, left
            self._check(right)
            before = self._increment(name, left)
            if before is None and value.op == "add":
                added: Term = right
                return added
            before = _number(0) if before is None else before
            return Term(value.op, (before, right), value.sort)
        if value.op == "ite":
            condition, then, otherwise = value.args
            self._check(condition)
            parts = [self._increment(name, part) for part in (then, otherwise)]
            parts = [_number(0) if part is None else part for part in parts]
            return Term("ite", (condition, *parts), value.sort)
        raise NoScan(f"{name} is not only added to")

    def _cell(self, name: str, value: Term) -> Term:
        """What becomes of the cell at the key."""
        sort = self.sorts[name]
        if value.op == "state":
            key = Term("field", (self.key_field,), Sort(sort.args[0].name))
            kind = Sort("Bool") if sort.name == "Set" else sort.args[1]
            return Term("has" if sort.name == "Set" else "select", (value, key), kind)
        if value.op == "ite":
            then, otherwise = (self._cell(name, part) for part in value.args[1:])
            return Term("ite", (value.args[0], then, otherwise), then.sort)
        if value.op in ("with", "without", "store") and self.at_key(value.args[1]):
            if sort.name == "Set":
                return Term("const", (value.op == "with",), Sort("Bool"))
            if sort.args[1].name in ("Int", "Bool"):
                cell: Term = value.args[2]
                return cell
        raise NoScan(f"{name} is not touched at the key alone")


_OPERATORS = ("add", "sub", "mul", "eq", "le", "lt", "and", "or", "not", "implies", "ite")
_GROWS = ("add", "sub", "mul")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "le": "<=", "lt": "<", "and": "&", "or": "|"}


def _reads(term: Term, name: str) -> bool:
    return any(part.op == "state" and part.args[0] == name for part in walk(term))


def _number(value: int) -> Term:
    return Term("const", (value,), Sort("Int"))


class _Source:
    """The text of a scan's function: of a table, a world, how many entries, their rows and columns of fields.

    Names: `v_` gathered cells, `a_` what is the same for all entries, `s_` what is needed twice, `t_` results.
    """

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.names: dict[tuple[Any, ...], str] = {}
        self.lines: list[str] = []

    def source(self) -> str:
        scan = self.scan
        columns = [name for name in scan.fields if name != scan.key_field]
        terms = [term for _, term in scan.guards] + list(scan.cells.values())
        terms += [term for term in scan.added.values() if term is not None]
        self._constants([*terms, *scan.assigned.values()])
        self._bound(terms)
        self._gathered(terms)
        self._shared(terms)
        ends = [*self._demands(), *self._writes()]
        head = f"def scan_{scan.event}(T, W, n, k, {', '.join(f'e_{name}' for name in columns)}):"
        ends += [f"W.events[{scan.event!r}] += n", "return True"]
        return "\n".join([head, *("    " + line for line in [*self.lines, *ends])]) + "\n"

    def _constants(self, terms: Sequence[Term]) -> None:
        for term in _largest(terms, lambda part: not self.scan.varies(part) and part.sort.name in ("Int", "Bool")):
            if term.op == "const":
                self.names[term.key()] = repr(term.args[0])
            elif term.key() not in self.names:
                name = f"a_{len(self.lines)}"
                self.lines.append(f"{name} = {text_of(term)}")
                self.names[term.key()] = name

    def _bound(self, terms: Sequence[Term]) -> None:
        """Nothing is computed that might not fit; what the table may reach then is noted."""
        parts = [part for term in terms for part in walk(term) if part.op in _GROWS and self.scan.varies(part)]
        whole = most(map(self._size, parts))
        cells = most(self._size(cell) for cell in self.scan.cells.values() if cell.sort.name == "Int")
        total = most(self._size(term) for term in self.scan.added.values() if term is not None)
        read = {variable for size in (whole, cells, total) for product in size for variable in product}
        for name in sorted(read - {"S"}):
            if name.startswith("e_"):
                self.lines.append(f"m_{name} = magnitude({name})")
            else:
                self.lines.append(f"m_{name} = max(1, abs({name}))")
        self.lines.append("S = T.reach")
        limits = [text for text in (_polynomial(whole), _polynomial(total, "n * ")) if text]
        if reach := _polynomial(cells):
            self.lines.append(f"reach = {reach}")
            limits.append("reach")
        if limits:
            largest = limits[0] if len(limits) == 1 else f"max({', '.join(limits)})"
            self.lines += [f"if {largest} >= ROOM:", "    return False"]

    def _size(self, term: Term) -> "Size":
        """How large a term may be, as a sum of products of what it is made of."""
        op, args = term.op, term.args
        if op == "const":
            return {(): max(1, abs(args[0]))}
        if not self.scan.varies(term):
            return {(self.names[term.key()],): 1}
        if op == "field":
            return {(f"e_{args[0]}",): 1}
        if op == "select":
            return {("S",): 1}
        left, right = (self._size(part) for part in args[-2:])
        if op in ("add", "sub"):
            return {product: left.get(product, 0) + right.get(product, 0) for product in {**left, **right}}
        if op == "mul":
            return most({tuple(sorted(p + q)): left[p] * right[q]} for p in left for q in right)
        return most((left, right))

    def _gathered(self, terms: Sequence[Term]) -> None:
        for part in (part for term in terms for part in walk(term)):
            if part.op in ("select", "has") and self.scan.varies(part) and part.key() not in self.names:
                name = part.args[0].args[0]
                self.lines.append(f"v_{name} = T.at_{name}[k]")
                self.names[part.key()] = f"v_{name}"

    def _shared(self, terms: Sequence[Term]) -> None:
        counts: Counter[tuple[Any, ...]] = Counter()
        first: dict[tuple[Any, ...], Term] = {}
        for part in (part for term in terms for part in walk(term)):
            if part.op in _OPERATORS and self.scan.varies(part):
                counts[part.key()] += 1
                first.setdefault(part.key(), part)
        shared = sorted(
            (first[key] for key, count in counts.items() if count > 1), key=lambda t: sum(1 for _ in walk(t))
        )
        for number, part in enumerate(shared):
            self.lines.append(f"s_{number} = {self.text(part)}")
            self.names[part.key()] = f"s_{number}"

    def text(self, term: Term) -> str:
        name = self.names.get(term.key())
        return name if name is not None else self._text(term)

    def _text(self, term: Term) -> str:
        op, args = term.op, term.args
        if op == "field":
            return f"e_{args[0]}"
        if op == "ite":
            return f"where({', '.join(map(self.text, args))})"
        if op == "not" and args[0].op == "eq" and args[0].key() not in self.names:
            return f"({self.text(args[0].args[0])} != {self.text(args[0].args[1])})"
        if op == "not":
            return f"(~{self.text(args[0])})"
        if op == "implies":
            return f"({self.text(args[0])} <= {self.text(args[1])})"
        return f"({self.text(args[0])} {_SIGNS[op]} {self.text(args[1])})"

    def _demands(self) -> list[str]:
        """All guards at once: most often all of them hold."""
        alike = [self.text(term) for _, term in self.scan.guards if not self.scan.varies(term)]
        each = [self.text(term) for _, term in self.scan.guards if self.scan.varies(term)]
        alike += [f"({' & '.join(each)}).all()"] if each else []
        return [f"if not ({' and '.join(alike)}):", "    return False"] if alike else []

    def _writes(self) -> list[str]:
        """Cells last: gathered columns may be views of them."""
        scan, values, cells = self.scan, [], []
        for number, (name, cell) in enumerate(scan.cells.items()):
            text = self.text(cell)
            if text.startswith("v_") or not text.isidentifier():
                values.append(f"t_{number} = {text}{'.copy()' if text.startswith('v_') else ''}")
                text = f"t_{number}"
            cells.append(f"T.at_{name}[k] = {text}")
        values += [line for number, term in scan.guards for line in self._count(number, term)]
        for name, term in scan.added.items():
            if term is not None:
                text = self.text(term)
                values.append(f"W.{name} += " + (f"int({text}.sum())" if scan.varies(term) else f"n * {text}"))
        values += [f"W.{name} = {self.text(term)}" for name, term in scan.assigned.items()]
        if any(cell.sort.name == "Int" for cell in scan.cells.values()):
            values += ["if reach > S:", "    T.reach = reach"]
        return [*values, *cells]

    def _count(self, number: int, term: Term) -> list[str]:
        times = "n"
        if number in self.scan.conditional:
            condition = term.args[0]
            text = self.text(condition)
            times = f"int(count_nonzero({text}))" if self.scan.varies(condition) else f"(n if {text} else 0)"
        return [f"W.exercised[{number}] += {times}"]


Size = dict[tuple[str, ...], int]


def most(sizes: Iterable[Size]) -> Size:
    """At least as large as each of them."""
    found: Size = {}
    for size in sizes:
        for product, factor in size.items():
            found[product] = max(found.get(product, 0), factor)
    return found


def _polynomial(size: Size, factor: str = "") -> str:
    parts = (" * ".join([str(times), *(v if v == "S" else f"m_{v}" for v in p)]) for p, times in size.items())
    text = " + ".join(parts)
    return f"{factor}({text})" if text else ""


def _largest(terms: Iterable[Term], wanted: Callable[[Term], bool]) -> Iterator[Term]:
    """Parts that are wanted, and are not part of one that is."""
    for term in terms:
        if wanted(term):
            yield term
        else:
            yield from _largest(term.parts, wanted)


# --- functions --------------------------------------------------------------------------------------------


def scan_of(registry: Registry, event: str, active: Collection[str], dropped: str | None, key: str) -> Scan:
    """The event as a scan, with the guards that are active and all effects but the dropped one."""
    guards = [c for c in registry.guards(event) if c.name in active and c.name != dropped]
    effects = [c for c in registry.effects(event).values() if c.name != dropped]
    return Scan(registry, event, guards, effects, key)


def function_of(scan: Scan) -> Function:
    source = _Source(scan).source()
    if source not in _FUNCTIONS:
        space: dict[str, Any] = {
            "where": np.where,
            "magnitude": magnitude,
            "count_nonzero": np.count_nonzero,
            "ROOM": ROOM,
        }
        exec(compile(source, f"<scan_{scan.event}>", "exec"), space)
        _FUNCTIONS[source] = space[f"scan_{scan.event}"]
        _FUNCTIONS[source].__doc__ = source
    return _FUNCTIONS[source]


_FUNCTIONS: dict[str, Function] = {}


def magnitude(column: Any) -> int:
    """More than the largest number of a column, and than the least one below nothing."""
    largest = int(column.view(np.uint64).max())
    return 1 + (largest if largest < 1 << 63 else max(int(column.max()), -int(column.min())))


def rows_of(rows: Sequence[int]) -> Any:
    """Rows as an index: a slice, if they follow on each other."""
    first, count = rows[0], len(rows)
    if rows[-1] - first == count - 1 and list(rows) == list(range(first, first + count)):
        return slice(first, first + count)
    return np.array(rows)


def column_of(values: Any, kind: str) -> Any:
    """A column of Python values for numpy, an array as it is.  OverflowError where 64 bits do not do."""
    if isinstance(values, np.ndarray):
        return values
    if kind == "Bool":
        try:
            return np.frombuffer(bytes(values), np.uint8) != 0
        except (TypeError, ValueError):
            return np.fromiter(map(bool, values), np.bool_, len(values))
    return np.frombuffer(values if isinstance(values, array) else array("q", values), np.int64)
