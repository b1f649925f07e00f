"""Files that are there in full or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def file_name(text: str) -> str:
    """A name of a subject, say, as that of a file or folder; "" if nothing of it is left.  Dots alone name other
    folders."""
    name = "".join(c if c.isalnum() or c in "-." else "_" for c in text).strip("_")[:60]
    return name if name.strip(".") else ""


def ensure_writable(path: Path, what: str) -> None:
    """Asked before anything runs.  Raises ValueError with one sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise ValueError(f"{what} cannot be written to {path}: it is a folder")
        probe = _beside(path)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise ValueError(f"{what} cannot be written to {path}: {error.strerror}") from error


def replace_file(path: Path, text: str) -> None:
    """Write beside it, then rename: whoever is interrupted leaves the old file as it was."""
    with open_new(path) as file:
        file.write(text)


@contextmanager
def open_new(path: Path) -> Iterator[IO[str]]:
    """The same for a file that is written bit by bit.  What has no code in UTF-8 is written as its escape."""
    path = path.resolve()
    fresh = _beside(path)
    try:
        with fresh.open("x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o777)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.new")
