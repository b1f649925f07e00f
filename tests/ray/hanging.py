"""A unit that hangs the first time, each in its way."""

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WAYS: Mapping[str, Callable[[], Any]] = {
    "sleeps": lambda: time.sleep(10_000),
    "is stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "never comes back from C": lambda: re.match(r"(a+)+$", "a" * 64 + "b"),
}


def hang_once(given: Mapping[str, Any], beat: Callable[[], None]) -> str:
    try:
        Path(given["log"], given["way"]).touch(exist_ok=False)
    except FileExistsError:
        return "done"
    WAYS[given["way"]]()
    return "it did not hang"


def is_slow(given: Mapping[str, Any], beat: Callable[[], None]) -> str:
    """Longer than anybody is patient, but it says so."""
    until_s = time.monotonic() + given["seconds"]
    while time.monotonic() < until_s:
        beat()
        time.sleep(0.2)
    return "done"
