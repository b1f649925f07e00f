"""The page of a tuning: for each control a picture of all that people notice, and a table beside the start."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..conformance.files import replace_file
from .page import data_of, environment
from .pictures import NS_PER_S, PERCENTILES, STYLE, legend, new_figure, plain_numbers, save
from .rows import (
    MEASURES,
    Run,
    difference_per_s,
    does_nothing,
    effects,
    interval_of,
    lines_of,
    standing,
    start_of,
    useful_per_s,
)

TIMES = {"ttft_ns": "time to first token", "itl_ns": "inter-token latency", "queue_age_ns": "queue age"}
Lines = Sequence[tuple[Any, Run | None]]


def write(told: Run, folder: Path) -> Path:
    """The page's path.  The pictures are also there by themselves, as SVG and PNG."""
    (folder / "pictures").mkdir(exist_ok=True)
    for old in (folder / "pictures").glob("control-*"):
        old.unlink()
    shown = {
        control: data_of(save(f"control-{control}", figure, folder / "pictures")) for control, figure in pictures(told)
    }
    page = folder / "report.html"
    replace_file(page, rendered(told, shown))
    return page


def rendered(told: Run, shown: Mapping[str, str]) -> str:
    """`shown`: control -> address of its picture."""
    start = start_of(told)
    lines = {control["name"]: list(lines_of(told, control)) for control in told["controls"]}
    missing = [f"{name} = {value}" for name, values in lines.items() for value, run in values if run is None]
    return (
        environment()
        .get_template("tuning.html")
        .render(
            told=told,
            start=start,
            lines=lines,
            pictures=shown,
            missing=missing,
            measures=MEASURES,
            standing=standing,
            idle={
                name: [value for value, _ in values] for name, values in lines.items() if does_nothing(values, start)
            },
            effects=effects,
            interval_of=interval_of,
        )
        + "\n"
    )


# --- pictures ------------------------------------------------------------------------------------------------


def pictures(told: Run) -> Iterator[tuple[str, Figure]]:
    """(control, figure), of those of which there is more than the start."""
    with matplotlib.rc_context(STYLE):
        for control in told["controls"]:
            lines = [(value, run) for value, run in lines_of(told, control) if run is not None and "metrics" in run]
            if len(lines) > 1 and not does_nothing(lines, start_of(told)):
                yield control["name"], picture(control, lines)


def picture(control: Mapping[str, Any], lines: Lines) -> Figure:
    figure = new_figure(5.6)
    figure.set_layout_engine("constrained", hspace=0.08)
    grid = figure.subplots(2, 3)
    for axes, (name, title) in zip((grid[0][0], grid[0][1], grid[1][0]), TIMES.items(), strict=True):
        _percentiles(axes, lines, name)
        axes.set(title=title, ylabel="s")
    _line(grid[0][2], lines, useful_per_s)
    grid[0][2].set(title="useful throughput", ylabel="outputs / s")
    _line(grid[1][1], lines, lambda m: 100 * m["goodput"]["share"], ("goodput_share",), 100)
    grid[1][1].set(title="requests in time", ylabel="%")
    _line(grid[1][2], lines, difference_per_s)
    grid[1][2].set(title="unfairness", ylabel="service difference / s")
    _finish(grid.flat, control, lines)
    styles = [Line2D([], [], color="C0", linestyle=PERCENTILES[p], label=f"P{p[1:]}") for p in PERCENTILES]
    start = Line2D([], [], color="black", linestyle=":", linewidth=1, label="the start")
    band = Line2D([], [], color="C0", linewidth=6, alpha=0.25, label="95 % interval")
    legend(figure, [*styles, band, start])
    return figure


def _percentiles(axes: Axes, lines: Lines, name: str) -> None:
    for percentile, style in PERCENTILES.items():
        _line(axes, lines, partial(_s, name, percentile), (name, percentile), 1 / NS_PER_S, style)
    if 0 < axes.dataLim.ymin < inf:
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)


def _s(name: str, percentile: str, m: Run) -> float | None:
    return None if m[name] is None else m[name][percentile] / NS_PER_S


def _line(
    axes: Axes,
    lines: Lines,
    value: Callable[[Run], float | None],
    interval: tuple[str, ...] = (),
    scale: float = 1,
    style: Any = "-",
) -> None:
    """Over the places of the control's values; a run that has no such figure is left out."""
    points = [
        (at, run, found) for at, (_, run) in enumerate(lines) if run and (found := value(run["metrics"])) is not None
    ]
    axes.plot(
        [at for at, _, _ in points], [found for *_, found in points], "C0", linestyle=style, marker="o", markersize=3
    )
    bands = [(at, ends) for at, run, _ in points if (ends := interval_of(run, interval))]
    if len(bands) == len(points) > 1:
        low, high = zip(*(ends for _, ends in bands), strict=True)
        places = [at for at, _ in bands]
        axes.fill_between(
            places, [scale * x for x in low], [scale * x for x in high], color="C0", alpha=0.15, linewidth=0
        )
    if not points:
        axes.text(0.5, 0.5, "one client: nothing to compare", ha="center", va="center", transform=axes.transAxes)
        axes.set_yticks([])


def _finish(panels: Any, control: Mapping[str, Any], lines: Lines) -> None:
    names = [
        f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value) for value, _ in lines
    ]
    start = [value for value, _ in lines].index(control["start"])
    for axes in panels:
        axes.set(xlabel=control["name"], xlim=(-0.3, len(lines) - 0.7))
        axes.set_xticks(range(len(lines)), names, rotation=0 if max(map(len, names)) * len(names) < 34 else 30)
        axes.axvline(start, color="black", linestyle=":", linewidth=1)
        if axes.get_yscale() == "linear":
            axes.set_ylim(0, 1.08 * axes.dataLim.ymax if 0 < axes.dataLim.ymax < inf else 1)
