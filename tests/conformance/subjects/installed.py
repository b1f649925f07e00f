"""Releases of others: which version is installed, its modules or one sentence, and what of our settings it has."""

import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedspec.spec.vocabulary import Settings, Unsupported, unsupported

from .resolve import UnknownSubject

ANY_VERSION = "SCHEDSPEC_ANY_VERSION"


def installed_version(package: str, name: str, known: tuple[str, ...], install: str) -> str:
    """The version, if it is known or any will do.  Raises UnknownSubject, with the way to get the right one."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise UnknownSubject(f"{name} is not installed in this environment: {install}") from None
    if version not in known and not os.environ.get(ANY_VERSION):
        text = f"{name} {version} is installed, but this adapter knows {', '.join(known)}"
        raise UnknownSubject(f"{text}: {install}, or set {ANY_VERSION}=1 to try")
    return version


def usable(name: str, version: str, imported: Callable[[str], Any], install: str) -> Any:
    """What `imported` makes of that version.  Raises UnknownSubject where it cannot, with what may help."""
    try:
        return imported(version)
    except Exception as error:
        raised = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UnknownSubject(f"{name} {version} cannot be used, since it raised {raised}: {install}") from error


def hold_to(settings: Settings, fixed: Mapping[str, Any], free: Sequence[str]) -> None:
    """Settings that are `fixed` have that value, the `free` ones any, all others their default.  Raises Unsupported."""
    for name, value in fixed.items():
        if getattr(settings, name) != value:
            raise Unsupported(name, getattr(settings, name))
    if (other := unsupported(settings, (*fixed, *free))) is not None:
        raise Unsupported(other, getattr(settings, other))
