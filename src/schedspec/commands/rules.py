"""`schedspec rules` and `explain`: the cards."""

import json

import click

from ..conformance import terminal
from .parts import all_cards, known_rules, one_sentence


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", is_flag=True, help="Print the page spec/RULES.md.")
@click.pass_context
def rules(ctx: click.Context, as_json: bool, markdown: bool) -> None:
    """All rules: id, level, what they need to see and to be claimed, statement."""
    with one_sentence(ctx):
        if as_json and markdown:
            raise click.UsageError("--json and --markdown are two forms of the same: choose one")
        found = all_cards()
        if markdown:
            from ..spec.rules_page import page

            click.echo(page(found), nl=False)
            return
        if as_json:
            click.echo(json.dumps({card["id"]: card for card in found}))
            return
        terminal.print_rules(found)


@click.command()
@click.argument("rule_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def explain(ctx: click.Context, rule_id: str, as_json: bool) -> None:
    """A rule's card: statement, formula, what it needs, why it exists, what checks and proves it."""
    with one_sentence(ctx):
        card = next((card for card in all_cards() if card["id"] == rule_id), None)
        if card is None:
            known_rules([rule_id])  # says what was meant
            raise AssertionError(rule_id)
        if as_json:
            click.echo(json.dumps(card))
            return
        terminal.print_card(card)
