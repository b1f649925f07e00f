"""Time for a scheduler: a virtual clock, an engine that takes as long as a published cost model says, and metrics."""

from .costs import Batch, CostModel
from .engine import Simulation, SimulationError
from .metrics import Objective, Shares, metrics, ttft_ns
from .profiles import DEFAULT, PROFILES, Profile
from .record import Log, Record
from .replay import Conditions, System, default_settings, replay
from .samples import PERCENTS

__all__ = [
    "DEFAULT",
    "PERCENTS",
    "PROFILES",
    "Batch",
    "Conditions",
    "CostModel",
    "Log",
    "Objective",
    "Profile",
    "Record",
    "Shares",
    "Simulation",
    "SimulationError",
    "System",
    "default_settings",
    "metrics",
    "replay",
    "ttft_ns",
]
