"""What makes a scheduler a seeded fault."""

from collections.abc import Callable

from ...spec.vocabulary import Settings
from ..scheduler import Scheduler
from ..state import Decision

FAULTS: dict[str, type[Scheduler]] = {}
"""Rule -> the scheduler that breaks it."""


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
