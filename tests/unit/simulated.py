"""What the tests of the simulation share: small workloads, and costs that are easy to reckon with."""

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from attrs import evolve, field, frozen

from schedspec.reference.simulation import Batch, CostModel, Log, Simulation, metrics
from schedspec.spec.vocabulary import NS_PER_S, Request, Settings, SubjectFactory
from schedspec.spec.workloads import Incoming, Patience

MS = 1_000_000


@frozen
class Constant:
    """Each step takes as long."""

    ns: int = 10 * MS

    def step_ns(self, batch: Batch) -> int:
        return self.ns


@frozen
class PerToken:
    """A fixed time, and one per token; a position that is read costs a nanosecond, so that no two steps are alike."""

    fixed_ns: int = 5 * MS
    token_ns: int = 10_000

    def step_ns(self, batch: Batch) -> int:
        return self.fixed_ns + self.token_ns * batch.tokens + batch.context_tokens


def incoming(
    id: str, now_ns: int, prompt: int, output: int, *, declared: int | None = None, client: str = "default"
) -> Incoming:
    """A request whose model ends after `output` tokens; by default it declares as many."""
    ids = tuple(range(prompt))
    request = Request(id=id, prompt_ids=ids, max_output_tokens=declared or output, client=client)
    return Incoming(now_ns=now_ns, request=request, output_tokens=output)


def client(
    id: str,
    now_ns: int,
    prompt: int,
    output: int,
    *,
    cancel_after_ns: int | None = None,
    patience: Patience | None = None,
) -> Incoming:
    return evolve(incoming(id, now_ns, prompt, output), cancel_after_ns=cancel_after_ns, patience=patience)


def poisson(seed: int, count: int, per_s: float, prompt: int, output: int, clients: int = 1) -> list[Incoming]:
    """Lengths even up to the two, declared up to four tokens too long."""
    dice, now, made = Random(f"poisson {seed}"), 0, []
    for number in range(count):
        now += int(dice.expovariate(per_s) * NS_PER_S)
        truth = dice.randint(1, output)
        shape = dice.randint(1, prompt), truth
        client = f"c{dice.randrange(clients)}"
        made.append(incoming(f"r{number}", now, *shape, declared=truth + dice.randint(0, 4), client=client))
    return made


def with_priorities(requests: Iterable[Incoming], seed: int) -> list[Incoming]:
    dice = Random(seed)
    return [evolve(one, request=evolve(one.request, priority=dice.randrange(3))) for one in requests]


def run(
    factory: SubjectFactory,
    settings: Settings,
    workload: Iterable[Incoming],
    cost: CostModel | None = None,
    **options: object,
) -> Log:
    depth = settings.overlap_depth
    return Simulation(factory(settings, 0), cost or PerToken(), depth=depth, **options).run(workload)  # type: ignore[arg-type]


def as_bytes(log: Log) -> bytes:
    return json.dumps(metrics(log)).encode()


@frozen(eq=False)
class Watched:
    """A subject that is looked at whenever somebody comes, and otherwise left alone; so it has to have something to
    show."""

    subject: Any
    seen: list[object] = field(factory=list)

    def __getattr__(self, name: str) -> object:
        if name == "in_counts":
            raise AttributeError(name)
        return getattr(self.subject, name)

    def look(self) -> object:
        return self.subject.observe()

    def submit(self, request: Request, now_ns: int) -> object:
        self.seen.append((now_ns, self.look()))
        return self.subject.submit(request, now_ns)
