"""The shrinker: from a failing script to a short one that fails in the same conjunct, and breaks no other rule.

First whole requests go, then runs of operations, then single ones; then numbers get smaller and settings plainer.
Each candidate is run on a fresh subject.  What a recorded trace allows instead is in `project.py`.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from string import ascii_lowercase
from typing import Any

from attrs import asdict, evolve, fields_dict, frozen

from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Lane, Pools, Request, Settings, SettingsWarning, SubjectFactory, Unsupported

from .driver import Driver
from .script import Op, Script, with_setting


@frozen
class Target:
    """What must stay: the conjunct that fails (or the fault), and the rules that may fail beside it."""

    conjunct: str
    rules: frozenset[str]

    @classmethod
    def of(cls, driver: Driver, rule: str) -> "Target":
        """The target of a rule's failure in a run."""
        broken = [violation for violation in driver.broken if violation.rule == rule]
        if broken:
            return cls(broken[0].conjunct, frozenset(v.rule for v in driver.broken))
        return cls(driver.advice[rule][0].conjunct, frozenset({rule}))

    @classmethod
    def of_fault(cls, fault: ProtocolError) -> "Target":
        return cls(_fault_name(fault), frozenset())

    def is_hit_by(self, driver: Driver) -> bool:
        if driver.fault is not None and _fault_name(driver.fault) == self.conjunct:
            return True
        if any(violation.conjunct == self.conjunct for violation in driver.broken):
            return {violation.rule for violation in driver.broken} <= self.rules
        return any(violation.conjunct == self.conjunct for violation, _ in driver.advice.values())


def _fault_name(fault: ProtocolError) -> str:
    return f"{fault.method}:{fault.field.split('[')[0]}:{fault.problem.split(':')[0][:40]}"


def script_size(script: Script) -> int:
    """Short scripts with short requests are small."""
    tokens = sum(op.request.declared_tokens for op in script.ops if op.request)
    return len(script.ops) * 4 + tokens


LARGE = 200
"""Operations of a script of which most are about requests that have long ended."""


class Shrinker:
    """Holds the best script so far; stops when nothing helps, or its time is over, or so many candidates were run."""

    def __init__(
        self,
        factory: SubjectFactory,
        script: Script,
        target: Target,
        seconds: float,
        ignored: frozenset[str] = frozenset(),
        most_tries: int | None = None,
        *,
        past_gauges: bool = False,
    ) -> None:
        self.factory = factory
        self.ignored = ignored
        self.most_tries = most_tries
        self.past_gauges = past_gauges
        self.target = target
        self.best = script
        self.deadline = time.monotonic() + seconds
        self.tries = 0

    def shrink(self) -> Script:
        with warnings.catch_warnings():  # of lanes that became equal on the way
            warnings.simplefilter("ignore", SettingsWarning)
            self._shrink()
        return self.best

    @property
    def is_out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def _shrink(self) -> None:
        self._cut_at_failure()
        is_large = len(self.best.ops) > LARGE
        if is_large:
            self._improve(recent_requests)
        before = None
        while before != self.best and not self._is_over():
            before = self.best
            self._improve(without_requests)
            self._improve(without_runs)
            self._improve(without_pairs)
            if is_large:
                self._improve(smaller_together)
            self._improve(plainer_settings)
            self._improve(smaller_requests)
            self._improve(plainer_names)
            self._improve(plainer_tokens)

    def _cut_at_failure(self) -> None:
        driver = self._run(self.best)
        if driver is None or not self.target.is_hit_by(driver):
            return
        length = len(driver.ops)
        for violation, ops in driver.advice.values():
            if violation.conjunct == self.target.conjunct:
                length = ops
        self.best = evolve(self.best, ops=tuple(driver.ops[:length]))

    def _improve(self, candidates: Callable[[Script], Iterator[Script]]) -> None:
        """Take each candidate that still fails; start over from it until none does."""
        found = True
        while found:
            found = False
            for candidate in candidates(self.best):
                if self._is_over():
                    return
                driver = self._run(candidate)
                if driver is not None and self.target.is_hit_by(driver):
                    self.best = evolve(candidate, ops=tuple(driver.ops))
                    found = True
                    break

    def _is_over(self) -> bool:
        return self.is_out_of_time or self.tries == self.most_tries

    def _run(self, script: Script) -> Driver | None:
        self.tries += 1
        try:
            driver = Driver.start(
                self.factory, script.settings, script.seed, ignored=self.ignored, past_gauges=self.past_gauges
            )
        except (Unsupported, ProtocolError, ValueError):
            return None
        driver.run(script.ops)
        return driver


def recent_requests(script: Script) -> Iterator[Script]:
    """Those that came last, and whatever was done since; then twice as many."""
    ids = [op.request.id for op in script.ops if op.request is not None]
    count = 1
    while count < len(ids):
        kept = set(ids[-count:])
        ops = [op for op in script.ops if _name(op) in kept or not _name(op)]
        first = next(place for place, op in enumerate(ops) if op.request is not None)
        yield evolve(script, ops=ops[first:])
        count *= 2


def smaller_together(script: Script) -> Iterator[Script]:
    """All lengths at once, alone and with the pool and the budget."""
    halves = [_halved(script, prompts=p, outputs=o) for p, o in ((True, True), (True, False), (False, True))]
    for half in halves:
        if half == script:
            continue
        for names in (("blocks", "token_budget", "watermark_blocks"), ("blocks",), ()):
            with suppress(ValueError):
                sizes = {name: getattr(script.settings, name) // 2 for name in names}
                yield evolve(half, settings=evolve(script.settings, **sizes))


def _halved(script: Script, *, prompts: bool, outputs: bool) -> Script:
    return evolve(script, ops=[_with_half(op, prompts, outputs) for op in script.ops])


def _with_half(op: Op, prompts: bool, outputs: bool) -> Op:
    request = op.request
    if request is None:
        return op
    prompt, output = request.prompt_ids, request.max_output_tokens
    if prompts:
        request = evolve(request, prompt_ids=prompt[: (len(prompt) + 1) // 2])
    if outputs:
        request = evolve(request, max_output_tokens=(output + 1) // 2)
        stop = op.stop_after
        op = evolve(op, stop_after=None if stop is None else (stop + 1) // 2)
    return evolve(op, request=request)


def without_requests(script: Script) -> Iterator[Script]:
    ids = [op.request.id for op in script.ops if op.request is not None]
    half = max(1, len(ids) // 2)
    for size in _sizes(half):
        for start in range(len(ids) - size, -1, -size):
            gone = set(ids[start : start + size])
            yield evolve(script, ops=tuple(op for op in script.ops if _name(op) not in gone))


def _name(op: Op) -> str:
    return op.request.id if op.request is not None else op.id


def without_runs(script: Script) -> Iterator[Script]:
    ops = script.ops
    for size in _sizes(len(ops) // 2):
        for start in range(len(ops) - size, -1, -size):
            yield evolve(script, ops=ops[:start] + ops[start + size :])


def without_pairs(script: Script) -> Iterator[Script]:
    """Two operations that only go together: a step and its result, say."""
    ops = script.ops
    if len(ops) > 40:
        return
    for first in range(len(ops)):
        for second in range(first + 1, min(first + 4, len(ops))):
            yield evolve(script, ops=ops[:first] + ops[first + 1 : second] + ops[second + 1 :])


def _sizes(most: int) -> Iterator[int]:
    while most >= 1:
        yield most
        most //= 2


FIRST_PLAIN = ("prefix_caching", "overlap_depth")
SIZES = ("blocks", "seats", "token_budget", "block_size")


def plainer_settings(script: Script) -> Iterator[Script]:
    for name, value in _plainer_values(script.settings):
        with suppress(ValueError):
            yield evolve(script, settings=with_setting(script.settings, name, value))


def _plainer_values(settings: Settings) -> Iterator[tuple[str, object]]:
    plain = Settings()
    for name in dict.fromkeys((*FIRST_PLAIN, *fields_dict(Settings))):
        if name not in SIZES and getattr(settings, name) != getattr(plain, name):
            yield name, getattr(plain, name)
    for place in range(len(settings.prices)):
        yield "prices", settings.prices[:place] + settings.prices[place + 1 :]
    for place, lane in enumerate(settings.lanes):
        before, after = settings.lanes[:place], settings.lanes[place + 1 :]
        yield "lanes", before + after
        yield from (("lanes", (*before, other, *after)) for other in _plainer_lanes(lane))
    for name, limit in asdict(settings.door).items():
        yield from (("door", evolve(settings.door, **{name: n})) for n in sorted({0, limit // 2}) if n < limit)
    if settings.pools.are_two:
        yield from (("pools", other) for other in _plainer_pools(settings.pools))
    for name in SIZES:
        size = getattr(settings, name)
        yield from ((name, smaller) for smaller in sorted({size // 2, size - 1}) if smaller >= 1)


def _plainer_pools(pools: Pools) -> Iterator[Pools]:
    for name, size in asdict(pools).items():
        least = 0 if name == "landing_blocks" else 1
        for smaller in sorted({least, size // 2, size - 1}):
            change: dict[str, Any] = {name: smaller}
            if least <= smaller < size:
                yield evolve(pools, **change)


def _plainer_lanes(lane: Lane) -> Iterator[Lane]:
    plain = Lane(name=lane.name, share_percent=lane.share_percent)
    for name in fields_dict(Lane):
        if getattr(lane, name) != getattr(plain, name):
            change: dict[str, Any] = {name: getattr(plain, name)}
            yield evolve(lane, **change)
    if lane.objective_steps:
        yield evolve(lane, objective_steps=0, load_tokens=0)


def smaller_requests(script: Script) -> Iterator[Script]:
    for place, op in enumerate(script.ops):
        if op.request is None:
            continue
        request, prompt, output = op.request, op.request.prompt_ids, op.request.max_output_tokens
        smaller = [evolve(op, request=evolve(request, prompt_ids=prompt[:n])) for n in _less(len(prompt))]
        smaller += [evolve(op, request=evolve(request, max_output_tokens=n)) for n in _less(output)]
        if op.stop_after is not None:
            smaller.append(evolve(op, stop_after=None))
        if op.pauses:
            smaller.append(evolve(op, pauses=op.pauses[:-1]))
        if request.dependencies:
            smaller.append(evolve(op, request=evolve(request, dependencies=request.dependencies[:-1])))
        if request.priority:
            smaller.append(evolve(op, request=evolve(request, priority=0)))
        if request.deadline_ns is not None:
            smaller.append(evolve(op, request=evolve(request, deadline_ns=None)))
        for name in (
            "client",
            "lane",
            "predicted_output_tokens",
            "adapter",
            "idempotency_key",
            "survives_disconnect",
            "was_converted",
        ):
            plain = fields_dict(Request)[name].default
            if getattr(request, name) != plain:
                changes: dict[str, Any] = {name: plain}
                smaller.append(evolve(op, request=evolve(request, **changes)))
        for other in smaller:
            yield evolve(script, ops=(*script.ops[:place], other, *script.ops[place + 1 :]))


def plainer_names(script: Script) -> Iterator[Script]:
    """Requests called a, b, c in the order in which they come."""
    ids = list(dict.fromkeys(op.request.id for op in script.ops if op.request is not None))
    names = dict(zip(ids, ascii_lowercase, strict=False))
    if len(names) < len(ids) or all(old == new for old, new in names.items()):
        return
    ops = [
        evolve(op, request=evolve(op.request, id=names[op.request.id]))
        if op.request is not None
        else evolve(op, id=names.get(op.id, op.id))
        for op in script.ops
    ]
    yield evolve(script, ops=tuple(ops))


def plainer_tokens(script: Script) -> Iterator[Script]:
    """Token ids 1, 2, 3 in the order in which they come: equal ones stay equal."""
    ids = [token for op in script.ops if op.request is not None for token in op.request.prompt_ids]
    plain = {token: number for number, token in enumerate(dict.fromkeys(ids), start=1)}
    if all(token == number for token, number in plain.items()):
        return
    ops = [
        evolve(op, request=evolve(op.request, prompt_ids=tuple(plain[token] for token in op.request.prompt_ids)))
        if op.request is not None
        else op
        for op in script.ops
    ]
    yield evolve(script, ops=tuple(ops))


def _less(value: int) -> list[int]:
    return sorted({n for n in (1, value // 2, value - 1) if 1 <= n < value})
