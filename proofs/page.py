"""The parts of README.md that say of each rule how it is known, and what shows a change: from the manifest."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from schedspec.spec.catalogue import registry

from .exhausted import exhausted_rules
from .manifest import Manifest, Proof

README = Path(__file__).with_name("README.md")


def rewrite(found: Manifest) -> None:
    """README.md, with what is known now."""
    README.write_text(updated(README.read_text(encoding="utf-8"), found), encoding="utf-8")


def updated(readme: str, found: Manifest) -> str:
    return _with_part(_with_part(readme, "rules", rules(found)), "changes", changes(found))


def _with_part(readme: str, name: str, lines: Iterable[str]) -> str:
    begin, end = f"<!-- {name}: written by `python -m schedspec.proofs --write` -->", f"<!-- end of {name} -->"
    before, _, rest = readme.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{chr(10).join(lines)}\n{end}{after}"


def changes(found: Manifest) -> Iterator[str]:
    yield "| of | each | changed | breaks a proof | forbids a step | implied no more | the same | true too | unseen |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for s in found.sweeps:
        same, unseen = s.equal + s.equal_in_the_scope, s.survives + s.unknown
        counts = (s.tried, s.breaks, s.forbids, s.implied_no_more, same, s.true_too, unseen)
        yield f"| {s.theory} | {s.kind} | " + " | ".join(f"{count:,}" for count in counts) + " |"
    yield ""
    yield f"{len(found.possible)} steps must be possible. Unseen are: {_named(found) or 'none'}."
    tried = sum(sweep.tried for sweep in found.sweeps)
    yield f"These are the {tried:,} changes that there were when all were tried last. A run without `--write` tries"
    yield "a sample of those that there are, but for those of two pools (`transfers`), of which many show nowhere yet."


def _named(found: Manifest) -> str:
    return "; ".join(f"`{name}`" for sweep in found.sweeps for name in sweep.surviving)


def rules(found: Manifest) -> Iterator[str]:
    of_traces = {proof.rule: proof for proof in found.proofs if proof.is_of_traces}
    bounds, parts = _of_algorithms(found)
    yield "| rule | known by | what |"
    yield "| --- | --- | --- |"
    for rule, proof in of_traces.items():
        yield f"| {rule} | proved for all sizes, of every trace that keeps its guards | {_told(proof)} |"
    for rule in _ordered(set(bounds) - set(of_traces)):
        yield f"| {rule} | proved for all sizes, of the algorithm; traces are tested | {bounds[rule]} |"
    exhausted = exhausted_rules()
    for rule in _ordered(set(exhausted) - set(of_traces) - set(bounds)):
        part = f"; a part {parts[rule]}" if rule in parts else ""
        yield f"| {rule} | exhausted in a bound | {exhausted[rule]}{part} |"
    for rule in _ordered(set(parts) - set(of_traces) - set(bounds) - set(exhausted)):
        of_traces_too = any(proof.theory == "engine" and rule in proof.parts for proof in found.proofs)
        whose = "of every trace that keeps its guards" if of_traces_too else "of the algorithm"
        yield f"| {rule} | tested; a part is proved for all sizes, {whose} | {parts[rule]} |"
    rest = _ordered(set(registry.rules) - set(of_traces) - set(bounds) - set(parts) - set(exhausted))
    yield ""
    yield f"Tested only, {len(rest)} rules: {', '.join(rest)}."


def _of_algorithms(found: Manifest) -> tuple[dict[str, str], dict[str, str]]:
    """Rule -> what is proved that is its bound, or a part of it."""
    bounds: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    for proof in found.proofs:
        for rules, table in ((proof.bounds, bounds), (proof.parts, parts)):
            for rule in rules:
                table.setdefault(rule, []).append(_told(proof))
    for theorem in found.theorems:
        table = bounds if theorem.role == "bound" else parts
        for rule in theorem.rules if theorem.expected == "proved" else ():
            told = table.setdefault(rule, [])
            if "Coq" not in told:
                told.append("Coq")
    return tuple({rule: "; ".join(told) for rule, told in table.items()} for table in (bounds, parts))  # type: ignore[return-value]


def _told(proof: Proof) -> str:
    where = "" if proof.theory == "engine" else f" of `{proof.theory}.py`"
    return f"{proof.expected} by {' and '.join(proof.tools)}: {_span(proof.conjuncts)}{where}"


def _span(names: tuple[str, ...]) -> str:
    first, *rest = names
    return ", ".join([first, *(name.rpartition(".")[2] for name in rest)])


def _ordered(rules: set[str]) -> list[str]:
    return sorted(rules, key=lambda rule: registry.rules[rule].order)
