"""What a tuning says in numbers: for each run what people notice, beside what it was at the start."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen
from rich.markup import escape
from rich.table import Table

from ..conformance.terminal import in_ms, out, print_aside, print_table

NS_PER_S = 1_000_000_000
Run = Mapping[str, Any]


@frozen(kw_only=True)
class Measure:
    """`value` of a run's metrics, None if there is none.  `interval`: where its 95 % interval stands, if it has one."""

    title: str
    value: Callable[[Run], float | None]
    shown: Callable[[float], str]
    is_better_small: bool = True
    interval: tuple[str, ...] = ()


def _percentile(name: str, percentile: str) -> Callable[[Run], float | None]:
    return lambda m: None if m[name] is None else m[name][percentile]


def _ms(ns: float) -> str:
    return in_ms({"": round(ns)}, "")


def _time(title: str, name: str, percentile: str) -> Measure:
    value = _percentile(name, percentile)
    return Measure(title=title, value=value, shown=_ms, interval=(name, percentile))


def useful_per_s(m: Run) -> float | None:
    """Outputs of requests that finished, a second, from the first arrival to the last end."""
    span_ns: int = m["engine"]["span_ns"]
    return m["tokens"]["useful_outputs"] * NS_PER_S / span_ns if span_ns else None


def difference_per_s(m: Run) -> float | None:
    """VTC's, the mean over windows; None where there is one client, or no whole window."""
    return None if m["difference_per_s"] is None else m["difference_per_s"]["mean"]


MEASURES = (
    *(_time(f"TTFT P{p}", "ttft_ns", f"p{p}") for p in (50, 95, 99)),
    *(_time(f"ITL P{p}", "itl_ns", f"p{p}") for p in (50, 95, 99)),
    _time("queue age P95", "queue_age_ns", "p95"),
    Measure(
        title="in time",
        value=lambda m: m["goodput"]["share"],
        shown="{:.1%}".format,
        is_better_small=False,
        interval=("goodput_share",),
    ),
    Measure(title="useful outputs/s", value=useful_per_s, shown="{:,.0f}".format, is_better_small=False),
    Measure(title="service difference/s", value=difference_per_s, shown="{:,.0f}".format),
)


def interval_of(run: Run, where: tuple[str, ...]) -> list[float] | None:
    """95 % of the figure that stands there, if there is one: its ends."""
    found: Any = run["intervals"]
    for name in where:
        found = (found or {}).get(name)
    return found if where else None


def start_of(told: Run) -> Run:
    start: Run = told["runs"][0]
    return start


def lines_of(told: Run, control: Run) -> Iterator[tuple[Any, Run | None]]:
    """(value, its run); the start is the run of the value that it has; None of a run that is missing."""
    runs = {run["value"]: run for run in told["runs"] if run["control"] == control["name"]}
    for value in control["values"]:
        yield value, start_of(told) if value == control["start"] else runs.get(value)


def standing(measure: Measure, run: Run, start: Run) -> str:
    """`better` or `worse` than the start, beyond what other arrivals alone would make of it; else, or at the start,
    nothing."""
    value, before = measure.value(run["metrics"]), measure.value(start["metrics"])
    if value is None or before is None or value == before:
        return ""
    ends = [interval_of(one, measure.interval) for one in (run, start)]
    if measure.interval and (None in ends or _overlap(*ends)):  # type: ignore[arg-type]
        return ""
    if not measure.interval and abs(value - before) < NOTABLE * abs(before):
        return ""
    return "better" if (value < before) == measure.is_better_small else "worse"


NOTABLE = 0.05
"""A figure without an interval has changed if it did by so much."""


def _overlap(one: list[float], other: list[float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def does_nothing(lines: Iterable[tuple[Any, Run | None]], start: Run) -> bool:
    """Every value of the control that was tried shows the figures of the start, and one was."""
    metrics = [run["metrics"] for _, run in lines if run is not None and run is not start and "metrics" in run]
    before = [measure.value(start["metrics"]) for measure in MEASURES]
    return bool(metrics) and all([measure.value(m) for measure in MEASURES] == before for m in metrics)


@frozen
class Effect:
    """The farthest that a control moves a figure in one direction: at which value, by how much of the start's, and what
    that is."""

    value: Any
    change: float
    standing: str


VISIBLE = 0.005
"""Less than that of the start's is none in a table of percents."""


def effects(measure: Measure, lines: Iterable[tuple[Any, Run | None]], start: Run) -> list[Effect]:
    """The best and the worst that the values of a control make of a figure; neither, where nothing is seen of it."""
    before = measure.value(start["metrics"])
    tried = [(value, run) for value, run in lines if run is not None and run is not start and "metrics" in run]
    found = [(value, run, after) for value, run in tried if (after := measure.value(run["metrics"])) is not None]
    if not before or not found:
        return []
    changes = [Effect(value, after / before - 1, standing(measure, run, start)) for value, run, after in found]
    ordered = sorted(changes, key=lambda one: one.change if measure.is_better_small else -one.change)
    ends = ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    least, most = ends[0].change, ends[-1].change
    if len(ends) == 2 and least * most > 0:  # both to the same side: the farther one
        ends = [max(ends, key=lambda one: abs(one.change))]
    return [one for one in ends if abs(one.change) >= VISIBLE]


def print_tuning(told: Run) -> None:
    start = start_of(told)
    idle = []
    for control in told["controls"]:
        lines = list(lines_of(told, control))
        if does_nothing(lines, start) and not any(run and "refused" in run for _, run in lines):
            idle.append(f"{control['name']} ({', '.join(str(value) for value in control['values'])})")
        elif any(run is not None and run is not start for _, run in lines):
            _print_control(control["name"], lines, start)
    if idle:
        out.print(f"Nothing changes with {'; '.join(idle)}.", highlight=False, markup=False, soft_wrap=True)
    if len(idle) == len(told["controls"]):
        print_aside("no limit binds at this load: try --rate 2, or more")


def _print_control(name: str, lines: Iterable[tuple[Any, Run | None]], start: Run) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", title=escape(name), title_justify="left")
    table.add_column("", no_wrap=True)
    for title in ("TTFT 50/95/99", "ITL 50/95/99", "queue 95", "in time", "useful/s", "unfair/s"):
        table.add_column(title, justify="right", no_wrap=True)
    for value, run in lines:
        _add_row(table, f"{escape(str(value))}{' *' if run is start else ''}", run, start)
    print_table(table)


STYLES = {"better": "green", "worse": "red", "": "none"}


def _add_row(table: Table, name: str, run: Run | None, start: Run) -> None:
    if run is None or "refused" in run:
        table.add_row(name, "not run" if run is None else "refused", style="dim")
        if run is not None:
            table.caption = escape(run["refused"])
        return
    cells = [_cell(measure, run, start) for measure in MEASURES]
    table.add_row(name, " ".join(cells[:3]), " ".join(cells[3:6]), *cells[6:])


def _cell(measure: Measure, run: Run, start: Run) -> str:
    value = measure.value(run["metrics"])
    text = "–" if value is None else measure.shown(value)
    return f"[{STYLES[standing(measure, run, start)]}]{text}[/]"
