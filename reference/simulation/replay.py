"""The same arrivals for several systems, each on its own clock; what comes out is plain data, the same for a seed."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from attrs import field, frozen

from ...spec.vocabulary import Settings, SubjectFactory, to_json
from ...spec.workloads import Incoming
from .engine import Simulation, SimulationError
from .metrics import Objective, Shares, metrics
from .profiles import Profile
from .record import Record

BLOCK_SIZE = 16


@frozen
class System:
    """A subject under some settings, by the name that somebody gave it."""

    name: str
    factory: SubjectFactory
    settings: Settings


@frozen(kw_only=True)
class Conditions:
    """What is the same for all systems.  `more`: what else is to be told of a run's records, as `intervals`."""

    profile: Profile
    objective: Objective = field(factory=Objective)
    shares: Shares = field(factory=Shares)
    seed: int = 0
    host_ns: int = 0
    fast_forward: bool = True
    price_per_hour: Fraction | None = None
    more: Callable[[Iterable[Record], Objective], dict[str, Any]] | None = None


def default_settings(profile: Profile) -> dict[str, int]:
    """A pool as large as the device has, seats that do not bind before it, and steps of usual size."""
    return {"blocks": profile.kv_tokens // BLOCK_SIZE, "block_size": BLOCK_SIZE, "seats": 256, "token_budget": 2_048}


def replay(
    system: System,
    workload: Iterable[Incoming],
    conditions: Conditions,
    progress: Callable[[int], None] = lambda requests: None,
) -> dict[str, Any]:
    """One run: the subject, its settings, and all metrics.  Without the claim `overlap` one step is in flight.  Raises
    SimulationError where it would have to know which drafts are right."""
    if system.settings.draft_tokens:
        drafts = system.settings.draft_tokens
        raise SimulationError(f"draft_tokens is {drafts}, but which drafts are right is not simulated: leave it out")
    subject = system.factory(system.settings, conditions.seed)
    shown = subject.capabilities()
    depth = system.settings.overlap_depth if "overlap" in shown.claims else 1
    simulation = Simulation(
        subject,
        conditions.profile.cost,
        depth=depth,
        host_ns=conditions.host_ns,
        swap_block_ns=system.settings.swap_block_ns,
        fast_forward=conditions.fast_forward,
    )
    log = simulation.run(workload, progress=progress)
    return {
        "subject": {"name": shown.name, "version": shown.version},
        "settings": to_json(system.settings),
        "steps_in_flight": depth,
        "metrics": metrics(log, conditions.objective, conditions.shares, price_per_hour=conditions.price_per_hour),
        "intervals": conditions.more(log.records.values(), conditions.objective) if conditions.more else None,
    }
