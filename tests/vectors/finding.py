"""Looking for the vectors of a rule: a run that exercises it on the reference, and one that breaks it on its seeded
fault, each made short.

Directed scenarios come first, then random walks.  Nothing depends on how fast the machine is: candidates are counted.
"""

from collections.abc import Callable, Iterator
from math import inf

from attrs import evolve, frozen

from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import Script
from schedspec.conformance.shrink import Shrinker, Target, script_size
from schedspec.conformance.walks import walk
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Unsupported

from .records import Snapshots, Vector, Verdict, factory_of, judge, trace_of

WALKS = 4_000
TRIES = 1_200
WORK = 60_000
"""So many candidates are run, and of long scripts fewer: so many operations, if none got shorter."""
SNAPSHOTS: tuple[Snapshots, ...] = ("none", "last", "all")


@frozen
class Exercised(Target):
    """What must stay: the precondition of a rule holds, and no rule is broken."""

    is_clean: bool = True

    def is_hit_by(self, driver: Driver) -> bool:
        if driver.over or self.conjunct in driver.advice or (self.is_clean and driver.advice):
            return False
        return bool(driver.monitor.exercised()[self.conjunct]) and binds(self.conjunct, driver)


def binds(rule: str, driver: Driver) -> bool:
    return registry.missing(rule, driver.header.capabilities) is None


class Draining(Shrinker):
    """Each candidate runs until everybody has ended; what that took is no part of it."""

    def _run(self, script: Script) -> Driver | None:
        driver = super()._run(script)
        if driver is not None:
            driver.drain()
            del driver.ops[len(script.ops) :]
        return driver


def find(rule: str) -> list[Vector]:
    """The same ones every time.  The reference answers the script that its fault fails on, where that exercises the
    rule: then the two traces differ in what is right and wrong, and in nothing else."""
    failing = _found(rule, "fail")
    passing = None if failing is None else _answered_rightly(failing)
    return [vector for vector in (passing or _found(rule, "pass"), failing) if vector is not None]


def _answered_rightly(failing: Vector) -> Vector | None:
    vector = Vector(failing.rule, "pass", "reference", failing.script, failing.ends)
    found = (_target("reference", vector.script, vector.ends, wanted) for wanted in _wanted(vector.rule, "pass"))
    return _with_few_snapshots(vector) if any(found) else None


def _found(rule: str, verdict: Verdict) -> Vector | None:
    subject = "reference" if verdict == "pass" else f"fault:{rule}"
    for ends in (False, True):
        for wanted in _wanted(rule, verdict):
            found = _smallest(subject, rule, ends, wanted)
            if found is not None:
                return _with_few_snapshots(Vector(rule, verdict, subject, _short(found, subject, ends, wanted), ends))
    return None


Wanted = Callable[[Driver], Target | None]


def _wanted(rule: str, verdict: Verdict) -> Iterator[Wanted]:
    """What a run must show, the better kind first."""
    if verdict == "fail":
        yield lambda driver: Target.of(driver, rule) if driver.breaks_of(rule) else None
        return
    for target in (Exercised(rule, frozenset()), Exercised(rule, frozenset(), is_clean=False)):
        yield lambda driver, target=target: target if target.is_hit_by(driver) else None  # type: ignore[misc]


def _smallest(subject: str, rule: str, ends: bool, wanted: Wanted) -> Script | None:
    """The smallest of the directed scenarios, those made for the rule before others; else the first walk."""
    every = sorted(scenarios(0), key=lambda scenario: rule not in scenario.shows)
    made = [s.script for s in every if rule in s.shows]
    for scripts in (made, [s.script for s in every if rule not in s.shows]):
        hits = [script for script in scripts if _target(subject, script, ends, wanted)]
        if hits:
            return min(hits, key=script_size)
    return next((s for s in map(walk, range(WALKS)) if _target(subject, s, ends, wanted)), None)


def _target(subject: str, script: Script, ends: bool, wanted: Wanted) -> Target | None:
    try:
        driver = Driver.start(factory_of(subject), script.settings, script.seed)
    except (Unsupported, ProtocolError, ValueError):
        return None
    driver.run(script.ops)
    if ends:
        driver.drain()
    return wanted(driver)


def _short(script: Script, subject: str, ends: bool, wanted: Wanted) -> Script:
    target = _target(subject, script, ends, wanted)
    assert target is not None
    kind = Draining if ends else Shrinker
    return kind(factory_of(subject), script, target, inf, most_tries=min(TRIES, 100 + WORK // len(script.ops))).shrink()


def _with_few_snapshots(vector: Vector) -> Vector:
    """The fewest with which it is judged as with all of them."""
    whole = judge(trace_of(vector))
    for snapshots in SNAPSHOTS:
        fewer = evolve(vector, snapshots=snapshots)
        judged = judge(trace_of(fewer))
        if vector.verdict == "pass" and judged.exercised[vector.rule] and judged.first.keys() == whole.first.keys():
            return fewer
        if vector.verdict == "fail" and vector.rule in judged.first:
            return fewer
    return vector
