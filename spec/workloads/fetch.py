"""Public files from their source repositories: never kept unless their bytes are those that were expected."""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from .arrival import WorkloadError
from .public import PublicFile, data_folder, standing

TIMEOUT_S = 30
_PIECE = 1 << 16


def fetch(file: PublicFile, url: str | None = None, progress: Callable[[int], None] = lambda size: None) -> Path:
    """Downloads it into the data folder, unless it is there.  `url`: instead of its own.  `progress` is told the bytes
    so far.  Raises WorkloadError: no network, other bytes than expected, nothing to compare them with, no place."""
    path = data_folder() / file.name
    match standing(file):
        case "found" | "unverified":
            return path
        case "other bytes":
            raise WorkloadError(f"{path} is there, but its sha256 is not {file.sha256}: move it away to fetch it")
    if not file.can_be_fetched:
        why = "it is no copy of a public file" if file.reshaped else "its sha256 is not known"
        raise WorkloadError(f"{file.name} is not fetched, for {why}: {file.how_to_get}")
    _make_folder(path.parent)
    part = path.with_name(path.name + ".part")
    try:
        _download(file, url or file.url, part, progress)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()
    return path


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "it may not be written to")
    except OSError as error:
        raise WorkloadError(
            f"nothing can be put into {folder} ({error.strerror}): set SCHEDSPEC_DATA to a folder of yours"
        ) from error


def _download(file: PublicFile, url: str, part: Path, progress: Callable[[int], None]) -> None:
    try:
        pieces = sha256()
        size = 0
        with urlopen(url, timeout=TIMEOUT_S) as source, open(part, "wb") as target:
            while piece := source.read(_PIECE):
                size += len(piece)
                if file.size is not None and size > file.size:
                    break
                pieces.update(piece)
                target.write(piece)
                progress(size)
    except (HTTPError, URLError, HTTPException, TimeoutError, ConnectionError) as error:
        why = f"status {error.code}" if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise WorkloadError(
            f"{url} could not be fetched ({why}): is there a network? Or get {file.page} by other means and put it "
            f"into {data_folder() / file.name}"
        ) from error
    if pieces.hexdigest() != file.sha256 or size != file.size:
        raise WorkloadError(f"{url} has other bytes than expected (its sha256 is not {file.sha256}): it was not kept")
