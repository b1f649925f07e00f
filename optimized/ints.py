"""Arrays of 64-bit integers."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LARGEST = 1 << 62
"""No sum of two numbers within this overflows."""

NOTHING: Ints = np.empty(0, dtype=np.int64)


def integers(count: int) -> Ints:
    return np.zeros(count, dtype=np.int64)
