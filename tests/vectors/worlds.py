"""The scenarios whose legal decisions are listed: a small world each, who comes before which step, what is claimed.

Numbers are given by place and stay: a new scenario is appended.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from schedspec.conformance.script import Op, cancel, submit
from schedspec.spec.vocabulary import Settings

BASIC = ("hard_budget", "on_demand_reserve")
IN_ORDER = (*BASIC, "fcfs", "break", "resume_order")
"""Whoever comes first is served first, and a request that does not fit ends the round of admissions."""
WITH_DECODES = (*IN_ORDER, "hybrid", "stall_free")
"""And no decode that could run is left out."""


@frozen
class World:
    """`comes[n]` happens before step n; the last of them comes before the last step that is looked at with news."""

    name: str
    about: str
    settings: Settings
    claims: tuple[str, ...]
    comes: tuple[tuple[Op, ...], ...]
    steps: int
    number: int = 0

    @property
    def id(self) -> str:
        return f"S-{self.number:02}"


def worlds() -> Iterator[World]:
    for number, build in enumerate(_BUILDERS, start=1):
        world = build()
        yield World(
            build.__name__.replace("_", " "),
            " ".join((build.__doc__ or "").split()),
            world.settings,
            world.claims,
            world.comes,
            world.steps,
            number,
        )


def _world(settings: Settings, claims: Sequence[str], steps: int, *comes: Sequence[Op]) -> World:
    return World("", "", settings, tuple(sorted(claims)), tuple(map(tuple, comes)), steps)


def a_prompt_in_chunks() -> World:
    """A prompt that is longer than the budget: any cut is legal that moves it on."""
    return _world(Settings(blocks=8, block_size=2, token_budget=3), IN_ORDER, 6, [submit("a", 5, 2)])


def a_prompt_in_full_chunks() -> World:
    """The same, cut where the budget ends and nowhere else."""
    claims = (*IN_ORDER, "full_chunks")
    return _world(Settings(blocks=8, block_size=2, token_budget=3), claims, 4, [submit("a", 5, 2)])


def two_prompts_and_one_budget() -> World:
    """Who is behind gets what is left, or waits for its turn where nothing is."""
    settings = Settings(blocks=8, block_size=2, token_budget=3, seats=2)
    return _world(settings, IN_ORDER, 4, [submit("a", 2, 2), submit("b", 3, 1)])


def a_decode_beside_a_prompt() -> World:
    """The decode is in every step; how much of the prompt rides along is free."""
    settings = Settings(blocks=8, block_size=2, token_budget=3, seats=2)
    return _world(settings, WITH_DECODES, 5, [submit("a", 2, 4)], [submit("b", 5, 1)])


def arrivals_in_any_order() -> World:
    """Who claims no order may admit whom it likes, but leaves nobody out for whom there is room."""
    settings = Settings(blocks=2, block_size=2, token_budget=4, seats=1)
    return _world(settings, BASIC, 4, [submit("a", 2, 1), submit("b", 2, 1), submit("c", 2, 1)])


def arrivals_in_order() -> World:
    """One seat, and three who come at once: the first is served first."""
    settings = Settings(blocks=2, block_size=2, token_budget=4, seats=1)
    return _world(settings, IN_ORDER, 4, [submit("a", 2, 1), submit("b", 2, 1), submit("c", 2, 1)])


def arrivals_in_order_of_priority() -> World:
    """The smaller number goes first, among equals who came first."""
    settings = Settings(blocks=2, block_size=2, token_budget=4, seats=1, policy="priority")
    claims = (*BASIC, "priority", "break", "resume_order")
    comes = [submit("a", 2, 1, priority=2), submit("b", 2, 1, priority=1), submit("c", 2, 1, priority=1)]
    return _world(settings, claims, 4, comes)


def a_big_head_is_waited_for() -> World:
    """b does not fit beside a, and c does not go past it."""
    settings = Settings(blocks=4, block_size=1, token_budget=8, seats=4)
    comes = [submit("a", 2, 3)], [submit("b", 3, 1), submit("c", 1, 1)]
    return _world(settings, WITH_DECODES, 5, *comes)


def a_big_head_is_passed() -> World:
    """b does not fit beside a, and c goes past it."""
    settings = Settings(blocks=4, block_size=1, token_budget=8, seats=4, at_blocked_head="skip")
    claims = (*BASIC, "fcfs", "skip", "hybrid", "stall_free", "resume_order", "full_chunks")
    return _world(settings, claims, 5, [submit("a", 2, 3)], [submit("b", 3, 1), submit("c", 1, 1)])


def memory_runs_out_and_the_newest_goes() -> World:
    """Two grow into the last block: who was admitted last gives way, and comes back with all that it has."""
    settings = Settings(blocks=3, block_size=1, token_budget=4, seats=2)
    claims = (*WITH_DECODES, "newest_first", "full_chunks")
    return _world(settings, claims, 6, [submit("a", 1, 3), submit("b", 1, 3)])


def memory_runs_out_and_somebody_goes() -> World:
    """The same where no order of victims is claimed: either may give way."""
    settings = Settings(blocks=3, block_size=1, token_budget=4, seats=2)
    return _world(settings, (*WITH_DECODES, "full_chunks"), 6, [submit("a", 1, 3), submit("b", 1, 3)])


def memory_runs_out_and_the_lowest_class_goes() -> World:
    """a was admitted first, but its class is the lower one."""
    settings = Settings(blocks=3, block_size=1, token_budget=4, seats=2, policy="priority", victim="lowest_priority")
    claims = (*BASIC, "priority", "break", "resume_order", "hybrid", "stall_free", "full_chunks", "lowest_priority")
    return _world(settings, claims, 6, [submit("a", 1, 3, priority=1)], [submit("b", 1, 3)])


def the_watermark_is_kept() -> World:
    """While somebody runs, an admission leaves a block free (b waits for a); on an empty machine it need not (c)."""
    settings = Settings(blocks=4, block_size=1, token_budget=4, seats=2, watermark_blocks=1)
    claims = (*WITH_DECODES, "watermark", "full_chunks")
    return _world(settings, claims, 5, [submit("a", 1, 2)], [submit("b", 2, 1), submit("c", 4, 1)])


def a_cancel_makes_room() -> World:
    """a leaves in the middle of its prompt; what it held is there for b at once."""
    settings = Settings(blocks=2, block_size=2, token_budget=2, seats=2)
    return _world(settings, IN_ORDER, 5, [submit("a", 4, 1), submit("b", 3, 1)], [cancel("a")])


def the_model_stops_early() -> World:
    """a ends with its first token, though it declared more; its seat is there for b."""
    settings = Settings(blocks=4, block_size=2, token_budget=4, seats=1)
    claims = (*WITH_DECODES, "full_chunks")
    return _world(settings, claims, 4, [submit("a", 2, 3, stop_after=1), submit("b", 2, 2)])


def a_victim_comes_back_before_others() -> World:
    """b is preempted while c waits: b is resumed first."""
    settings = Settings(blocks=3, block_size=1, token_budget=4, seats=2)
    claims = (*WITH_DECODES, "newest_first", "full_chunks")
    return _world(settings, claims, 7, [submit("a", 1, 3), submit("b", 1, 3)], [submit("c", 1, 1)])


_BUILDERS = (
    a_prompt_in_chunks,
    a_prompt_in_full_chunks,
    two_prompts_and_one_budget,
    a_decode_beside_a_prompt,
    arrivals_in_any_order,
    arrivals_in_order,
    arrivals_in_order_of_priority,
    a_big_head_is_waited_for,
    a_big_head_is_passed,
    memory_runs_out_and_the_newest_goes,
    memory_runs_out_and_somebody_goes,
    memory_runs_out_and_the_lowest_class_goes,
    the_watermark_is_kept,
    a_cancel_makes_room,
    the_model_stops_early,
    a_victim_comes_back_before_others,
)
