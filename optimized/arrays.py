"""Running requests as columns: a row per request, a column per field.  Rows are reused, and grow by doubling."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import define, field

from .ints import Bools, Ints, integers
from .job import NO_ROW, Job

LENGTHS = ("issued", "left", "computed", "outputs", "samples_left", "declared", "held", "prefill_end")
FIELDS = (
    *LENGTHS,
    *("client", "rate", "lane", "lane_rate", "charged_outputs"),
)
OF_LENGTHS = len(LENGTHS)
FEW_ROWS = 16


@define(eq=False)
class Rows:
    """`left` positions are known and not issued, `samples_left` outputs are declared and neither there nor in flight,
    `held` blocks stand in the table.  A row's `generation` changes when its request leaves it: an entry of an older
    one is nobody's any more.  `left_so_far` counts who left any row."""

    columns: npt.NDArray[np.int64]
    generation: Ints
    taken: Bools
    jobs: list[Job | None]
    unused: list[int]
    left_so_far: int = 0
    issued: Ints = field(init=False)
    left: Ints = field(init=False)
    computed: Ints = field(init=False)
    outputs: Ints = field(init=False)
    samples_left: Ints = field(init=False)
    declared: Ints = field(init=False)
    held: Ints = field(init=False)
    prefill_end: Ints = field(init=False)
    client: Ints = field(init=False)
    rate: Ints = field(init=False)
    lane: Ints = field(init=False)
    lane_rate: Ints = field(init=False)
    charged_outputs: Ints = field(init=False)

    @classmethod
    def of(cls, count: int) -> "Rows":
        columns = np.zeros((len(FIELDS), count), dtype=np.int64)
        return cls(columns, integers(count), np.zeros(count, dtype=np.bool_), [None] * count, _downwards(count, 0))

    def __attrs_post_init__(self) -> None:
        self._name_columns()

    @property
    def count(self) -> int:
        return len(self.jobs)

    def seat(self, jobs: Sequence[Job], held: Ints) -> Ints:
        """Rows for requests that begin to run, with so many blocks each.  What is of clients stays as it was."""
        count = len(jobs)
        while len(self.unused) < count:
            self._double()
        numbers = self.unused[: -count - 1 : -1]
        del self.unused[-count:]
        for row, job in zip(numbers, jobs, strict=True):
            self.jobs[row] = job
            job.row = row
        rows = np.array(numbers, dtype=np.int64)
        self.taken[rows] = True
        lengths = []
        for job, blocks in zip(jobs, held.tolist(), strict=True):
            outputs, declared = job.outputs, job.declared
            known = job.prompt + outputs
            lengths.append((0, known, 0, outputs, declared - outputs, declared, blocks, known))
        if count == 1:
            self.columns[:OF_LENGTHS, numbers[0]] = lengths[0]
        else:
            self.columns[:OF_LENGTHS, rows] = np.array(lengths, dtype=np.int64).T
        return rows

    def leave(self, rows: Ints) -> list[Job]:
        """Their requests run no longer, and know again how many outputs they have; who they were."""
        numbers, jobs = rows.tolist(), self.jobs
        left = [jobs[row] for row in numbers]
        for row, job, outputs in zip(numbers, left, self.outputs[rows].tolist(), strict=True):
            job.row, job.outputs = NO_ROW, outputs
            jobs[row] = None
        self.unused += numbers
        self.generation[rows] += 1
        self.taken[rows] = False
        self.left_so_far += len(left)
        return left

    def jobs_at(self, rows: Ints) -> list[Job]:
        return [self.jobs[row] for row in rows.tolist()]

    def copy(self) -> "Rows":
        """The same numbers, to be changed without harm."""
        return Rows(self.columns.copy(), self.generation, self.taken, self.jobs, self.unused)

    def _double(self) -> None:
        count = self.count
        self.columns = np.concatenate((self.columns, np.zeros_like(self.columns)), axis=1)
        self.generation = np.concatenate((self.generation, np.zeros_like(self.generation)))
        self.taken = np.concatenate((self.taken, np.zeros_like(self.taken)))
        self.jobs += [None] * count
        self.unused = _downwards(2 * count, count) + self.unused
        self._name_columns()

    def _name_columns(self) -> None:
        for name, column in zip(FIELDS, self.columns, strict=True):
            setattr(self, name, column)


def _downwards(end: int, first: int) -> list[int]:
    return list(range(end - 1, first - 1, -1))
