"""The pictures that people look at.  Each is made of what replay.json has, and is the same for the same file."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from textwrap import shorten
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

Runs = Sequence[Mapping[str, Any]]

NS_PER_S = 1_000_000_000
MOST_CLIENTS = 8
PERCENTILES: Mapping[str, Any] = {"p50": "-", "p95": "--", "p99": ":"}
LANES: Sequence[Any] = ("-", "--", ":", "-.")
TIMES = {"ttft_ns": "time to first token", "itl_ns": "inter-token latency", "end_to_end_ns": "end to end"}
STYLE: Any = {
    "svg.hashsalt": "schedspec",  # else ids differ from run to run
    "svg.fonttype": "path",  # the same letters everywhere
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.size": 9,
}


def new_figure(height_in: float) -> Figure:
    """With room between its panels, so that no label touches the title below it."""
    room = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08, hspace=0.06, wspace=0.02)
    return Figure(figsize=(11, height_in), layout=room)


def save(name: str, figure: Figure, folder: Path) -> Path:
    """NAME.svg and NAME.png; the former."""
    figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return folder / f"{name}.svg"


def pictures(told: Mapping[str, Any]) -> Iterator[tuple[str, str, Figure]]:
    """(name, what it shows, figure)."""
    runs: Runs = told["runs"]
    loads = sorted({run["load"] for run in runs}, key=Fraction)
    colours = {system: f"C{place % 10}" for place, system in enumerate(told["planned"]["systems"])}
    with matplotlib.rc_context(STYLE):
        if len(loads) > 1:
            yield "load", "Percentiles, and what is got for it, against load", against_load(runs, colours)
        for load in loads:
            there = [run for run in runs if run["load"] == load]
            name = f"load_{load.replace('/', '_over_')}"
            yield f"{name}-cdf", f"Load {load}: who waits how long, by lane", distributions(there, colours)
            yield f"{name}-kv", f"Load {load}: KV in use over time", kv(there, colours)
            yield f"{name}-service", f"Load {load}: service over time, by client", service(there)


# --- against load --------------------------------------------------------------------------------------------


def against_load(runs: Runs, colours: Mapping[str, str]) -> Figure:
    figure = new_figure(6.4)
    grid = figure.subplots(2, 3)
    loads = sorted({float(Fraction(run["load"])) for run in runs})
    for axes, (name, title) in zip(grid[0], TIMES.items(), strict=True):
        for percentile, style in PERCENTILES.items():
            _lines(axes, runs, colours, style, lambda m, name=name, p=percentile: _s(m[name], p))
        axes.set(title=title, ylabel="s", yscale="log")
        plain_numbers(axes.yaxis)
    _lines(grid[1][0], runs, colours, "-", lambda m: 100 * m["goodput"]["share"])
    grid[1][0].set(title="requests in time", ylabel="%", ylim=(0, 105))
    _lines(grid[1][1], runs, colours, "-", lambda m: m["goodput"]["requests_per_s"])
    grid[1][1].set(title="goodput", ylabel="requests in time / s", ylim=(0, None))
    _lines(grid[1][2], runs, colours, "-", lambda m: _ms(m["cost"]["machine_ns_per_useful_output"]))
    grid[1][2].set(title="cost", ylabel="machine time per useful output, ms", ylim=(0, None))
    for axes in grid.flat:
        axes.set(xlabel="load (times the rate of arrivals)", xticks=loads, xticklabels=[f"{load:g}" for load in loads])
    styles = [
        Line2D([], [], color="black", linestyle=style, label=f"P{percentile[1:]}")
        for percentile, style in PERCENTILES.items()
    ]
    legend(figure, [*_of_systems(colours), *styles])
    return figure


def _lines(axes: Axes, runs: Runs, colours: Mapping[str, str], style: str, value: Any) -> None:
    """One line for each system; a load at which there is nothing to show is left out."""
    for system, colour in colours.items():
        points = sorted(
            (float(Fraction(run["load"])), found)
            for run in runs
            if run["system"] == system and (found := value(run["metrics"])) is not None
        )
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, marker="o", markersize=3)


# --- at one load -----------------------------------------------------------------------------------------------


def distributions(runs: Runs, colours: Mapping[str, str]) -> Figure:
    figure = new_figure(3.9)
    panels = figure.subplots(1, 3, sharey=True)
    lanes = sorted({lane for run in runs for lane in run["metrics"]["curves"]["lanes"]})
    styles = {lane: LANES[place % len(LANES)] for place, lane in enumerate(lanes)}
    for axes, (name, title) in zip(panels, TIMES.items(), strict=True):
        for run in runs:
            curves = run["metrics"]["curves"]
            for lane, times in curves["lanes"].items():
                if times[name]:
                    percent = [permille / 10 for permille in curves["permille"]]
                    seconds = [ns / NS_PER_S for ns in times[name]]
                    axes.plot(seconds, percent, color=colours[run["system"]], linestyle=styles[lane])
        axes.set(title=title, xlabel="s", xscale="log")
        plain_numbers(axes.xaxis)
    panels[0].set(ylabel="% of requests (of tokens) within")
    shown = [Line2D([], [], color="black", linestyle=style, label=f"lane {lane}") for lane, style in styles.items()]
    legend(figure, [*_of_systems(_seen(runs, colours)), *shown])
    return figure


def kv(runs: Runs, colours: Mapping[str, str]) -> Figure:
    figure = new_figure(3.4)
    axes = figure.subplots()
    for run in runs:
        told, colour = run["metrics"]["kv_tokens"], colours[run["system"]]
        times = [place * told["window_ns"] / NS_PER_S for place in range(len(told["mean"]))]
        axes.plot(times, [tokens / 1_000 for tokens in told["mean"]], color=colour, linewidth=1)
        axes.fill_between(
            times,
            [tokens / 1_000 for tokens in told["mean"]],
            [tokens / 1_000 for tokens in told["max"]],
            color=colour,
            alpha=0.25,
            linewidth=0,
        )
    for pool in sorted({run["settings"]["blocks"] * run["settings"]["block_size"] for run in runs}):
        axes.axhline(pool / 1_000, color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="time, s", ylabel="KV in use, 1,000 tokens", ylim=(0, None))
    pool_line = Line2D([], [], color="black", linestyle="--", label="the pool")
    more = Line2D([], [], color="grey", linewidth=6, alpha=0.4, label="up to the most in that second")
    legend(figure, [*_of_systems(_seen(runs, colours)), more, pool_line])
    return figure


def service(runs: Runs) -> Figure:
    """A panel for each system; the clients that were served most, and all others together."""
    figure = new_figure(1.2 + 2.1 * len(runs))
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    clients = _largest_clients(runs)
    for axes, run in zip(panels, runs, strict=True):
        told = run["metrics"]["service"]
        half_s = told["half_ns"] / NS_PER_S
        for place, client in enumerate(clients):
            row = told["served"].get(client, [])
            axes.step(*_rate(row, half_s), where="post", color=f"C{place}", linewidth=1.2)
        others = [row for client, row in told["served"].items() if client not in clients]
        if others:
            row = [sum(values) for values in zip(*others, strict=True)]
            axes.step(*_rate(row, half_s), where="post", color="black", linestyle=":", linewidth=1)
        axes.set_title(_short(run["system"]), loc="left")
        axes.set(ylabel="service / s", ylim=(0, None))
    panels[-1].set(xlabel="time, s (service: prompt tokens, and outputs twice)")
    shown = [
        Line2D([], [], color=f"C{place % 10}", label=f"client {_short(name, 24)}") for place, name in enumerate(clients)
    ]
    if any(len(run["metrics"]["service"]["served"]) > len(clients) for run in runs):
        shown.append(Line2D([], [], color="black", linestyle=":", label="all others"))
    legend(figure, shown)
    return figure


def _largest_clients(runs: Runs) -> list[str]:
    served: dict[str, int] = {}
    for run in runs:
        for client, row in run["metrics"]["service"]["served"].items():
            served[client] = max(served.get(client, 0), sum(row))
    return sorted(served, key=lambda client: (-served[client], client))[:MOST_CLIENTS]


def _rate(row: Sequence[int], half_s: float) -> tuple[list[float], list[float]]:
    """The last value once more, so that its step has a width."""
    times = [place * half_s for place in range(len(row) + 1)]
    return times, [value / half_s for value in [*row, *row[-1:]]] if row else [0.0]


# --- parts ---------------------------------------------------------------------------------------------------


def _seen(runs: Runs, colours: Mapping[str, str]) -> dict[str, str]:
    there = {run["system"] for run in runs}
    return {system: colour for system, colour in colours.items() if system in there}


def _of_systems(colours: Mapping[str, str]) -> list[Line2D]:
    return [Line2D([], [], color=colour, label=_short(system)) for system, colour in colours.items()]


def plain_numbers(axis: Axis) -> None:
    """0.2 and 20 on a logarithmic axis, not powers of ten; few of them where there are many decades."""
    least, most = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 200 * least else (1,), numticks=12))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    width = max(len(str(handle.get_label())) for handle in handles)
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, min(len(handles), 150 // (width + 8))))


def _short(name: str, most: int = 100) -> str:
    return name if len(name) <= most else shorten(name.replace(",", ", "), most, placeholder=" …")


def _s(distribution: Mapping[str, int] | None, percentile: str) -> float | None:
    return None if distribution is None else distribution[percentile] / NS_PER_S


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1_000_000
