"""The public files that the project can use: where each comes from, under which licence, and where it is found.

`public_files.toml` lists them.  A file is looked for under its name in the data folder: $SCHEDSPEC_DATA, else
../shared/data.
"""

import os
import tomllib
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from attrs import frozen

from ..hints import did_you_mean
from .arrival import MissingWorkload, WorkloadError

RAW = "https://raw.githubusercontent.com"


@frozen(kw_only=True)
class PublicFile:
    """`name` is its place in the data folder.  `size` in bytes and `sha256` are those of the file there; None where
    nobody who wrote them down had it at hand.  A `reshaped` file has no equal at its source, which `path` names."""

    name: str
    use: str
    repository: str
    commit: str
    path: str
    licence: str
    size: int | None = None
    sha256: str | None = None
    reshaped: bool = False

    @property
    def page(self) -> str:
        return f"https://github.com/{self.repository}/blob/{self.commit}/{self.path}"

    @property
    def url(self) -> str:
        return f"{RAW}/{self.repository}/{self.commit}/{self.path}"

    @property
    def can_be_fetched(self) -> bool:
        return self.sha256 is not None and not self.reshaped

    @property
    def how_to_get(self) -> str:
        if self.can_be_fetched:
            return f"`schedspec data {self.name} --fetch` gets it, or get it from {self.page} and put it there"
        if self.reshaped:
            return f"it was re-shaped from {self.page}, which is read as it is"
        return f"get it from {self.page} and put it there"


@cache
def public_files() -> tuple[PublicFile, ...]:
    text = (Path(__file__).parent / "public_files.toml").read_text(encoding="utf-8")
    return tuple(PublicFile(**entry) for entry in tomllib.loads(text)["file"])


def named(name: str) -> tuple[PublicFile, ...]:
    """Those of a name, of a folder, or of a file name alone."""
    wanted = name.rstrip("/")
    found = tuple(f for f in public_files() if wanted in (f.name, Path(f.name).parent.name, Path(f.name).name))
    if not found:
        known = [*dict.fromkeys(Path(f.name).parent.name for f in public_files()), *(f.name for f in public_files())]
        raise WorkloadError(f"there is no public file {name!r}: {did_you_mean(name, known, '`schedspec data`')}")
    return found


# --- where they are -----------------------------------------------------------------------------------------


def data_folder() -> Path:
    folder = os.environ.get("SCHEDSPEC_DATA")
    return Path(folder) if folder else Path.cwd().parent / "shared" / "data"


def locate(name: str) -> Path:
    """The file itself, or the one of this name in the data folder or in one of the folders there.  Raises
    MissingWorkload, which says how to get it, or WorkloadError of a folder."""
    if Path(name).is_file():
        return Path(name)
    if Path(name).is_dir():
        raise WorkloadError(f"{name} is a folder: name the file in it that is meant")
    root = data_folder()
    for path in (root / name, *sorted(root.glob(f"*/{name}"))):
        if path.is_file():
            return path
    raise MissingWorkload(f"there is no {name} in {root} ($SCHEDSPEC_DATA): {_how_to_get(name)}")


def _how_to_get(name: str) -> str:
    path = Path(name)
    for file in public_files():
        if name in (file.name, Path(file.name).name):
            return file.how_to_get
    for file in public_files():
        if len(path.parts) > 1 and path.parts[0] == Path(file.name).parts[0]:
            return f"get it from https://github.com/{file.repository} and put it there"
    return "give the path of the file, or put it there"


Standing = Literal["found", "other bytes", "unverified", "missing"]


def standing(file: PublicFile) -> Standing:
    """Is it in the data folder, and are its bytes those that are known?"""
    path = data_folder() / file.name
    if not path.is_file():
        return "missing"
    if file.sha256 is None:
        return "unverified"
    return "found" if digest(path) == file.sha256 else "other bytes"


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
