"""What pins each guard and effect between two pools that no proof needs: a clean run that would raise a false alarm
without it, or a planted fault that would be judged otherwise.

`python -m tests.mutants.pins_of_transfers` looks for them in the scenarios of two pools, and writes
`pins_of_transfers.json`; the test deletes each conjunct again and sees that it shows.  What is in neither is `open`.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen
from tests.mutants.traces import Run

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import Script
from schedspec.proofs.manifest import read
from schedspec.reference import make
from schedspec.reference.faults import FAULTS, FOREIGN
from schedspec.spec.compiled import without
from schedspec.spec.errors import ProtocolError
from schedspec.spec.pooled import PooledMonitor
from schedspec.spec.registry import Conjunct
from schedspec.spec.transfers import registry
from schedspec.spec.vocabulary import SubjectFactory

STORED = Path(__file__).with_name("pins_of_transfers.json")
CLEAN = "clean"
SCRIPTS: dict[str, Script] = {s.name: s.script for s in scenarios(0) if s.script.settings.pools.are_two}

Broken = tuple[int, frozenset[str]]


@frozen
class Pin:
    """`by`: `clean`, fault:RULE or foreign:WHAT; `scenario`: where."""

    by: str
    scenario: str


def subject(by: str) -> SubjectFactory:
    kind, _, rest = by.partition(":")
    if by == CLEAN:
        return make
    return FAULTS[rest] if kind == "fault" else FOREIGN[rest][1]


@cache
def run_of(pin: Pin) -> Run:
    script = SCRIPTS[pin.scenario]
    driver = Driver.start(subject(pin.by), script.settings, script.seed)
    driver.run(script.ops)
    driver.drain()
    return Run(driver.header, tuple(driver.messages))


def first_broken(run: Run, dropped: str | None = None) -> Broken | None:
    """The first message that breaks anything, and the conjuncts that fail in it.  One that cannot be read is none."""
    monitor = PooledMonitor(run.header)
    if dropped:
        monitor.program = without(monitor.program, dropped)
    try:
        for number, message in enumerate(run.messages, start=1):
            if broken := frozenset(one.conjunct for one in monitor.feed(message)):
                return number, broken
    except ProtocolError:
        return None
    return None


def shows(name: str, run: Run) -> bool:
    """Without the conjunct another message, or other rules, are what breaks first."""
    return _as_rules(first_broken(run)) != _as_rules(first_broken(run, name))


def _as_rules(broken: Broken | None) -> tuple[int, frozenset[str]] | None:
    return None if broken is None else (broken[0], frozenset(name.rpartition(".")[0] for name in broken[1]))


def wanted() -> dict[str, Conjunct]:
    """Those that no proof breaks without, and that do not follow from the others."""
    known = {mutant.conjunct for mutant in read().mutants if mutant.theory == "transfers" and _is_pinned(mutant)}
    return {one.name: one for one in registry.conjuncts if one.event is not None and one.name not in known}


def _is_pinned(mutant: object) -> bool:
    return bool(mutant.breaks) or mutant.expected == "implied"  # type: ignore[attr-defined]


def tried() -> Iterator[Pin]:
    faults = [f"fault:{rule}" for rule in FAULTS if rule.startswith("XFER") or rule == "KV-9"]
    for by in (CLEAN, *faults, *(f"foreign:{what}" for what in FOREIGN)):
        for scenario in SCRIPTS:
            yield Pin(by, scenario)


def found() -> dict[str, Pin]:
    todo, pins = wanted(), dict[str, Pin]()
    for pin in tried():
        run = run_of(pin)
        broken = first_broken(run)
        if broken is None and pin.by != CLEAN:
            continue
        for name, conjunct in list(todo.items()):
            may_show = conjunct.kind == "effect" or (broken is not None and name in broken[1])
            if may_show and shows(name, run):
                pins[name] = pin
                del todo[name]
    return pins


def stored() -> tuple[dict[str, Pin], list[str]]:
    plain = json.loads(STORED.read_text(encoding="utf-8"))
    return {name: Pin(*pin) for name, pin in plain["pins"].items()}, plain["open"]


def main() -> None:
    pins = found()
    left = [name for name in wanted() if name not in pins]
    plain = {"pins": {name: [pin.by, pin.scenario] for name, pin in pins.items()}, "open": left}
    STORED.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    print(f"{len(pins)} pins beside the proofs; pinned by nothing: {', '.join(left) or 'none'}")


if __name__ == "__main__":
    main()
