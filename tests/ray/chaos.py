"""Campaigns while nodes, workers and the command itself are killed at moments that a seed draws: whatever is left
behind must be what one process leaves, byte for byte.

    python -m tests.ray.chaos [--seed N] [--where ray|local] [--only trace --only soak …] [--blows N] [--what …]
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from attrs import Factory, define, frozen

from schedspec.reference.faults import factory
from schedspec.reference.fleet import STEP_NS, arrivals, new_fleet
from schedspec.reference.router import Router

from .left import Left, differences, ended, left_by
from .real import write_real
from .victims import Local, OnRay, Victims

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
LONGEST_S = 1_800.0
PLANTED = {17: "KV-8", 80: "STEP-2", 141: "LIFE-4"}
JOBS: Mapping[str, Sequence[str]] = {
    "trace": ["trace", "../logs"],
    "soak": ["check", "fault:KV-8", "--depth", "soak", "--runs", "600"],
    "exhaust": ["exhaust", "too many prompts at once", "preempted for nothing", "everybody is preempted", "swapping"],
    "parity": ["parity", "vllm-v1", "--seeds", "40"],
    "replay": ["replay", "fitted:sharegpt", "--first-s", "20", "--load", "0.5,1,2,4,8"],
    "tune": ["tune", "fitted:sharegpt", "--first-s", "10", "--vary", "seats=4,8,64", "--vary", "policy=fcfs,vtc"],
    "reproduce": ["reproduce", "vllm", "stability", "hindsight", "--sample"],
    "real": ["trace", "../logs/**/*.jsonl.zst"],
}
ON_DEMAND = ("real",)
"""Which needs a public file (`schedspec data`): $SCHEDSPEC_DATA says where."""
INTERRUPTS: Mapping[str, Sequence[tuple[signal.Signals, bool]]] = {
    "the keys": [(signal.SIGINT, True)],
    "SIGINT": [(signal.SIGINT, False)],
    "SIGINT, and again": [(signal.SIGINT, False), (signal.SIGINT, False)],
    "SIGTERM": [(signal.SIGTERM, False)],
    "SIGTERM, and SIGINT": [(signal.SIGTERM, False), (signal.SIGINT, False)],
}
"""Signals, and whether all of its processes get them, as from a terminal."""
SAID = re.compile(
    r"error: interrupted: (\d+) of \d+ units are done; the same command with --resume (build/report/\S+) goes on\n"
)
BLOWS = (
    "kill a worker",
    "kill a worker",
    "kill a node",
    "kill a node",
    "stop a worker",
    "interrupt",
    "kill the command",
)


def write_logs(folder: Path, engines: int = 200) -> None:
    """Three of the engines break a rule."""
    fleet = new_fleet(engines, 1, router=Router, factories={number: factory(rule) for number, rule in PLANTED.items()})
    fleet.run(arrivals(4 * engines, 1, gap_ns=STEP_NS // 100))
    fleet.write(folder)


@frozen
class Blow:
    """`done`: of a thousand units so many are done; so long after that it falls."""

    what: str
    done: int
    delay_s: float


def drawn(draws: random.Random, count: int, can: Sequence[str]) -> list[Blow]:
    """Of any number the first falls within 100 ms of the first work, and the last when nearly all is done."""
    kinds = [what for what in BLOWS if what in can]
    between = [Blow(draws.choice(kinds), draws.randrange(1000), draws.uniform(0, 1)) for _ in range(count - 2)]
    first = Blow(draws.choice(kinds), 0, draws.uniform(0, 0.1))
    last = Blow(draws.choice(kinds), 950, draws.uniform(0, 0.1))
    return sorted([first, *between, last], key=lambda blow: blow.done)


@define
class Trial:
    """One campaign; `happened`: what was done to it."""

    folder: Path
    name: str
    victims: Victims
    draws: random.Random
    blows: int
    happened: list[str] = Factory(list)
    resumed: bool = False
    wrong: str = ""

    def run(self, expected: Left) -> str:
        """What is wrong, or nothing."""
        (self.folder / "under-fire").mkdir()
        todo = drawn(self.draws, self.blows, self.victims.can)
        process = self._start()
        until_s = time.monotonic() + LONGEST_S
        while process.poll() is None and time.monotonic() < until_s:
            if todo and self._is_time(todo[0], process.pid):
                process = self._struck(todo.pop(0), process)
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            return f"it has not ended after {LONGEST_S:g} s"
        self.happened += [f"too late to {blow.what}" for blow in todo]
        left = left_by(process, self._folder)
        return self.wrong or differences(expected, left) or self._counted_twice()

    def _start(self) -> Any:
        more = ["--on", self.victims.where, "--patience-s", str(PATIENCE_S)]
        if self.resumed:
            (report,) = self._folder.glob("build/report/*")
            more += ["--resume", str(report.relative_to(self._folder))]
        return start(self._folder, self.name, more)

    @property
    def _folder(self) -> Path:
        return self.folder / "under-fire"

    def _done(self) -> tuple[int, int] | None:
        """Units that are done, of how many; None before the first is given out."""
        for plan in self._folder.glob("build/report/*/campaign/units.json"):
            lines = plan.with_name("done.jsonl")
            if lines.exists() and (text := plan.read_text()).endswith("\n"):
                return lines.read_bytes().count(b"\n"), len(json.loads(text)["units"])
        return None

    def _is_time(self, blow: Blow, command: int) -> bool:
        told = self._done()
        if told is None or told[0] * 1000 < min(blow.done, 999) * (told[1] - 1):
            return False
        return self.victims.has_begun(command)

    def _struck(self, blow: Blow, process: Any) -> Any:
        """The process that runs from then on."""
        time.sleep(blow.delay_s)
        done = self._done()
        if blow.what in ("interrupt", "kill the command"):
            way = "SIGKILL" if blow.what == "kill the command" else self.draws.choice(list(INTERRUPTS))
            said_before = self._said()
            for number, to_all in INTERRUPTS.get(way, [(signal.SIGKILL, False)]):
                send(process, number, to_all=to_all)
                time.sleep(self.draws.uniform(0, 0.5))
            status, _ = ended(process, self._folder)
            said = self._said().removeprefix(said_before)
            self.happened.append(f"{blow.what} ({way}) at {done}: status {status} {said.strip()[-120:]!r}")
            if status in (0, 1):
                return process  # it came too late
            if blow.what == "interrupt" and done is not None and done[0] < done[1]:
                self.wrong = self.wrong or misses(status, said, self._done())
            self.resumed = True
            return self._start()
        self.happened.append(f"{self.victims.strike(blow.what, self.draws, process.pid)} at {done}")
        return process

    def _said(self) -> str:
        return self._folder.with_suffix(".err").read_text()

    def _counted_twice(self) -> str:
        (done,) = self._folder.glob("build/report/*/campaign/done.jsonl")
        numbers = [json.loads(line)["unit"] for line in done.read_text().splitlines()]
        return "" if sorted(numbers) == list(range(len(numbers))) else f"units that are done: {sorted(numbers)}"


def send(process: Any, number: signal.Signals, *, to_all: bool) -> None:
    with suppress(ProcessLookupError):
        if to_all:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def misses(status: int, said: str, done: tuple[int, int] | None) -> str:
    """What is wrong with what somebody is told who interrupts, or nothing."""
    told = SAID.findall(said)
    if status != 130 or len(told) != 1 or said.count("error:") != 1 or "Traceback" in said:
        return f"who interrupts is told (status {status}): {said}"
    return "" if done is not None and int(told[0][0]) == done[0] else f"done are {done}, not {told[0][0]}"


def start(folder: Path, name: str, more: Sequence[str]) -> Any:
    """What it prints is in files beside its folder."""
    command = [sys.executable, "-m", "schedspec", *JOBS[name], *more, "--json"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    out, errors = (folder.with_suffix(kind) for kind in (".out", ".err"))
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        stdout=out.open("wb"),
        stderr=errors.open("ab"),
        start_new_session=True,
    )


@click.command()
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--where", type=click.Choice(["ray", "local"]), default="ray", show_default=True)
@click.option("--only", type=click.Choice(list(JOBS)), multiple=True)
@click.option("--blows", type=click.IntRange(min=2), default=5, show_default=True, help="In each campaign.")
@click.option("--what", type=click.Choice(sorted(set(BLOWS))), multiple=True, help="Blows of this kind alone.")
def main(seed: int, where: str, only: Sequence[str], blows: int, what: Sequence[str]) -> None:
    """Exit status 1: a campaign left something else behind than on one process."""
    click.echo(f"seed {seed}")
    with OnRay() if where == "ray" else Local() as victims:
        victims.can = tuple(what) or victims.can
        names = only or [name for name in JOBS if name not in ON_DEMAND]
        wrong = [name for name in names if not is_the_same(name, victims, seed, blows)]
    sys.exit(1 if wrong else 0)


def is_the_same(name: str, victims: Victims, seed: int, blows: int) -> bool:
    draws = random.Random(f"{seed} {victims.where.partition(':')[0]} {name}")
    with TemporaryDirectory(prefix="schedspec-chaos-") as folder:
        (write_real if name == "real" else write_logs)(Path(folder) / "logs")
        (Path(folder) / "one").mkdir()
        began = time.monotonic()
        expected = left_by(start(Path(folder) / "one", name, []), Path(folder) / "one")
        alone_s, began = time.monotonic() - began, time.monotonic()
        victims.come_back()
        trial = Trial(Path(folder), name, victims, draws, blows)
        wrong = trial.run(expected)
        took_s = time.monotonic() - began
        click.echo(f"{name}: {alone_s:.0f} s on one process, {took_s:.0f} s on {victims.where} while")
        for line in trial.happened:
            click.echo(f"  {line}")
        click.echo(f"  {wrong or f'{len(expected.files)} files, status {expected.status}: the same bytes'}")
        if wrong:
            click.echo((Path(folder) / "under-fire.err").read_text()[-2_000:])
    return not wrong


if __name__ == "__main__":
    main()
