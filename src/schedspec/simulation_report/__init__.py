"""What a replay or a tuning was like, for people: pictures, and one page that has them all.

It reads what `schedspec replay` and `schedspec tune` write, and needs the extra `report`: matplotlib and jinja2.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["NEEDS", "write_page", "write_tuning"]

NEEDS = "no pictures were drawn, since {} is not installed: pip install 'schedspec[report]'"


def write_page(told: Mapping[str, Any], folder: Path) -> str:
    """report.html of a replay in the folder, and the pictures beside it.  What there is to say of it, in a sentence."""
    if lacks := _lacks(told):
        return lacks
    from .page import write

    return f"pictures in {write(told, folder)}"


def write_tuning(told: Mapping[str, Any], folder: Path) -> str:
    """The same of a tuning."""
    if lacks := _lacks(told):
        return lacks
    from .tuning import write

    return f"pictures in {write(told, folder)}"


def _lacks(told: Mapping[str, Any]) -> str | None:
    """Why there can be no page."""
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        return NEEDS.format(" or ".join(missing))
    return None if told["runs"] else "no page was written: no run is done"
