"""The numpy reading: the guards and effects of a scan as expressions over columns, for many events in a row.

A function of this reading changes nothing and says False where a guard fails, or where 64 bits might not do: then the
compiled reading judges the same entries one by one, and names what is broken.

Most often a comparison comes out the same for all entries of a step (everybody decodes, say).  So the function first
looks at a few comparisons that stand in several places; for each way in which they may come out there is a version of
its own, in which they are folded away.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from schedspec.spec.compiled import World, defined, text_of
from schedspec.spec.terms import Term, walk

from .cells import Table
from .scans import OPERATORS, Scan, cell_of, largest, varies

LOOK_AGAIN = 16
ROOM = 1 << 62
"""No number of a scan may come beyond it."""
_GROWS = ("add", "sub", "mul")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "le": "<=", "lt": "<", "and": "&", "or": "|"}
_PLAIN = ("Int", "Bool")

Case = tuple[bool | None, ...]
Size = dict[tuple[str, ...], int]
"""How large a term may be: a sum of products of what it is made of."""


class Column:
    """An array of numbers or flags.  `size`: more than its largest number, and than its least one below nothing."""

    __slots__ = ("_all", "_size", "values")

    def __init__(self, values: Any) -> None:
        self.values = values
        self._size = 0
        self._all: int | None = None

    def is_all(self, value: int) -> bool:
        """Whether all of it is the same as this number or flag."""
        if self._all is None and np.count_nonzero(self.values == value) == len(self.values):
            self._all = value
        return self._all == value

    @property
    def size(self) -> int:
        if not self._size:
            largest = int(np.maximum.reduce(self.values.view(np.uint64)))
            within = largest if largest < 1 << 63 else max(int(self.values.max()), -int(self.values.min()))
            self._size = 1 + within
        return self._size


class Together:
    """A scan as a function of a world, the table of its keys, where they stand there (no two in one place), how many
    there are, and columns of its other fields.  How the atoms came out the last time is tried first: a version says
    None where they come out in another way."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.atoms = scan.atoms()
        self.look = function_from("look", _Look(scan, self.atoms).source())
        self.versions: dict[Case, Callable[..., Any]] = {}
        self.last: Case | None = None
        self.tries = 0

    def __call__(self, world: World, table: Table, at: Any, count: int, *columns: Column) -> bool:
        given = (world, table, at, count, *columns)
        reach = None if self._looks_again() else self.version(self.last)(*given)
        if reach is None:
            self.last = self.look(*given)
            reach = None if self.last is None else self.version(self.last)(*given)
        if reach is None or reach is False:
            return False
        table.reach = max(table.reach, reach)
        return True

    def _looks_again(self) -> bool:
        """Where entries differed they may be alike now, and judged faster."""
        self.tries += 1
        return self.last is None or (None in self.last and self.tries % LOOK_AGAIN == 0)

    def version(self, case: Any) -> Callable[..., Any]:
        found = self.versions.get(case)
        if found is None:
            known = {atom.key(): same for atom, same in zip(self.atoms, case, strict=True) if same is not None}
            atoms = [atom for atom, same in zip(self.atoms, case, strict=True) if same is not None]
            source = _Version(self.scan.where(known), self.scan, {atom: known[atom.key()] for atom in atoms})
            found = self.versions[case] = function_from("scan", source.source())
        return found


class Source:
    """Text of a function.  Names: `v_` gathered cells, `a_` what is the same for all entries, `s_` what is needed
    twice, `t_` results; `T` the table, `k` places in it."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.names: dict[tuple[Any, ...], str] = {}
        self.lines: list[str] = []

    def function(self, name: str, ends: Sequence[str]) -> str:
        names = [name for name in self.scan.fields if name != self.scan.key]
        fields = "".join(f", c_{name}" for name in names)
        head = [f"e_{name} = c_{name}.values" for name in names]
        lines = [f"def {name}(W, T, k, n{fields}):  # {self.scan.event}"]
        return "\n".join([*lines, *("    " + line for line in [*head, *self.lines, *ends])]) + "\n"

    def constants(self, terms: Sequence[Term]) -> None:
        for term in largest(terms, lambda part: not varies(part) and part.sort.name in _PLAIN):
            if term.op == "const":
                self.names[term.key()] = repr(term.args[0])
            elif term.key() not in self.names:
                name = f"a_{len(self.lines)}"
                self.lines.append(f"{name} = {text_of(term)}")
                self.names[term.key()] = name

    def gathered(self, terms: Iterable[Term]) -> None:
        """Cells, once each."""
        for part in (part for term in terms for part in walk(term) if cell_of(part) is not None and varies(part)):
            if part.key() not in self.names:
                name = cell_of(part)
                self.lines.append(f"v_{name} = T.at_{name}[k]")
                self.names[part.key()] = f"v_{name}"

    def shared(self, terms: Iterable[Term]) -> None:
        counts: Counter[tuple[Any, ...]] = Counter()
        first: dict[tuple[Any, ...], Term] = {}
        for part in (part for term in terms for part in walk(term)):
            if part.op in OPERATORS and part.key() not in self.names and varies(part):
                counts[part.key()] += 1
                first.setdefault(part.key(), part)
        shared = [first[key] for key, count in counts.items() if count > 1]
        for part in sorted(shared, key=lambda term: sum(1 for _ in walk(term))):
            name = f"s_{len(self.lines)}"
            self.lines.append(f"{name} = {self.text(part)}")
            self.names[part.key()] = name

    def text(self, term: Term) -> str:
        name = self.names.get(term.key())
        return name if name is not None else self._text(term)

    def _text(self, term: Term) -> str:
        op, args = term.op, term.args
        if op == "const":
            return repr(args[0])
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

    def bounds(self, scan: Scan, asked: Sequence[Term] = ()) -> str:
        """Nothing is computed that might not fit, of the scan and of what else is asked; what the table may reach
        then."""
        terms = [*scan.terms, *asked]
        parts = [part for term in terms for part in walk(term) if part.op in _GROWS and varies(part)]
        whole, total = _most(map(self._size, parts)), _most(map(self._size, scan.added.values()))
        cells = [self._size(cell) for cell in scan.cells.values() if cell.sort.name == "Int"]
        for name in sorted({name for size in (whole, total, *cells) for product in size for name in product}):
            self.lines.append(f"m_{name} = {self._magnitude(name)}")
        self.lines.append(f"reach = {_largest_of(['0', *map(_polynomial, cells)])}")
        limits = ["reach", *(text for text in (_polynomial(whole), _polynomial(total, "n * ")) if text)]
        self.lines += [f"if {_largest_of(limits)} >= ROOM:", "    return None"]
        return "reach"

    @staticmethod
    def _magnitude(name: str) -> str:
        if name.startswith("e_"):
            return f"c_{name[2:]}.size"
        return "T.reach" if name == "cell" else f"max(1, abs({name}))"

    def _size(self, term: Term) -> Size:
        op, args = term.op, term.args
        if op == "const":
            return {(): max(1, abs(args[0]))}
        if not varies(term):
            return {(self.names[term.key()],): 1}
        if op == "field":
            return {(f"e_{args[0]}",): 1}
        if op == "select":
            return {("cell",): 1}
        left, right = (self._size(part) for part in args[-2:])
        if op in ("add", "sub"):
            return {product: left.get(product, 0) + right.get(product, 0) for product in {**left, **right}}
        if op == "mul":
            return _most({tuple(sorted(p + q)): left[p] * right[q]} for p in left for q in right)
        return _most((left, right))

    def demands(self) -> list[str]:
        """All guards at once: most often all of them hold."""
        alike: list[str] = []
        each: list[str] = []
        for guard in self.scan.guards:
            condition, then = guard.condition, self.text(guard.then)
            if guard.then.op == "const" and guard.then.args[0]:
                continue
            if condition is not None and condition.op == "const":
                if not condition.args[0]:
                    continue
                condition = None
            text = then if condition is None else f"({self.text(condition)} <= {then})"
            mixed = varies(guard.then) or (condition is not None and varies(condition))
            (each if mixed else alike).append(text)
        alike += [f"count_nonzero({' & '.join(each)}) == n"] if each else []
        return [f"if not ({' and '.join(alike)}):", "    return False"] if alike else []

    def writes(self) -> list[str]:
        """Cells last: gathered columns may be views of them, and are where places follow on each other; what is added
        to a cell is added there then."""
        scan, values, written = self.scan, ["X = W.exercised", "seen = type(k) is slice"], []
        for number, (name, cell) in enumerate(scan.cells.items()):
            if cell_of(cell) == name:
                continue  # it stays as it was
            text = self.text(cell)
            if cell.op in ("add", "sub") and cell_of(cell.args[0]) == name and not text.isidentifier():
                sign, more = _SIGNS[cell.op], self._ready(cell.args[1], f"d_{number}", values)
                written += [f"v_{name} {sign}= {more}", "if not seen:", f"    T.at_{name}[k] = v_{name}"]
                continue
            if text.startswith("v_") or not text.isidentifier():
                values.append(f"t_{number} = {text}{'.copy()' if text.startswith('v_') else ''}")
                text = f"t_{number}"
            lines = [f"T.at_{name}[k] = {text}"]
            if scan.sorts[name].name == "Set":
                lines.append(f"W.{name}.size = None")
                if text == "False":  # most often nobody is in it
                    lines = [f"if W.{name}.size != 0:", *("    " + line for line in lines)]
            written += lines
        values += [f"X[{guard.number}] += {self._times(guard.condition)}" for guard in scan.guards]
        for name, term in scan.added.items():
            text = self.text(term)
            if text != "0":
                values.append(f"W.{name} += " + (f"int({text}.sum())" if varies(term) else f"n * {text}"))
        values += [f"W.{name} = {self.text(term)}" for name, term in scan.assigned.items()]
        return [*values, *written]

    def _ready(self, term: Term, name: str, lines: list[str]) -> str:
        """What it is before anything is written."""
        text = self.text(term)
        if not varies(term):
            return text
        lines.append(f"{name} = {text}{'.copy()' if text.startswith('v_') else ''}")
        return name

    def _times(self, condition: Term | None) -> str:
        """How many entries exercise a guard."""
        if condition is None:
            return "n"
        text = self.text(condition)
        return f"int(count_nonzero({text}))" if varies(condition) else f"(n if {text} else 0)"


class _Look(Source):
    """None if a number might not fit; else how the atoms come out."""

    def __init__(self, scan: Scan, atoms: Sequence[Term]) -> None:
        super().__init__(scan)
        self.atoms = atoms

    def source(self) -> str:
        self.constants(self.scan.terms)
        self.bounds(self.scan)
        self.gathered(self.atoms)
        self.shared(self.atoms)
        cases = "".join(f"same({self.text(atom)}, n), " for atom in self.atoms)
        return self.function("look", [f"return ({cases})"])


class _Version(Source):
    """None if a number might not fit, or the atoms come out in another way; the guards; and if all hold the effects,
    and what the tables may reach then.  `whole`: the scan before anything was folded."""

    def __init__(self, scan: Scan, whole: Scan, atoms: Mapping[Term, bool]) -> None:
        super().__init__(scan)
        self.whole = whole
        self.atoms = atoms

    def source(self) -> str:
        scan, whole = self.scan, self.whole
        self.constants([*whole.terms, *scan.terms, *scan.assigned.values()])
        reach = self.bounds(whole)
        self.gathered([*self.atoms, *scan.terms])
        self.shared([*self.atoms, *scan.terms])
        ends = [*self._cases(), *self.demands(), *self.writes(), f"W.events[{scan.event!r}] += n"]
        return self.function("scan", [*ends, f"return {reach}"])

    def _cases(self) -> list[str]:
        each = [self.text(atom) if same else f"(~{self.text(atom)})" for atom, same in self.atoms.items()]
        return [f"if count_nonzero({' & '.join(each)}) != n:", "    return None"] if each else []


def _most(sizes: Iterable[Size]) -> Size:
    """At least as large as each of them."""
    found: Size = {}
    for size in sizes:
        for product, factor in size.items():
            found[product] = max(found.get(product, 0), factor)
    return found


def _polynomial(size: Size, factor: str = "") -> str:
    parts = (" * ".join([str(times), *(f"m_{v}" for v in p)]) for p, times in size.items())
    text = " + ".join(parts)
    return f"{factor}({text})" if text else ""


def _largest_of(texts: Iterable[str]) -> str:
    parts = sorted(set(texts))
    return parts[0] if len(parts) == 1 else f"max({', '.join(parts)})"


# --- functions --------------------------------------------------------------------------------------------


@cache
def function_of(scan: Scan) -> Together:
    return Together(scan)


def function_from(name: str, source: str) -> Callable[..., Any]:
    if source not in _FUNCTIONS:
        given = {"where": np.where, "count_nonzero": np.count_nonzero, "ROOM": ROOM, "same": same}
        _FUNCTIONS[source] = defined(name, source, given)
    return _FUNCTIONS[source]


_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def same(column: Any, count: int) -> bool | None:
    """What all of a column say; None if they differ."""
    true = np.count_nonzero(column)
    return True if true == count else None if true else False


def column_of(values: Any, kind: str) -> Column:
    """A column of Python values for numpy.  OverflowError where 64 bits do not do."""
    if kind == "Int":
        return Column(np.frombuffer(values if isinstance(values, array) else array("q", values), np.int64))
    try:
        return Column(np.frombuffer(bytes(values), np.uint8) != 0)
    except (TypeError, ValueError):
        return Column(np.fromiter(map(bool, values), np.bool_, len(values)))
