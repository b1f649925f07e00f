"""What a command leaves behind: its status, what it printed, and its files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

CLOCKS = ("seconds",)
"""In what `exhaust` and `parity` print; no file has one."""


@frozen
class Left:
    status: int
    printed: Any
    files: Mapping[str, bytes]


def ended(process: Any, folder: Path) -> tuple[int, str]:
    """Its status, and what it and those before it said on stderr."""
    return process.wait(), folder.with_suffix(".err").read_text()


def left_by(process: Any, folder: Path) -> Left:
    status, _ = ended(process, folder)
    files = (path for path in folder.rglob("*") if path.is_file() and "campaign" not in path.parts)
    printed = folder.with_suffix(".out").read_text()
    return Left(
        status,
        without_clocks(json.loads(printed)) if printed else None,
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in files},
    )


def without_clocks(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: without_clocks(value) for name, value in told.items() if name not in CLOCKS}
    return [without_clocks(one) for one in told] if isinstance(told, list) else told


def differences(expected: Left, found: Left) -> str:
    """One sentence, or nothing."""
    if expected.status != found.status:
        return f"status {found.status}, not {expected.status}"
    both = sorted(expected.files.keys() | found.files.keys())
    differ = [name for name in both if expected.files.get(name) != found.files.get(name)]
    if differ:
        return f"{len(differ)} of {len(both)} files differ: {', '.join(differ[:5])}"
    return "" if expected.printed == found.printed else "what was printed differs"
