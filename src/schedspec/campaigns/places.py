"""Where a campaign runs, as it is written behind `--on`."""

import os

from .local import Local
from .run import Executor, Here
from .units import CampaignError

PATIENCE_S = 600.0
WHERE = "one (this process), local[:PROCESSES] or ray[:ADDRESS]"


def executor_of(where: str, patience_s: float = PATIENCE_S) -> Executor:
    """Raises CampaignError for a place that there is not."""
    name, colon, more = where.partition(":")
    if name == "one" and not colon:
        return Here()
    if name == "local":
        if colon and not (more.isdecimal() and int(more) > 0):
            raise CampaignError(f"--on {where}: {more!r} is no number of processes: write local:4, say")
        return Local(int(more) if colon else os.cpu_count() or 1, patience_s)
    if name == "ray":
        from .on_ray import OnRay

        return OnRay(more, patience_s)
    raise CampaignError(f"--on {where}: there is no such place: write {WHERE}")
