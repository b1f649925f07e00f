"""What mutmut makes of the reference: every mutant as the text of a module with one change.

mutmut itself copies a tree and swaps functions by trampolines, which does not go with subpackages that are links; so
its operators are used, and each mutant is run by `mutation.py`.
"""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("reference/*.py", "reference/selection/*.py")
"""What decides when `schedspec check reference` runs; simulation, systems of the literature, reproductions and faults
have tests of their own."""
LEFT_OUT = ("reference/canonical.py",)
"""Decides nothing: which states are one to the search in small scopes (tests/unit/test_small_scope.py)."""


@frozen
class Mutant:
    """In the `source` of a module, from `start` to `end`, stands `new`; `line` is where, `number` its place among those
    of the module."""

    file: str
    number: int
    function: str
    line: int
    source: str
    start: int
    end: int
    new: str

    @property
    def text(self) -> str:
        return self.source[: self.start] + self.new + self.source[self.end :]

    @property
    def change(self) -> tuple[str, str]:
        """The lines that it is in, before and after, each as one."""
        first = self.source.rfind("\n", 0, self.start) + 1
        last = self.source.find("\n", self.end)
        head, tail = self.source[first : self.start], self.source[self.end : last]
        return _joined(self.source[first:last]), _joined(head + self.new + tail)

    @property
    def is_python(self) -> bool:
        try:
            ast.parse(self.text)
        except SyntaxError:
            return False
        return True

    @property
    def id(self) -> str:
        """Stays when other lines of the module move."""
        old, new = self.change
        return f"{self.file}:{self.function}: {old} -> {new}"

    @property
    def module(self) -> str:
        return "schedspec." + self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def files() -> list[Path]:
    every = sorted(path for part in PARTS for path in ROOT.glob(part))
    return [path for path in every if path.relative_to(ROOT).as_posix() not in LEFT_OUT]


def every_mutant() -> Iterator[Mutant]:
    for path in files():
        yield from mutants_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Those in functions, as mutmut has them.  Raises ImportError where it is not installed."""
    import libcst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from mutmut.mutation.file_mutation import MutationVisitor
    from mutmut.mutation.mutators import mutation_operators
    from mutmut.mutation.pragma_handling import get_ignored_lines

    wrapper = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    visitor = MutationVisitor(mutation_operators, get_ignored_lines(file, source, wrapper, None), None)
    wrapper.visit(visitor)
    places = wrapper.resolve(PositionProvider)
    lines, seen = source.splitlines(keepends=True), set()
    for number, mutation in enumerate(visitor.mutations):
        place = places.get(mutation.original_node)
        if place is None or mutation.contained_by_top_level_function is None:
            continue
        new = libcst.Module(body=()).code_for_node(mutation.mutated_node).strip()
        start, end = (_offset(lines, at) for at in (place.start, place.end))
        if (start, end, new) not in seen and source[start:end] != new:
            seen.add((start, end, new))
            name = getattr(mutation.contained_by_top_level_function, "name", None)
            yield Mutant(file, number, getattr(name, "value", "?"), place.start.line, source, start, end, new)


def _offset(lines: Sequence[str], at: Any) -> int:
    return sum(map(len, lines[: at.line - 1])) + int(at.column)


def _joined(text: str) -> str:
    return " ".join(text.split())


def sampled(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """So many, of each module as its share is, the same for the same seed."""
    strata: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        strata[mutant.file].append(mutant)
    wanted = shares({file: len(own) for file, own in strata.items()}, min(size, len(mutants)))
    drawn = (_drawn(random.Random(f"{seed} {file}"), strata[file], wanted[file]) for file in sorted(strata))
    return [mutant for own in drawn for mutant in own]


def _drawn(dice: random.Random, mutants: Sequence[Mutant], count: int) -> list[Mutant]:
    """Operators of mutmut may leave what is no Python: another one is drawn for it."""
    shuffled = dice.sample(mutants, len(mutants))
    return sorted(islice((mutant for mutant in shuffled if mutant.is_python), count), key=lambda mutant: mutant.number)


def shares(sizes: dict[str, int], size: int) -> dict[str, int]:
    """`size` in proportion; what is left over goes to the largest remainders."""
    whole = sum(sizes.values())
    given = {name: size * count // whole for name, count in sizes.items()}
    rest = sorted(sizes, key=lambda name: (-(size * sizes[name] % whole), name))
    for name in rest[: size - sum(given.values())]:
        given[name] += 1
    return given
