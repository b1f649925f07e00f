"""DET: the same run again, in this process, in another one under another hash seed, and at another pace.

A run is its script; what is compared are the answers, message by message.
"""

import functools
import hashlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

from attrs import define, evolve, frozen

from schedspec.spec.errors import ProtocolError
from schedspec.spec.vocabulary import Message, SubjectFactory, Unsupported, to_json

from .driver import Driver, replay
from .script import Op, Script, from_json
from .script import to_json as script_to_json
from .shrink import plainer_settings, script_size, smaller_requests, without_pairs, without_requests, without_runs

Pace = Literal["as it is", "another"]

CLOCKS = ("time", "monotonic", "perf_counter")
CLOCK_SPEED = 1000
PAUSE_S = 0.002
LONGEST_RERUN_S = 120
GRACE_S = 2.0
SMALLER = (without_requests, without_runs, without_pairs, plainer_settings, smaller_requests)
"""What a script is cut down by, the coarsest first."""
TAIL = (Op(kind="step"), Op(kind="complete")) * 8


@frozen
class Difference:
    """The first message whose answer differs: its number in the run, and the script up to it."""

    script: Script
    message: int


def answers(driver: Driver) -> list[str]:
    """A digest per protocol message: what was decided, not what a snapshot showed."""
    decided = [m for m in driver.messages if m.kind not in ("observe", "end")]
    return [_digest(message) for message in decided]


def _digest(message: Message) -> str:
    text = json.dumps(to_json(message.answer), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rerun_here(factory: SubjectFactory, scripts: Sequence[Script]) -> list[list[str]]:
    """The answers of fresh subjects; a run that cannot be made has none."""
    return [_answers_of(factory, script) for script in scripts]


def _answers_of(factory: SubjectFactory, script: Script) -> list[str]:
    try:
        return answers(replay(factory, script))
    except (Unsupported, ProtocolError):
        return []


@define(eq=False)
class Elsewhere:
    """The same runs in another process, under another hash seed.  It is started at the first run and serves all that
    follow, one task per line: some schedulers take long to import.  Use it in a `with`."""

    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = None
    _pace: Pace = "as it is"
    _words: IO[bytes] | None = None

    def run(self, scripts: Sequence[Script], pace: Pace) -> list[list[str]]:
        """The answers.  Raises RuntimeError if there are none, subprocess.TimeoutExpired if they take too long."""
        if self._pace == "another" and pace == "as it is":
            self.close()  # clocks that were quickened stay so
        process = self._process = self._process or self._start()
        self._pace = pace
        task = {"pace": pace, "scripts": [script_to_json(script) for script in scripts]}
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], LONGEST_RERUN_S)[0]:
            self.close()
            raise subprocess.TimeoutExpired(self.command, LONGEST_RERUN_S)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(self._last_words())
        result: list[list[str]] = json.loads(line)
        return result

    def close(self) -> None:
        """It ends by itself when its input does; one that hangs is killed."""
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None
        assert self._words is not None
        self._words.close()

    def __enter__(self) -> "Elsewhere":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        seed = "271828" if os.environ.get("PYTHONHASHSEED") != "271828" else "31415"
        env = dict(os.environ, PYTHONHASHSEED=seed)
        pipe = subprocess.PIPE
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 — `close` closes it
        return subprocess.Popen(list(self.command), stdin=pipe, stdout=pipe, stderr=self._words, env=env)

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._words is not None
        status = self._process.wait()
        self._words.seek(0)
        last = (self._words.read().decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        self.close()
        return f"the second process ended with status {status}: {last}"


def rerun_tasks(factory: SubjectFactory, tasks: IO[str], answers: IO[str]) -> None:
    """What the other process does, line by line."""
    for line in tasks:
        task: dict[str, Any] = json.loads(line)
        scripts = [from_json(plain) for plain in task["scripts"]]
        if task["pace"] == "another":
            _quicken_clocks()
        answers.write(json.dumps([_paced(factory, script, task["pace"]) for script in scripts]) + "\n")
        answers.flush()


def _paced(factory: SubjectFactory, script: Script, pace: Pace) -> list[str]:
    try:
        driver = Driver.start(factory, script.settings, script.seed)
    except (Unsupported, ProtocolError):
        return []
    for number, op in enumerate(script.ops):
        if pace == "another" and number % 8 == 3:
            _SLEEP(PAUSE_S)
        driver.do(op)
    return answers(driver)


_SLEEP = time.sleep


@functools.cache
def _quicken_clocks() -> None:
    """Whoever reads the wall clock from here on reads one that runs a thousand times as fast."""
    for name in CLOCKS:
        for suffix in ("", "_ns"):
            original = getattr(time, name + suffix)
            setattr(time, name + suffix, _quick(original, original()))


def _quick(original: Callable[[], Any], start: Any) -> Callable[[], Any]:
    return lambda: start + (original() - start) * CLOCK_SPEED


def first_difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    """Number of the first message whose answers differ, from 1; None if there is none."""
    for number, (left, right) in enumerate(zip(one, other, strict=False), start=1):
        if left != right:
            return number
    return None if len(one) == len(other) else min(len(one), len(other)) + 1


def differs(
    factory: SubjectFactory,
    again: Callable[[Sequence[Script]], list[list[str]]],
    scripts: Sequence[Script],
    here: Sequence[list[str]],
    seconds: float,
) -> Difference | None:
    """A script that is answered differently, cut down to few operations while there is time; `here` has the answers
    of this process."""
    found = _smallest(factory, again, scripts, here)
    deadline = time.monotonic() + seconds
    before = None
    while found is not None and found != before:
        before = found
        for smaller in SMALLER:
            found = _improved(factory, again, found, smaller, deadline)
    return found


def _improved(
    factory: SubjectFactory,
    again: Callable[[Sequence[Script]], list[list[str]]],
    found: Difference,
    smaller: Callable[[Script], Iterator[Script]],
    deadline: float,
) -> Difference:
    """One kind of change, as often as it helps; all candidates of a turn cross to the other process together.  Each
    goes on for some steps: what a shorter run does differently it may do later."""
    while time.monotonic() < deadline:
        candidates = [evolve(script, ops=script.ops + TAIL) for script in smaller(found.script)]
        better = _smallest(factory, again, candidates, rerun_here(factory, candidates))
        if better is None or not _is_plainer(better.script, found.script):
            break
        found = better
    return found


def _is_plainer(one: Script, other: Script) -> bool:
    """Smaller; or of the same size, and something in it was replaced rather than left out."""
    size, limit = script_size(one), script_size(other)
    return size < limit or (size == limit and len(one.ops) == len(other.ops) and one != other)


def _smallest(
    factory: SubjectFactory,
    again: Callable[[Sequence[Script]], list[list[str]]],
    scripts: Sequence[Script],
    here: Sequence[list[str]],
) -> Difference | None:
    found = []
    there = again(scripts[::-1])[::-1]  # backwards: what a run leaves behind meets another one
    if any(here) and not any(there):
        raise RuntimeError("the second time no subject could be made, so nothing was compared")
    for script, one, other in zip(scripts, here, there, strict=True):
        number = first_difference(one, other)
        if one and other and number is not None:
            found.append(Difference(evolve(script, ops=_ops_until(factory, script, number)), number))
    return min(found, key=lambda difference: script_size(difference.script), default=None)


def _ops_until(factory: SubjectFactory, script: Script, messages: int) -> tuple[Any, ...]:
    """Operations up to that protocol message.  Some are none: time that passes, a result when nothing is in flight."""
    driver = Driver.start(factory, script.settings, script.seed)
    taken = []
    for op in script.ops:
        if driver.protocol_messages >= messages:
            break
        taken.append(op)
        driver.do(op)
    return tuple(taken)
