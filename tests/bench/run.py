"""Measures speeds: `python tests/bench/run.py [--only NAME] [--json] [--tiny] [--write]`.

Prints a table and writes build/bench.json: name -> figure, unit, asked, ratio and what else was seen.  A ratio of at
least 1 is what is asked for.  What needs something that is not here is skipped, and said.  `--write` brings the tables
in optimized/README.md and spec/README.md up to date.  Nothing here passes or fails: a machine that does something else
is slower.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # it is run by its path

import numpy  # noqa: E402
from tests.bench import (  # noqa: E402
    beside_vllm,
    bulk,
    campaigns,
    curves,
    monitors,
    optimized,
    policies,
    schedulers,
    searches,
    simulation,
    traces,
)
from tests.bench.measure import Result, Skipped  # noqa: E402

from schedspec.conformance.subjects.vllm_release import KNOWN_VERSIONS  # noqa: E402

BENCHES: dict[str, Callable[[bool], Iterator[Result]]] = {
    "monitor": lambda tiny: monitors.bench(monitors.TINY if tiny else monitors.Size()),
    "bulk": lambda tiny: bulk.bench(bulk.TINY if tiny else bulk.Size()),
    "reference": lambda tiny: schedulers.bench(schedulers.TINY if tiny else schedulers.Size()),
    "optimized": lambda tiny: optimized.bench(optimized.TINY if tiny else optimized.Size()),
    "vllm": lambda tiny: beside_vllm.bench(beside_vllm.TINY if tiny else beside_vllm.Size(), tiny=tiny),
    "curves": lambda tiny: curves.bench(curves.TINY if tiny else curves.Size()),
    "policies": lambda tiny: policies.bench(policies.TINY if tiny else policies.Size()),
    "search": lambda tiny: searches.bench(searches.TINY if tiny else searches.Size()),
    "simulation": lambda tiny: simulation.bench(simulation.TINY if tiny else simulation.Size()),
    "hour": lambda tiny: simulation.hour(simulation.TINY_HOUR if tiny else simulation.Hour()),
    "campaign": lambda tiny: campaigns.bench(campaigns.TINY if tiny else campaigns.Size()),
    "trace": lambda tiny: traces.bench(traces.TINY if tiny else traces.Size()),
}
ROW = "{:<60} {:>12} {:>10} {:>7}  {}"


def main() -> None:
    options = parsed()
    if options.write_trace is not None:
        traces.write_trace(options.write_trace)
    elif options.judge_trace is not None:
        traces.judge_trace(options.judge_trace)
    else:
        figures = measure(options.only or list(BENCHES), tiny=options.tiny, as_json=options.json, file=options.out)
        if options.write:
            write(figures, ROOT / "optimized" / "README.md")


def write(figures: dict[str, dict[str, Any]], readme: Path) -> None:
    """The tables of what was measured."""
    measured = {name.split(".")[0] for name in figures}
    if measured & {"vllm", "optimized", "curves"}:
        curves.write(curves.table(figures, about()), readme)
    if "search" in measured:
        curves.write(searches.table(figures, about()), ROOT / "spec" / "README.md", searches.BEGIN)
    if "bulk" in measured:
        curves.write(bulk.table(figures, about()), readme, bulk.BEGIN)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure speeds.")
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="this bench (repeatable)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--tiny", action="store_true", help="a few rounds: do the benches run at all?")
    parser.add_argument("--write", action="store_true", help="the tables of optimized/README.md and spec/README.md")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="where the figures go")
    parser.add_argument("--write-trace", type=int, metavar="LINES", help=argparse.SUPPRESS)
    parser.add_argument("--judge-trace", type=int, metavar="LINES", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(names: list[str], *, tiny: bool, as_json: bool, file: Path) -> dict[str, dict[str, Any]]:
    begun = time.monotonic()
    figures: dict[str, dict[str, Any]] = {}
    if not as_json:
        print(ROW.format("", "figure", "asked", "ratio", ""))
    for name in names:
        try:
            for result in BENCHES[name](tiny):
                figures[result.name] = as_dict(result)
                if not as_json:
                    print(as_row(result), flush=True)
        except Skipped as skipped:
            print(f"{name}: {skipped}", file=sys.stderr)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(figures))
    else:
        print(f"{time.monotonic() - begun:.0f} s on {about()}; written to {file}")
    if "curves" in names:
        try:
            print(f"plotted to {curves.plot(figures, file.parent)}", file=sys.stderr)
        except Skipped as skipped:
            print(f"curves: {skipped}", file=sys.stderr)
    return figures


def about() -> str:
    """Chip, load, versions.  Seeds are fixed: whoever runs it again measures the same states."""
    chips = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    chip = f"{len(chips)} cores of {chips[0]}" if chips else platform.processor() or platform.machine()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{chip}{load}, Python {platform.python_version()}, numpy {numpy.__version__}, vLLM {KNOWN_VERSIONS[0]}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def as_dict(result: Result) -> dict[str, Any]:
    told = {"figure": result.figure, "unit": result.unit, "asked": result.asked, "ratio": result.ratio}
    return told | dict(result.more)


def as_row(result: Result) -> str:
    asked = "–" if result.asked is None else f"{result.asked:,.6g}"
    ratio = "–" if result.ratio is None else f"{result.ratio:.2f}"
    over = f", {result.more['over_plain']:.1f} times plain" if "over_plain" in result.more else ""
    if "floor" in result.more:
        over += ", floor {floor:,.0f} ({bytes} bytes, {operations} operations a pair)".format(**result.more)
    figure = f"{result.figure:,.{0 if result.figure > 100 else 2}f}"
    return ROW.format(result.name, figure, asked, ratio, result.unit + over)


if __name__ == "__main__":
    main()
