"""What makes a scheduler a seeded fault."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from attrs import evolve

from ...spec.vocabulary import Capabilities, Settings
from ..scheduler import Scheduler
from ..state import Decision

FAULTS: dict[str, Any] = {}
"""Rule -> the scheduler that breaks it: a class, or where it needs two pools a factory."""


OTHERS: dict[str, list[type[Scheduler]]] = {}
"""Rule -> more schedulers that break it, each in another way."""


def another(rule: str) -> Callable[[type[Scheduler]], type[Scheduler]]:
    def register(cls: type[Scheduler]) -> type[Scheduler]:
        OTHERS.setdefault(rule, []).append(cls)
        return cls

    return register


def fault(rule: str) -> Callable[[type[Scheduler]], type[Scheduler]]:
    def register(cls: type[Scheduler]) -> type[Scheduler]:
        FAULTS[rule] = cls
        return cls

    return register


class WithOtherSettings(Scheduler):
    """Decides with settings that are not the declared ones."""

    def otherwise(self, settings: Settings) -> Settings:
        raise NotImplementedError

    def decide(self) -> Decision:
        declared = self.state.settings
        self.state.settings = self.otherwise(declared)
        try:
            return super().decide()
        finally:
            self.state.settings = declared


class Claims(Scheduler):
    """The reference, which claims something else beside."""

    more: ClassVar[frozenset[str]] = frozenset()
    less: ClassVar[frozenset[str]] = frozenset()
    constants: ClassVar[Mapping[str, int]] = {}

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        constants = {**dict(shown.constants), **self.constants}
        return evolve(shown, claims=(shown.claims | self.more) - self.less, constants=constants)
