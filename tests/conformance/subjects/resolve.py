"""From the name on the command line to a factory: a built-in name, `module:factory` or `exec:COMMAND`."""

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from schedspec.spec.errors import shown
from schedspec.spec.hints import closest
from schedspec.spec.vocabulary import Settings, SubjectFactory

from .stdio import TIMEOUT_S, StdioFactory

_FORMS = "a subject is a built-in name, module:factory or exec:COMMAND"


class UnknownSubject(ValueError):
    """A name that leads to no factory.  Its text is one sentence."""


def resolve(name: str, builtins: Mapping[str, SubjectFactory], timeout_s: float = TIMEOUT_S) -> SubjectFactory:
    if name in builtins:
        return prepared(builtins[name])
    if name.startswith("exec:"):
        return StdioFactory(name.removeprefix("exec:"), timeout_s)
    module_name, colon, attribute = name.partition(":")
    if not colon or any(known.startswith(f"{module_name}:") for known in builtins):
        raise UnknownSubject(_no_such_name(name, builtins))
    if not module_name or not attribute:
        raise UnknownSubject(f"{name!r} lacks a side of its colon: write module:factory")
    factory = _attribute(_module(module_name), attribute)
    _fits(name, factory)
    return prepared(factory)


def prepared(factory: Any) -> SubjectFactory:
    """A factory may have `prepare()`, for imports that take long or fail: it raises UnknownSubject."""
    if hasattr(factory, "prepare"):
        factory.prepare()
    return factory  # type: ignore[no-any-return]


def _no_such_name(name: str, builtins: Mapping[str, SubjectFactory]) -> str:
    close = closest(name, builtins)
    hint = f"did you mean {close!r}?" if close else _FORMS
    return f"there is no subject {name!r}: {hint}"


def _module(name: str) -> ModuleType:
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise UnknownSubject(f"{name!r} is a file: write the name of the module, {dotted}:FACTORY")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: the adapter stands where the command is given
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            where = f"in {here} or the installed packages"
            raise UnknownSubject(f"there is no module {error.name!r} {where}") from error
        raise UnknownSubject(_raised(name, error)) from error
    except Exception as error:
        raise UnknownSubject(_raised(name, error)) from error


def _raised(name: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"module {name!r} cannot be imported, since it raised {type(error).__name__}: {text}"


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            public = [name for name in dir(found) if not name.startswith("_")]
            close = closest(part, public)
            hint = f": did you mean {close!r}?" if close else ""
            owner = getattr(found, "__name__", shown(found))
            raise UnknownSubject(f"{owner} has no attribute {part!r}{hint}") from error
    return found


def _fits(name: str, factory: Any) -> None:
    if not callable(factory):
        problem = f"is {shown(factory)}, which cannot be called"
        raise UnknownSubject(f"{name} {problem}: it must be a function of (settings, seed)")
    try:
        signature = inspect.signature(factory)
    except (ValueError, TypeError):
        return  # written in C: it shows when it is called
    try:
        signature.bind(Settings(), 0)
    except TypeError as error:
        raise UnknownSubject(f"{name} cannot be called with (settings, seed): {error}") from error
