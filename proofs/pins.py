"""What pins each guard and effect: the evidence that it can neither be lost nor weakened unnoticed.

A proof pins what it needs; of the rest, an effect may be pinned by clean runs (without it, they raise a false
alarm), and anything by a planted fault that it alone catches.  The tables of those are joined here.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from attrs import frozen

from schedspec.spec.registry import Registry

from .manifest import Manifest, read

Kind = Literal["proof", "implied", "clean run", "fault"]


@frozen
class Pin:
    """`by`: the invariant, the run or the fault; `event`: where.

    An implied conjunct needs no other pin: the invariants and the other guards say it already.
    """

    kind: Kind
    by: str
    event: str


Table = dict[str, list[Pin]]


def from_proofs(manifest: Manifest | None = None) -> Table:
    """Conjunct -> its pins, as the manifest has them."""
    table: Table = {}
    for mutant in (m for m in (manifest or read()).mutants if m.theory == "engine"):
        table[mutant.conjunct] = [Pin("proof", invariant, mutant.event) for invariant in mutant.breaks]
        if mutant.expected == "implied":
            table[mutant.conjunct].append(Pin("implied", "the other guards and the invariants", mutant.event))
    return table


def joined(tables: Iterable[Mapping[str, list[Pin]]]) -> Table:
    whole: Table = {}
    for table in tables:
        for conjunct, pins in table.items():
            whole.setdefault(conjunct, []).extend(pins)
    return whole


def unpinned(registry: Registry, table: Mapping[str, list[Pin]]) -> list[str]:
    """The guards and effects that nothing pins."""
    return [c.name for c in registry.conjuncts if c.event is not None and not table.get(c.name)]
