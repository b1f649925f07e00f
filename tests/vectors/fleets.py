"""Vectors of rules about several engines and their router: a folder each, with a trace of each engine and the log of
the router.

A right fleet and one with the seeded fault of the rule get the same requests, as few as show it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from schedspec.reference.faults.routers import FLEETS, ROUTERS
from schedspec.reference.fleet import SETTINGS, STEP_NS, Engine, Fleet, new_fleet
from schedspec.reference.router import Dealer, Router
from schedspec.spec.fleets.judge import Fleet as Records
from schedspec.spec.fleets.judge import FleetVerdict, judge_fleet
from schedspec.spec.fleets.router_log import read_router_log
from schedspec.spec.fleets.rules import EDGES, RULES
from schedspec.spec.fleets.stays import Witness
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import OPEN, Door, Message, Request, Settings

from .records import FOLDER, Trace, Verdict, lines_of

FOLDERS = FOLDER / "fleets"
NS_PER_MS = 1_000_000
ENGINES = 2
SEED = 1

Arrivals = Sequence[tuple[int, Request]]


@frozen
class World:
    """What is asked of two engines, and by whom; `window_ms`: in windows of that length service is compared."""

    settings: Settings
    arrivals: Arrivals
    router: type[Router] = Router
    patience_ns: int = 0
    retain_ns: int = 0
    window_ms: int = 1_000

    def run(self, router: type[Router], fleet: type[Fleet]) -> Fleet:
        how: dict[str, Any] = {"patience_ns": self.patience_ns, "retain_ns": self.retain_ns}
        ran = new_fleet(ENGINES, SEED, router=router, settings=self.settings, fleet=fleet, **how)
        ran.run(self.arrivals)
        return ran


def asked(name: str, *, at: int = 0, output: int = 2, **fields: Any) -> tuple[int, Request]:
    return at * STEP_NS, Request(id=name, prompt_ids=(1,), max_output_tokens=output, **fields)


ONE_AT_A_TIME = evolve(SETTINGS, blocks=4, block_size=4, seats=1, token_budget=4, door=OPEN)
WORLDS: dict[str, World] = {
    "FLEET-1": World(evolve(ONE_AT_A_TIME, door=Door(queue_requests=1)), [asked(f"r{number}") for number in range(3)]),
    "FLEET-2": World(
        ONE_AT_A_TIME,
        [
            asked("r", idempotency_key="k", output=4),
            asked("again", at=1, idempotency_key="k", output=4),
            asked("later", at=9, idempotency_key="k", output=4),
        ],
    ),
    "FLEET-3": World(ONE_AT_A_TIME, [asked(f"r{number}", output=6) for number in range(3)], patience_ns=2 * STEP_NS),
    "FLEET-4": World(
        evolve(ONE_AT_A_TIME, output_weight=1),
        [asked(f"r{number}", client=f"c{number % 3}", output=1) for number in range(37)],
        router=Dealer,
        window_ms=2 * STEP_NS // NS_PER_MS,
    ),
}


# --- what they show ------------------------------------------------------------------------------------------


@frozen
class Recorded:
    """What is written: a trace for each engine, and the lines of the router."""

    traces: dict[str, Trace]
    router: str

    @classmethod
    def of(cls, fleet: Fleet) -> "Recorded":
        traces = {name: Trace(engine.header, tuple(_busy(engine))) for name, engine in fleet.engines.items()}
        return cls(traces, "".join(fleet.router_lines()))

    def judged(self, window_ms: int) -> FleetVerdict:
        """Raises ValueError where an engine breaks a rule of its own."""
        engines = {name: [_witnessed(trace, window_ms)] for name, trace in self.traces.items()}
        log = read_router_log("router.jsonl", self.router.encode().splitlines(keepends=True))
        return judge_fleet(Records(engines, log, 0, window_ms * NS_PER_MS))


def _busy(engine: Engine) -> Iterator[Message]:
    """Without steps in which nothing happened."""
    idle = {m.answer.step for m in engine.messages if m.kind == "step" and not m.answer.request and not m.answer.deltas}
    for message in engine.messages:
        if _step_of(message) not in idle:
            yield message


def _step_of(message: Message) -> int | None:
    told = {"step": message.answer, "complete": message.given}.get(message.kind)
    return None if told is None else int(told.step)


def _witnessed(trace: Trace, window_ms: int) -> dict[str, Any]:
    monitor, witness = Monitor(trace.header), Witness(window_ms * NS_PER_MS)
    witness.begin(monitor)
    for number, message in enumerate(trace.messages, start=1):
        for violation in monitor.feed(message):
            raise ValueError(f"{trace.header.engine} breaks {violation.rule} with message {number}")
        witness.see(message)
    return witness.plain


def both(rule: str, world: World) -> tuple[Recorded, Recorded]:
    """What the right fleet does, and the one with the fault."""
    right = Recorded.of(world.run(world.router, Fleet))
    wrong = Recorded.of(world.run(ROUTERS.get(rule, world.router), FLEETS.get(rule, Fleet)))
    return right, wrong


def vectors() -> Iterator[tuple[dict[str, Any], dict[Path, str]]]:
    """Entries of the manifest, and files.  Raises ValueError where a world does not show its rule kept and broken, or
    breaks something beside that."""
    for rule, world in WORLDS.items():
        right, wrong = both(rule, world)
        kept, broken = (recorded.judged(world.window_ms) for recorded in (right, wrong))
        may = {rule} | {edge.also for edge in EDGES if edge.rule == rule}
        if kept.breaks or kept.verdicts[rule] != "pass" or not {rule} <= broken.breaks.keys() <= may:
            raise ValueError(f"the world of {rule} does not show it: {dict(kept.breaks)}, {dict(broken.breaks)}")
        yield _entry(rule, "pass", world, right, {"exercised": kept.exercised[rule]})
        first = next(one for one in broken.broken if one.rule == rule)
        told = {"conjunct": first.conjunct, "now_ns": first.now_ns, "request": first.request, "engines": first.engines}
        also = sorted(broken.breaks.keys() - {rule})
        yield _entry(rule, "fail", world, wrong, {**told, "breaks": broken.breaks[rule], "also": also})


def _entry(
    rule: str, verdict: Verdict, world: World, recorded: Recorded, told: dict[str, Any]
) -> tuple[dict[str, Any], dict[Path, str]]:
    folder = FOLDERS / f"{rule}.{verdict}"
    files = {folder / f"{name}.jsonl": lines_of(trace) for name, trace in recorded.traces.items()}
    files[folder / "router.jsonl"] = recorded.router
    names = [path.relative_to(FOLDER).as_posix() for path in files]
    entry = {"id": folder.name, "rule": rule, "verdict": verdict, "level": RULES[rule].level, "files": names}
    entry |= {"window_ms": world.window_ms} | {name: value for name, value in told.items() if value not in ("", (), [])}
    return entry, files
