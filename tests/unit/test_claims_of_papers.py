"""What the papers of Orca, Sarathi-Serve and DistServe say of their systems: who breaks it is named by the rule that
the table of `reference/systems/README.md` has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import STEP, Script, rounds, submit
from schedspec.conformance.walks import walk
from schedspec.reference import systems
from schedspec.reference.faults import FAULTS
from schedspec.reference.selection.one_queue import WaitingQueue
from schedspec.reference.systems import SYSTEMS
from schedspec.reference.systems.published import SIZES, Published
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Settings, SubjectFactory

WALKS = 20
TABLE = Path(systems.__file__).with_name("README.md")
ROW = re.compile(
    r"^\| ([OSD]\d) \| .* \| ([A-Z0-9, -]+) \| `(?:fault:([A-Z]+-\d+)|(test_\w+\.py::test_\w+))`", re.MULTILINE
)
OF = {"O": "orca", "S": "sarathi", "D": "distserve"}
CLAIMS = [match.groups() for match in ROW.finditer(TABLE.read_text(encoding="utf-8"))]
PLANTED = [(claim, fault) for claim, _, fault, _ in CLAIMS if fault]


def worlds(system: str, fault: str) -> Iterator[Script]:
    """Scenarios, those made for the rule first, and walks, with the settings of the system in the sizes of theirs."""
    directed = sorted(scenarios(0), key=lambda scenario: fault not in scenario.shows)
    for script in (*(scenario.script for scenario in directed), *map(walk, range(WALKS))):
        if script.settings.pools.are_two != (system == "distserve"):
            continue
        if system == "distserve":
            yield script
            continue
        sizes = {name: getattr(script.settings, name) for name in SIZES if name != "max_model_tokens"}
        yield Script(Settings(**sizes, **SYSTEMS[system].fixed), script.seed, script.ops)


def broken(fault: str, system: str) -> Iterator[set[str]]:
    """Run by run."""
    for script in worlds(system, fault):
        driver = Driver.start(FAULTS[fault], script.settings, script.seed)
        driver.run(script.ops)
        driver.drain()
        assert driver.fault is None, str(driver.fault)
        yield {violation.rule for violation in driver.broken}


def test_the_table_has_every_claim_and_its_rules_are_there() -> None:
    wanted = [f"{letter}{number}" for letter, last in (("O", 6), ("S", 6), ("D", 5)) for number in range(1, last + 1)]
    assert [claim for claim, *_ in CLAIMS] == wanted
    for _, rules, fault, test in CLAIMS:
        assert set(rules.split(", ")) <= set(registry.rules)
        assert (fault is None) != (test is None)
        if test is not None:
            file, _, name = test.partition("::")
            assert f"def {name}(" in Path(__file__).with_name(file).read_text(encoding="utf-8")
        else:
            assert fault in rules.split(", ")


@pytest.mark.parametrize(("claim", "fault"), PLANTED)
def test_whoever_breaks_a_claim_is_named(claim: str, fault: str) -> None:
    assert any(fault in rules for rules in broken(fault, OF[claim[0]]))


class NewestFirst(Published):
    """Orca, with a stack for a pool: whoever came last is the first to be scheduled."""

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(SYSTEMS["orca"], settings, seed)
        self.state.queue = WaitingQueue(lambda job: -job.arrival)


def test_who_came_first_has_run_in_as_many_iterations() -> None:
    settings = SYSTEMS["orca"].settings(blocks=8, block_size=4, seats=1, token_budget=8)
    ops = (submit("a", 2, 3), STEP, submit("b", 2, 3), submit("c", 2, 3), *rounds(12))

    def broken_by(factory: SubjectFactory) -> set[str]:
        return {violation.rule for violation in replay(factory, Script(settings, 0, ops)).broken}

    assert broken_by(SYSTEMS["orca"].make) == set()
    assert "STEP-13" in broken_by(NewestFirst)


def test_a_step_of_sarathi_is_bounded_whatever_the_prompts_are() -> None:
    """In tokens, by its budget; the same runs with prompts that are not cut exceed it."""
    settings = SYSTEMS["sarathi"].settings(blocks=64, block_size=4, seats=8, token_budget=8)
    comes = (submit("a", 2, 9), submit("b", 3, 9), *rounds(2), submit("long", 90, 2), submit("short", 20, 2))

    def most_tokens(factory: SubjectFactory) -> int:
        driver = Driver.start(factory, settings, 0)
        driver.run((*comes, *rounds(40)))
        driver.drain()
        return max(int(sum(message.answer.tokens)) for message in driver.messages if message.kind == "step")

    assert most_tokens(SYSTEMS["sarathi"].make) == settings.token_budget
    assert most_tokens(FAULTS["STEP-1"]) > settings.token_budget
