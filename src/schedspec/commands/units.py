"""What a worker does with a unit of a campaign: functions of (what is given, beat), of plain data both.

What they answer has no clock in it: the same that is given has the same answer, wherever it runs.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..campaigns.units import Beat
from ..spec.vocabulary import SettingsWarning


def judge_engine(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """One file of a fleet: `file`, `engine` (by its place), `plain`, `window_ns`."""
    from ..conformance.fleet import SHORTENING, engine_result, unread_result
    from ..spec.fleets.stays import Witness
    from .recorded import judge_file

    path, witness = Path(given["file"]), Witness(given["window_ns"])
    warnings.simplefilter("ignore", SettingsWarning)
    try:
        judged = judge_file(path, lambda *_: beat(), plain=given["plain"], shortening=SHORTENING, witness=witness)
    except (ValueError, OSError) as fault:
        return unread_result(given["engine"], path, str(fault))
    return engine_result(given["engine"], judged, witness)
