"""Processes of this machine.  A worker that dies or is silent for too long is replaced, and its unit run again."""

import os
import signal
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define

from .run import Event, Line
from .signals import held_back, kept_from_children
from .units import Unit, done, sentence_of

TICK_S = 0.2
BEAT_S = 1.0


@define(eq=False)
class Worker:
    """A process, the pipe to it, and which unit it has since when it was last heard.  Answers stand in files: what goes
    through the pipe is small enough that it never comes by halves."""

    process: BaseProcess
    pipe: Connection
    place: int | None = None
    heard_s: float = 0.0

    @classmethod
    def start(cls) -> "Worker":
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs,), daemon=True)
        resource_tracker.ensure_running()  # the first start would begin it, and with it let signals through again
        with kept_from_children():
            process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, place: int, unit: Unit, answer: Path) -> None:
        self.place, self.heard_s = place, time.monotonic()
        with suppress(OSError):  # it is dead: that is seen later
            self.pipe.send((unit.plain, str(answer)))

    def said(self) -> tuple[str, str] | None:
        """What it said last, or None: ("beat", ""), ("done", file), ("failed", sentence), ("died", why)."""
        try:
            if self.pipe.poll():
                self.heard_s = time.monotonic()
                told: tuple[str, str] = self.pipe.recv()
                return told
        except (EOFError, OSError):
            return "died", "died"
        return None if self.process.is_alive() else ("died", "died")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def work(pipe: Connection) -> None:
    """The whole life of a worker.  Who interrupts the campaign does not interrupt its units by halves; what a unit
    prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.dup2(2, 1)
    said_s = 0.0

    def beat() -> None:
        nonlocal said_s
        if time.monotonic() - said_s > BEAT_S:
            said_s = time.monotonic()
            pipe.send(("beat", ""))

    with suppress(EOFError, OSError):  # whoever began the campaign is gone
        while True:
            unit, answer = pipe.recv()
            pipe.send(_tried(unit, answer, beat))


def _tried(unit: dict[str, Any], answer: str, beat: Any) -> tuple[str, str]:
    try:
        Path(answer).write_text(done(unit, beat))
    except Exception as error:
        return "failed", sentence_of(error)[:2000]
    return "done", answer


@define
class Local:
    """`jobs` at a time; a worker that says nothing for `patience_s` is taken for hung."""

    jobs: int
    patience_s: float

    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        line = Line(deque(todo))
        workers: list[Worker] = []
        with TemporaryDirectory(prefix="schedspec-") as folder:
            try:
                while line.waiting or any(worker.place is not None for worker in workers):
                    while len(workers) < min(self.jobs, len(workers) + len(line.waiting)):
                        workers.append(Worker.start())
                    for worker in workers:
                        if worker.place is None and line.waiting:
                            place = line.take()
                            worker.give(place, units[place], Path(folder) / f"{place}.{line.tries[place]}.json")
                    wait([worker.pipe for worker in workers], timeout=TICK_S)
                    yield from self._heard(workers, line)
                    yield Event("alive")
            finally:
                with held_back():
                    for worker in workers:
                        worker.kill()

    def _heard(self, workers: list[Worker], line: Line) -> Iterator[Event]:
        """Lost workers leave the list."""
        for worker in list(workers):
            said = worker.said()
            silent_s = time.monotonic() - worker.heard_s
            if said is None and worker.place is not None and silent_s > self.patience_s:
                said = "died", f"said nothing for {self.patience_s:g} s"
            if said is None or said[0] == "beat":
                continue
            place, worker.place = worker.place, None
            if said[0] == "died":
                worker.kill()
                workers.remove(worker)
                if place is not None:
                    yield line.lost(place, said[1])
            elif place is not None and said[0] == "done":
                yield Event("done", place, Path(said[1]).read_text())
            elif place is not None:
                yield Event("failed", place, said[1])
