"""Work that is cut into units: run on one process, on all cores or on Ray, and merged in the order of the units.

Nothing here knows what a unit does: it names a function, and what that is given and answers is plain data.
"""

from .journal import Journal, must_be_begun
from .places import PATIENCE_S, WHERE, executor_of
from .run import Watch, run_campaign
from .units import CampaignError, Unit

__all__ = [
    "PATIENCE_S",
    "WHERE",
    "CampaignError",
    "Journal",
    "Unit",
    "Watch",
    "executor_of",
    "must_be_begun",
    "run_campaign",
]
