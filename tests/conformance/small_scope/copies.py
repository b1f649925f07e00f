"""A second world that goes on from where one is: a copy where that is safe, else everything is done again."""

import io
import pickle
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

from attrs import Factory, define

from schedspec.spec.vocabulary import Request, Settings, SubjectFactory

from .scope import Event, Scope
from .world import World

SHARED: tuple[type, ...] = (FunctionType, Settings, Request, Scope)
"""What never changes, and is not copied."""


class CannotCopy(ValueError):
    """A copy would share something with the original, or lose what parts of the original share."""


@define(eq=False)
class Copies:
    """Frozen worlds.  A function that holds anything by a closure which may change is refused: the copy would go on
    looking at the original's.  So is an array that looks at another one: the copy would look at one of its own."""

    shared: dict[int, Any] = Factory(dict)

    def keep(self, world: World, path: Sequence[Event]) -> Any:
        """Something from which `again` makes the world.  Raises CannotCopy."""
        buffer = io.BytesIO()
        try:
            _Freezer(buffer, self.shared).dump(world)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise CannotCopy(str(error)) from error
        return buffer.getvalue()

    def again(self, kept: Any) -> World:
        world: World = _Thawer(io.BytesIO(kept), self.shared).load()
        return world


@define(eq=False)
class Replays:
    """The calls that led to a world, to be made again on a fresh subject."""

    factory: SubjectFactory
    scope: Scope

    def keep(self, world: World, path: Sequence[Event]) -> Any:
        return path

    def again(self, kept: Any) -> World:
        world = World.new(self.factory, self.scope)
        for event in kept:
            world.do(event)
        return world


class _Freezer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, shared: dict[int, Any]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.shared = shared

    def persistent_id(self, value: Any) -> int | None:
        if type(value).__module__ == "numpy" and getattr(value, "base", None) is not None:
            raise CannotCopy("an array looks at another one")
        if not isinstance(value, SHARED):
            return None
        if isinstance(value, FunctionType) and not _is_fixed(value):
            raise CannotCopy(f"{value.__qualname__} holds something by a closure")
        self.shared.setdefault(id(value), value)
        return id(value)


class _Thawer(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, shared: dict[int, Any]) -> None:
        super().__init__(buffer)
        self.shared = shared

    def persistent_load(self, number: int) -> Any:
        return self.shared[number]


def _is_fixed(function: FunctionType) -> bool:
    cells: Iterable[Any] = function.__closure__ or ()
    return all(isinstance(cell.cell_contents, str | int | None | type | FunctionType) for cell in cells)
