"""A calm step, told in short."""

from collections.abc import Sequence
from typing import NamedTuple

from ..spec.vocabulary import Delta

Told = tuple[str, int, int, int]
"""An entry of a step: request, start, tokens, whether it samples."""


class Calm(NamedTuple):
    """Who decodes gets its next position and an output; and beside these there are only so many entries."""

    entries: Sequence[Told] = ()
    deltas: Sequence[Delta] = ()
