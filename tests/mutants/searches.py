"""Which search finds what first: `python -m tests.mutants.searches [--limit-s 5] [--every 10] [--bugs] [--write]`.

Every planted fault of the reference (and with --bugs every public bug that is planted) is looked for by each kind of
search alone, with one seed, until a rule that may name it is broken or so much processor time is gone.  Prints a table:
runs and seconds until it was found, or nothing; `--write` brings SEARCHES.md beside this file up to date.  Small scopes
are the cases of `schedspec exhaust`, the cheapest first, and take `--scope-limit-s`.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from unittest.mock import patch

from attrs import frozen

from schedspec.commands.exhaust import clean_cases
from schedspec.conformance.check import Depth
from schedspec.conformance.small_scope import depth, graph, runs
from schedspec.conformance.small_scope import walk as small_scope_walk
from schedspec.conformance.small_scope.depth import SmallScope
from schedspec.conformance.variations import varied
from schedspec.conformance.walks import walk
from schedspec.reference.faults import FAULTS
from schedspec.spec.catalogue import registry

from .bugs import CATALOGUE
from .bugs.hunt import Hunt

PAGE = Path(__file__).with_name("SEARCHES.md")
OBSERVE_EVERY = 8


@frozen
class Looked:
    """What one search made of one fault; `seconds` of processor time; `operations` of the run that showed it."""

    found: bool
    runs: int
    seconds: float
    operations: int = 0


@frozen
class Target:
    """A fault by its name, and the rules that may name it."""

    name: str
    rules: tuple[str, ...]
    is_public: bool = False


def targets(*, bugs: bool) -> list[Target]:
    """Rules of repeated runs are left out: no search looks for them."""
    found = [Target(rule, (rule,)) for rule in FAULTS if registry.rules[rule].form != "run"]
    if bugs:
        found += [Target(bug.id, tuple(bug.rules), is_public=True) for bug in CATALOGUE.values() if not bug.of]
    return found


# --- the searches ------------------------------------------------------------------------------------------


def by_scenarios(check: Hunt, deadline: float) -> None:
    check.run_scenarios()


def by_variations(check: Hunt, deadline: float) -> None:
    _runs(check, deadline, lambda seed: check.run_script(varied(seed, check._policies), "variation", OBSERVE_EVERY))


def by_walks(check: Hunt, deadline: float) -> None:
    _runs(check, deadline, lambda seed: check.run_script(walk(seed, check._policies), "walk", OBSERVE_EVERY))


def by_hypothesis(check: Hunt, deadline: float) -> None:
    _runs(check, deadline, lambda seed: check._search_by_operations(seed))


def by_small_scope(check: Hunt, deadline: float) -> None:
    """Its clock is processor time here, as that of the others is."""
    with ExitStack() as stack:
        for module in (depth, graph, runs, small_scope_walk):
            stack.enter_context(patch.object(module, "monotonic", time.thread_time))
        SmallScope(check, clean_cases(), deadline - time.thread_time()).run()


def _runs(check: Hunt, deadline: float, one: Callable[[int], object]) -> None:
    check._policies = check.honoured_policies()
    for number in count():
        if check.is_enough() or time.thread_time() > deadline:
            return
        one(check.seed * 1_000_003 + number)


SMALL_SCOPE = "small scope"
"""It has a limit of its own: all states of a case are found before any is judged, and there are about thirty cases."""

SEARCHES: Mapping[str, Callable[[Hunt, float], None]] = {
    "scenarios": by_scenarios,
    "variations": by_variations,
    "walks": by_walks,
    "Hypothesis": by_hypothesis,
    SMALL_SCOPE: by_small_scope,
}


def look(target: Target, limit_s: float, scope_limit_s: float, seed: int) -> tuple[str, dict[str, Looked]]:
    """By each search, from the beginning."""
    limits = dict.fromkeys(SEARCHES, limit_s) | {SMALL_SCOPE: scope_limit_s}
    return target.name, {name: _look_by(search, target, limits[name], seed) for name, search in SEARCHES.items()}


def _look_by(search: Callable[[Hunt, float], None], target: Target, limit_s: float, seed: int) -> Looked:
    factory = CATALOGUE[target.name].factory if target.is_public else FAULTS[target.name]
    how = Depth(name="one search", search_s=limit_s, workload_s=0.0, shrink_s=0.0, examples=0, reruns=False)
    check = Hunt(name="subject", factory=factory, seed=seed, depth=how, wanted=frozenset(target.rules))
    begun = time.thread_time()
    search(check, begun + limit_s)
    seconds, caught = time.thread_time() - begun, check.caught()
    return Looked(caught is not None, check.findings.runs, seconds, len(caught.script.ops) if caught else 0)


# --- the table ---------------------------------------------------------------------------------------------


def first(looked: Mapping[str, Looked]) -> str:
    """Who took the least time."""
    found = {name: one.seconds for name, one in looked.items() if one.found}
    return min(found, key=found.__getitem__) if found else "nobody"


def page(results: Mapping[str, Mapping[str, Looked]], command: str, limit_s: float, scope_s: float) -> Iterator[str]:
    yield "# Which search finds what first"
    yield ""
    yield (
        f"Written by `{command}`: each planted fault is looked for by each search alone, for at most {limit_s:g} s of "
        f"processor time, in small scopes {scope_s:g} s. A cell has the runs and the seconds until a rule that may "
        "name the fault broke; – is not found. Of small scopes runs are those made once more to show a break, and "
        "calls that were judged in whole cases. Operations are those of the run that was found, not shortened."
    )
    yield ""
    yield "| | " + " | ".join(SEARCHES) + " |"
    yield "| --- |" + " ---: |" * len(SEARCHES)
    yield from _summary(results)
    yield ""
    yield "| fault | " + " | ".join(SEARCHES) + " | first |"
    yield "| --- |" + " ---: |" * len(SEARCHES) + " --- |"
    for name, looked in results.items():
        cells = [f"{one.runs:,} · {one.seconds:.2f} s" if one.found else "–" for one in looked.values()]
        yield f"| {name} | " + " | ".join(cells) + f" | {first(looked)} |"


def _summary(results: Mapping[str, Mapping[str, Looked]]) -> Iterator[str]:
    firsts = Counter(first(looked) for looked in results.values())
    columns: dict[str, list[Looked]] = {name: [looked[name] for looked in results.values()] for name in SEARCHES}
    alone = Counter(
        next(name for name, one in looked.items() if one.found)
        for looked in results.values()
        if sum(one.found for one in looked.values()) == 1
    )
    rows: list[tuple[str, Callable[[str], str]]] = [
        (f"found, of {len(results)}", lambda name: str(sum(one.found for one in columns[name]))),
        ("found first", lambda name: str(firsts[name])),
        ("found by nobody else", lambda name: str(alone[name])),
        ("median runs", lambda name: f"{_median([float(one.runs) for one in columns[name] if one.found]):,.0f}"),
        ("median operations", lambda name: f"{_median([float(o.operations) for o in columns[name] if o.found]):,.0f}"),
        ("median seconds", lambda name: f"{_median([one.seconds for one in columns[name] if one.found]):.2f}"),
    ]
    for title, cell in rows:
        yield f"| {title} | " + " | ".join(cell(name) for name in SEARCHES) + " |"


def _median(numbers: Sequence[float]) -> float:
    return median(numbers) if numbers else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Which search finds what first.")
    parser.add_argument("--limit-s", type=float, default=5.0, help="processor time of a search for a fault")
    parser.add_argument("--scope-limit-s", type=float, default=60.0, help="the same of the search in small scopes")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="a fault or bug by its id (repeatable)")
    parser.add_argument("--every", type=int, default=1, help="of the faults in order every so many")
    parser.add_argument("--bugs", action="store_true", help="public bugs, too")
    parser.add_argument("--write", action="store_true", help="SEARCHES.md")
    options = parser.parse_args()
    there = targets(bugs=options.bugs)[:: options.every]
    wanted = [one for one in there if not options.only or one.name in options.only]
    if not wanted:
        parser.error(f"there is no fault {', '.join(options.only)}")
    work = partial(look, limit_s=options.limit_s, scope_limit_s=options.scope_limit_s, seed=options.seed)
    results: dict[str, dict[str, Looked]] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for name, looked in pool.map(work, wanted):
            results[name] = looked
            print(f"{name}: {first(looked)}", flush=True)
    command = f"python -m tests.mutants.searches --limit-s {options.limit_s:g}"
    command += f" --scope-limit-s {options.scope_limit_s:g} --seed {options.seed}"
    command += f" --every {options.every}" * (options.every > 1) + " --bugs" * options.bugs
    command += "".join(f" --only {name}" for name in options.only or ()) + " --write"
    lines = "\n".join(page(results, command, options.limit_s, options.scope_limit_s)) + "\n"
    print(lines)
    if options.write:
        PAGE.write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
