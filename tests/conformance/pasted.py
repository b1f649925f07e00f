"""A failure as a pytest function that somebody pastes into a suite of their own."""

from collections.abc import Iterator, Sequence

from attrs import fields_dict

from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import OPEN, Request

from .narrate import as_code, settings_as_code
from .page import WIDTH
from .script import COMPLETE, FAIL_TRANSFER, REPEAT_TRANSFER, RETRY, STEP, TRANSFER, Op, Script

CONSTANTS = {op: op.kind.upper() for op in (STEP, COMPLETE, RETRY, *TRANSFER, FAIL_TRANSFER, REPEAT_TRANSFER)}
"""Operations that have a name."""


def has_test(rule: str) -> bool:
    """One run shows no difference between two."""
    return registry.rules[rule].form != "run"


def as_test(subject: str, rule: str, script: Script, *, only: bool = False) -> Iterator[str]:
    """The lines of a test that the script fails, as long as it breaks the rule."""
    ops = [_op(op) for op in script.ops]
    yield f'"""{rule}: {registry.rules[rule].statement}"""'
    yield ""
    yield f"from schedspec.conformance.script import {', '.join(_imports(script))}"
    yield "from schedspec.conformance.testing import assert_keeps"
    named = ["Door"] * (script.settings.door != OPEN) + ["Lane"] * bool(script.settings.lanes)
    named += ["Pools"] * script.settings.pools.are_two
    yield f"from schedspec.spec.vocabulary import {', '.join([*named, 'Settings'])}"
    yield ""
    yield ""
    yield f"def test_{rule.lower().replace('-', '_')}() -> None:"
    settings, lanes = script.settings, [as_code(lane) for lane in script.settings.lanes]
    arguments = [
        _fitting("lanes=", lanes, "[]", 8) if a.startswith("lanes=") else a for a in settings_as_code(settings)
    ]
    yield "    " + _fitting("settings = Settings", arguments, "()", 4)
    yield "    " + _fitting("ops = ", ops, "[]", 4)
    made = f"Script(settings, {script.seed}, ops)" + (", only=True" if only else "")
    yield f"    assert_keeps({as_code(rule)}, {as_code(subject)}, {made})"


CALLED = ("submit", "cancel", "leave", "answer")
"""Operations that are made by a function of their name."""


def _imports(script: Script) -> list[str]:
    """What the operations use, in the order in which linters want it."""
    used = {CONSTANTS.get(op) or (op.kind if op.kind in CALLED else "Op") for op in script.ops} | {"Script"}
    return sorted(used, key=lambda name: (not name.isupper(), name[0].islower(), name))


def _fitting(begin: str, items: Sequence[str], brackets: str, indent: int) -> str:
    """On one line; or if that is too long, or has lines in it, on a line for each."""
    one_line = f"{begin}{brackets[0]}{', '.join(items)}{brackets[1]}"
    if indent + len(one_line) < WIDTH and "\n" not in one_line:
        return one_line
    inner = "".join(f"\n{' ' * (indent + 4)}{item}," for item in items)
    return f"{begin}{brackets[0]}{inner}\n{' ' * indent}{brackets[1]}"


def _op(op: Op) -> str:
    if op in CONSTANTS:
        return CONSTANTS[op]
    if op.kind in ("cancel", "leave"):
        return f"{op.kind}({as_code(op.id)})"
    if op.kind == "answer":
        return f"answer({as_code(op.id)}, {as_code(op.dependency)}{'' if op.is_there else ', is_there=False'})"
    if op.kind == "tick":
        return f'Op("tick", ns={op.ns})'
    if op.request is None:
        return f"Op({as_code(op.kind)}, back={op.back})"
    request = op.request
    rest = f", stop_after={op.stop_after}" if op.stop_after is not None else ""
    rest += f", pauses={list(op.pauses)}" if op.pauses else ""
    for name, one in fields_dict(Request).items():
        if name not in ("id", "prompt_ids", "max_output_tokens") and getattr(request, name) != one.default:
            rest += f", {name}={as_code(getattr(request, name))}"
    return f"submit({as_code(request.id)}, {_prompt(request.prompt_ids)}, {request.max_output_tokens}{rest})"


def _prompt(ids: Sequence[int]) -> str:
    """A long run of numbers as a range."""
    run = range(ids[0], ids[0] + len(ids)) if ids else range(0)
    return f"range({run.start}, {run.stop})" if len(ids) > 4 and list(ids) == list(run) else repr(list(ids))
