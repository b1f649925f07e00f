"""Which version of a package is installed, for adapters that know some versions of it."""

import importlib.metadata
import os

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
