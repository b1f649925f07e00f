"""Which phases a step may run: prefill, decode, or both at once; and when it admits anybody."""

from collections.abc import Iterable
from typing import Literal

from ..spec.settings import Settings
from .job import Job

Phase = Literal["prefill", "decode"]
Phases = frozenset[Phase]

BOTH: Phases = frozenset({"prefill", "decode"})
PREFILL: Phases = frozenset({"prefill"})
DECODE: Phases = frozenset({"decode"})


def phase_of(job: Job) -> Phase:
    """Of one that runs; what was known when it was (re)admitted is prefill."""
    return "prefill" if job.issued < job.prefill_end else "decode"


def phase_at_entry(job: Job) -> Phase:
    """Of one that waits: who was swapped while it decoded decodes on."""
    return "prefill" if job.enters_prefill else "decode"


def turns(settings: Settings, running: Iterable[Job], last: Phases) -> tuple[Phases, ...]:
    """Phases that the step may be of, in the order in which they are tried: the first that has something to run.

    A batch that does not mix phases is of the one that comes first, or that of whoever was admitted first; or, in turn,
    of the one that the `last` step was not of.
    """
    if settings.batch_mix == "hybrid":
        return (BOTH,)
    first: str = settings.phase_first
    if first == "alternate":
        first = "decode" if last == PREFILL else "prefill"
    if first == "admission":
        first = next((phase_of(job) for job in running if not job.is_sure_to_end), "prefill")
    return (PREFILL, DECODE) if first == "prefill" else (DECODE, PREFILL)


def in_turn(jobs: Iterable[Job], phases: Phases, settings: Settings) -> list[Job]:
    """Those of the phases of the step, in the order in which the budget goes to them."""
    chosen = [job for job in jobs if phase_of(job) in phases] if phases != BOTH else list(jobs)
    if settings.phase_first in ("admission", "alternate"):
        return chosen
    return sorted(chosen, key=lambda job: phase_of(job) != settings.phase_first)
