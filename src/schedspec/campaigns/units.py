"""A unit of work, and what a worker does with it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

Beat = Callable[[], None]
"""A unit calls it while it gets on: whoever is silent for long is taken for hung."""


class CampaignError(ValueError):
    """A campaign that cannot be run, or of which a unit failed: one sentence."""


@frozen
class Unit:
    """`call`: `module:function`, a function of (what is given, beat) whose answer is plain data, the same for the same
    that is given wherever it runs.  `name` says to a person what it is about; no other unit has it."""

    name: str
    call: str
    given: Mapping[str, Any] = Factory(dict)

    @property
    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "call": self.call, "given": dict(self.given)}


def done(unit: Mapping[str, Any], beat: Beat) -> str:
    """The answer as JSON: so it is the same whether it stayed in this process or went through a pipe or a file."""
    module, _, function = unit["call"].partition(":")
    return json.dumps(getattr(import_module(module), function)(unit["given"], beat))


def sentence_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if not isinstance(error, (ValueError, OSError)) else str(error)


@cache
def sources() -> str:
    """A fingerprint of the code that is run: two that differ may judge differently."""
    root = Path(__file__).resolve().parents[1]
    sha = hashlib.sha256()
    for path in sorted(_files(root), key=lambda path: path.relative_to(root).as_posix()):
        sha.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def _files(root: Path) -> list[Path]:
    """All modules and their data, but not what Python itself leaves beside them.  The folders may be links."""
    found = []
    for folder in (root, *(path for path in root.iterdir() if path.is_symlink() and path.is_dir())):
        found += [path for kind in ("*.py", "*.toml", "*.json") for path in folder.rglob(kind) if path.is_file()]
    return list(dict.fromkeys(found))
