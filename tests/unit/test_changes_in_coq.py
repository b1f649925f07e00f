"""Each definition that a theorem rests on is pinned: a change of it must be refused by the proofs, or be noticed by the
comparison with the code."""

import re
from collections.abc import Iterable, Iterator

from tests.unit import test_ledger_in_coq, test_scans_in_coq, test_sharing_in_coq

from schedspec.proofs import theorems
from schedspec.proofs.changes import CHANGES

STATED_IN = ("Model", "Memory", "Tokens", "Patience", "Caps", "Theorems", "Lower", "Loops", "Scans", "Sets")
"""Files with definitions that statements use; those of other files are for proofs alone, or name one scheduler."""

_BEGINS = re.compile(r"^(Definition|Fixpoint|Record|Inductive|Theorem|Lemma) (\w+)", re.MULTILINE)

UNCHANGED = {
    "no_burst": "a name for zero",
    "no_caps": "a name for false",
    "plain": "a scheduler with everything left out",
    "switched": "a name for `equipped` with quanta of 1 and no bursts",
    "sound": "a name for `equipped` with all switches on",
    "sound_in_quanta": "the same",
    "sound_in_lanes": "the same",
    "reachable": "there is a run",
    "policy": "a type",
    "pick": "a type",
    "set": "a type",
    "capped_at": "a scheduler that a witness shows",
    "three_ask": "a run that a witness shows",
    **dict.fromkeys(
        (
            *("within", "prompt_is_paid", "unpaid_tokens", "unpaid_prompts", "alive_up_to", "all_remaining"),
            *("level", "all_level", "waits_since", "sized", "within_caps", "capped_state"),
        ),
        "no statement has it: an invariant, or a sum in a proof",
    ),
}


def source(file: str) -> str:
    return (theorems.FOLDER / f"{file}.v").read_text(encoding="utf-8")


def where(text: str, old: str) -> str:
    """The definition or statement that has what is changed."""
    assert text.count(old) == 1, old
    before = [match[2] for match in _BEGINS.finditer(text, 0, text.index(old) + len(old))]
    return str(before[-1])


def changed(changes: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for file, old in changes:
        yield file, where(source(file), old)


def test_every_definition_has_a_change_that_must_be_refused() -> None:
    planted = [("Model", old) for old, _ in test_ledger_in_coq.PLANTED]
    planted += [("Model", old) for _, old, _ in test_sharing_in_coq.PLANTED]
    planted += [(file, old) for _, file, old, _ in test_scans_in_coq.PLANTED]
    pinned = set(changed([(file, old) for _, file, old, _ in CHANGES] + planted))
    there = {(file, match[2]) for file in STATED_IN for match in definitions(file)}
    assert {name for file, name in there - pinned} == set(UNCHANGED)


def definitions(file: str) -> Iterator[re.Match[str]]:
    return (match for match in _BEGINS.finditer(source(file)) if match[1] in ("Definition", "Fixpoint"))


def test_every_bound_has_a_change_of_what_it_says() -> None:
    pinned = {name for _, name in changed((file, old) for _, file, old, _ in CHANGES)}
    bounds = {theorem.name for theorem in theorems.stated() if theorem.role in ("bound", "part", "constant", "lower")}
    assert bounds - pinned == {"where_a_prompt_token_is_no_dearer_the_closed_form_is_that_of_the_paper"}  # arithmetic
