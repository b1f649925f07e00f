"""RULES.md: every card under a heading of its own, so that a permalink leads to it.  `schedspec rules --markdown`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .registry import FAMILIES

BEGIN = "# Rules"
COMMAND = "schedspec rules --markdown"
TITLES = {
    "KV": "memory",
    "STEP": "composition of one iteration",
    "LIFE": "the request's life",
    "PRE": "preemption",
    "FAIR": "fairness",
    "LIVE": "progress and waiting",
    "ADMIT": "the door",
    "LANE": "service classes",
    "XFER": "prefill/decode disaggregation",
    "OUT": "output",
    "OBS": "decision log and counters",
    "DET": "determinism and replay",
    "FLEET": "several engines and their router",
}
NOT_THERE = {
    "XFER-7": "No rule any more: what a transfer writes to is judged by [KV-9](#kv-9). The id is not given again.",
}
"""Ids that are no rule, or not yet, and why.  Whoever writes the rule takes the entry away."""

Card = Mapping[str, Any]


def page(cards: Sequence[Card]) -> str:
    """Raises ValueError if an id between two others is neither a rule nor said to be none."""
    return "\n".join(_lines(cards)) + "\n"


def _lines(cards: Sequence[Card]) -> Iterator[str]:
    entries = [*cards, *({"id": id} for id in _ids_without(cards))]
    entries.sort(key=lambda card: _order(card["id"]))
    yield BEGIN
    yield ""
    yield f"{len(cards)} rules, each under its id. Written by `{COMMAND}` from the code that judges;"
    yield "`schedspec explain ID` shows one of them. [proofs](../proofs/README.md) explains *proved*, *exhausted in a"
    yield "bound* and *tested*; [spec](README.md#the-state) the terms of formulas; [PROTOCOL](PROTOCOL.md#capabilities)"
    yield "what a rule needs to see, and the claims."
    yield ""
    for family in FAMILIES:
        ids = [card["id"] for card in entries if _order(card["id"])[0] == FAMILIES.index(family)]
        if ids:
            yield f"* {family}, {TITLES[family]}: {', '.join(map(_link, ids))}"
    for card in entries:
        yield ""
        yield f"## {card['id']}"
        yield ""
        yield from _card(card) if "statement" in card else [NOT_THERE[card["id"]]]


def _order(rule: str) -> tuple[int, int]:
    family, _, number = rule.partition("-")
    return FAMILIES.index(family), int(number)


def _ids_without(cards: Sequence[Card]) -> list[str]:
    """Ids of no rule: each that stands before others of its family needs a reason."""
    last: dict[str, int] = {}
    for card in cards:
        family, _, number = card["id"].partition("-")
        last[family] = max(last.get(family, 0), int(number))
    ids = {card["id"] for card in cards}
    every = (f"{family}-{number}" for family, most in last.items() for number in range(1, most + 1))
    if unsaid := [id for id in every if id not in ids and id not in NOT_THERE]:
        raise ValueError(f"{unsaid[0]} is no rule, though later ones are: say why in NOT_THERE of rules_page.py")
    return [id for id in NOT_THERE if id not in ids]


def _link(rule: str) -> str:
    return f"[{rule}](#{rule.lower()})"


def _card(card: Card) -> Iterator[str]:
    yield f"**{card['level']}**: {card['statement']}"
    yield ""
    yield f"*Why*: {_sentence(card['why'])}"
    yield ""
    yield f"* needs: {card['needs']}{', and the order of deltas' if card['ordered'] else ''}"
    yield f"* binds: {_binds(card)}"
    yield f"* known: {_known(card)}"
    if card["theorems"]:
        yield f"* theorems about it: {card['theorems']}"
    if card["bugs"]:
        yield f"* public bugs of the corpus: {', '.join(card['bugs'])}"
    if card["implies"]:
        yield "* breaks with it: " + "; ".join(f"{_link(edge['also'])} ({edge['why']})" for edge in card["implies"])
    yield f"* checked by: {', '.join(f'`{place}`' for place in card['checked_by'])}; since {card['since']}"
    if card["formal"]:
        yield ""
        yield "```text"
        yield from _formulas(card["formal"])
        yield "```"


def _binds(card: Card) -> str:
    whom = f"who claims {_named(card['claims'], 'and')}" if card["claims"] else "everybody"
    return whom + (f", but nobody who claims {_named(card['unless'], 'or')}" if card["unless"] else "")


def _named(claims: Iterable[str], word: str) -> str:
    return f" {word} ".join(f"`{claim}`" for claim in claims)


def _known(card: Card) -> str:
    if card["evidence"] == "proved":
        return f"proved. {_sentence(card['proved_by'])}"
    if card["exhausted"]:
        return f"exhausted in a bound. {_sentence(card['exhausted'])}"
    return "tested"


def _formulas(formal: Iterable[Card]) -> Iterator[str]:
    for conjunct in formal:
        where = f"on {conjunct['on']}" if conjunct["on"] else conjunct["kind"]
        yield f"{conjunct['name']:10} {where:18} {conjunct['formula']}"


def _sentence(text: str) -> str:
    """With a capital letter, but for names that have none."""
    return text if re.match(r"[a-z0-9]+[0-9(:]", text) else text[:1].upper() + text[1:]
