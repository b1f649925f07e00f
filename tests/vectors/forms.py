"""The two forms of a scenario: JSON, and lines of words for whoever has no JSON at hand.  README.md explains both."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from schedspec.spec.vocabulary import Settings

from .legal import Choice, Node
from .records import FOLDER, short
from .worlds import World

SCHEMA = "schedspec-vectors/1"
SCENARIOS = FOLDER / "scenarios"
IN_LINES = ("blocks", "block_size", "seats", "token_budget", "watermark_blocks", "policy", "victim", "at_blocked_head")
"""Settings that are spelled out in lines, whatever their value; no scenario has another one."""


def path_of(world: World, ending: str) -> Path:
    return SCENARIOS / f"{world.id}.{ending}"


# --- JSON ----------------------------------------------------------------------------------------------------


def as_json(world: World, nodes: Sequence[Node]) -> str:
    """A node a line, so that a change shows where it is."""
    head = {
        "schema": SCHEMA,
        "id": world.id,
        "name": world.name,
        "about": world.about,
        "settings": short(world.settings),
        "claims": list(world.claims),
        "tried": sum(node.tried for node in nodes),
    }
    lines = ",\n".join(_encoded(_node(world, node)) for node in nodes)
    return f'{_encoded(head)[:-1]},"nodes":[\n{lines}\n]}}\n'


def _encoded(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _node(world: World, node: Node) -> dict[str, Any]:
    stops = {op.request.id: op.stop_after for ops in world.comes for op in ops if op.request is not None}
    comes: list[dict[str, Any]] = []
    for kind, what in node.comes:
        if kind == "submit":
            stop = {} if stops[what.id] is None else {"stop_after": stops[what.id]}
            comes.append({"submit": short(what), **stop})
        else:
            comes.append({"cancel": what})
    return {"comes": comes, "legal": [_choice(choice) for choice in node.legal]}


def _choice(choice: Choice) -> dict[str, Any]:
    rows = [[row.id, row.start, row.tokens, row.samples, row.held] for row in choice.runs]
    plain = {
        "preempted": list(choice.preempted),
        "admitted": list(choice.admitted),
        "runs": rows,
        "ends": list(choice.ends),
        "against": list(choice.against),
    }
    return {name: value for name, value in plain.items() if value or name == "runs"} | {"then": choice.then}


# --- lines ---------------------------------------------------------------------------------------------------


def as_lines(world: World, nodes: Sequence[Node]) -> str:
    return "\n".join(_lines(world, nodes)) + "\n"


def _lines(world: World, nodes: Sequence[Node]) -> Iterator[str]:
    _ensure_spelled_out(world.settings)
    yield SCHEMA
    yield f"scenario {world.id} {world.name}"
    for name in IN_LINES:
        yield f"setting {name} {getattr(world.settings, name)}"
    yield from (f"claim {claim}" for claim in world.claims)
    for number, plain in enumerate(_node(world, node) for node in nodes):
        yield f"node {number}"
        yield from _news(plain["comes"])
        for choice in plain["legal"]:
            yield f"legal {-1 if choice['then'] is None else choice['then']}"
            yield from (f"preempt {id}" for id in choice.get("preempted", ()))
            yield from (f"admit {id}" for id in choice.get("admitted", ()))
            yield from ("run " + " ".join(map(str, row)) for row in choice["runs"])
            yield from (f"ends {id}" for id in choice.get("ends", ()))
    yield "end"


def _news(comes: Iterable[dict[str, Any]]) -> Iterator[str]:
    for what in comes:
        if "cancel" in what:
            yield f"cancel {what['cancel']}"
            continue
        request, stop = what["submit"], what.get("stop_after", 0)
        prompt, priority = len(request["prompt_ids"]), request.get("priority", 0)
        yield f"submit {request['id']} {prompt} {request['max_output_tokens']} {priority} {stop}"


def _ensure_spelled_out(settings: Settings) -> None:
    if others := short(settings).keys() - set(IN_LINES):
        raise ValueError(f"lines do not say {min(others)}: add it to IN_LINES, and to README.md")
