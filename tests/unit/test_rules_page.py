"""spec/RULES.md is what the registry says, and each rule can be linked to."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.commands.parts import all_cards
from schedspec.spec.catalogue import registry
from schedspec.spec.fleets.rules import RULES as FLEET
from schedspec.spec.rules_page import COMMAND, NOT_THERE, page

SHOWN = Path(__file__).parents[2] / "spec" / "RULES.md"


def test_the_page_is_what_the_registry_says() -> None:
    text = SHOWN.read_text(encoding="utf-8")
    assert text == page(all_cards()), f"write it again: {COMMAND} > spec/RULES.md"


def test_each_rule_has_one_heading() -> None:
    headings = re.findall(r"^## (.+)$", SHOWN.read_text(encoding="utf-8"), re.M)
    rules = [card["id"] for card in all_cards()]
    assert {*registry.rules, *FLEET} == set(rules)
    assert [heading for heading in headings if heading in rules] == rules
    assert set(headings) - set(rules) == NOT_THERE.keys() - registry.rules.keys()


def test_every_link_within_the_page_leads_somewhere() -> None:
    text = SHOWN.read_text(encoding="utf-8")
    anchors = {heading.lower() for heading in re.findall(r"^## (.+)$", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == anchors


def test_an_id_that_is_left_out_needs_a_reason() -> None:
    cards: list[dict[str, Any]] = [card for card in all_cards() if card["id"] != "KV-3"]
    with pytest.raises(ValueError, match="KV-3 is no rule"):
        page(cards)


def test_the_command_prints_it() -> None:
    runner = CliRunner()
    assert runner.invoke(cli, ["rules", "--markdown"]).output == SHOWN.read_text(encoding="utf-8")
    both = runner.invoke(cli, ["rules", "--markdown", "--json"])
    assert (both.exit_code, "choose one" in both.output) == (2, True)
