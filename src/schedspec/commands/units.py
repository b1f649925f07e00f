"""What a worker does with a unit of a campaign: functions of (what is given, beat), of plain data both.

What they answer has no clock in it: the same that is given has the same answer, wherever it runs.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..campaigns.units import Beat
from ..spec.vocabulary import SettingsWarning
from .parts import DEFAULT_TIMEOUT_S, known_rules, read_settings, subject_of


def judge_engine(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """One file of a fleet: `file`, `engine` (by its place), `plain`, `window_ns`."""
    from ..conformance.fleet import SHORTENING, engine_result, unread_result
    from ..spec.fleets.stays import Witness
    from .recorded import judge_file

    path, witness = Path(given["file"]), Witness(given["window_ns"])
    warnings.simplefilter("ignore", SettingsWarning)
    try:
        judged = judge_file(path, lambda *_: beat(), plain=given["plain"], shortening=SHORTENING, witness=witness)
    except OSError as fault:
        return unread_result(given["engine"], path, f"{path} cannot be read: {fault.strerror or fault}")
    except ValueError as fault:
        return unread_result(given["engine"], path, str(fault))
    return engine_result(given["engine"], judged, witness)


def soak_part(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """Some runs of a soak: those from `start` to before `end`."""
    from ..conformance.check import soak
    from ..conformance.soak_parts import Part, run_part

    warnings.simplefilter("ignore", SettingsWarning)
    part = Part(
        name=given["subject"],
        factory=subject_of(given["subject"], given["timeout_s"]),
        seed=given["seed"],
        depth=soak(1.0),
        only=known_rules(given["rules"]),
        pinned=read_settings(given["settings"]),
        timeout_s=given["timeout_s"],
    )
    return run_part(part, given["start"], given["end"], beat)


def exhaust_case(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """One case in a small scope: `case`, `manner`."""
    from ..conformance.small_scope.cases import Case, Manner, run_case

    case = Case(**given["case"])
    subject, manner = subject_of(case.subject, DEFAULT_TIMEOUT_S), Manner(**given["manner"])
    return run_case(case, subject, manner, lambda graph: beat()).plain_whole


def compare_part(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """Some workloads of one configuration, in lock step: those from `start` to before `end`."""
    from ..conformance.parity import Parity

    warnings.simplefilter("ignore", SettingsWarning)
    theirs, ours = (subject_of(given[name], given["timeout_s"]) for name in ("subject", "model"))
    pinned = read_settings(given["settings"])
    run = Parity(theirs, ours, given["seeds"], given["seed"], pinned, given["timeout_s"])
    return run.run_part(given["name"], given["start"], given["end"])


def replay_one(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """One system at one load."""
    from .replay import run_alone

    return run_alone(given, beat)


def tune_one(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """One value of one control."""
    from .tune import run_alone

    return run_alone(given, beat)


def reproduce_one(given: Mapping[str, Any], beat: Beat) -> dict[str, Any]:
    """The numbers of one publication: `name`, `sample`, `seed`."""
    from ..reference.reproduce import REPRODUCTIONS, Run, reproduce

    run = Run(given["sample"], given["seed"], lambda stage, part, note: beat())
    report = reproduce(REPRODUCTIONS[given["name"]], run)
    return {"ours": {row.target.name: row.ours for row in report.rows}, "notes": list(report.notes)}
