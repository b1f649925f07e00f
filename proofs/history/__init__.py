"""History variables: what a rule promises of a whole run, where no variable of the relation says it.

Events write them, and no guard or effect of a rule reads them: they change no run (Owicki and Gries, 1976, call them
auxiliary).  Each counts or keeps something in another way than the rule does, so that the two can disagree.
"""

from . import steps, door, tokens, blocks, drain, host  # isort: skip  (names of promises count in this order)
from .watched import HISTORY, Remembered, remembered

__all__ = ["HISTORY", "Remembered", "blocks", "door", "drain", "host", "registry", "steps", "tokens"]

registry = remembered()
