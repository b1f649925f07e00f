"""`python -m tests.vectors.generate`: writes every vector again from its script and its world, byte for byte the same
as long as the spec and the reference say the same.

Where a script no longer shows what it should, or a rule has none, another is looked for, and named; `--anew` looks for
all (minutes), `--rule ID` for those of one rule.  `--check` writes nothing, and ends with 1 if anything is stale.
"""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import SettingsWarning

from . import finding, fleets, pairs
from .forms import SCHEMA, as_json, as_lines, path_of
from .legal import Tree
from .records import FOLDER, RULES, SCRIPTS, Vector, judge, lines_of, read, trace_of, written
from .worlds import worlds

INDEX = FOLDER / "index.json"
WITHOUT = {
    rule.id: "An engine computes what it is about, and no trace holds that; tests/kernels seeds its faults."
    for rule in registry.sorted_rules()
    if "engine" in rule.binding.claims
}
"""Rules that no trace can keep or break."""


def rules() -> list[str]:
    return [rule.id for rule in registry.sorted_rules() if rule.id not in WITHOUT]


def is_pair(rule: str) -> bool:
    return registry.rules[rule].form == "run"


# --- what the files are ----------------------------------------------------------------------------------------


def files(vectors: Sequence[Vector]) -> dict[Path, str]:
    """Path -> what stands there, of everything that is generated."""
    made = traces(vectors)
    for world in worlds():
        nodes = Tree(world).grown()
        made |= {path_of(world, "json"): as_json(world, nodes), path_of(world, "txt"): as_lines(world, nodes)}
    return made


def traces(vectors: Sequence[Vector]) -> dict[Path, str]:
    """Those of rules, and the manifest.  Raises ValueError if a vector does not show what it should."""
    made: dict[Path, str] = {SCRIPTS: written(vectors)}
    entries = []
    for vector in vectors:
        entry, own = _made(vector)
        entries.append(entry)
        made |= own
    of_fleets = []
    for entry, own in fleets.vectors():
        of_fleets.append(entry)
        made |= own
    return made | {INDEX: _index(entries, of_fleets)}


def _made(vector: Vector) -> tuple[dict[str, Any], dict[Path, str]]:
    """Its entry of the manifest, and its files.  Raises ValueError if it does not show what it should."""
    if is_pair(vector.rule):
        return _made_of_two(vector)
    path = RULES / f"{vector.id}.jsonl"
    trace = trace_of(vector)
    judged = judge(trace)
    entry = _entry(vector, [path], len(trace.messages))
    if vector.verdict == "pass":
        if vector.rule in judged.first or judged.musts() or not judged.exercised[vector.rule]:
            raise ValueError(f"{vector.id} does not show that {vector.rule} is kept")
        entry["exercised"] = judged.exercised[vector.rule]
    else:
        number, conjuncts = judged.first.get(vector.rule, (0, ()))
        if number != len(trace.messages):
            raise ValueError(f"{vector.id} does not break {vector.rule} with its last message")
        entry |= {"message": number, "conjuncts": list(conjuncts)}
    entry["also"] = sorted(judged.first.keys() - {vector.rule}, key=lambda rule: registry.rules[rule].order)
    return {name: value for name, value in entry.items() if value != []}, {path: lines_of(trace)}


def _made_of_two(vector: Vector) -> tuple[dict[str, Any], dict[Path, str]]:
    one, other = pairs.traces_of(vector)
    number = pairs.difference(one.messages, other.messages)
    if (number is not None) != (vector.verdict == "fail"):
        raise ValueError(f"{vector.id} does not show what it should")
    paths = [RULES / f"{vector.id}.jsonl", RULES / f"{vector.id}.again.jsonl"]
    entry = _entry(vector, paths, len(one.messages)) | ({} if number is None else {"message": number})
    return entry, dict(zip(paths, map(lines_of, (one, other)), strict=True))


def _entry(vector: Vector, paths: Iterable[Path], messages: int) -> dict[str, Any]:
    names = [_shown(path) for path in paths]
    head = {"id": vector.id, "rule": vector.rule, "verdict": vector.verdict}
    return {**head, "level": registry.rules[vector.rule].level, "files": names, "messages": messages}


def _shown(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def _index(entries: Sequence[Mapping[str, Any]], of_fleets: Sequence[Mapping[str, Any]]) -> str:
    paths = [(world, [_shown(path_of(world, ending)) for ending in ("json", "txt")]) for world in worlds()]
    scenarios = [{"id": world.id, "name": world.name, "files": names} for world, names in paths]
    head = _encoded({"schema": SCHEMA, "without": WITHOUT})
    rows = (",\n".join(map(_encoded, items)) for items in (entries, of_fleets, scenarios))
    return '{},"traces":[\n{}\n],"fleets":[\n{}\n],"scenarios":[\n{}\n]}}\n'.format(head[:-1], *rows)


def _encoded(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


# --- looking for them ------------------------------------------------------------------------------------------


def standing(vectors: Iterable[Vector]) -> Iterator[Vector]:
    """Those that show what they should."""
    for vector in vectors:
        try:
            _made(vector)
        except (ValueError, IndexError, KeyError):
            continue
        yield vector


def completed(kept: Sequence[Vector]) -> list[Vector]:
    """With new ones where one of a rule is missing."""
    have = {vector.id: vector for vector in kept}
    found: list[Vector] = []
    for rule in rules():
        own = [have[id] for id in (f"{rule}.pass", f"{rule}.fail") if id in have]
        if len(own) < 2:
            own = pairs.find(rule) if is_pair(rule) else finding.find(rule)
            click.echo(f"{rule}: {len(own)} found anew")
        found += own
    return found


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; end with 1 if anything is stale.")
@click.option("--anew", is_flag=True, help="Look for all traces anew.")
@click.option("--rule", "only", multiple=True, metavar="ID", help="Look for those of this rule anew.")
def main(check: bool, anew: bool, only: Sequence[str]) -> None:
    warnings.simplefilter("ignore", SettingsWarning)
    if unknown := sorted(set(only) - set(rules())):
        raise click.UsageError(f"{unknown[0]} is no rule that a trace can keep or break")
    stored = [] if anew else [vector for vector in read() if vector.rule not in only]
    if check:
        stale = stale_ones(stored)
        click.echo("\n".join(f"stale: {name}" for name in stale) or "every vector is as it would be written")
        sys.exit(bool(stale))
    made = files(completed(list(standing(stored))))
    for path in _left_over(made):
        path.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    click.echo(f"{len(made)} files, {sum(len(text.encode()) for text in made.values()) // 1000} kB")


def stale_ones(stored: Sequence[Vector]) -> list[str]:
    """Vectors that no longer show what they should, rules without one, and files that would be written otherwise."""
    kept = list(standing(stored))
    ids = {vector.id for vector in kept}
    wrong = {vector.id for vector in stored} - ids
    missing = {f"{rule}.{verdict}" for rule in rules() for verdict in ("pass", "fail")} - ids
    made = files(kept)
    changed = {path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text}
    return sorted(wrong | missing) + sorted(_shown(path) for path in changed | _left_over(made))


def _left_over(made: Mapping[Path, str]) -> set[Path]:
    folders = {path.parent for path in made if path.parent != FOLDER}
    return {path for folder in folders if folder.exists() for path in folder.iterdir()} - made.keys()


if __name__ == "__main__":
    main()
