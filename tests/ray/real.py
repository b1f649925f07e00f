"""A fleet under real arrivals, packed: minutes of the Azure trace over many engines, three of which have a fault, as
has what lies between them and the router."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve

from schedspec.reference.faults import factory
from schedspec.reference.faults.routers import FLEETS
from schedspec.reference.fleet import SETTINGS, STEP_NS, new_fleet
from schedspec.reference.router import Router
from schedspec.spec.vocabulary import Door, Request
from schedspec.spec.workloads import parse_workload, to_requests

WORKLOAD = "azure"
ENGINES = 24
CLIENTS = 5
PLANTED: Mapping[int, str] = {3: "PRE-4", 11: "PRE-6", 19: "KV-4"}
BETWEEN = "FLEET-3"
POOL = evolve(
    SETTINGS, blocks=400, block_size=16, seats=6, token_budget=512, max_model_tokens=6_000, door=Door(queue_requests=6)
)


def requests(seed: int) -> list[tuple[int, Request]]:
    """Five minutes in eight seconds.  The trace has no clients, so they are dealt out."""
    source = parse_workload(WORKLOAD, first_s=300, rate=40, seed=seed)
    incoming = enumerate(to_requests(source.arrivals(), seed))
    return [(one.now_ns, evolve(one.request, client=f"c{number % CLIENTS}")) for number, one in incoming]


def write_real(folder: Path, seed: int = 1) -> None:
    """`folder/rack/ENGINE.jsonl.zst`, and the log of the router.  Raises MissingWorkload where there is no trace."""
    import zstandard

    fleet = new_fleet(
        ENGINES,
        seed,
        router=Router,
        settings=POOL,
        factories={number: factory(rule) for number, rule in PLANTED.items()},
        fleet=FLEETS[BETWEEN],
        patience_ns=40 * STEP_NS,
    )
    fleet.run(requests(seed))
    (folder / "rack").mkdir(parents=True)
    with TemporaryDirectory() as plain:
        fleet.write(Path(plain))
        for path in Path(plain).iterdir():
            packed = zstandard.ZstdCompressor().compress(path.read_bytes())
            (folder / "rack" / f"{path.name}.zst").write_bytes(packed)
