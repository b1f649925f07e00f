"""Directed scenarios of what systems of the literature promise of an iteration; `scenarios.py` has all others."""

from collections.abc import Callable

from schedspec.spec.vocabulary import Settings

from .script import COMPLETE, STEP, Op, rounds, submit

_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]


def whole_lives_are_reserved() -> _Built:
    settings = Settings(blocks=8, block_size=1, seats=4, token_budget=16, reserve="declared")
    ops = (submit("a", 2, 3), submit("b", 2, 3), submit("c", 3, 2), *rounds(8))
    return ("STEP-13", "PRE-12", "LIVE-8"), settings, ops


def a_budget_is_too_small_for_all() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=4, reserve="declared")
    return ("STEP-13",), settings, (submit("a", 1, 5), submit("long", 12, 2), *rounds(12))


def prefill_comes_while_others_decode() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=16, batch_mix="exclusive", phase_first="prefill")
    ops = (submit("a", 2, 5), *rounds(2), submit("b", 3, 3), submit("c", 2, 2), *rounds(8))
    return ("STEP-16",), settings, ops


def decodes_come_while_others_prefill() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=4, batch_mix="exclusive", phase_first="decode")
    ops = (submit("a", 2, 3), submit("b", 6, 2), *rounds(4), submit("c", 2, 2), *rounds(8))
    return ("STEP-16",), settings, ops


def batches_in_a_pipeline() -> _Built:
    settings = Settings(
        blocks=64, block_size=1, seats=4, token_budget=4, reserve="declared", overlap_depth=2, disjoint_steps=True
    )
    ops = (submit("a", 4, 3), STEP, submit("b", 3, 3), STEP, COMPLETE, *((STEP, COMPLETE) * 8))
    return ("STEP-17", "STEP-13"), settings, ops


def decodes_come_first() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=3, token_budget=3, reserve="known", phase_first="decode")
    ops = (submit("a", 1, 9), *rounds(1), submit("long", 9, 2), *rounds(9))
    return ("STEP-9", "STEP-18"), settings, ops


def nobody_enters_while_others_run() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=2, token_budget=16, batching="request")
    return ("LIVE-2",), settings, (submit("a", 1, 4), submit("b", 1, 2), *rounds(1), submit("c", 1, 2), *rounds(9))


def admissions_have_a_period() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=16, admission_period_steps=3)
    return ("LIVE-8",), settings, (submit("a", 1, 9), *rounds(1), submit("b", 1, 2), *rounds(9))


BUILDERS: tuple[Callable[[], _Built], ...] = (
    whole_lives_are_reserved,
    a_budget_is_too_small_for_all,
    prefill_comes_while_others_decode,
    decodes_come_while_others_prefill,
    batches_in_a_pipeline,
    decodes_come_first,
    nobody_enters_while_others_run,
    admissions_have_a_period,
)
