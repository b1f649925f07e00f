"""Steps that must be possible: without them a rule that became stricter than it is would break no proof.

A guard that is left out or weaker lets an invariant break; one that is stricter breaks none, since all that it still
lets happen keeps them.  So there is a list of what the rules must permit, each a sentence and a formula that some state
of a finite scope must satisfy together with all guards: budgets that are used to the last token, each reason to refuse,
each way to end.
"""

from collections.abc import Mapping, Sequence

from .counters import COUNTERS
from .door import DOOR
from .engine import ENGINE
from .step import Possible
from .transfers import TRANSFERS

from . import host  # isort: skip  (adds to the steps of the engine)

__all__ = ["POSSIBLE", "Possible", "host"]

POSSIBLE: Mapping[str, Sequence[Possible]] = {
    "engine": ENGINE,
    "counters": COUNTERS,
    "transfers": TRANSFERS,
    "door": DOOR,
}
"""Theory -> its steps."""
