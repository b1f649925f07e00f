"""Each rule has a trace that keeps it and one that breaks it; both monitors say so, and the files are as written."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from attrs import evolve
from click.testing import CliRunner
from tests.vectors import fleets, generate, pairs
from tests.vectors.records import FOLDER, RULES, Trace, judge, read

from schedspec.cli import cli
from schedspec.conformance.driver import DOOR
from schedspec.optimized.monitor import BulkMonitor
from schedspec.spec.catalogue import registry
from schedspec.spec.fleets.rules import RULES as FLEET
from schedspec.spec.trace import read_trace
from schedspec.spec.vocabulary import Header

INDEX: dict[str, Any] = json.loads(generate.INDEX.read_text(encoding="utf-8"))
ENTRIES: list[dict[str, Any]] = INDEX["traces"]
MOST_BYTES = 2_000_000


class Bulk(BulkMonitor):
    """The numpy reading judges every column, however short.  Two pools have the one monitor."""

    def __init__(self, header: Header, **how: Any) -> None:
        super().__init__(header, fewest=1, **how)


def trace(path: str) -> Trace:
    header, messages = read_trace(FOLDER / path)
    return Trace(header, tuple(messages))


def test_each_rule_has_both_or_a_reason() -> None:
    ids = [f"{rule}.{verdict}" for rule in generate.rules() for verdict in ("pass", "fail")]
    assert [entry["id"] for entry in ENTRIES] == ids
    assert set(generate.rules()) | INDEX["without"].keys() == registry.rules.keys()
    assert [entry["id"] for entry in INDEX["fleets"]] == [
        f"{r}.{verdict}" for r in FLEET for verdict in ("pass", "fail")
    ]


@pytest.mark.parametrize("entry", [e for e in ENTRIES if len(e["files"]) == 1], ids=lambda entry: str(entry["id"]))
def test_both_monitors_agree_with_the_manifest(entry: dict[str, Any]) -> None:
    run = trace(entry["files"][0])
    plain, bulk = judge(run), judge(run, Bulk)
    assert plain == bulk
    assert len(run.messages) == entry["messages"]
    rule, broken = entry["rule"], plain.first
    assert sorted(broken.keys() - {rule}) == sorted(entry.get("also", []))
    if entry["verdict"] == "pass":
        assert (rule not in broken, plain.musts()) == (True, set())
        assert plain.exercised[rule] == entry["exercised"]
    else:
        assert broken[rule] == (entry["message"], tuple(entry["conjuncts"]))
        assert entry["message"] == len(run.messages)
        sound = {other for other in plain.musts() if registry.rules[other].family != DOOR}
        assert {broken[other][0] for other in sound} <= {entry["message"]}


@pytest.mark.parametrize("entry", INDEX["fleets"], ids=lambda entry: str(entry["id"]))
def test_a_fleet_is_as_the_manifest_says(entry: dict[str, Any], tmp_path: Path) -> None:
    """As `schedspec trace` says of its folder."""
    folder = (FOLDER / entry["files"][0]).parent
    asked = ["trace", str(folder), "--window-ms", str(entry["window_ms"]), "--report", str(tmp_path), "--json"]
    done = CliRunner().invoke(cli, asked)
    told, rule = json.loads(done.stdout), entry["rule"]
    assert {folder / name for name in map(Path, os.listdir(folder))} == {FOLDER / name for name in entry["files"]}
    broken = {rule for rule, one in told["fleet"].items() if one["breaks"]}
    assert not any(one["verdict"] == "fail" for one in told["rules"].values())
    if entry["verdict"] == "pass":
        assert (done.exit_code, broken, told["fleet"][rule]["exercised"]) == (0, set(), entry["exercised"])
        return
    assert (done.exit_code, broken) == (1, {rule, *entry.get("also", [])})
    assert told["fleet"][rule]["breaks"] == entry["breaks"]
    first = next(one for one in told["failures"] if one["rule"] == rule)
    assert (first["conjunct"], first["now_ns"]) == (entry["conjunct"], entry["now_ns"])


def test_without_its_last_request_no_fleet_shows_both() -> None:
    for rule, world in fleets.WORLDS.items():
        fewer = evolve(world, arrivals=world.arrivals[:-1])
        kept, broken = (recorded.judged(world.window_ms) for recorded in fleets.both(rule, fewer))
        assert kept.verdicts[rule] != "pass" or rule not in broken.breaks


@pytest.mark.parametrize("entry", [e for e in ENTRIES if len(e["files"]) == 2], ids=lambda entry: str(entry["id"]))
def test_a_pair_differs_if_it_fails(entry: dict[str, Any]) -> None:
    one, other = (trace(path) for path in entry["files"])
    assert pairs.difference(one.messages, other.messages) == entry.get("message")
    assert ("message" in entry) == (entry["verdict"] == "fail")
    assert not judge(one).musts()


def test_a_longer_horizon_of_what_is_given_is_no_difference() -> None:
    """From where something else is given, another answer is right."""
    one, other = (trace(path).messages for path in ("rules/ADMIT-9.fail.jsonl", "rules/ADMIT-9.fail.again.jsonl"))
    assert one[-1].given != other[-1].given
    assert pairs.difference(one[-1:], other[-1:]) is None


def test_written_again_they_are_the_same() -> None:
    """Byte for byte, and no file is left over."""
    made = generate.traces(read())
    assert [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text] == []
    assert set(RULES.iterdir()) == {path for path in made if path.parent == RULES}
    assert set(fleets.FOLDERS.glob("*/*")) == {path for path in made if path.parent.parent == fleets.FOLDERS}


def test_they_are_small_text() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(path.read_text(encoding="utf-8").encode()) for path in files) < MOST_BYTES


def test_the_schema_holds() -> None:
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    manifest, scenario = (
        jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})
        for name in ("manifest", "scenario")
    )
    manifest.validate(INDEX)
    for path in sorted((FOLDER / "scenarios").glob("*.json")):
        scenario.validate(json.loads(path.read_text(encoding="utf-8")))
    assert not manifest.is_valid(INDEX | {"traces": [{"id": "KV-1"}]})


def test_a_script_that_shows_nothing_is_told() -> None:
    vectors = {vector.id: vector for vector in read()}
    with pytest.raises(ValueError, match="does not show that KV-7 is kept"):
        generate.traces([evolve(vectors["KV-7.pass"], script=evolve(vectors["KV-7.pass"].script, ops=()))])
    assert list(generate.standing([evolve(vectors["KV-7.fail"], subject="reference")])) == []
