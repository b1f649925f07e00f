"""What a reproduction is: frozen constants, published values with a tolerance each, and a function that measures ours.

Constants and targets are written down before anything is measured, each with its source, and are not changed to meet a
target: a target that is missed stays missed, and a note says why.  A reproduction is a file of this folder:

    MINE = Reproduction(
        name="mine",
        title="what is compared",
        source="authors, venue, section",
        constants=(Constant("pool_tokens", 15_728, "table 1: 12 GB of KV, 800 KB a token"),),
        targets=(Target("batch_ratio", 2.2, "figure 13", within_percent=25),),
        measure=measure,                    # (Run) -> {"batch_ratio": 2.31}
    )

A target that `measure` leaves out is *not measured*, and never met by that.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any, Literal

from attrs import Factory, asdict, define, evolve, field, frozen

from ...spec.vocabulary import NS_PER_S
from ...spec.workloads import Arrival, MissingWorkload, Workload, WorkloadError, parse_workload

MANY = 1_000
"""Requests of which the rate of a workload is told."""
Verdict = Literal["met", "missed", "not measured"]


@frozen
class Constant:
    """A number (or a list of them) that goes into the comparison.  The unit stands last in the name."""

    name: str
    value: Any
    source: str


@frozen
class Target:
    """A published value, and how near ours must be: within so many percent of it, within so many points (of its own
    unit), at least it, at most it; exactly one of these.

    `directional`: the source of the constants does not allow a number to be reproduced, only its direction, and the
    published value is a bound.  A numeric target is never called so.
    """

    name: str
    published: float
    source: str
    within_percent: float | None = field(default=None, kw_only=True)
    within_points: float | None = field(default=None, kw_only=True)
    at_least: bool = field(default=False, kw_only=True)
    at_most: bool = field(default=False, kw_only=True)
    directional: bool = field(default=False, kw_only=True)
    unit: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        chosen = [self.within_percent is not None, self.within_points is not None, self.at_least, self.at_most]
        if sum(chosen) != 1:
            raise ValueError(
                f"target {self.name}: give exactly one of within_percent, within_points, at_least and at_most"
            )

    @property
    def tolerance(self) -> str:
        if self.within_percent is not None:
            return f"±{self.within_percent:g} %"
        if self.within_points is not None:
            return f"±{self.within_points:g} points" if self.within_points else "exact"
        return "at least" if self.at_least else "at most"

    def is_met(self, ours: float) -> bool:
        if self.within_percent is not None:
            return abs(ours - self.published) <= abs(self.published) * self.within_percent / 100
        if self.within_points is not None:
            return abs(ours - self.published) <= self.within_points
        return ours >= self.published if self.at_least else ours <= self.published


@define
class Run:
    """What a measurement is given.  `sample`: a short part of each run, for a quick look; `progress`: told the stage,
    how much of it is done (0 to 1), and a word about it."""

    sample: bool = False
    seed: int = 0
    progress: Callable[[str, float, str], None] = lambda stage, part, note: None
    notes: list[str] = Factory(list)
    lengths: str = ""
    """A workload whose lengths are taken in place of the publication's, if it `takes_lengths`."""

    def note(self, sentence: str) -> None:
        """Something that belongs beside the table: where data came from, or why a target is missed."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def workload(self, kind: str, fitted: str, most_tokens: int) -> Workload:
        """The file that is usual for this kind, or where it is not at hand its statistics; which one is noted."""
        if self.lengths:
            return self.others(most_tokens)
        try:
            found = parse_workload(kind, seed=self.seed)
        except MissingWorkload:
            found = parse_workload(f"fitted:{fitted}", seed=self.seed)
            self.note(f"{found.name} in place of a file of {kind}, which is not at hand")
        else:
            self.note(f"lengths of {found.name}")
        return found

    def others(self, most_tokens: int) -> Workload:
        """What was asked for in place of the publication's: its requests of at most so many tokens, one a second on
        average.  Raises WorkloadError."""
        found = parse_workload(self.lengths, seed=self.seed)
        times = [one.now_ns for one in islice(found.arrivals(), MANY)]
        per_s = Fraction((len(times) - 1) * NS_PER_S, max(1, times[-1] - times[0]))
        self.note(f"lengths of {found.name} in place of the publication's, so its numbers are no targets here")
        if not any(_tokens(one) <= most_tokens for one in found.arrivals()):
            raise WorkloadError(f"{found.name}: no request has {most_tokens:,} tokens or fewer, which the model holds")
        return evolve(
            found,
            rate=1 / per_s if per_s else found.rate,
            read=lambda draws: (one for one in found.read(draws) if _tokens(one) <= most_tokens),
        )

    def stages(self, stage: str, items: Iterable[Any]) -> Iterable[Any]:
        """The items, with progress after each."""
        listed = list(items)
        for done, item in enumerate(listed):
            self.progress(stage, done / len(listed), _word(item))
            yield item
        self.progress(stage, 1.0, f"{len(listed)} done")


def _word(item: Any) -> str:
    """What an item is called; a tuple begins with its name."""
    return str(item[0] if isinstance(item, tuple) else item)


def _tokens(one: Arrival) -> int:
    return one.prompt_tokens + one.output_tokens


@frozen(kw_only=True)
class Reproduction:
    """One comparison with a publication.  `measure` answers with ours, by the names of the targets; one that
    `takes_lengths` can be asked what other requests would come to."""

    name: str
    title: str
    source: str
    constants: tuple[Constant, ...]
    targets: tuple[Target, ...]
    measure: Callable[[Run], Mapping[str, float]]
    takes_lengths: bool = False


@frozen
class Row:
    """A target and ours; `ours` is None if it was not measured."""

    target: Target
    ours: float | None

    @property
    def verdict(self) -> Verdict:
        if self.ours is None:
            return "not measured"
        return "met" if self.target.is_met(self.ours) else "missed"

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.target.published:
            return None
        return self.ours / self.target.published

    def texts(self, nothing: str = "") -> tuple[str, str, str, str]:
        """Published, ours, ratio and tolerance, as a table has them; `nothing` is in place of what there is not."""
        target = self.target
        unit = f" {target.unit}" if target.unit else ""
        return (
            f"{target.published:g}{unit}",
            nothing if self.ours is None else f"{self.ours:.4g}{unit}",
            nothing if self.ratio is None else f"{self.ratio:.2f}",
            f"{target.tolerance}{', directional' if target.directional else ''}",
        )

    def as_json(self) -> dict[str, Any]:
        target = self.target
        return {
            "target": target.name,
            "published": target.published,
            "unit": target.unit,
            "source": target.source,
            "ours": self.ours,
            "ratio": self.ratio,
            "tolerance": target.tolerance,
            "directional": target.directional,
            "verdict": self.verdict,
        }


@frozen
class Report:
    """One reproduction that was run."""

    reproduction: Reproduction
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    seed: int
    sample: bool

    @property
    def has_missed(self) -> bool:
        """A numeric target, that is: what is directional is shown, and decides nothing."""
        return any(row.verdict == "missed" and not row.target.directional for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        of = self.reproduction
        return {
            "name": of.name,
            "title": of.title,
            "source": of.source,
            "seed": self.seed,
            "sample": self.sample,
            "constants": [asdict(constant) for constant in of.constants],
            "rows": [row.as_json() for row in self.rows],
            "notes": list(self.notes),
        }


def reproduce(reproduction: Reproduction, run: Run) -> Report:
    """Measures, and holds what came out against the targets.  Raises ValueError if something was measured that is no
    target: a number that nobody is held to belongs into a note."""
    ours = reproduction.measure(run)
    strays = sorted(ours.keys() - {target.name for target in reproduction.targets})
    if strays:
        raise ValueError(f"{reproduction.name} measured {', '.join(strays)}, but has no target of that name")
    return report_of(reproduction, ours, run.notes, run.seed, sample=run.sample)


def report_of(
    reproduction: Reproduction, ours: Mapping[str, float | None], notes: Iterable[str], seed: int, *, sample: bool
) -> Report:
    """What was measured, here or elsewhere, against the targets."""
    rows = tuple(Row(target, ours.get(target.name)) for target in reproduction.targets)
    return Report(reproduction, rows, tuple(notes), seed, sample)
