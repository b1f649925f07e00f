"""`schedspec tune`: one control at a time, and what each does to all that people notice."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from ..campaigns import Unit
from ..campaigns.signals import held_back
from ..conformance import terminal
from ..spec.vocabulary import NS_PER_S, Settings, Subject, SubjectFactory, Unsupported
from .campaign import UNITS, folder_of, in_units, is_campaign, plain_options, run_units
from .parts import DEFAULT_FIRST_S, kept_off_stdout, one_sentence, report_folder
from .replay import (
    by_hundreds,
    conditions_of,
    guarded_subject,
    replay_header,
    requests_of,
    source_of,
    system_of,
    under_conditions,
)

KEPT = ("cost", "engine", "goodput", "tokens", "requests", "finished", "refused", "preemptions")
TIMES = ("ttft_ns", "itl_ns", "queue_age_ns", "end_to_end_ns")

Change = tuple[str | None, Any, Settings | str]
"""A control, a value of it, and the settings, or why there are none such."""


@click.command()
@click.argument("workload")
@click.option(
    "--system", help="SUBJECT or SUBJECT:NAME=VALUE,…  Default: the reference, at its optimized twin's speed."
)
@click.option("--vary", "varied", multiple=True, help="CONTROL=VALUE,VALUE,… (repeatable).  Default: the usual ones.")
@click.option("--cost", help="Model and device whose step times are used; a wrong name lists them.")
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE to start from (repeatable).")
@click.option("--first-s", default=str(DEFAULT_FIRST_S), help="Seconds of the recorded workload.", show_default=True)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@under_conditions
@click.option("--door-time", is_flag=True, help="The door declares the time model of --cost, if it has none.")
@click.option("--timeout-s", type=click.FloatRange(min=0.01), default=10.0, help="Per message.", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Report folder.  Default: build/report/tune.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@in_units
@click.pass_context
def tune(ctx: click.Context, /, workload: str, **options: Any) -> None:
    """Change one control at a time, and see what it does to everything that people notice.

    WORKLOAD as for `schedspec replay`.  CONTROL is a setting (token_budget, chunk_tokens, watermark_blocks, seats,
    policy …), door.LIMIT (door.queue_requests …), or share.LANE where the policy is lanes.  What is done is written
    and shown even if somebody interrupts.
    """
    with one_sentence(ctx):
        options |= {"step_by_step": False, "price_per_hour": None}
        subject, base = _start(options)
        controls = _controls(options, base)
        source = source_of("tune", workload, options)
        conditions, count = _conditions(options, source, base)
        factory = _factory(subject, options["timeout_s"])
        factory(base, options["seed"])  # what it refuses of these, it refuses before anything runs
        folder = report_folder(folder_of(options, "tune"), "tune.json")
        told = _header(workload, options, subject, base, controls)
        told["window_s"] = conditions.shares.window_ns // NS_PER_S
        _write(told, folder)
        try:
            if is_campaign(options):
                told["runs"] += _elsewhere(workload, _changes(base, controls), folder, options, told["runs"].extend)
                return
            with terminal.progress(quiet=options["as_json"]) as progress, kept_off_stdout(options["as_json"]):
                for change in _changes(base, controls):
                    show = by_hundreds(progress, _label(*change[:2])[:40], count)
                    told["runs"].append(_tried(change, factory, source, options, conditions, show))
                    _write(told, folder)
        finally:
            with held_back():
                _write(told, folder)
                _show(told, folder, as_json=options["as_json"])


# --- what is tried -------------------------------------------------------------------------------------------


def _label(name: str | None, value: Any) -> str:
    return "start" if name is None else f"{name}={value}"


def _elsewhere(
    workload: str,
    changes: Iterable[Change],
    folder: Path,
    options: Mapping[str, Any],
    keep: Callable[[list[Any]], object],
) -> list[Any]:
    """A unit for each value of each control, and for the start."""
    same = {"workload": workload, "options": plain_options(options)}
    units = [
        Unit(_label(name, value), f"{UNITS}:tune_one", {**same, "change": place})
        for place, (name, value, _) in enumerate(changes)
    ]
    return run_units(units, folder, options, keep=keep)


def run_alone(given: Mapping[str, Any], beat: Callable[[], None]) -> dict[str, Any]:
    """One of the runs of a tuning: the change with that number."""
    options = given["options"]
    subject, base = _start(options)
    change = list(_changes(base, _controls(options, base)))[given["change"]]
    source = source_of("tune", given["workload"], options)
    conditions, _ = _conditions(options, source, base)
    factory = _factory(subject, options["timeout_s"])
    return _tried(change, factory, source, options, conditions, lambda requests: beat())


def _start(options: Mapping[str, Any]) -> tuple[str, Settings]:
    return system_of(options["system"] or "reference", options)


def _conditions(options: Mapping[str, Any], source: Any, base: Settings) -> tuple[Any, int]:
    """And how many requests come.  Service is compared in windows of a minute, as by VTC, or of a tenth of a shorter
    workload."""
    from ..reference.simulation import Shares

    arrivals_ns = [arrival.now_ns for arrival in source.arrivals(base.blocks * base.block_size)]
    tenth_s = max(arrivals_ns, default=0) // (10 * NS_PER_S)
    shares = Shares(window_ns=max(2, min(60, tenth_s // 2 * 2)) * NS_PER_S)
    return evolve(conditions_of(options), shares=shares), len(arrivals_ns)


def _controls(options: Mapping[str, Any], base: Settings) -> list[Any]:
    from ..reference.simulation.tuning import SHARE, control, default_controls

    if not options["varied"]:
        return default_controls(base)
    controls = []
    for text in options["varied"]:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise click.UsageError(
                f"--vary {text!r} has no values: write CONTROL=VALUE,VALUE,…, as token_budget=512,1024"
            )
        control(base, name, ())  # is there such a one?
        read = _whole if name.startswith(SHARE) else _setting
        controls.append(control(base, name, [read(name, value) for value in values.split(",")]))
    names = [one.name for one in controls]
    if len(set(names)) < len(names):
        raise click.UsageError("--vary names a control twice: give all its values in one")
    return controls


def _setting(name: str, text: str) -> Any:
    from ..conformance.script import read_setting

    return read_setting(f"{name}={text}")[1]


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"--vary {name} has the value {text!r}, but it must be an integer") from None


def _changes(base: Settings, controls: list[Any]) -> Iterator[Change]:
    """The start first."""
    from ..reference.simulation.tuning import applied

    yield None, None, base
    for one in controls:
        for value in one.values:
            if value == one.start:
                continue
            try:
                settings: Settings | str = applied(base, one.name, value)
            except ValueError as contradiction:
                settings = str(contradiction)
            yield one.name, value, settings


# --- a run ---------------------------------------------------------------------------------------------------


def _factory(subject: str, timeout_s: float) -> SubjectFactory:
    """The reference's decisions come from its optimized twin, where there is numpy and it supports the settings: the
    two decide alike, step by step."""
    plain = guarded_subject(subject, timeout_s)
    if subject != "reference" or find_spec("numpy") is None:
        return plain
    from .. import optimized

    def make(settings: Settings, seed: int) -> Subject:
        try:
            return optimized.make(settings, seed)
        except Unsupported:
            return plain(settings, seed)

    return make


def _tried(
    change: Change,
    factory: SubjectFactory,
    source: Any,
    options: Mapping[str, Any],
    conditions: Any,
    show: Callable[[int], None],
) -> dict[str, Any]:
    name, value, settings = change
    if isinstance(settings, str):
        return {"control": name, "value": value, "refused": settings}
    run = _one(factory, settings, requests_of(source, options), conditions, show)
    return {"control": name, "value": value, **run}


def _one(
    factory: SubjectFactory,
    settings: Settings,
    work: Any,
    conditions: Any,
    show: Callable[[int], None],
) -> dict[str, Any]:
    from ..reference.simulation import SimulationError, System, replay

    system = System("", factory, settings)
    try:
        run = replay(system, work, conditions, show)
    except (Unsupported, SimulationError) as refused:
        return {"refused": str(refused)}
    found = run["metrics"]
    kept = {name: found[name] for name in (*KEPT, *TIMES)}
    difference = found["service"]["difference_per_s"] if len(found["clients"]) > 1 else None
    return {"metrics": kept | {"difference_per_s": difference}, "intervals": run["intervals"]}


# --- what is told --------------------------------------------------------------------------------------------


def _header(
    workload: str, options: Mapping[str, Any], subject: str, base: Settings, controls: list[Any]
) -> dict[str, Any]:
    from ..spec.vocabulary import to_json

    return {
        **replay_header(workload, options),
        "schema": "schedspec-tune/1",
        "system": options["system"] or subject,
        "settings": to_json(base),
        "controls": [{"name": one.name, "start": one.start, "values": list(one.values)} for one in controls],
        "runs": [],
    }


def _write(told: Mapping[str, Any], folder: Path) -> None:
    from ..conformance.files import replace_file

    replace_file(folder / "tune.json", json.dumps(told) + "\n")


def _show(told: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    from ..simulation_report import write_tuning
    from ..simulation_report.rows import print_tuning

    page = write_tuning(told, folder)
    if as_json:
        click.echo(json.dumps(told))
        return
    if told["runs"]:
        print_tuning(told)
        terminal.print_aside(f"{told['source']}; times in ms unless in s; report in {folder / 'tune.json'}")
    terminal.print_aside(page)
