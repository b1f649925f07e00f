"""What a replay was like, for people: pictures, and one page that has them all.

It reads what `schedspec replay` writes to replay.json, and needs the extra `report`: matplotlib and jinja2.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["NEEDS", "write_page"]

NEEDS = "no pictures were drawn, since {} is not installed: pip install 'schedspec[report]'"


def write_page(told: Mapping[str, Any], folder: Path) -> str:
    """report.html in the folder, and the pictures beside it.  What there is to say of it, in a sentence."""
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        return NEEDS.format(" or ".join(missing))
    if not told["runs"]:
        return "no page was written: no run is done"
    from .page import write

    return f"pictures in {write(told, folder)}"
