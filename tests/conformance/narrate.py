"""A run in words: one line per protocol message, and the lines of proof that a failure report opens with."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import Factory, asdict, define, fields, fields_dict, frozen

from schedspec.spec.parking import answer_in
from schedspec.spec.queueing import PRIORITY_WEIGHT
from schedspec.spec.rules.departures import DISCONNECTED
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import (
    OBJECTS,
    Capabilities,
    Delta,
    Door,
    Header,
    Lane,
    Message,
    Observation,
    Outcome,
    Plan,
    Pools,
    Receipt,
    Request,
    Settings,
)

from .instead import GLOSSARY, INSTEAD, OF_TRANSFERS
from .names import counted
from .writes import Writes

MOST_IN_A_ROW = 8
"""Of a longer list the first are shown, and whatever a failure is about."""

TRANSFER_EVENTS = {
    "transfer_started": "the link begins transfer",
    "transfer_done": "the link has written all of transfer",
    "transfer_failed": "the link gives up transfer",
}

NOBODY: frozenset[str] = frozenset()


@frozen
class Line:
    """A row of the step table; `number` counts protocol messages, snapshots are left out."""

    number: int
    call: str
    answer: str
    bad: bool
    submits: str = ""


def step_table(
    messages: Sequence[Message],
    bad_message: int | None,
    matter: frozenset[str] = NOBODY,
    *,
    caching: bool = False,
    before: int = 0,
) -> list[Line]:
    """`bad_message`: the monitor's count of the message that broke the rule, snapshots included; `matter`: requests
    that no list may leave out; `caching`: equal prefixes are worth a word; `before`: calls that came before these."""
    lines: list[Line] = []
    teller = Teller(matter, caching)
    number = before
    for place, message in enumerate(messages, start=1):
        bad = place == bad_message
        if message.kind == "observe":
            if bad:
                lines.append(Line(number, "observe", teller.shown(message.answer), True))
            continue
        if message.kind == "end":
            lines.append(Line(number, "end of the run", "", bad))
            continue
        number += 1
        call, answer = teller.told(message)
        submits = message.given.id if message.kind == "submit" else ""
        lines.append(Line(number, call, answer, bad, submits))
    return lines


@define
class Teller:
    """Puts messages into words, in their order: what came before decides what needs to be said."""

    matter: frozenset[str] = NOBODY
    caching: bool = False
    completed: set[int] = Factory(set)
    seen: list[Request] = Factory(list)

    def told(self, message: Message) -> tuple[str, str]:
        """The call, and its answer."""
        call = self.call(message)
        if message.kind == "submit":
            return call, self.receipt(message.answer)
        return call, self.plan(message.answer) if message.kind == "step" else self.deltas(message.answer)

    def call(self, message: Message) -> str:
        """What is asked.  Which number a step gets its answer says."""
        given = message.given
        if message.kind == "submit":
            return f"submit {self.request(given)}"
        if message.kind == "cancel":
            return f"cancel {given}"
        if message.kind == "step":
            plan = message.answer
            return "step" if plan is None else f"step {plan.step}" + (f" of the {plan.pool} pool" if plan.pool else "")
        if message.kind == "complete":
            again = "again: " if given.step in self.completed else ""
            self.completed.add(given.step)
            return f"{again}complete step {given.step}{self.outcome(given)}"
        return message.kind if message.kind == "observe" else self.news(given)

    def news(self, event: Mapping[str, Any]) -> str:
        """What the world tells."""
        if event.get("type") in TRANSFER_EVENTS:
            return f"{TRANSFER_EVENTS[event['type']]} {event['transfer']}"
        if event.get("type") == DISCONNECTED:
            return f"the client of {event.get('request')} is gone"
        if (heard := answer_in(event)) is not None:
            request, dependency, is_there = heard
            return f"{dependency} of {request} {'is there' if is_there else 'failed'}"
        return f"notify {event}"

    def request(self, request: Request) -> str:
        """What it asks for; with a prefix cache also with whom it shares a prefix."""
        prompt = counted(request.prompt_tokens, "prompt token")
        if self.caching:
            shared, other = max(((_common(request, r), r.id) for r in self.seen), default=(0, ""), key=lambda p: p[0])
            if shared:
                prompt += f", the first {shared} as in {other}" if shared < request.prompt_tokens else f" as in {other}"
            self.seen.append(request)
        others = "".join(f", {text}" for text in _of_request(request))
        return f"{request.id} ({prompt}, up to {request.max_output_tokens:,} out{others})"

    def receipt(self, receipt: Receipt) -> str:
        limit = "" if receipt.limit is None else f", {receipt.value} against {receipt.limit}"
        if receipt.verdict in ("deferred", "converted"):
            until = f"for {receipt.decided_after_ns:,} ns" if receipt.decided_after_ns is not None else f"{receipt.how}"
            return f"{receipt.verdict} ({until}): {receipt.reason}{limit}" + self._beside(receipt)
        if receipt.verdict == "refused":
            again = "" if receipt.retry_after_ns is None else f", come again in {receipt.retry_after_ns:,} ns"
            return f"refused: {receipt.reason}{limit}{again}" + self._beside(receipt)
        tail = f" of {receipt.of}" if receipt.of else ""
        return receipt.verdict + tail + self._beside(receipt)

    def _beside(self, receipt: Receipt) -> str:
        return f"; {self.deltas(receipt.deltas)}" if receipt.deltas else ""

    def plan(self, plan: Plan) -> str:
        runs = {
            request: f"{request}[{start},{start + tokens}){'*' if samples else ''}{_drafts(plan, request)}"
            for request, start, tokens, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True)
        }
        if len(runs) < len(plan.request):  # somebody runs twice: then nothing is left out
            pairs = zip(plan.request, plan.start, plan.tokens, strict=True)
            entries = [f"{request}[{start},{start + tokens})" for request, start, tokens in pairs]
        else:
            entries = self.some(runs)
        parts = [self.deltas(plan.deltas)] if plan.deltas else []
        parts.append("runs " + " ".join(entries) if entries else "runs nobody")
        parts += [f"drafts for {request}, which is not in the step" for request in plan.drafts if request not in runs]
        return "; ".join(parts)

    def outcome(self, outcome: Outcome) -> str:
        rows = {
            request: f"{request}{' stops' if stop else ''}"
            for request, stop in zip(outcome.request, outcome.stop, strict=True)
        }
        for request, tokens in outcome.further.items():
            rows[request] += f" and {counted(len(tokens), 'draft')} of it"
        rows |= {request: f"{rows[request]} calls {dependency}" for request, dependency in outcome.pauses.items()}
        word = "token" if len(rows) == 1 else "tokens"
        return f" ({word} for {', '.join(self.some(rows))})" if rows else ""

    def deltas(self, deltas: Sequence[Delta]) -> str:
        kept, hidden = [], 0
        for place, delta in enumerate(deltas):
            if place < MOST_IN_A_ROW or not self.matter.isdisjoint(_named(delta)):
                kept.append(self.delta(delta))
            else:
                hidden += 1
        if hidden:
            kept.append(f"… {counted(hidden, 'more change')}")
        return "; ".join(kept) or "nothing"

    def delta(self, delta: Delta) -> str:
        kind = delta[0]
        if kind == "delivered":
            return f"delivered to {', '.join(self.some({request: request for request in delta[1]}))}"
        if kind == "unindexed":
            return f"index forgets {blocks_in_words(delta[1])}"
        if kind in ("took", "gave", "shared", "indexed", "adopted"):
            return f"{delta[1]} {kind} {blocks_in_words(delta[2])}"
        if kind in ("held", "released", "pulled"):
            return _between_pools(delta)
        if kind in OF_HOST:
            return f"{delta[1]} {OF_HOST[kind]} host {blocks_in_words(delta[2])}"
        if kind in ("admitted", "resumed"):
            return f"{kind} {delta[1]}" + (f" with {counted(delta[2], 'cached token')}" if delta[2] else "")
        if kind == "preempted":
            by = " by swap" if delta[2] == "swap" else ""
            return f"preempted {delta[1]}{by}" + ("" if delta[3] in (None, delta[1]) else f" for {delta[3]}")
        if kind == "waits":
            return f"{delta[1]} waits for {delta[2]}"
        if kind == "parked":
            return f"{delta[1]} is parked for {', '.join(delta[2])}"
        if kind == "unparked":
            return f"{delta[1]} waits again"
        if kind == "leased":
            return f"{blocks_in_words(delta[2])} leased to {delta[1]} until {delta[3]:,} ns"
        if kind == "lease_over":
            return f"the lease of {delta[1]} is over ({delta[2]})"
        if kind == "deferred":
            return f"{delta[1]} is held at the door, for at most {delta[2]:,} ns"
        if kind == "converted":
            return f"{delta[1]} is converted to {delta[2]}"
        if kind == "chosen":
            return f"{delta[1]} was next by {delta[2]}, from place {delta[3]} to {delta[4]}"
        if kind == "displaced":
            return f"{delta[1]} makes room for {'others' if delta[2] == 'blocks' else 'a better class'}"
        if kind == "spent":
            return f"{delta[1]} was held {delta[2]:,}, waited {delta[3]:,}, ran {delta[4]:,} of {delta[5]:,} ns"
        if kind == "entered":
            return f"{delta[1]} enters"
        return f"{kind} {delta[1]}" + (f" ({delta[2]})" if len(delta) > 2 else "")

    def some(self, texts: Mapping[str, str]) -> list[str]:
        """The first of a long row and those that matter; the others are counted."""
        kept = [text for n, (who, text) in enumerate(texts.items()) if n < MOST_IN_A_ROW or who in self.matter]
        hidden = len(texts) - len(kept)
        return [*kept, f"and {counted(hidden, 'other')}"] if hidden else kept

    def shown(self, shown: Observation) -> str:
        """A snapshot."""
        parts = [f"{name} {value}" for name, value in shown.counters.items()]
        if shown.client_counters:
            counters = {client: f"{client} {counter}" for client, counter in shown.client_counters.items()}
            parts.append("counters " + ", ".join(self.some(counters)))
        if shown.tables:
            tables = {request: f"{request}: [{ranges(table)}]" for request, table in shown.tables.items()}
            parts.append("tables " + ", ".join(self.some(tables)))
        if shown.free:
            parts.append(f"free [{ranges(shown.free)}]")
        return "; ".join(parts)


def _drafts(plan: Plan, request: str) -> str:
    return f"+{plan.drafts[request]}" if request in plan.drafts else ""


OF_HOST = {"swapped_out": "goes to", "swapped_in": "comes back from", "dropped": "drops"}


def _of_request(request: Request) -> Iterator[str]:
    """Whatever is set, beside its size."""
    if request.priority:
        yield f"priority {request.priority}"
    if request.client != "default":
        yield f"client {request.client}"
    if request.lane != "default":
        yield f"lane {request.lane}"
    if request.deadline_ns is not None:
        yield f"deadline {request.deadline_ns:,} ns"
    if request.predicted_output_tokens is not None:
        yield f"{request.predicted_output_tokens:,} predicted"
    if request.adapter is not None:
        yield f"adapter {request.adapter}"
    if request.idempotency_key is not None:
        yield f"key {request.idempotency_key}"
    if request.dependencies:
        yield f"depends on {', '.join(request.dependencies)}"
    if request.was_converted:
        yield "converted before"
    if request.survives_disconnect:
        yield "survives a disconnect"


def _common(one: Request, other: Request) -> int:
    pairs = zip(one.prompt_ids, other.prompt_ids, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(one.prompt_tokens, other.prompt_tokens))


def _named(delta: Delta) -> Iterable[str]:
    """The requests that a delta is about."""
    if delta[0] == "unindexed":
        return ()
    return delta[1] if delta[0] == "delivered" else (delta[1],)


def _between_pools(delta: Delta) -> str:
    kind, request, blocks = delta[:3]
    if kind == "pulled":
        return f"transfer {delta[3]} is asked for, of {request} into {blocks_in_words(blocks)}"
    if kind == "held":
        return f"{request} is held in {blocks_in_words(blocks)} ({delta[3]})"
    return f"{request} is released" + (f" from {blocks_in_words(blocks)}" if blocks else "")


def blocks_in_words(blocks: Sequence[int]) -> str:
    return ("block " if len(blocks) == 1 else "blocks ") + ranges(blocks)


def ranges(numbers: Sequence[int]) -> str:
    """In their order: 1-40, 7, 9.  Of a long row only both ends are looked at."""
    parts: list[str] = []
    begin = 0
    while begin < len(numbers) and len(parts) <= 2 * MOST_IN_A_ROW:
        end = begin + 1
        while end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
            end += 1
        parts += _in_a_row(numbers[begin:end])
        begin = end
    if len(parts) > 2 * MOST_IN_A_ROW:
        parts = [*parts[:MOST_IN_A_ROW], "…", *_last_parts(numbers)]
    return ", ".join(parts)


def _last_parts(numbers: Sequence[int]) -> list[str]:
    parts: list[str] = []
    end = len(numbers)
    while len(parts) < MOST_IN_A_ROW:
        begin = end - 1
        while begin and numbers[begin] == numbers[begin - 1] + 1:
            begin -= 1
        parts = _in_a_row(numbers[begin:end]) + parts
        end = begin
    return parts[-MOST_IN_A_ROW:]


def _in_a_row(numbers: Sequence[int]) -> list[str]:
    """Numbers of which each is one more than the one before."""
    return [f"{numbers[0]}-{numbers[-1]}"] if len(numbers) > 2 else list(map(str, numbers))


# --- Let, Then, However, Instead ----------------------------------------------------------------------------


def proof(header: Header, messages: Sequence[Message], violation: Violation) -> Iterator[tuple[str, str]]:
    """What is given, what the scheduler did, what the rule asks for, and what would have been right."""
    matter = who_matters(messages, violation)
    teller = Teller(matter, header.settings.prefix_caching)
    yield "Let", let(header.settings, messages, teller)
    yield "Then", _then(messages, violation, Teller(matter))
    yield "However", _however(violation)
    if right := instead(header, messages, violation):
        yield "Instead", right


def who_matters(messages: Sequence[Message], violation: Violation) -> frozenset[str]:
    """The requests that a broken conjunct speaks of; if it names none, those of the message that broke it."""
    known = {m.given.id for m in messages if m.kind == "submit"}
    named: set[str] = set()
    for value in violation.facts.values():
        if isinstance(value, str):
            named.add(value)
        elif isinstance(value, (list, tuple)) and len(value) <= MOST_IN_A_ROW:  # of more none is special
            named.update(item for item in value if isinstance(item, str))
    return frozenset(named & known)


def let(settings: Settings, messages: Sequence[Message], teller: Teller) -> str:
    """The pool, whatever differs from the plain settings, and who is submitted."""
    text = (
        f"there be {counted(settings.blocks, 'KV block')} of {counted(settings.block_size, 'token')}, "
        f"at most {counted(settings.seats, 'request')} running and {counted(settings.token_budget, 'token')} in a step"
    )
    others = ", ".join(settings_in_words(settings))
    requests = {m.given.id: m.given for m in messages if m.kind == "submit"}
    who = teller.some({name: teller.request(request) for name, request in requests.items()})
    return text + (f" ({others})" if others else "") + (f"; submitted: {', '.join(who)}" if who else "")


def settings_in_words(settings: Settings) -> Iterator[str]:
    """Those that differ from the plain ones, and are not sizes of the pool."""
    plain = Settings()
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if field.name in ("blocks", "block_size", "seats", "token_budget") or value == getattr(plain, field.name):
            continue
        yield f"{field.name} {_setting_in_words(value)}"


def _setting_in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (Door, Pools)):
        return ", ".join(f"{name} {limit}" for name, limit in asdict(value).items() if limit)
    if not isinstance(value, tuple):
        return str(value)
    items = (_lane_in_words(item) if isinstance(item, Lane) else f"{item[0]} {item[1]}" for item in value)
    return f"[{'; '.join(items)}]"


def _lane_in_words(lane: Lane) -> str:
    """Its name, its share, and whatever differs from a plain lane."""
    plain = asdict(Lane(name=lane.name, share_percent=lane.share_percent))
    others = {name: value for name, value in asdict(lane).items() if value != plain[name]}
    told = "".join(f", {name} {_setting_in_words(value)}" for name, value in others.items())
    return f"{lane.name} {lane.share_percent} %{told}"


def settings_as_code(settings: Settings, always: Sequence[str] = ()) -> list[str]:
    """Arguments of `Settings`: those that differ from the plain ones, and these."""
    named = fields_dict(Settings)
    plain = Settings()
    return [
        f"{name}={as_code(getattr(settings, name) if name not in OBJECTS else dict(getattr(settings, name)))}"
        for name in named
        if name in always or getattr(settings, name) != getattr(plain, name)
    ]


def as_code(value: object) -> str:
    """A value as Python writes it and a formatter would have it."""
    if isinstance(value, Lane):
        plain = Lane(name=value.name, share_percent=value.share_percent)
        given = asdict(value, filter=lambda a, v: a.name in ("name", "share_percent") or v != getattr(plain, a.name))
        return f"Lane({', '.join(f'{name}={as_code(item)}' for name, item in given.items())})"
    if isinstance(value, (Door, Pools)):
        given = asdict(value, filter=lambda a, v: bool(v))
        return f"{type(value).__name__}({', '.join(f'{name}={as_code(item)}' for name, item in given.items())})"
    if isinstance(value, tuple):
        items = ", ".join(map(as_code, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    return json.dumps(value) if isinstance(value, (str, dict)) else repr(value)


def call_in_words(messages: Sequence[Message], asked: Message, *, caching: bool = False) -> str:
    """A call that got no answer, after these messages."""
    teller = Teller(caching=caching)
    for message in messages:
        if message.kind not in ("observe", "end"):
            teller.call(message)
    return teller.call(asked)


def _then(messages: Sequence[Message], violation: Violation, teller: Teller) -> str:
    if violation.message > len(messages):
        return "the next answer cannot be read"
    message = messages[violation.message - 1]
    if message.kind == "observe":
        return "its snapshot shows " + teller.shown(message.answer)
    if message.kind == "end":
        return "the run ends"
    call, answer = teller.told(message)
    return f"{call} answers: {answer}"


def _however(violation: Violation) -> str:
    says = violation.says.rstrip(".")
    if says[1:2].islower():
        says = says[0].lower() + says[1:]
    facts = ", ".join(f"{name} = {value}" for name, value in _values(violation).items())
    words = ", ".join(f"{name} is {meaning}" for name, meaning in _variables(violation).items())
    asked = f"{violation.conjunct} asks that {says}" + (f", where {words}" if words else "")
    return asked + (f"; here {facts}" if facts else "")


def _variables(violation: Violation) -> dict[str, str]:
    """What a stranger cannot know: names in a formula, and what they mean there."""
    is_formula = violation.says in OF_ONE_WORD or re.search(r"[=≠≤≥<>∈∉⇒∧]", violation.says)
    meanings = OF_TRANSFERS if _is_of_transfers(violation.rule) else GLOSSARY
    names = re.findall(r"[a-z_]+", violation.says) if is_formula else ()
    return {name: meanings[name] for name in names if name in meanings}


OF_ONE_WORD = ("told",)
"""Formulas without a sign."""


def _is_of_transfers(rule: str) -> bool:
    return rule.startswith("XFER-") or rule == "KV-9"


def _values(violation: Violation) -> dict[str, str]:
    """Facts in words.  A key that orders requests is a rank and a number; both are shown where one has both."""
    facts = violation.facts
    keys = [name for name in facts if re.search(r"\b(victim_key|place)\b", name) and isinstance(facts[name], int)]
    paired = any(abs(facts[name]) >= PRIORITY_WEIGHT // 2 for name in keys)
    shown = {}
    for name, value in facts.items():
        if re.match(r"(content|prefix)\b", name):
            continue  # the identity of a prefix says nothing to anybody
        if paired and name in keys:
            rank, number = divmod(value, PRIORITY_WEIGHT)
            of = "priority" if name.startswith("victim_key") else "rank"
            shown[name] = f"({of} {rank}, number {number})"
        else:
            shown[name] = value_in_words(value)
    return shown


def value_in_words(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        numbers = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        others = f", … {len(value) - MOST_IN_A_ROW:,} more" if len(value) > MOST_IN_A_ROW else ""
        inner = ranges(value) if numbers else ", ".join(map(str, value[:MOST_IN_A_ROW])) + others
        return f"[{inner}]" if value else "∅"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def instead(header: Header, messages: Sequence[Message], violation: Violation) -> str:
    """What would have been right, if it can be said; else nothing."""
    if violation.conjunct == "KV-12.read":
        return _right_read(header, messages, violation.facts)
    if violation.conjunct == "KV-14.content":
        return _right_content(header, messages, violation.facts)
    values = {name: value.strip("[]") for name, value in _values(violation).items()}
    if violation.message <= len(messages) and messages[violation.message - 1].kind == "submit":
        values["who"] = messages[violation.message - 1].given.id
    template = INSTEAD.get((violation.rule, violation.says), "")
    if any(name not in values for name in re.findall(r"\{([^}]+)\}", template)):
        return ""
    one = OF_THEM.sub(lambda match: f"1{match[2]}" if values[match[1]] == "1" else match[0], template)
    return re.sub(r"\{([^}]+)\}", lambda match: values[match[1]], one)


OF_THEM = re.compile(r"\{([^}]+)\}((?: [a-z]+)? (?:block|token|seat|step|request|position|draft|slot))s\b")
"""Of one of these nobody speaks in the plural."""


def _right_read(header: Header, messages: Sequence[Message], facts: Mapping[str, Any]) -> str:
    request, position, block, step = (facts[name] for name in ("request", "position", "block", "step"))
    token = _token(messages, request, position)
    if block < 0:
        return f"before step {step} reads {token}, {request} needs a block that holds it"
    writes = Writes.of(header.settings.block_size, messages)
    write = writes.at(block, position)
    right = f"when step {step} reads block {block} there should be {token}"
    if write is None:
        return f"{right}, but nobody had written to that place"
    if (write.request, write.position) == (request, position):
        return f"{right}, which {request} wrote in step {write.step}, but what stands before it is not its own any more"
    return f"{right}, but there is {_token(messages, write.request, write.position)}, written in step {write.step}"


def _right_content(header: Header, messages: Sequence[Message], facts: Mapping[str, Any]) -> str:
    request, block = facts["request"], facts["block"]
    there = Writes.of(header.settings.block_size, messages).of_block(block)
    found = ", ".join(f"{_token(messages, w.request, w.position)} (step {w.step})" for w in there[:4])
    holds = f"it holds {found}" if found else "nobody has written to it"
    return f"block {block} is indexed as a full block of {request}, so all its tokens should be written by now; {holds}"


def _token(messages: Sequence[Message], request: str, position: int) -> str:
    prompt = next((m.given.prompt_tokens for m in messages if m.kind == "submit" and m.given.id == request), 0)
    kind, number = ("prompt", position) if position < prompt else ("output", position - prompt)
    return f"position {position} of {request} ({kind} token {number})"


def version_in_words(capabilities: Capabilities) -> str:
    constants = "".join(f", {name} {value:,}" for name, value in capabilities.constants)
    return f"{capabilities.name} {capabilities.version}{constants}"
