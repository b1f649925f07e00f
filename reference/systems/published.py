"""Published systems as settings of the one loop: what a system fixes, and what its paper promises.

A system refuses the settings that it does not have, by name, and follows its `profile`: `schedspec parity SUBJECT
--model NAME` compares another scheduler with it, decision for decision.  Numbers (pool, seats, budget, watermark) are
whoever asks's.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from ...spec.vocabulary import Capabilities, Settings, SubjectFactory, Unsupported, unsupported
from ..scheduler import Scheduler
from ..state import Decision

SIZES = (
    *("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "overlap_depth"),
    *("max_prompt_tokens", "max_output_tokens", "max_model_tokens"),
)
"""Numbers that every system has."""

HOW = ("reserve", "batch_mix", "phase_first", "batching")
"""How a step is composed and memory reserved: what a baseline does in its own way under another one's promises."""


@frozen(kw_only=True)
class System:
    """`fixed`: setting -> the value that makes it this system; other settings it has at their default, save `numbers`
    that not every system has.  `promises`: claims that its paper makes for it."""

    name: str
    source: str
    fixed: Mapping[str, Any]
    promises: frozenset[str]
    numbers: tuple[str, ...] = ()

    def refuse(self, settings: Settings) -> None:
        """Raises Unsupported with the first setting that is another system's."""
        others = [name for name, value in self.fixed.items() if getattr(settings, name) != value]
        if others:
            ask = ",".join(f"{name}={self.fixed[name]}" for name in others)
            raise Unsupported(others[0], getattr(settings, others[0]), ask)
        other = unsupported(settings, (*SIZES, *self.numbers, *self.fixed))
        if other is not None:
            raise Unsupported(other, getattr(settings, other))

    def settings(self, **sizes: Any) -> Settings:
        """Its own, with these numbers."""
        return Settings(**{**self.fixed, **sizes})

    def make(self, settings: Settings, seed: int = 0) -> "Published":
        """The factory."""
        return Published(self, settings, seed)


def declared_as(own: System, other: System) -> System:
    """The former, whose memory and steps are declared to be the latter's."""
    plain = Settings()
    return evolve(own, fixed={**own.fixed, **{name: other.fixed.get(name, getattr(plain, name)) for name in HOW}})


class Published(Scheduler):
    """The loop of the reference under the settings of a system."""

    def __init__(self, system: System, settings: Settings, seed: int = 0) -> None:
        system.refuse(settings)
        super().__init__(settings, seed)
        self.profile = system.name

    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), name=self.profile, profile=self.profile)


class Baseline(Scheduler):
    """A system that is held to what another one's paper promises: it decides in its own way, and claims the other's."""

    def __init__(self, own: System, other: System, settings: Settings, seed: int = 0) -> None:
        plain = Settings()
        self.own_way = {name: own.fixed.get(name, getattr(plain, name)) for name in HOW}
        declared_as(own, other).refuse(settings)
        super().__init__(settings, seed)
        if self.own_way["reserve"] == "model":  # the longest request that the pool holds, if the model has no limit
            most = settings.blocks * settings.block_size + 1
            self.own_way["max_model_tokens"] = max(2, min(settings.max_model_tokens, most))
        self.promises = other.promises
        self.name = f"{own.name}:{other.name}"

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        constants = {"prefill_only_steps": 0} if "mixes_prefill" in self.promises else {}
        return evolve(shown, name=self.name, claims=self.promises, constants=constants)

    def decide(self) -> Decision:
        declared = self.state.settings
        self.state.settings = evolve(declared, **self.own_way)
        try:
            return super().decide()
        finally:
            self.state.settings = declared


def held_to(own: System, other: System) -> SubjectFactory:
    """The subject `OWN:OTHER`."""
    return lambda settings, seed: Baseline(own, other, settings, seed)
