"""The suite: judges one subject by scenarios, search, real arrivals and repeated runs, rule by rule.

`Check.run()` goes through stages; what it has found stands in `Check.findings` at any time, so that an interrupt or a
subject that dies leaves a report of what was seen until then.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import get_args

from attrs import Factory, define, evolve, frozen

from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Policy, Settings, SubjectFactory, Unsupported
from schedspec.spec.workloads import Workload

from .behind import Behind
from .determinism import Elsewhere, differs, rerun_here
from .driver import Driver, all_but
from .findings import INTERRUPTED, Failure, Findings, Known, RuleResult, exit_status, results
from .foresight import foretold
from .machine import Search
from .names import counted
from .negotiate import negotiated
from .replaying import SETTINGS, StepTime, replay_workload
from .scenarios import scenarios
from .script import Contradiction, Script, with_settings
from .shortening import Shortener
from .shrink import script_size
from .small_scope.cases import Case
from .small_scope.depth import SmallScope
from .soak import Soak
from .variations import varied
from .walks import walk

__all__ = [
    "DEPTHS",
    "INTERRUPTED",
    "Check",
    "Depth",
    "Failure",
    "Findings",
    "Known",
    "RuleResult",
    "exit_status",
    "results",
]

MOST_FAULTS = 3
FAULTY_SEARCHES = 2
"""After too many faults the scenarios go on as long as so many searches take: they show what holds besides."""
EXAMPLES_PER_ROUND = 10
WALKS_PER_ROUND = 100
WALKS_OBSERVE_EVERY = 8  # the shrinker looks after every call
WALKS_PER_VARIATION = 2
VARIATIONS_OBSERVE_EVERY = 2
STEPS_OF_ROUNDS = (24, 24, 60)
MOST_RERUN_SCRIPTS = 16
MOST_FORETOLD_SCRIPTS = 6
LONGEST_RERUN_OPS = 160


@frozen(kw_only=True)
class Depth:
    """How long each stage may take, in seconds; the search stops earlier when `examples` are through, the workload
    when it has ended (None: only then).  `reruns`: the DET rules are judged, which takes two more processes."""

    name: str
    search_s: float
    workload_s: float | None
    shrink_s: float
    examples: int
    reruns: bool = True


DEPTHS = {
    "smoke": Depth(name="smoke", search_s=0.3, workload_s=0.5, shrink_s=0.3, examples=25, reruns=False),
    "quick": Depth(name="quick", search_s=3.0, workload_s=1.5, shrink_s=4.0, examples=2_000),
    "standard": Depth(name="standard", search_s=60.0, workload_s=20.0, shrink_s=10.0, examples=30_000),
}


def soak(seconds: float) -> Depth:
    """Most of it is the search: a workload and the determinism take their time before and after it."""
    workload_s = min(20.0, seconds * 0.1)
    search_s = max(seconds * 0.5, seconds - workload_s - 20.0)
    return Depth(name="soak", search_s=search_s, workload_s=workload_s, shrink_s=20.0, examples=10**12)


def small_scope(seconds: float) -> Depth:
    return Depth(name="small-scope", search_s=seconds, workload_s=0.0, shrink_s=20.0, examples=0, reruns=False)


Progress = Callable[[str, float, str], None]


@define(kw_only=True)
class Check:
    """One subject, one seed, one depth.  `rerun` is the command of a second process for the DET rules, `pinned` are
    settings that every run has, `only` the rules that are judged, `stop_at` the rule whose break ends the search.
    `alone`: the one run of a soak that is made, by its number; `keep` is given each failure as soon as it is shortened,
    where a search goes on after it; `cases` are what a search in small scopes looks at; `command` is what was typed."""

    name: str
    factory: SubjectFactory
    seed: int
    depth: Depth
    mode: str = "shipped"
    workload: Workload | None = None
    step_time: StepTime = Factory(StepTime)
    rerun: Sequence[str] | None = None
    only: frozenset[str] = frozenset()
    pinned: Mapping[str, object] = Factory(dict)
    timeout_s: float = 10.0
    stop_at: str | None = None
    alone: int | None = None
    cases: Sequence[Case] = ()
    keep: Callable[[Failure], None] = lambda failure: None
    command: str = ""
    progress: Progress = lambda stage, part, note: None
    findings: Findings = Factory(Findings)
    seconds: float = 0.0
    _begun: float = Factory(time.monotonic)
    _scripts: list[Script] = Factory(list)
    _policies: tuple[Policy, ...] = ()
    _here: list[list[str]] = Factory(list)
    _behind: Behind | None = None
    _drawn: Search | None = None

    def run(self) -> Findings:
        """All stages.  Raises ProtocolError or Unsupported only if no subject can be made at all."""
        begun = self._begun = time.monotonic()
        self.findings.only = self.only
        try:
            if self.alone is not None:
                Soak(self).run_alone(self.alone)
            elif self.depth.name == "soak":
                self._soak()
            elif self.depth.name == "small-scope":
                SmallScope(self, self.cases, self.depth.search_s).run()
            else:
                self._stages()
            self.shorten_all()
        except KeyboardInterrupt:
            self.findings.interrupted = True
            Shortener(self).what_is_left()
        self.seconds = time.monotonic() - begun
        return self.findings

    def again(self, number: object) -> str:
        """The command that makes one run of a soak alone."""
        pinned = "".join(f" --setting {shlex.quote(f'{name}={value}')}" for name, value in self.pinned.items())
        only = "".join(f" --rule {rule}" for rule in sorted(self.only))
        subject = shlex.quote(self.name)
        return f"schedspec check {subject} --depth soak --seed {self.seed} --run {number}{pinned}{only}"

    def _stages(self) -> None:
        self.run_scenarios()
        self._search()
        self._replay_workload()
        self._determinism()

    def _soak(self) -> None:
        self.run_scenarios()
        self.shorten_new()
        self._replay_workload()
        self.shorten_new()
        Soak(self).run(self.depth.search_s)
        self._determinism()

    def start(self, settings: Settings) -> Driver:
        settings = with_settings(settings, self.pinned)
        return Driver.start(
            self.factory,
            settings,
            self.seed,
            name=self.name,
            ignored=all_but(self.only),
            timeout_s=self.timeout_s,
            past_gauges=True,
        )

    # --- stages ------------------------------------------------------------------------------------------

    def run_scenarios(self) -> None:
        todo = list(scenarios(self.seed))
        for number, scenario in enumerate(todo):
            if self.is_enough(FAULTY_SEARCHES * self.depth.search_s):
                return
            self.progress("scenarios", number / len(todo), scenario.name)
            self.run_script(scenario.script, f"scenario: {scenario.name}")
        self.progress("scenarios", 1.0, counted(len(todo), "run"))

    def _search(self) -> None:
        """Rounds of all kinds of example: walks, variations of the scenarios, and operations drawn one by one."""
        begun = time.monotonic()
        self._policies = self.honoured_policies()
        done = number = 0
        while not self.is_enough() and done < self.depth.examples:
            spent = time.monotonic() - begun
            if spent > self.depth.search_s:
                break
            part = max(spent / self.depth.search_s, done / self.depth.examples)
            self.progress("search", min(part, 1.0), f"{done} examples")
            done += self._search_by_walks(number, begun + self.depth.search_s)
            done += self._search_by_operations(number)
            number += 1
        self.progress("search", 1.0, f"{done} examples")

    def honoured_policies(self) -> tuple[Policy, ...]:
        """What is drawn beside a policy is made for it: who has one policy is asked for that one alone."""
        pinned = self.pinned.get("policy")
        every: tuple[Policy, ...] = get_args(Policy)
        return tuple(policy for policy in every if pinned in (None, policy) and self._honours(policy))

    def _honours(self, policy: Policy) -> bool:
        try:
            self.start(with_settings(SETTINGS, {"policy": policy}))
        except Unsupported as no:
            if no.setting == "policy":
                self.findings.refused_settings[f"policy={policy}"] = no
                return False
        except (ProtocolError, ValueError):
            return True  # whatever it is, it is not the policy that was refused
        return True

    def drawn(self, policies: Sequence[Policy]) -> Search:
        """The machine by which Hypothesis draws operations, one for the whole check."""
        if self._drawn is None:
            self._drawn = Search(self.start, self.findings.refused_settings, policies)
        return self._drawn

    def _search_by_operations(self, number: int) -> int:
        seed = self.seed * 1_000_003 + number
        self.drawn(self._policies).run(
            partial(self._finished, stage=f"search: seed {seed}"),
            examples=EXAMPLES_PER_ROUND,
            seed_value=seed,
            steps=STEPS_OF_ROUNDS[number % len(STEPS_OF_ROUNDS)],
        )
        return EXAMPLES_PER_ROUND

    def _search_by_walks(self, number: int, deadline: float) -> int:
        for place in range(WALKS_PER_ROUND):
            if self.is_enough() or time.monotonic() > deadline:
                return place
            seed = (self.seed * 1_000_003 + number) * WALKS_PER_ROUND + place
            script = walk(seed, self._policies)
            self.run_script(script, f"walk: seed {seed}", WALKS_OBSERVE_EVERY)
            if place % WALKS_PER_VARIATION == 0 and not self.is_enough():
                self.run_script(varied(seed, self._policies), f"variation: seed {seed}", VARIATIONS_OBSERVE_EVERY)
        return WALKS_PER_ROUND

    def _replay_workload(self) -> None:
        if self.workload is None or self.is_enough():
            return
        name = self.workload.name
        driver = negotiated(self.start, SETTINGS, self.findings.refused_settings)
        driver.keep_messages = False

        def progress(requests: int) -> None:
            part = 0.0 if self.workload is None else min(0.95, requests / 400)
            self.progress("workload", part, f"{name}, {requests} requests")

        replayed = replay_workload(
            driver,
            self.workload,
            seed=self.seed,
            step_time=self.step_time,
            wall_s=self.depth.workload_s,
            progress=progress,
        )
        self.findings.workloads[name] = replayed
        if replayed.too_large:
            self.findings.notes.append(
                f"{replayed.too_large} requests of {name} are larger than the pool, so a scheduler has to refuse them; "
                f"the first is {replayed.first_too_large}"
            )
        self._finished(driver, f"workload: {name}")
        self.progress("workload", 1.0, f"{name}, {counted(replayed.requests, 'request')}")

    def _determinism(self) -> None:
        if self.is_enough() or not self._scripts or not self.depth.reruns:
            return
        scripts = sorted(self._scripts, key=script_size, reverse=True)[:MOST_RERUN_SCRIPTS]
        self.progress("determinism", 0.0, f"{counted(len(scripts), 'run')} again")
        self._here = rerun_here(self.factory, scripts)
        repeats = self._compare("DET-2", lambda some: rerun_here(self.factory, some), scripts)
        if repeats:  # who differs anyhow shows nothing about what it foresees
            self._compare("ADMIT-9", partial(foretold, self.factory), scripts[:MOST_FORETOLD_SCRIPTS])
        if self.rerun is None:
            self.findings.notes.append("DET-1 and DET-3 need a second process, and there is no command for one")
            return
        with Elsewhere(self.rerun) as elsewhere:
            self.progress("determinism", 0.4, "another process, another hash seed")
            same = self._compare("DET-1", lambda some: elsewhere.run(some, "as it is"), scripts)
            if same:  # who differs anyhow shows nothing about the clock
                self.progress("determinism", 0.7, "another pace of the clock")
                self._compare("DET-3", lambda some: elsewhere.run(some, "another"), scripts)
        self.progress("determinism", 1.0, f"{counted(len(scripts), 'run')} again")

    def _compare(self, rule: str, again: Callable[[Sequence[Script]], list[list[str]]], scripts: list[Script]) -> bool:
        """False if the answers differ."""
        if (self.only and rule not in self.only) or rule in self.findings.missing:
            return True
        self.findings.bound[rule] += len(scripts)
        self.findings.exercised[rule] += len(scripts)
        try:
            difference = differs(self.factory, again, scripts, self._here[: len(scripts)], self.depth.shrink_s)
        except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired) as error:
            self.findings.exercised[rule] = 0
            self.findings.notes.append(f"{rule}: {error}")
            return True
        if difference is not None and not self.findings.known_by(f"{rule}.run"):
            self.findings.examples_of[rule] = Failure(
                rule=rule,
                conjunct=f"{rule}.run",
                stage="determinism",
                script=difference.script,
                also=[],
                difference=difference,
            )
        return difference is None

    def shorten_all(self) -> None:
        """What was found, when the search is over."""
        Shortener(self).all()

    def shorten_new(self) -> None:
        """What has failed since, where the search goes on."""
        Shortener(self).new()

    # --- parts -------------------------------------------------------------------------------------------

    def run_script(self, script: Script, stage: str, observe_every: int = 1) -> None:
        """A world that contradicts the pinned settings is left out."""
        try:
            driver = negotiated(self.start, script.settings, self.findings.refused_settings)
        except Contradiction:
            return
        except ProtocolError as fault:
            if not self.findings.runs:
                raise  # there is none to be had
            self.findings.runs += 1
            self.findings.faults.append(fault)
            return
        driver.observe_every = observe_every
        driver.run(script.ops)
        driver.drain()
        self._finished(driver, stage)
        if self.stop_at is None:
            self.look_behind(driver, evolve(script, settings=driver.settings), stage)

    def look_behind(self, driver: Driver, script: Script, stage: str) -> None:
        if self._behind is None:
            self._behind = Behind(self, self.depth.shrink_s)
        self._behind.look(driver, script, stage)

    def _finished(self, driver: Driver, stage: str) -> None:
        self.findings.add(driver, stage)
        if not driver.over and driver.keep_messages and len(driver.ops) <= LONGEST_RERUN_OPS:
            self._scripts.append(driver.script)
            if len(self._scripts) > 4 * MOST_RERUN_SCRIPTS:
                self._scripts.sort(key=script_size, reverse=True)
                del self._scripts[MOST_RERUN_SCRIPTS:]

    def is_enough(self, faulty_s: float = 0.0) -> bool:
        """Whoever breaks the protocol again and again is not asked further, or only as long as it costs little."""
        if self.stop_at is not None and self.stop_at in self.findings.broken:
            return True
        if len(self.findings.faults) < MOST_FAULTS:
            return False
        hangs = sum(fault.is_hang for fault in self.findings.faults)
        return hangs >= MOST_FAULTS or time.monotonic() - self._begun > faulty_s
