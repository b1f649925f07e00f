"""One HTML page that needs no other file: a table of all runs, what is missing, and the pictures."""

import base64
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import jinja2

from ..conformance.files import replace_file
from .pictures import pictures, save

TEMPLATES = Path(__file__).parent


def write(told: Mapping[str, Any], folder: Path) -> Path:
    """The page's path.  The pictures are also there by themselves, as SVG and PNG."""
    (folder / "pictures").mkdir(exist_ok=True)
    for old in (folder / "pictures").glob("load*"):
        old.unlink()
    shown = [(title, data_of(save(name, figure, folder / "pictures"))) for name, title, figure in pictures(told)]
    page = folder / "report.html"
    replace_file(page, rendered(told, shown))
    return page


def rendered(told: Mapping[str, Any], shown: list[tuple[str, str]]) -> str:
    """`shown`: title and address of each picture."""
    page = environment().get_template("page.html")
    columns = [
        *product(("ttft_ns", "itl_ns"), ("p50", "p95", "p99")),
        ("queue_age_ns", "p95"),
        ("end_to_end_ns", "p95"),
    ]
    more = {"interval_columns": columns, "to_ms": ms, "to_percent": "{:.1%}".format}
    return page.render(told=told, pictures=shown, missing=missing(told), **more) + "\n"


def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    made.filters |= {"ms": ms, "percent": percent, "number": number, "interval": interval}
    return made


def missing(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(system, load) that were asked for and are not there."""
    done = {(run["system"], run["load"]) for run in told["runs"]}
    planned = told["planned"]
    return [pair for load in planned["loads"] for system in planned["systems"] if (pair := (system, load)) not in done]


def data_of(svg: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode()


def ms(ns: int | None) -> str:
    """From ten seconds on in seconds."""
    if ns is None:
        return "–"
    return f"{ns / 1e9:,.1f} s" if ns >= 10**10 else f"{ns / 1e6:,.1f}" if ns < 10**7 else f"{ns / 1e6:,.0f}"


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def interval(ends: list[float] | None, shown: Callable[[Any], str]) -> str:
    """What a figure's 95 % interval is, or nothing."""
    return "" if ends is None else f"{shown(ends[0])} – {shown(ends[1])}"
