"""Fleets of the reference, which mutants of its router and of what runs engines behind it are asked to repeat."""

import signal
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve
from tests.vectors.fleets import ENGINES, SEED, WORLDS, Recorded, World

MODULES = ("reference/fleet.py", "reference/router.py")
FLEET_S = 30
SEEDS = 4
FEW_MS = 20

Run = Callable[[Any, Any], Any]
"""(the module of fleets, that of routers) -> a fleet that has run."""


def fleets() -> Iterator[tuple[str, int, Run]]:
    """(name, window of FLEET-4 in ms, run): those of the vectors, of random arrivals, and flooded ones."""
    yield from ((f"world {rule}", world.window_ms, _of_world(world)) for rule, world in WORLDS.items())
    for seed in range(SEEDS):
        yield f"arrivals {seed}", FEW_MS, _of_arrivals(seed)
    for engines in (1, ENGINES):
        yield f"flooded {engines}", FEW_MS, _flooded(engines)


def _of_world(world: World) -> Run:
    def run(fleet: Any, router: Any) -> Any:
        how = {"patience_ns": world.patience_ns, "retain_ns": world.retain_ns}
        kind = getattr(router, world.router.__name__)
        ran = fleet.new_fleet(ENGINES, SEED, router=kind, settings=world.settings, **how)
        ran.run(world.arrivals)
        return ran

    return run


def _flooded(engines: int) -> Run:
    return lambda fleet, router: fleet.flooded(engines, router.Dealer, engines, each=12)


def _of_arrivals(seed: int) -> Run:
    """The first by the defaults of everything, with one engine of another make."""

    def run(fleet: Any, router: Any) -> Any:
        if not seed:
            ran = fleet.new_fleet(ENGINES, seed, factories={1: _other_name(fleet.make)})
            ran.run(fleet.arrivals(40, seed))
            return ran
        how = {"patience_ns": 8 * fleet.STEP_NS, "retain_ns": seed * 200 * fleet.STEP_NS}
        ran = fleet.new_fleet(ENGINES + 1, seed, router=router.Router, **how)
        ran.run(fleet.arrivals(60, seed, clients=2 + seed, gap_ns=fleet.STEP_NS * 2 // 5, keys=5))
        return ran

    return run


def _other_name(make: Any) -> Any:
    """The reference, which calls itself otherwise."""

    def made(settings: Any, seed: int) -> Any:
        subject = make(settings, seed)
        shown = evolve(subject.capabilities(), name="another")
        subject.capabilities = lambda: shown
        return subject

    return made


@cache
def recorded() -> dict[str, str]:
    """Name -> all that the unchanged fleet writes."""
    return {name: _written(run(*_modules())) for name, _, run in fleets()}


def _modules() -> tuple[Any, Any]:
    """As they are imported now."""
    return import_module("schedspec.reference.fleet"), import_module("schedspec.reference.router")


def _written(fleet: Any) -> str:
    with TemporaryDirectory() as folder:
        fleet.write(Path(folder) / "of" / "it")
        fleet.write(Path(folder) / "of" / "it")  # over what is there
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return "".join(chain.from_iterable((path.name, "\n", path.read_text(encoding="utf-8")) for path in files))


def first_difference() -> tuple[str, str, str] | None:
    """(how, what, case) of the first fleet that is another one with the modules that are imported now."""
    signal.signal(signal.SIGALRM, _too_long)
    for name, window_ms, run in fleets():
        signal.alarm(FLEET_S)
        try:
            fleet = run(*_modules())
            if _written(fleet) == recorded()[name]:
                continue
            return (*_judged(fleet, window_ms), f"fleet {name}")
        except TimeoutError:
            return "hang", f"{FLEET_S} s", f"fleet {name}"
        except Exception as error:
            return "crash", type(error).__name__, f"fleet {name}"
        finally:
            signal.alarm(0)
    return None


def _judged(fleet: Any, window_ms: int) -> tuple[str, str]:
    try:
        breaks = Recorded.of(fleet).judged(window_ms).breaks
    except ValueError as of_an_engine:
        return "rule", str(of_an_engine)
    return ("rule", min(breaks)) if breaks else ("decision", "what a fleet writes")


def _too_long(*_: object) -> None:
    raise TimeoutError
