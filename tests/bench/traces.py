"""`schedspec trace` on a long trace of many small requests: lines judged in a second, and how memory grows.

One process writes the trace and another judges it while it is written, so that a million lines take no longer than
judging them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from schedspec.conformance.recorded import judge
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Settings

from .measure import Result
from .recording import Recorder, requests, run

ASKED_GROWTH = 1.1
SETTINGS = Settings(blocks=24, block_size=4, seats=4, token_budget=32, prefix_caching=True)


@frozen(kw_only=True)
class Size:
    first_lines: int = 100_000
    lines: int = 1_000_000


TINY = Size(first_lines=5_000, lines=6_000)


def bench(size: Size) -> Iterator[Result]:
    part = [sys.executable, str(Path(__file__).with_name("run.py"))]
    with subprocess.Popen([*part, "--write-trace", str(size.lines)], stdout=subprocess.PIPE) as writer:
        judging = [*part, "--judge-trace", str(size.first_lines)]
        answer = subprocess.run(judging, stdin=writer.stdout, capture_output=True, check=True, text=True)
    told = json.loads(answer.stdout)
    more = {name: told[name] for name in ("lines", "first_mib", "peak_mib")}
    yield Result(
        name="trace.memory",
        figure=told["peak_mib"] / told["first_mib"],
        unit=f"× from {size.first_lines:,} to {size.lines:,} lines",
        asked=ASKED_GROWTH,
        best="least",
        more=more,
    )
    yield Result(name="trace.speed", figure=told["lines"] / told["seconds"], unit="lines/s", more=more)


def write_trace(lines: int) -> None:
    """To standard output."""
    recorder = Recorder(SETTINGS)
    writer = TraceWriter(sys.stdout, recorder.header)
    for message in run(recorder, requests(3, (2, 6), (1, 3)), lines, waiting=2):
        writer.write(message)


def judge_trace(first_lines: int) -> None:
    """From standard input; peak memory after so many lines, and at the end."""
    peaks = []

    def progress(stage: str, part: float, note: str) -> None:
        if stage == "judging" and note == f"{first_lines:,} messages":
            peaks.append(peak_mib())

    begun = time.process_time()
    judged = judge(Path("/dev/stdin"), progress)
    if judged.exit_status() or judged.first:
        raise AssertionError(f"the reference breaks {', '.join(judged.first)} {judged.fault or ''}")
    told = {"lines": judged.messages, "first_mib": peaks[0], "peak_mib": peak_mib()}
    print(json.dumps(told | {"seconds": time.process_time() - begun}))


def peak_mib() -> float:
    """Of this process alone: `getrusage` counts what its parent was before it became another program."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
