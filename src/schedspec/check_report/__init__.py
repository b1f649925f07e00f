"""What a check or a recorded run was like, for people: one page of all of it, and one of each failure.

Each page is a file that needs no other and no network.  It needs the extra `report`: jinja2.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..conformance.shown import Shown
    from ..conformance.timeline import Timeline

__all__ = ["NEEDS", "lacks", "write_fleet_pages", "write_pages"]

NEEDS = "no page (report.html) was written, since jinja2 is not installed: pip install 'schedspec[report]'"


def lacks() -> str | None:
    """Why there can be no page, in a sentence."""
    return NEEDS if find_spec("jinja2") is None else None


def write_pages(
    folder: Path, told: Mapping[str, Any], failures: Sequence["Shown"], timeline: "Timeline | None" = None
) -> str | None:
    """report.html in the folder, and failures/ID.html; `timeline`: of a run that breaks nothing.  Why not, if there can
    be none."""
    if (why := lacks()) is None:
        from .page import write

        write(folder, told, failures, timeline)
    return why


def write_fleet_pages(folder: Path, told: Mapping[str, Any]) -> str | None:
    """report.html of a fleet, and for each failure of an engine engines/NAME/failures/ID.html.  Why not, if there can
    be none."""
    if (why := lacks()) is None:
        from .fleet import write_fleet

        write_fleet(folder, told)
    return why
