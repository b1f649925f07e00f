"""A run in words: one line per protocol message, and the three lines of proof that a failure report opens with."""

from collections.abc import Iterator, Sequence

from attrs import fields, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Delta, Header, Message, Outcome, Plan, Receipt, Request, Settings

LONG_PROMPT = 12


@frozen
class Line:
    """A row of the step table; `number` counts protocol messages, snapshots are left out."""

    number: int
    call: str
    answer: str
    bad: bool


def step_table(messages: Sequence[Message], bad_message: int | None) -> list[Line]:
    """`bad_message`: the monitor's count of the message that broke the rule, snapshots included."""
    lines: list[Line] = []
    completed: set[int] = set()
    number = 0
    for place, message in enumerate(messages, start=1):
        if message.kind == "observe":
            if place == bad_message:
                lines.append(Line(number, "observe", _shown(message), True))
            continue
        if message.kind == "end":
            lines.append(Line(number, "end of the run", "", place == bad_message))
            continue
        number += 1
        call, answer = _described(message, completed)
        lines.append(Line(number, call, answer, place == bad_message))
    return lines


def _described(message: Message, completed: set[int]) -> tuple[str, str]:
    if message.kind == "submit":
        return f"submit {_request(message.given)}", _receipt(message.answer)
    if message.kind == "cancel":
        return f"cancel {message.given}", deltas_in_words(message.answer)
    if message.kind == "step":
        return f"step {message.answer.step}", _plan(message.answer)
    if message.kind == "complete":
        again = "again: " if message.given.step in completed else ""
        completed.add(message.given.step)
        return f"{again}complete {message.given.step}{_outcome(message.given)}", deltas_in_words(message.answer)
    return f"notify {message.given}", deltas_in_words(message.answer)


def _request(request: Request) -> str:
    prompt = (
        f"prompt {list(request.prompt_ids)}"
        if request.prompt_tokens <= LONG_PROMPT and len(set(request.prompt_ids)) < request.prompt_tokens
        else counted(request.prompt_tokens, "prompt token")
    )
    priority = f", priority {request.priority}" if request.priority else ""
    return f"{request.id} ({prompt}, up to {request.max_output_tokens} out{priority})"


def _receipt(receipt: Receipt) -> str:
    if receipt.verdict == "refused":
        limit = "" if receipt.limit is None else f", {receipt.value} against {receipt.limit}"
        return f"refused: {receipt.reason}{limit}"
    tail = f" of {receipt.of}" if receipt.of else ""
    return receipt.verdict + tail + (f"; {deltas_in_words(receipt.deltas)}" if receipt.deltas else "")


def _plan(plan: Plan) -> str:
    runs = [
        f"{request}[{start},{start + tokens}){'*' if samples else ''}"
        for request, start, tokens, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True)
    ]
    parts = [deltas_in_words(plan.deltas)] if plan.deltas else []
    parts.append("runs " + " ".join(runs) if runs else "runs nobody")
    return "; ".join(parts)


def _outcome(outcome: Outcome) -> str:
    rows = [f"{request}{' stops' if stop else ''}" for request, stop in zip(outcome.request, outcome.stop, strict=True)]
    return f" (tokens for {', '.join(rows)})" if rows else ""


def deltas_in_words(deltas: Sequence[Delta]) -> str:
    return "; ".join(_delta(delta) for delta in deltas) or "nothing"


def _delta(delta: Delta) -> str:
    kind = delta[0]
    if kind == "delivered":
        return f"delivered to {', '.join(delta[1])}"
    if kind == "unindexed":
        return f"index forgets {_list(delta[1])}"
    if kind in ("took", "gave", "shared", "indexed"):
        return f"{delta[1]} {kind} {_list(delta[2])}"
    if kind in ("admitted", "resumed"):
        return f"{kind} {delta[1]}" + (f" with {delta[2]} cached" if delta[2] else "")
    if kind == "preempted":
        whom = "" if delta[3] in (None, delta[1]) else f" for {delta[3]}"
        return f"preempted {delta[1]}{whom}"
    return f"{kind} {delta[1]}" + (f" ({delta[2]})" if len(delta) > 2 else "")


def _list(blocks: Sequence[int]) -> str:
    return "block " + ", ".join(map(str, blocks)) if len(blocks) == 1 else "blocks " + ", ".join(map(str, blocks))


def _shown(message: Message) -> str:
    shown = message.answer
    parts = [f"{name} {value}" for name, value in shown.counters.items()]
    if shown.tables:
        parts.append("tables " + ", ".join(f"{r}: {list(table)}" for r, table in shown.tables.items()))
    if shown.free:
        parts.append(f"free {list(shown.free)}")
    return "; ".join(parts)


# --- Let, Then, However -------------------------------------------------------------------------------------


def proof(header: Header, messages: Sequence[Message], violation: Violation) -> Iterator[tuple[str, str]]:
    """Three lines: what is given, what the scheduler did, and what the rule asks for."""
    yield "Let", _setting(header.settings) + _who(messages)
    if violation.message <= len(messages):
        yield "Then", _did(messages[violation.message - 1])
    else:
        yield "Then", "the next answer cannot be read"
    yield "However", _asked(violation)


def _setting(settings: Settings) -> str:
    """The pool, and whatever differs from the plain settings."""
    plain = Settings()
    text = (
        f"there be {counted(settings.blocks, 'block')} of {counted(settings.block_size, 'position')}, "
        f"{counted(settings.seats, 'seat')} and a budget of {counted(settings.token_budget, 'token')}"
    )
    shown = {"blocks", "block_size", "seats", "token_budget"}
    others = [
        f"{field.name} {getattr(settings, field.name)}"
        for field in fields(Settings)
        if field.name not in shown and getattr(settings, field.name) != getattr(plain, field.name)
    ]
    return text + (f" ({', '.join(others)})" if others else "")


def _who(messages: Sequence[Message]) -> str:
    requests = [m.given for m in messages if m.kind == "submit"]
    return ", and let " + ", ".join(_request(r) for r in requests[:6]) + " be submitted" if requests else ""


def _did(message: Message) -> str:
    if message.kind == "observe":
        return "its snapshot shows " + _shown(message)
    if message.kind == "end":
        return "the run ends"
    call, answer = _described(message, set())
    return f"{call} answers: {answer}"


def _asked(violation: Violation) -> str:
    facts = ", ".join(f"{name} = {value}" for name, value in violation.facts.items())
    says = violation.says.rstrip(".")
    if says[1:2].islower():
        says = says[0].lower() + says[1:]
    return f"{violation.conjunct} asks that {says}" + (f"; here {facts}" if facts else "")


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def sentence(rule: str) -> str:
    return registry.rules[rule].statement
