"""Cost models around another one: slower ones, and those that remember what ran."""

from attrs import define, frozen

from ..simulation import Batch, CostModel


@define(eq=False)
class Longest:
    """A cost model that remembers its longest step."""

    cost: CostModel
    ns: int = 0

    def step_ns(self, batch: Batch) -> int:
        took_ns = self.cost.step_ns(batch)
        self.ns = max(self.ns, took_ns)
        return took_ns


@define(eq=False)
class Decodes:
    """A cost model that sums up its steps of decodes alone."""

    cost: CostModel
    steps: int = 0
    ns: int = 0

    def step_ns(self, batch: Batch) -> int:
        took_ns = self.cost.step_ns(batch)
        if not batch.chunks:
            self.steps, self.ns = self.steps + 1, self.ns + took_ns
        return took_ns


@frozen
class Slower:
    """A cost model whose steps take so many percent."""

    cost: CostModel
    percent: int

    def step_ns(self, batch: Batch) -> int:
        return self.cost.step_ns(batch) * self.percent // 100
