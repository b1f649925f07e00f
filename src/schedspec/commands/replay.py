"""`schedspec replay`: a workload on a virtual clock, once for each system and load."""

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from ..campaigns import Unit
from ..campaigns.signals import held_back
from ..conformance import terminal
from ..spec.admission import OPEN
from ..spec.vocabulary import Settings, Subject
from .campaign import UNITS, folder_of, in_units, is_campaign, plain_options, run_units
from .parts import (
    DEFAULT_FIRST_S,
    Command,
    counted,
    kept_off_stdout,
    one_sentence,
    positive,
    read_settings,
    report_folder,
    subject_of,
    with_options,
    workload_of,
)

MS = click.IntRange(min=1)
CONDITIONS = (
    click.option("--size", default="1", help="Prompts and outputs times this.", show_default=True),
    click.option("--cv", help="Burstiness of times that are drawn: 0 even, 1 Poisson, more is bursts."),
    click.option("--seed", type=int, default=0, show_default=True),
    click.option("--ttft-ms", type=MS, default=1_000, help="Promised first token.", show_default=True),
    click.option("--tpot-ms", type=MS, default=100, help="Promised time per token.", show_default=True),
    click.option("--predict", is_flag=True, help="Requests come with a prediction of their output, which is right."),
    click.option("--host-us", type=click.IntRange(min=0), default=0, help="Time to plan a step.", show_default=True),
)
"""Options of whatever runs a workload on a virtual clock, in the order of its help."""


def under_conditions(command: Command) -> Command:
    return with_options(CONDITIONS, command)


@click.command()
@click.argument("workload")
@click.option("--system", "systems", multiple=True, help="SUBJECT or SUBJECT:NAME=VALUE,… (repeatable).")
@click.option("--cost", help="Model and device whose step times are used; a wrong name lists them.")
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE that every system has (repeatable).")
@click.option("--first-s", default=str(DEFAULT_FIRST_S), help="Seconds of the recorded workload.", show_default=True)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@click.option("--load", "loads", default="1", help="Runs at so many times that rate each: 0.5,1,2.", show_default=True)
@under_conditions
@click.option("--door-time", is_flag=True, help="The door declares the time model of --cost, where a system has none.")
@click.option("--price-per-hour", help="Of the machine, in any currency, to price useful tokens.")
@click.option("--step-by-step", is_flag=True, help="Skip no decode steps; the result is the same.")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/replay.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@in_units
@click.pass_context
def replay(ctx: click.Context, /, workload: str, **options: Any) -> None:
    """Run a recorded workload on a virtual clock, once for each system and load: a table, and a page with pictures.

    WORKLOAD is KIND:FILE with azure, mooncake, sharegpt, arxiv, vtc, csv or jsonl for KIND, KIND alone for the file
    that is usual, or fitted:NAME or hostile:KIND, which need no file.  Without --system it is the reference.  What is
    done is written and shown even if a later run fails or somebody interrupts.
    """
    with one_sentence(ctx):
        conditions, systems, loads = conditions_of(options), _systems(options), _loads(options["loads"])
        source = source_of("replay", workload, options)
        for system in systems:
            system.factory(system.settings, conditions.seed)  # what one refuses is refused before any of them runs
        count = counted(source, min(system.settings.blocks * system.settings.block_size for system in systems))
        folder = report_folder(folder_of(options, "replay"), "replay.json")
        planned = {"systems": [system.name for system in systems], "loads": list(loads)}
        told: dict[str, Any] = {**replay_header(workload, options), "planned": planned, "runs": []}
        _write_replay(told, folder)
        (folder / "report.html").unlink(missing_ok=True)  # of another run: what comes may be interrupted before its own
        try:
            if is_campaign(options):
                told["runs"] += _elsewhere(workload, planned, folder, options, told["runs"].extend)
                return
            with terminal.progress(quiet=options["as_json"]) as progress, kept_off_stdout(options["as_json"]):
                for load, times in loads.items():
                    faster = evolve(source, rate=source.rate * times)
                    for system in systems:
                        show = by_hundreds(progress, f"{system.name[:40]} ×{load}", count)
                        run = _replay_one(system, requests_of(faster, options), load, conditions, show)
                        told["runs"].append(run)
                        _write_replay(told, folder)
        finally:
            with held_back():
                _write_replay(told, folder)
                _show_replay(told, folder, as_json=options["as_json"])


def _elsewhere(
    workload: str,
    planned: Mapping[str, list[str]],
    folder: Path,
    options: Mapping[str, Any],
    keep: Callable[[list[Any]], object],
) -> list[Any]:
    """A unit for each system at each load."""
    same = {"workload": workload, "options": plain_options(options)}
    units = [
        Unit(f"{name} ×{load}", f"{UNITS}:replay_one", {**same, "system": place, "load": load})
        for load in planned["loads"]
        for place, name in enumerate(planned["systems"])
    ]
    return run_units(units, folder, options, keep=keep)


def run_alone(given: Mapping[str, Any], beat: Callable[[], None]) -> dict[str, Any]:
    """One of the runs of a replay: the system with that number, at that load."""
    options = given["options"]
    system, load = _systems(options)[given["system"]], given["load"]
    source = source_of("replay", given["workload"], options)
    faster = evolve(source, rate=source.rate * _loads(load)[load])
    work = requests_of(faster, options)
    return _replay_one(system, work, load, conditions_of(options), lambda requests: beat())


def _replay_one(system: Any, work: Any, load: str, conditions: Any, show: Callable[[int], None]) -> dict[str, Any]:
    from ..reference.simulation import replay as replay_one

    return {"system": system.name, "load": load, **replay_one(system, work, conditions, show)}


def source_of(command: str, workload: str, options: Mapping[str, Any]) -> Any:
    """The workload, which there must be one of."""
    source = workload_of({**options, "workload": workload}, as_json=options["as_json"])
    if source is None:
        raise click.UsageError(f"{command} needs a workload: write KIND:FILE, fitted:NAME or hostile:KIND")
    return source


def requests_of(source: Any, options: Mapping[str, Any]) -> Any:
    from ..spec.workloads import to_requests

    return to_requests(source.arrivals(), options["seed"], are_predicted=options["predict"])


def _write_replay(told: Mapping[str, Any], folder: Path) -> None:
    from ..conformance.files import replace_file

    replace_file(folder / "replay.json", json.dumps(told) + "\n")


def _loads(text: str) -> dict[str, Fraction]:
    """As they were written -> times the rate."""
    parts = [part.strip() for part in text.split(",")]
    loads = {part: positive("--load", part) for part in parts}
    if len(set(loads.values())) < len(parts):
        raise click.UsageError(f"--load {text} has a number twice")
    return loads


def conditions_of(options: Mapping[str, Any]) -> Any:
    from ..reference.simulation import Conditions, Objective

    more: Callable[..., dict[str, Any]] | None = None
    if find_spec("numpy") is not None:
        from ..simulation_report.intervals import intervals

        more = intervals
    price = options["price_per_hour"]
    return Conditions(
        profile=profile_of(options["cost"]),
        objective=Objective(ttft_ns=options["ttft_ms"] * 1_000_000, tpot_ns=options["tpot_ms"] * 1_000_000),
        seed=options["seed"],
        host_ns=options["host_us"] * 1_000,
        fast_forward=not options["step_by_step"],
        price_per_hour=None if price is None else positive("--price-per-hour", price),
        more=more,
    )


def profile_of(name: str | None) -> Any:
    from ..reference.simulation import DEFAULT, PROFILES
    from ..spec.hints import did_you_mean

    wanted = name or DEFAULT
    if wanted not in PROFILES:
        raise click.UsageError(f"there is no cost model {wanted!r}: {did_you_mean(wanted, PROFILES)}")
    return PROFILES[wanted]


def _systems(options: Mapping[str, Any]) -> list[Any]:
    """Each with its settings."""
    from ..reference.simulation import System

    systems = []
    for name in options["systems"] or ("reference",):
        subject, settings = system_of(name, options)
        systems.append(System(name, guarded_subject(subject, options["timeout_s"]), settings))
    return systems


def system_of(name: str, options: Mapping[str, Any]) -> tuple[str, Settings]:
    """The subject, and its settings: those of the device, those that make it what it is, those of all, its own."""
    from ..reference.simulation import default_settings
    from ..reference.systems import fixed_by

    subject, own = split_system(name)
    base = {**default_settings(profile_of(options["cost"])), **fixed_by(subject)}
    return subject, with_time(read_settings(own, read_settings(options["settings"], base)), options)


def with_time(values: dict[str, Any], options: Mapping[str, Any]) -> Settings:
    """Settings of these values.  With `--door-time` the door declares the most that a step takes by the cost model."""
    from ..reference.simulation.declared import most_time

    door = values.get("door", OPEN)
    if not options["door_time"] or door.has_time_model:
        return Settings(**values)
    step_ns, token_ns = most_time(profile_of(options["cost"]).cost, Settings(**values | {"door": OPEN}))
    if not options["as_json"]:
        terminal.print_aside(f"the door declares step_ns={step_ns} token_ns={token_ns}")
    return Settings(**values | {"door": evolve(door, step_ns=step_ns, token_ns=token_ns)})


def guarded_subject(name: str, timeout_s: float) -> Callable[[Settings, int], Subject]:
    """Held against the protocol, unless it is one of ours, which answer as they should."""
    from ..conformance.subjects.guard import guarded

    factory = subject_of(name, timeout_s)
    return factory if name in ("reference", "optimized") else guarded(factory, timeout_s)


def split_system(text: str) -> tuple[str, list[str]]:
    """`SUBJECT:NAME=VALUE,NAME=VALUE`; a command is taken as it is."""
    found = None if text.startswith("exec:") else re.fullmatch(r"(.+?):([\w.]+=.*)", text)
    return (text, []) if found is None else (found[1], re.split(r",(?=[\w.]+=)", found[2]))


def replay_header(workload: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was made of, beside its systems."""
    from ..reference.simulation import DEFAULT

    same = {name: options[name] for name in ("first_s", "rate", "size", "cv", "seed", "host_us", "price_per_hour")}
    cost = options["cost"] or DEFAULT
    return {
        "schema": "schedspec-replay/1",
        "workload": workload,
        **same,
        "cost": cost,
        "source": profile_of(cost).source,
        "objective": {"ttft_ms": options["ttft_ms"], "tpot_ms": options["tpot_ms"]},
    }


def by_hundreds(progress: Callable[[str, float, str], None], stage: str, count: int) -> Callable[[int], None]:
    shown = [-1]

    def show(requests: int) -> None:
        if requests * 100 // count > shown[0]:
            shown[0] = requests * 100 // count
            again = f", {requests - count:,} more asked again" if requests > count else ""
            progress(stage, min(1.0, requests / count), f"{min(requests, count):,} of {count:,} requests{again}")

    return show


def _show_replay(told: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    from ..simulation_report import write_page

    page = write_page(told, folder)
    if as_json:
        click.echo(json.dumps(told))
        return
    for run in told["runs"]:
        terminal.print_replay(run, with_load=len(told["planned"]["loads"]) > 1)
    if told["runs"]:
        terminal.print_aside(f"{told['source']}; times in ms unless in s; report in {folder / 'replay.json'}")
    terminal.print_aside(page)
