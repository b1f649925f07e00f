"""A workload that means harm: prompts and outputs of all sizes, bursts, cancels, more than the machine can serve, one
client that floods, others that come and go, classes, deadlines, wrong predictions, shared prefixes."""

from random import Random

from attrs import evolve

from schedspec.conformance.script import COMPLETE, STEP, Op, cancel
from schedspec.spec.vocabulary import NS_PER_S, Request, Settings

CLIENTS = ("flood", "chat", "reader", "batch", "quiet")
PREFIXES = tuple(tuple(range(1_000 * n, 1_000 * n + 24)) for n in range(1, 4))

SMALL = Settings(blocks=48, block_size=4, seats=6, token_budget=32, chunk_tokens=16, prefix_caching=True)


def workload(seed: int, steps: int = 150, settings: Settings = SMALL) -> list[Op]:
    """So many steps, two requests a step on average: more than the machine can serve."""
    dice = Random(f"hostile {seed}")
    ops: list[Op] = []
    sent: list[str] = []
    for step in range(steps):
        for client in _who_comes(dice, step):
            new = _request(dice, f"{client} {len(sent)}", client, step)
            sent.append(new.id)
            stop = dice.randint(1, new.max_output_tokens) if dice.random() < 0.4 else None
            ops.append(Op("submit", new, stop))
        if sent and dice.random() < 0.15:
            ops.append(cancel(dice.choice(sent[-40:])))
        ops.append(STEP)
        if settings.overlap_depth > 1 and dice.random() < 0.5:
            ops.append(STEP)
        ops.append(COMPLETE)
    return ops


def _who_comes(dice: Random, step: int) -> list[str]:
    comes = ["flood"] * dice.choice((0, 1, 1, 2))
    comes += ["chat"] * (dice.random() < 0.5)
    comes += ["reader"] * (step % 25 == 3)
    comes += ["batch"] * (12 if step in (5, 80) else 0)
    comes += ["quiet"] * (2 if step > 100 else 0)
    return comes


def _request(dice: Random, id: str, client: str, step: int) -> Request:
    prompt, output = _size(dice, client)
    ids = tuple(dice.randrange(10_000, 90_000) for _ in range(prompt))
    if dice.random() < 0.4:
        ids = (*dice.choice(PREFIXES)[: prompt - 1], *ids[prompt - min(prompt, 25) :])[:prompt]
    return Request(
        id=id,
        prompt_ids=ids,
        max_output_tokens=output,
        client=client,
        lane={"batch": "offline", "chat": "interactive"}.get(client, "default"),
        priority={"chat": 0, "flood": 1, "reader": 1}.get(client, 2),
        deadline_ns=(step + dice.randint(1, 60)) * NS_PER_S if dice.random() < 0.5 else None,
        predicted_output_tokens=dice.choice((None, output, max(1, output // 3), 3 * output)),
    )


def _size(dice: Random, client: str) -> tuple[int, int]:
    if client == "reader":
        return dice.randint(60, 100), dice.randint(8, 24)
    if client == "batch":
        return dice.randint(10, 40), dice.randint(4, 30)
    if client == "flood":
        return dice.choice((1, 2, 40)), dice.choice((1, 2, 20))
    return dice.randint(2, 16), dice.randint(2, 16)


def overlapped(settings: Settings) -> Settings:
    return evolve(settings, overlap_depth=2)
