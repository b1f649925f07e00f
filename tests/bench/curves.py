"""Cost against who runs, and against what changes: points with their floors, a plot, and the table of the README.

At constant change so many requests of one output are admitted, and those of the step before end; all others decode.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import Request, Settings

from .floors import bytes_a_second, looked_at
from .measure import Result, Skipped, median
from .rounds import OfArrays, Runs, decoding, fill, measured

PLOT = "bench-optimized.svg"
NO_MATPLOTLIB = "matplotlib is not installed, so nothing was plotted: pip install 'schedspec[bench]'"
BEGIN, END = "<!-- printed by tests/bench/run.py --write -->", "<!-- end -->"


@frozen(kw_only=True)
class Size:
    running: tuple[int, ...] = (16, 64, 256, 1_024, 4_096, 16_384, 65_536)
    changing: int = 16
    changes: tuple[int, ...] = (1, 4, 16, 64, 256)
    at: int = 1_024
    rounds: int = 96


TINY = Size(running=(2, 4), changing=1, changes=(1, 2), at=4, rounds=8)


@define
class Short:
    """Requests that come, are admitted, get an output and end."""

    numbers: Iterator[int] = Factory(count)

    def keep(self, waiting: int, runs: Runs) -> None:
        while runs.waiting < waiting:
            runs.submit(Request(id=f"s{next(self.numbers)}", prompt_ids=tuple(range(16)), max_output_tokens=1))


def bench(size: Size) -> Iterator[Result]:
    copied = bytes_a_second()
    yield Result(name="curves.copy", figure=copied / 1e9, unit="GB/s read and written: what floors are counted with")
    for running in size.running:
        yield point(f"decode.{running}", size, running, 0, copied)
    for running in size.running:
        yield point(f"change_{size.changing}.{running}", size, running, size.changing, copied)
    for change in size.changes:
        yield point(f"at_{size.at}.{change}", size, size.at, change, copied)


def point(name: str, size: Size, running: int, change: int, copied: float) -> Result:
    plain = decoding(running, size.rounds)
    settings = Settings(blocks=plain.blocks + 2 * change, seats=running + change, token_budget=plain.token_budget + 16)
    runs, short = OfArrays.of(settings), Short()
    fill(runs, running, size.rounds, 1)

    def keep(runs: Runs) -> None:
        short.keep(change, runs)

    measured(runs, 8, keep)
    samples = measured(runs, size.rounds // 2, keep)
    keep(runs)
    changed, calls = looked_at(runs)
    figure, floor = median(samples) * 1e6, changed.floor_us(copied)
    more = {
        "best_us": min(samples) * 1e6,
        "bytes": changed.numbers * 8,
        "operations": changed.operations,
        "floor_us": floor,
        "python_calls": calls.python,
        "built_in_calls": calls.built_in,
    }
    unit = f"µs/step, floor {floor:,.2f} µs ({changed.numbers * 8:,} bytes, {changed.operations:,} operations)"
    return Result(name=f"curves.{name}", figure=figure, unit=unit, best="least", more=more)


# --- what is made of them ----------------------------------------------------------------------------------------


def curve(figures: Mapping[str, Mapping[str, Any]], name: str, field: str = "figure") -> tuple[list[int], list[float]]:
    """Of all figures with that name: the number behind it, and a field."""
    found = {int(key.rsplit(".", 1)[1]): value[field] for key, value in figures.items() if key.startswith(f"{name}.")}
    return sorted(found), [found[place] for place in sorted(found)]


def plot(figures: Mapping[str, Mapping[str, Any]], folder: Path) -> Path:
    """Raises Skipped where matplotlib is not."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Skipped(NO_MATPLOTLIB) from None
    names = sorted({key.rsplit(".", 1)[0] for key in figures if key.startswith("curves.") and "." in key[7:]})
    drawn = Figure(figsize=(11, 4.5), layout="constrained")
    of_running, of_change = drawn.subplots(1, 2)
    for name in names:
        axes, label = (of_change, "who runs: " + name[10:]) if name.startswith("curves.at_") else (of_running, name[7:])
        (line,) = axes.plot(*curve(figures, name), marker="o", label=label.replace("change_", "admitted and ended: "))
        axes.plot(*curve(figures, name, "floor_us"), linestyle=":", color=line.get_color(), label="its floor")
    for axes, what in ((of_running, "running"), (of_change, "admitted and ended in a step")):
        axes.set(xscale="log", yscale="log", xlabel=what, ylabel="µs a step, median")
        axes.legend()
        axes.grid(visible=True, alpha=0.3)
    file = folder / PLOT
    drawn.savefig(file)
    return file


def floor_of(name: str, figures: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Of our step in a figure that is no curve: of a curve with as many who run and change, if there is one."""
    kind, _, running = name.partition(".")[2].removeprefix("messages.").partition(".")
    curve = {"decode": "decode", "mixed": "change_16"}.get(kind)
    found = figures.get(f"curves.{curve}.{running.rpartition('.')[2]}")
    return None if found is None else float(found["floor_us"])


def table(figures: Mapping[str, Mapping[str, Any]], about: str) -> str:
    """The figures of vLLM, of the reference and of the curves, as they were printed."""
    rows = [about, "", "| what | asked | figure | floor, µs | |", "| --- | --- | --- | --- | --- |"]
    for name, value in figures.items():
        if name.split(".")[0] in ("vllm", "optimized"):
            asked = "–" if value["asked"] is None else f"{value['asked']:,}"
            floor = floor_of(name, figures)
            shown = "–" if floor is None else f"{floor:,.2f}"
            rows.append(f"| `{name}` | {asked} | {value['figure']:,.1f} | {shown} | {value['unit']} |")
    rows += ["", "| state | µs, median | best | floor, µs | bytes | operations | calls: Python | built in |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, value in figures.items():
        if "floor_us" in value:
            cells = [f"{value[key]:,.1f}" for key in ("figure", "best_us")] + [f"{value['floor_us']:,.2f}"]
            cells += [f"{value[key]:,}" for key in ("bytes", "operations", "python_calls", "built_in_calls")]
            rows.append(f"| `{name.removeprefix('curves.')}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def write(text: str, readme: Path, begin: str = BEGIN) -> None:
    """Between `begin` and the next END."""
    before, rest = readme.read_text(encoding="utf-8").split(begin)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", encoding="utf-8")
