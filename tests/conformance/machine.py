"""The search: a Hypothesis state machine over the protocol.

It draws settings and operations, hands them to the driver, and drains what is left.  A broken rule does not raise: it
is collected, and nothing more happens in that example, so that one search judges all rules; the shrinker takes over
from there (`shrink.py`).
"""

from collections.abc import Callable, Sequence
from random import Random

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, reject, seed
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from schedspec.spec.vocabulary import Policy, Settings, Unsupported

from .driver import Driver
from .features import at_the_door, of_feature, with_alternatives, with_door, with_drafts, with_features, with_host
from .negotiate import negotiated
from .parked import of_parking, with_parking
from .script import COMPLETE, STEP, Contradiction, Op, cancel, submit, with_deadline
from .transfers import on_the_link, with_pools

FAMILIES = ((1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 4, 9, 9, 9, 9, 9, 9), (5, 5, 5, 5, 5, 5, 5, 5, 5, 5))
"""Prompts are prefixes of these, or share nothing with anybody."""

DRAIN_OBSERVES_EVERY = 8
"""When the operations that were drawn are over, snapshots are as rare as in a walk: of those who are left nobody does
anything but run to the end, where there is one more."""

POLICIES: tuple[Policy, ...] = (
    *("fcfs",) * 3,
    *("priority",) * 3,
    *("vtc",) * 2,
    "lcf",
    "round_robin",
    "edf",
    "sjf",
    "aging",
)


SEEDS = st.integers(0, 2**32 - 1)
"""Of dice that draw what has too many choices for a strategy each."""


@st.composite
def small_settings(draw: st.DrawFn, policies: Sequence[Policy] = ()) -> Settings:
    """Pools of a few blocks, so that memory is short after a few requests."""
    block_size = draw(st.sampled_from((1, 2, 2, 3, 4)))
    blocks = draw(st.integers(2, 14))
    settings = Settings(
        blocks=blocks,
        block_size=block_size,
        seats=draw(st.integers(1, 5)),
        token_budget=draw(st.sampled_from((1, 2, 3, 4, 6, 8, 8, 12, 16))),
        watermark_blocks=draw(st.sampled_from((0, 0, 1, 2))) if blocks > 3 else 0,
        policy=draw(st.sampled_from(POLICIES)),
        victim=draw(st.sampled_from(("newest", "lowest_priority"))),
        at_blocked_head=draw(st.sampled_from(("break", "skip"))),
        reserve=draw(st.sampled_from(("on_demand", "on_demand", "on_demand", "known", "declared"))),
        prefix_caching=draw(st.booleans()),
        chunked_prefill=draw(st.sampled_from((True, True, True, False))),
        chunk_tokens=draw(st.sampled_from((0, 0, 0, 2, 5))),
        overlap_depth=draw(st.sampled_from((1, 1, 2))),
        max_prompt_tokens=draw(st.sampled_from((1_048_576, 1_048_576, 5))),
        max_output_tokens=draw(st.sampled_from((1_048_576, 1_048_576, 7))),
        max_model_tokens=draw(st.sampled_from((2_097_152, 2_097_152, 12))),
    )
    drawn = draw(SEEDS)
    settings = with_door(Random(f"door {drawn}"), with_features(Random(drawn), settings, policies))
    settings = with_alternatives(Random(f"alternatives {drawn}"), settings)
    settings = with_parking(Random(f"parking {drawn}"), settings)
    settings = with_host(Random(f"host {drawn}"), settings)
    if not policies or "fcfs" in policies:
        settings = with_pools(Random(f"pools {drawn}"), settings)
    return with_drafts(Random(f"drafts {drawn}"), settings)


@st.composite
def submissions(draw: st.DrawFn) -> tuple[int | tuple[int, ...], int, int | None, int, str]:
    """Prompt, declared output, where the model stops, priority, client."""
    length = draw(_LENGTHS)
    family = draw(_FAMILIES)
    prompt: int | tuple[int, ...] = length if family == len(FAMILIES) else FAMILIES[family][:length]
    return prompt, draw(_OUTPUTS), draw(_STOPS), draw(_PRIORITIES), draw(_CLIENTS)


_LENGTHS = st.integers(1, 10)
_FAMILIES = st.integers(0, len(FAMILIES))
_OUTPUTS = st.sampled_from((1, 2, 3, 4, 6, 8, 12))
_STOPS = st.sampled_from((None, None, 1, 2, 4))
_PRIORITIES = st.integers(0, 2)
_CLIENTS = st.sampled_from(("a", "b"))
"""Made once: Hypothesis looks at each strategy before it first draws from it."""


def machine_for(
    start: Callable[[Settings], Driver],
    refused: dict[str, Unsupported],
    finished: Callable[[Driver], None],
    policies: Sequence[Policy] = (),
) -> type[RuleBasedStateMachine]:
    """A machine class; `finished` gets each driver when its example is over."""

    class SchedulerMachine(RuleBasedStateMachine):
        driver: Driver
        submitted: int
        dice: Random

        @initialize(wanted=small_settings(policies), seed_of_requests=SEEDS)
        def begin(self, wanted: Settings, seed_of_requests: int) -> None:
            try:
                self.driver = negotiated(start, wanted, refused)
            except Contradiction:
                reject()
            self.submitted = 0
            self.dice = Random(seed_of_requests)

        def submit_one(self, drawn: tuple[int | tuple[int, ...], int, int | None, int, str]) -> None:
            prompt, output, stop, priority, client = drawn
            self.submitted += 1
            op = submit(f"r{self.submitted}", prompt, output, stop_after=stop, priority=priority, client=client)
            if self.driver.settings.policy == "edf":
                op = with_deadline(op)
            self.do_at_the_door(of_feature(self.dice, op, self.driver.settings))

        def do_at_the_door(self, op: Op) -> None:
            settings = self.driver.settings
            for one in at_the_door(self.dice, op, settings):
                for other in of_parking(self.dice, one, settings):
                    for told in on_the_link(self.dice, other, settings):
                        self.driver.do(told)

        @rule(drawn=submissions())
        def submits(self, drawn: tuple[int | tuple[int, ...], int, int | None, int, str]) -> None:
            self.submit_one(drawn)

        @rule(drawn=submissions(), count=st.integers(2, 4))
        def bursts(self, drawn: tuple[int | tuple[int, ...], int, int | None, int, str], count: int) -> None:
            for _ in range(count):
                self.submit_one(drawn)

        @rule(which=st.integers(0, 5))
        def cancels(self, which: int) -> None:
            if which < self.submitted:
                self.do_at_the_door(cancel(f"r{self.submitted - which}"))

        @rule()
        def steps(self) -> None:
            self.driver.do(STEP)

        @rule(count=st.integers(1, 5), ahead=st.booleans())
        def goes_on(self, count: int, ahead: bool) -> None:
            """With steps that overlap, as far ahead as they may be, or not at all."""
            for _ in range(count):
                self.driver.do(STEP)
                if ahead:
                    self.driver.do(STEP)
                self.do_at_the_door(COMPLETE)

        @rule()
        def completes(self) -> None:
            self.do_at_the_door(COMPLETE)

        @rule(back=st.integers(1, 2))
        def repeats(self, back: int) -> None:
            self.driver.do(Op("repeat", back=back))

        @rule(ns=st.sampled_from((0, 1, 1_000_000, 1_000_000_000)))
        def waits(self, ns: int) -> None:
            self.driver.do(Op("tick", ns=ns))

        def teardown(self) -> None:
            if hasattr(self, "driver"):
                self.driver.observe_every = DRAIN_OBSERVES_EVERY
                self.driver.drain()
                finished(self.driver)

    return SchedulerMachine


def search(
    start: Callable[[Settings], Driver],
    refused: dict[str, Unsupported],
    finished: Callable[[Driver], None],
    *,
    examples: int,
    seed_value: int,
    steps: int = 24,
    policies: Sequence[Policy] = (),
) -> None:
    """So many examples from one seed."""
    Search(start, refused, policies).run(finished, examples=examples, seed_value=seed_value, steps=steps)


class Search:
    """One machine for many searches: Hypothesis remembers each machine class for as long as the process lives."""

    def __init__(
        self, start: Callable[[Settings], Driver], refused: dict[str, Unsupported], policies: Sequence[Policy] = ()
    ) -> None:
        self.finished: Callable[[Driver], None] = lambda driver: None
        self.machine = machine_for(start, refused, lambda driver: self.finished(driver), policies)

    def run(self, finished: Callable[[Driver], None], *, examples: int, seed_value: int, steps: int) -> None:
        """So many examples from one seed; `finished` gets the driver of each."""
        self.finished = finished
        run_state_machine_as_test(
            seed(seed_value)(self.machine),
            settings=hypothesis_settings(
                max_examples=examples,
                stateful_step_count=steps,
                phases=(Phase.generate,),
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
