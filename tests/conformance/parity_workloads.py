"""Random workloads for parity: settings, operations, and an engine whose tokens depend on the prefix alone.

Everything is drawn from one `random.Random`.  Prompts are prefixes of a few families, each of which goes on as the
engine would go on: so prompts share blocks with prompts and with what others have generated.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from attrs import Factory, define, frozen

from schedspec.spec.vocabulary import Outcome, Plan, Request, Settings

from .script import COMPLETE, STEP, Op, Script, cancel

VOCABULARY = 5
LONGEST_PROMPT = 14
TICK_NS = 1_000_000

_FACTOR, _MASK = 6_364_136_223_846_793_005, (1 << 64) - 1


@frozen
class Configuration:
    """What every workload of a round has in common."""

    policy: str
    prefix_caching: bool
    overlap_depth: int

    def __str__(self) -> str:
        return f"{self.policy}, prefix caching {'on' if self.prefix_caching else 'off'}, overlap {self.overlap_depth}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "prefix_caching": self.prefix_caching,
            "overlap_depth": self.overlap_depth,
        }


CONFIGURATIONS = tuple(
    Configuration(policy, caching, depth)
    for policy in ("fcfs", "priority")
    for caching in (False, True)
    for depth in (1, 2)
)


@frozen
class Style:
    """What a workload is like: `pool` in positions, and what is drawn of the rest."""

    pool: tuple[int, int]
    seats: tuple[int, ...]
    budgets: tuple[int, ...]
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    chunks: tuple[int, ...]
    bursts: tuple[int, ...]
    cancels: int
    """How often of ten moves."""


MIXED = Style(
    pool=(4, 48),
    seats=(1, 2, 3, 4, 6),
    budgets=(1, 2, 3, 4, 6, 8, 8, 12, 16, 24),
    prompts=(3, 8, LONGEST_PROMPT),
    outputs=(1, 2, 4, 8, 12, 20),
    chunks=(0, 0, 1, 2, 5),
    bursts=(1, 1, 2, 4),
    cancels=2,
)
CROWDED = Style(
    pool=(12, 32),
    seats=(4, 6, 8),
    budgets=(4, 5, 6, 8, 8, 12, 16, 32),
    prompts=(2, 4, 8),
    outputs=(4, 8, 12, 12),
    chunks=(0, 0, 0, 2),
    bursts=(1, 2, 3, 4),
    cancels=1,
)
"""Many decode at once and outgrow the pool together."""

URGENCY: tuple[Callable[[Random, int], int], ...] = (
    lambda random, number: random.randrange(2),
    lambda random, number: random.randrange(4),
    lambda random, number: 4 - min(4, number // 2),
    lambda random, number: 4 - min(4, number // 2),
)
"""Priority of a request by its number; in the last ones whoever comes later goes before those who run."""


def draw_style(random: Random) -> Style:
    return random.choice((MIXED, CROWDED))


def draw_settings(random: Random, style: Style, fixed: Mapping[str, Any]) -> Settings:
    """Small pools, so that memory is short after a few requests.  Raises ValueError if fixed ones make no sense."""
    block_size = random.choice((1, 2, 2, 3, 4))
    blocks = max(2, 1 + random.randint(*style.pool) // block_size)
    drawn: dict[str, Any] = {
        "blocks": blocks,
        "block_size": block_size,
        "seats": random.choice(style.seats),
        "token_budget": random.choice(style.budgets),
        "watermark_blocks": random.choice((0, 0, 0, 1, 2)) if blocks > 3 else 0,
        "victim": "newest" if fixed.get("policy", "fcfs") == "fcfs" else "lowest_priority",
        "reserve": random.choice(("on_demand", "known")),
        "chunked_prefill": random.choice((True, True, True, False)),
        "chunk_tokens": random.choice(style.chunks),
        "max_model_tokens": random.choice((2_097_152, 2_097_152, 2_097_152, LONGEST_PROMPT + 4)),
    }
    return Settings(**(drawn | dict(fixed)))


def draw_script(random: Random, style: Style, settings: Settings, seed: int) -> Script:
    """A few requests to begin with, at once or one after the other; then whatever comes."""
    drawing = Drawing(random, style, settings, [_family(random) for _ in range(3)], random.choice(URGENCY))
    one_by_one = random.random() < 0.7
    for _ in range(random.randint(0, 5)):
        drawing.submits()
        if one_by_one:
            drawing.goes_on()
    for _ in range(random.randint(4, 16)):
        drawing.moves()
    return Script(settings, seed, drawing.ops)


def _family(random: Random) -> list[int]:
    return continued([random.randrange(VOCABULARY) for _ in range(random.randint(1, 3))], LONGEST_PROMPT)


@define
class Drawing:
    """Operations so far."""

    random: Random
    style: Style
    settings: Settings
    families: list[list[int]]
    urgency: Callable[[Random, int], int]
    ops: list[Op] = Factory(list)
    submitted: int = 0

    def submits(self) -> None:
        """A burst; usually time passes in between, sometimes several arrive in one instant."""
        for _ in range(self.random.choice(self.style.bursts)):
            if self.random.random() < 0.8:
                self.ops.append(Op("tick", ns=TICK_NS))
            self.submitted += 1
            self.ops.append(self.submission(f"r{self.submitted}"))

    def submission(self, name: str) -> Op:
        """Most requests fit into the pool alone, less a block that somebody may set aside."""
        random = self.random
        most = max(2, (self.settings.blocks - 1) * self.settings.block_size)
        length = random.randint(1, min(random.choice(self.style.prompts), most - 1))
        output = random.choice(self.style.outputs)
        if random.random() < 0.9:
            output = min(output, most - length)
        stop = random.choice((None, None, None, None, 1, 2, 4))
        prompt, priority = self.prompt(length), self.urgency(random, self.submitted)
        request = Request(id=name, prompt_ids=prompt, max_output_tokens=output, priority=priority)
        return Op("submit", request, stop)

    def prompt(self, length: int) -> list[int]:
        """A prefix of a family, as it is or with other tokens at its end."""
        family = self.random.choice(self.families)
        if self.random.random() < 0.7:
            return family[:length]
        same = self.random.randint(0, length)
        return family[:same] + [self.random.randrange(VOCABULARY) for _ in range(length - same)]

    def cancels(self) -> None:
        if self.submitted:
            self.ops.append(cancel(f"r{self.random.randint(max(1, self.submitted - 5), self.submitted)}"))

    def goes_on(self) -> None:
        """Steps one at a time, or as far ahead as they may be, and one more in case that an earlier one ran nobody."""
        steps = self.random.choice((1, 2, 3, 3))
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self.ops += [STEP] * steps + [COMPLETE]

    def steps(self) -> None:
        self.ops.append(STEP)

    def completes(self) -> None:
        self.ops.append(COMPLETE)

    def moves(self) -> None:
        others = (self.submits, self.submits, self.submits, self.goes_on, self.goes_on, self.goes_on)
        if self.random.randrange(10) < self.style.cancels:
            self.cancels()
        elif self.random.random() < 0.8:
            self.random.choice(others)()
        else:
            self.random.choice((self.steps, self.completes))()


# --- the engine --------------------------------------------------------------------------------------------


def continued(tokens: Sequence[int], length: int) -> list[int]:
    """As the engine goes on: each token is a function of all tokens before it."""
    sequence, state = list(tokens), _digest(tokens)
    while len(sequence) < length:
        sequence.append((state >> 33) % VOCABULARY)
        state = _absorbed(state, sequence[-1])
    return sequence


def _digest(tokens: Sequence[int]) -> int:
    state = 0
    for token in tokens:
        state = _absorbed(state, token)
    return state


def _absorbed(state: int, token: int) -> int:
    return ((state ^ token) * _FACTOR + 1_442_695_040_888_963_407) & _MASK


@define
class PrefixEngine:
    """Samples the same tokens whatever the schedule; `stop_after`: output tokens after which the model ends."""

    sequences: dict[str, list[int]] = Factory(dict)
    prompt_tokens: dict[str, int] = Factory(dict)
    stop_after: dict[str, int | None] = Factory(dict)

    def expect(self, request: Request, stop_after: int | None) -> None:
        if request.id in self.sequences:
            return
        length = request.declared_tokens
        self.sequences[request.id] = continued(request.prompt_ids, length)
        self.prompt_tokens[request.id], self.stop_after[request.id] = request.prompt_tokens, stop_after

    def outcome(self, plan: Plan) -> Outcome:
        ends = zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True)
        rows = [self.sampled(request, start + tokens) for request, start, tokens, samples in ends if samples]
        return Outcome(
            step=plan.step,
            request=[request for request, _, _ in rows],
            token=[token for _, token, _ in rows],
            stop=[stop for _, _, stop in rows],
        )

    def sampled(self, request: str, position: int) -> tuple[str, int, bool]:
        sequence, after = self.sequences[request], self.stop_after[request]
        if position >= len(sequence):  # beyond what was asked for: the subjects answer for that
            sequence = self.sequences[request] = continued(sequence, position + 1)
        stop = after is not None and position - self.prompt_tokens[request] + 1 >= after
        return request, sequence[position], stop
