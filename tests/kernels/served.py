"""Small models, and runs of the reference scheduler with the engine behind it, each step held to its requests alone."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from attrs import Factory, define

from schedspec.optimized.engine import ModelConfig
from schedspec.optimized.engine.alone import Finding, Witness
from schedspec.optimized.engine.engine import Engine, Sampled
from schedspec.optimized.engine.model import Model
from schedspec.optimized.engine.operations import Operations, plain
from schedspec.optimized.engine.sampling import GREEDY, Sampling
from schedspec.optimized.engine.served import Served
from schedspec.optimized.engine.weights import random_tensors
from schedspec.reference import make
from schedspec.spec.vocabulary import Message, Plan, Request, Settings

CONFIG = ModelConfig(vocabulary=29, hidden=16, layers=1, heads=4, kv_heads=2, head_dim=4, mlp=12, positions=128)
COMMON = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
"""Prompts begin like this, some of them for longer."""
SWAPPING: dict[str, Any] = {"host_blocks": 40, "recover": "swap"}


def model_of(
    operations: Operations | None = None, config: ModelConfig = CONFIG, seed: int = 0, dtype: Any = torch.float32
) -> Model:
    return Model.of(config, random_tensors(config, seed), operations or plain(), dtype=dtype)


@define
class Story:
    """What happened in a run."""

    findings: list[Finding] = Factory(list)
    messages: list[Message] = Factory(list)
    outputs: dict[str, list[int]] = Factory(dict)
    steps: int = 0
    preempted: int = 0
    swapped: int = 0
    moved: int = 0
    shared: int = 0
    batched: int = 0
    chunked: int = 0
    compared: int = 0


@define
class Case:
    """Requests, each with the number of the step before which it comes, and those that are cancelled then."""

    settings: Settings
    requests: list[tuple[int, Request, Sampling]]
    cancels: dict[str, int] = Factory(dict)


def drawn(dice: Random, most: int = 6) -> Case:
    """Little memory, small budgets, one or two steps in flight."""
    size = dice.choice((1, 2, 3, 4, 8))
    settings = Settings(
        blocks=dice.randint(-(-24 // size), -(-30 // size)),
        block_size=size,
        seats=dice.randint(3, 5),
        token_budget=dice.choice((2, 3, 5, 8, 40)),
        prefix_caching=dice.random() < 0.5,
        overlap_depth=dice.choice((1, 1, 2)),
        **(SWAPPING if dice.random() < 0.5 else {}),
    )
    requests = []
    for number in range(dice.randint(3, most)):
        prompt = [*COMMON[: dice.randint(0, 8)], *(dice.randrange(29) for _ in range(dice.randint(1, 4)))]
        request = Request(id=f"r{number}", prompt_ids=prompt, max_output_tokens=dice.randint(2, 12))
        sampling = dice.choice((GREEDY, Sampling(temperature=0.8, seed=number)))
        requests.append((dice.randint(0, 3), request, sampling))
    cancels = {f"r{number}": dice.randint(2, 9) for number in range(len(requests)) if dice.random() < 0.1}
    return Case(settings, requests, cancels)


def unfinished(served: Served) -> bool:
    shown = served.observe()
    return shown is not None and bool(shown.requests)


def run(
    case: Case,
    model: Model | None = None,
    *,
    engine_of: Callable[[Model, int, int, int], Engine] = Engine,
    judge_by: Model | None = None,
) -> Story:
    """Until everybody has ended.  `judge_by`: the model whose requests alone are right, if not the same."""
    model = model or model_of()
    blocks = case.settings.blocks + case.settings.pools.decode_blocks
    engine = engine_of(model, blocks, case.settings.block_size, case.settings.host_blocks)
    witness, story = Witness(judge_by or model), Story()
    sampling = {request.id: how for _, request, how in case.requests}

    def executed(plan: Plan, sampled: Sampled) -> None:
        story.steps += 1
        story.batched += len(plan.request) > 1
        story.chunked += len(plan.samples) - sum(plan.samples)
        story.findings += witness.judge(engine, plan, sampled)
        for request, token in zip(sampled.request, sampled.token, strict=True):
            story.outputs.setdefault(request, []).append(token)

    served = Served(
        make(case.settings, 0), engine, story.messages.append, executed, lambda request: sampling[request.id]
    )
    flights: deque[Plan] = deque()
    moving: list[int] = []
    depth, call = case.settings.overlap_depth, 0
    waiting = sorted(case.requests, key=lambda one: one[0])
    while True:
        while waiting and waiting[0][0] <= call:
            _, request, how = waiting.pop(0)
            if served.submit(request, call).verdict == "accepted":
                witness.submitted(request, how)
        for request_id, when in case.cancels.items():
            if when == call:
                served.cancel(request_id, call)
        for transfer in moving:
            for what in ("transfer_started", "transfer_done"):
                told = served.notify({"type": what, "transfer": transfer}, call)
                story.moved += sum(delta[0] == "transferred" for delta in told)
        plan = served.step(call)
        moving = [delta[3] for delta in plan.deltas if delta[0] == "pulled"]
        for name, *fields in plan.deltas:
            story.preempted += name == "preempted"
            story.swapped += name == "swapped_in"
            story.shared += len(fields[1]) if name == "shared" else 0
        if plan.request:
            flights.append(plan)
        if flights and (len(flights) == depth or not plan.request):
            told = served.complete(served.outcome(flights.popleft().step), call)
            moving += [delta[3] for delta in told if delta[0] == "pulled"]
        elif not plan.request and not waiting and not moving and not unfinished(served):
            story.compared = witness.compared_tokens
            return story
        call += 1
