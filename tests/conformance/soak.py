"""The soak: run after run for hours, each from its number and the seed alone.

Every forty runs there is a large world, four medium ones, four scenarios that are varied, two in which Hypothesis draws
the operations, and tiny ones: those find most, and the large one, which comes last, has most of the pairs.  A failure
is shortened and kept at once, and the search goes on: of what fails again only how often is counted.  A run ends where
a MUST breaks; a rule that has ended many of them is passed over in every second run from then on, and what breaks
behind it counts only if it breaks without it, too.

Memory stays flat: of a run that is over nothing is kept but counts.
"""

import gc
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import Factory, define, evolve, field

from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Policy

from .behind import MOST_TRIES as MOST_TRIES_BEHIND
from .behind import by_itself, explained_by, go_on
from .crowds import LARGE, MEDIUM, crowd
from .driver import Driver
from .names import counted
from .negotiate import negotiated
from .script import Contradiction, Script
from .variations import varied
from .walks import walk

if TYPE_CHECKING:
    from .check import Check

Kind = Literal["tiny", "varied", "drawn", "medium", "large"]
KINDS: tuple[Kind, ...] = ("tiny", "varied", "drawn", "medium", "large")
PERIOD = 40
RUNS_PER_SEED = 1_000_000_007
EXAMPLES = 5
STEPS = 30
TINY_OBSERVES_EVERY = 8
MOST_ROUNDS: Mapping[Kind, int | None] = {"tiny": None, "varied": None, "medium": 1_000, "large": 1_500}
RUNS_UNTIL_PASSED_OVER = 20
SHRINK_BEHIND_S = 3.0
SHOW_EVERY_S = 0.5
MEASURE_EVERY_S = 10.0
ROUNDS_UNTIL_SETTLED = 5
MIB = 1 << 20


def kind_of(number: int) -> Kind:
    place = number % PERIOD
    if place == PERIOD - 1:
        return "large"
    if place % 20 == 10:
        return "drawn"
    if place % 10 == 5:
        return "medium"
    return "varied" if place % 10 == 2 else "tiny"


def seed_of(seed: int, number: int) -> int:
    """That of a run: from the seed of the soak and its number alone."""
    return seed * RUNS_PER_SEED + number


def script_of(seed: int, number: int, policies: tuple[Policy, ...]) -> Script:
    """Of a run that is not drawn by Hypothesis."""
    kind = kind_of(number)
    if kind == "tiny":
        return walk(seed_of(seed, number), policies)
    if kind == "varied":
        return varied(seed_of(seed, number), policies)
    return crowd(seed_of(seed, number), LARGE if kind == "large" else MEDIUM, policies)


@define
class Tally:
    """Of one kind of run: `seconds` of this thread's own time."""

    runs: int = 0
    pairs: int = 0
    steps: int = 0
    seconds: float = 0.0


@define
class Memory:
    """What the process held, in bytes: when every kind of run had come a few times (or at the first look), at last,
    and at most."""

    first: int = 0
    last: int = 0
    most: int = 0

    def look(self, *, settled: bool) -> None:
        self.last = resident_bytes()
        self.most = max(self.most, self.last)
        if not settled or not self.first:
            self.first = self.last


@define(eq=False)
class Soak:
    """`failed`: conjunct -> how many runs broke it, `first`: the number of the first that did; `ended`: rule -> runs
    that it ended; `behind`: rule -> how often it was tried whether it breaks alone."""

    check: "Check"
    tallies: dict[Kind, Tally] = Factory(lambda: {kind: Tally() for kind in KINDS})
    failed: Counter[str] = Factory(Counter)
    first: dict[str, int] = Factory(dict)
    ended: Counter[str] = Factory(Counter)
    behind: Counter[str] = Factory(Counter)
    memory: Memory = Factory(Memory)
    policies: tuple[Policy, ...] = ()
    _begun: float = field(factory=time.monotonic)
    _shown: float = 0.0
    _measured: float = 0.0

    def run(self, seconds: float) -> None:
        self.policies = self.check.honoured_policies()
        try:
            with rare_collections():
                for number in count():
                    if self.check.is_enough() or time.monotonic() - self._begun > seconds:
                        break
                    self.run_one(number)
                    self._look(number, seconds)
        finally:
            self._tell()
        self.check.progress("soak", 1.0, self.in_short())

    def run_alone(self, number: int) -> None:
        """One run of a soak as it was, without those before it."""
        self.policies = self.check.honoured_policies()
        self.run_one(number)
        self._tell()

    def run_one(self, number: int) -> None:
        kind, begun = kind_of(number), time.thread_time()
        past = self._passed_over(number)
        if kind == "drawn":
            self._draw(number)
        else:
            script = script_of(self.check.seed, number, self.policies)
            with suppress(Contradiction):  # with the settings that every run has
                driver = negotiated(self.check.start, script.settings, self.check.findings.refused_settings)
                driver.ignored |= past
                self._drive(driver, script, kind)
                self._count(driver, number, past)
        self.tallies[kind].runs += 1
        self.tallies[kind].seconds += time.thread_time() - begun
        self.check.shorten_new()
        gc.collect(2 if kind == "large" else 0)

    @staticmethod
    def _drive(driver: Driver, script: Script, kind: Kind) -> None:
        driver.keep_messages = False
        driver.observe_every = TINY_OBSERVES_EVERY
        go_on(driver, script, MOST_ROUNDS[kind])

    def _draw(self, number: int) -> None:
        self.check.drawn(self.policies).run(
            lambda driver: self._count(driver, number, frozenset()),
            examples=EXAMPLES,
            seed_value=seed_of(self.check.seed, number),
            steps=STEPS,
        )

    def _count(self, driver: Driver, number: int, past: frozenset[str]) -> None:
        tally = self.tallies[kind_of(number)]
        tally.pairs += driver.ear.pairs
        tally.steps += driver.ear.steps
        if past and driver.went_past:
            self._look_behind(driver, past)
            return
        self.check.findings.add(driver, f"soak: run {number} of seed {self.check.seed}")
        broken = [*driver.broken, *(violation for violation, _ in driver.advice.values())]
        for conjunct in {violation.conjunct for violation in broken}:
            if not self.check.findings.known_by(conjunct):
                self.failed[conjunct] += 1
                self.first.setdefault(conjunct, number)
        self.ended.update({violation.rule for violation in driver.broken})

    # --- behind what breaks again and again --------------------------------------------------------------

    def _passed_over(self, number: int) -> frozenset[str]:
        """With whatever breaks where they do: by the catalogue, or as it turned out."""
        often = self._often_ended()
        if number % 2 or self.check.alone is not None or not often:
            return frozenset()
        follows = {rule for rule, tries in self.behind.items() if tries >= MOST_TRIES_BEHIND}
        return explained_by(often) | follows

    def _often_ended(self) -> list[str]:
        return sorted(rule for rule, runs in self.ended.items() if runs >= RUNS_UNTIL_PASSED_OVER)

    def _look_behind(self, driver: Driver, past: frozenset[str]) -> None:
        """What breaks after a broken state may be its consequence: it counts if a shorter run breaks it first."""
        findings = self.check.findings
        for violation in driver.broken:
            rule = violation.rule
            if rule in findings.broken or self.behind[rule] >= MOST_TRIES_BEHIND:
                continue
            self.behind[rule] += 1
            script, together = evolve(driver.script, ops=tuple(driver.ops)), frozenset(v.rule for v in driver.broken)
            alone = by_itself(self.check, script, violation, together, past, SHRINK_BEHIND_S)
            if alone is not None:
                findings.add(alone, f"soak, behind {', '.join(self._often_ended())}")
                self.failed[violation.conjunct] += 1

    # --- saying it ---------------------------------------------------------------------------------------

    def _look(self, number: int, seconds: float) -> None:
        now = time.monotonic()
        if now - self._shown > SHOW_EVERY_S:
            self._shown = now
            self.check.progress("soak", min(1.0, (now - self._begun) / seconds), self.in_short())
        if now - self._measured > MEASURE_EVERY_S:
            self._measured = now
            self.memory.look(settled=number > ROUNDS_UNTIL_SETTLED * PERIOD)

    @property
    def runs(self) -> int:
        return sum(tally.runs for tally in self.tallies.values())

    @property
    def pairs(self) -> int:
        return sum(tally.pairs for tally in self.tallies.values())

    @property
    def pairs_per_s(self) -> float:
        return self.pairs / max(1e-9, sum(tally.seconds for tally in self.tallies.values()))

    def in_short(self) -> str:
        must = sorted({c.rpartition(".")[0] for c in self.failed if _is_must(c)})
        failed = (
            f"{len(must)} MUST broken ({', '.join(must[:4])}{', …' if len(must) > 4 else ''})" if must else "0 failures"
        )
        return f"{counted(self.runs, 'run')}, {counted(self.pairs, 'pair')}, {self.pairs_per_s:,.0f} pairs/s, {failed}"

    def _tell(self) -> None:
        self.memory.look(settled=True)
        self.check.findings.searched = self.as_json()

    def as_json(self) -> dict[str, Any]:
        """Rates are per second of this thread: what else a machine does is not counted."""
        return {
            "kind": "soak",
            "seed": self.check.seed,
            "runs": self.runs,
            "pairs": self.pairs,
            "pairs_per_s": round(self.pairs_per_s),
            "sizes": {
                kind: {
                    "runs": tally.runs,
                    "pairs": tally.pairs,
                    "steps": tally.steps,
                    "seconds": round(tally.seconds, 3),
                }
                for kind, tally in self.tallies.items()
            },
            "failed": {c: {"runs": n, "first_run": self.first.get(c)} for c, n in self.failed.most_common()},
            "passed_over": self._often_ended(),
            "memory_mib": {
                "when_settled": round(self.memory.first / MIB, 1),
                "at_the_end": round(self.memory.last / MIB, 1),
                "most": round(self.memory.most / MIB, 1),
            },
        }


def _is_must(conjunct: str) -> bool:
    return registry.rules[conjunct.rpartition(".")[0]].level == "MUST"


@contextmanager
def rare_collections() -> Iterator[None]:
    """What stands before the first run is never looked at again, and what a run leaves behind only when it is over."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def resident_bytes() -> int:
    """What the process holds now; where that is not told, what it held at most."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
