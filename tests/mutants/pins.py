"""What pins each guard and effect that history alone pins by a proof: a clean run that would raise a false alarm, or a
planted fault that would go by.

`python tests/mutants/pins.py` looks for them and writes `pins.json` beside this file and `spec/PINS.md`; the test
deletes each conjunct again and sees that it shows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from attrs import evolve
from tests.mutants.traces import Run, corpus, faulty, faulty_scenario, late_spares, mutated

from schedspec.conformance.scenarios import scenarios
from schedspec.proofs.manifest import read
from schedspec.proofs.pins import Pin, Table, from_proofs, joined, unpinned
from schedspec.reference.faults import FAULTS
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct

STORED = Path(__file__).with_name("pins.json")
SHOWN = Path(__file__).parents[2] / "spec" / "PINS.md"
MUTATIONS = 20_000
RUNS_PER_FAULT = 30
SCENARIOS = tuple(n for n, s in enumerate(scenarios(0)) if not s.script.settings.pools.are_two)

Broken = tuple[int, frozenset[str]]
"""The first message that breaks anything but LIVE-11, and the conjuncts that fail in it."""


def first_broken(run: Run, dropped: str | None = None) -> Broken | None:
    """None: nothing breaks.  A message that cannot be read counts as none: the protocol caught it."""
    monitor = Monitor(run.header, dropped=dropped)
    if run.left_out:
        monitor.program = evolve(monitor.program, one=_Without(monitor.program.one, run.left_out))
    try:
        for number, message in enumerate(run.messages, start=1):
            broken = frozenset(v.conjunct for v in monitor.feed(message) if v.rule != "LIVE-11")
            if broken:
                return number, broken
    except ProtocolError:
        return None
    return None


class _Without(dict[str, Callable[..., None]]):
    """The functions of a program, without one."""

    def __init__(self, functions: Mapping[str, Callable[..., None]], left_out: str) -> None:
        super().__init__({left_out: lambda *fields: None})
        self.functions = functions

    def __missing__(self, event: str) -> Callable[..., None]:
        return self.functions[event]


def shows(conjunct: Conjunct, run: Run) -> bool:
    """Without the conjunct the run is judged otherwise: another message, or other rules."""
    with_it, without = _as_rules(first_broken(run)), _as_rules(first_broken(run, conjunct.name))
    return with_it != without


def _as_rules(broken: Broken | None) -> tuple[int, frozenset[str]] | None:
    return None if broken is None else (broken[0], frozenset(name.rpartition(".")[0] for name in broken[1]))


def conjuncts() -> Iterator[Conjunct]:
    return (c for c in registry.conjuncts if c.event is not None)


# --- looking for pins ------------------------------------------------------------------------------------------


def clean_pin(conjunct: Conjunct) -> Pin | None:
    """The first clean run that raises a false alarm without the effect."""
    if conjunct.kind != "effect":
        return None
    for number, run in enumerate(corpus()):
        if first_broken(run, conjunct.name) is not None:
            return Pin("clean run", str(number), conjunct.event or "")
    return None


def fault_pins(wanted: Iterable[Conjunct]) -> Table:
    """For each conjunct the first planted fault that is judged otherwise without it."""
    table: Table = {}
    todo = {conjunct.name: conjunct for conjunct in wanted}
    for name, run in _planted():
        broken = first_broken(run)
        for conjunct in list(todo.values()):
            if _may_matter(conjunct, broken) and shows(conjunct, run):
                table[conjunct.name] = [Pin("fault", name, conjunct.event or "")]
                del todo[conjunct.name]
        if not todo:
            break
    return table


def _may_matter(conjunct: Conjunct, broken: Broken | None) -> bool:
    """A guard matters only where it fails."""
    return conjunct.kind == "effect" or (broken is not None and conjunct.name in broken[1])


def _planted() -> Iterator[tuple[str, Run]]:
    for rule in FAULTS:
        for number in SCENARIOS:
            yield f"fault:{rule} scenario {number}", faulty_scenario(rule, number)
        for seed in range(RUNS_PER_FAULT):
            yield f"fault:{rule} seed {seed}", faulty(rule, seed)
    for seed in range(RUNS_PER_FAULT):
        yield f"late-spares {seed}", late_spares(seed)
    for seed in range(MUTATIONS):
        yield f"mutation {seed}", mutated(seed)
    for number, run in enumerate(corpus()):
        yield f"without-Grown {number}", evolve(run, left_out="Grown")


@cache
def planted(name: str) -> Run:
    """The run that a pin names."""
    kind, _, rest = name.partition(" ")
    if kind == "mutation":
        return mutated(int(rest))
    if kind == "late-spares":
        return late_spares(int(rest))
    if kind == "without-Grown":
        return evolve(corpus()[int(rest)], left_out="Grown")
    how, _, number = rest.partition(" ")
    build = faulty_scenario if how == "scenario" else faulty
    return build(kind.partition(":")[2], int(number))


def found() -> Table:
    """All pins that no proof about states gives: what is said of history is no part of what the monitor compiles."""
    proved = {name: [pin for pin in pins if ".h" not in pin.by] for name, pins in from_proofs(read()).items()}
    table: Table = {}
    for conjunct in conjuncts():
        pin = None if proved.get(conjunct.name) else clean_pin(conjunct)
        if pin is not None:
            table[conjunct.name] = [pin]
    open_ones = [c for c in conjuncts() if not proved.get(c.name) and not table.get(c.name)]
    return joined((table, fault_pins(open_ones)))


# --- storing and showing them ----------------------------------------------------------------------------------


def stored() -> Table:
    plain = json.loads(STORED.read_text())
    return {name: [Pin(*pin) for pin in pins] for name, pins in plain.items()}


def write(table: Table) -> None:
    plain = {name: [[pin.kind, pin.by, pin.event] for pin in pins] for name, pins in sorted(table.items())}
    STORED.write_text(json.dumps(plain, indent=0) + "\n")
    SHOWN.write_text("\n".join(page(joined((from_proofs(read()), table)))) + "\n")


def page(table: Table) -> Iterator[str]:
    yield "# What pins each guard and effect"
    yield ""
    yield "Written by `python tests/mutants/pins.py`. A conjunct is pinned by a *proof* that breaks when it is deleted,"
    yield "by a *clean run* that then raises a false alarm, or by a planted *fault* that then goes by. An *implied* one"
    yield "follows from the others: it gives a failure its name."
    yield ""
    yield "| conjunct | on | formula | pinned by |"
    yield "| --- | --- | --- | --- |"
    for conjunct in conjuncts():
        pins = "; ".join(f"{pin.kind}: {pin.by}" for pin in table.get(conjunct.name, ())[:3]) or "**nothing**"
        formula = printed(conjunct.term, registry.names).replace("|", "\\|")
        yield f"| {conjunct.name} | {conjunct.event} | {formula} | {pins} |"


if __name__ == "__main__":
    table = found()
    write(table)
    missing = unpinned(registry, joined((from_proofs(read()), table)))
    print(f"{len(table)} pins beside the proofs; pinned by nothing: {', '.join(missing) or 'none'}")
