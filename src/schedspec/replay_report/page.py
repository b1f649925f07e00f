"""One HTML page that needs no other file: a table of all runs, what is missing, and the pictures."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from ..conformance.files import replace_file
from .pictures import pictures, save

TEMPLATE = Path(__file__).with_name("page.html")


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
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"ms": ms, "percent": percent, "number": number}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return page.render(told=told, pictures=shown, missing=missing(told)) + "\n"


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
