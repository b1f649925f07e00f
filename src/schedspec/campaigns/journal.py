"""What is done of a campaign, on disk: whoever is interrupted goes on from here."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .units import CampaignError, Unit, sources

FOLDER = "campaign"


def must_be_begun(report: Path) -> None:
    """Raises CampaignError where there is nothing to go on with."""
    if not (report / FOLDER / "units.json").exists():
        raise CampaignError(f"--resume {report}: no campaign was begun there, so leave --resume out")


class Journal:
    """`campaign/units.json` of a report folder says which units there are, `campaign/done.jsonl` has a line for each
    that is done, which is written to disk before it counts."""

    def __init__(self, report: Path, units: Sequence[Unit], *, resume: bool) -> None:
        """Raises CampaignError if there is nothing to go on with, or something else."""
        self.report, self.units = report, units
        self.results: dict[int, Any] = {}
        folder = report / FOLDER
        self._plan, self._done = folder / "units.json", folder / "done.jsonl"
        names = [unit.name for unit in units]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise CampaignError(f"two units are called {twice!r}")
        plan = {"sources": sources(), "units": [unit.plain for unit in units]}
        if resume:
            self._compare(plan)
            self._read()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._plan.write_text(json.dumps(plan) + "\n")
            self._done.write_text("")

    def keep(self, place: int, answer: str) -> bool:
        """False if that unit is done already: nothing is counted twice."""
        if place in self.results:
            return False
        with self._done.open("a") as file:
            file.write(f'{{"unit": {place}, "result": {answer}}}\n')
            file.flush()
            os.fsync(file.fileno())
        self.results[place] = json.loads(answer)
        return True

    def _compare(self, plan: dict[str, Any]) -> None:
        must_be_begun(self.report)
        try:
            begun = json.loads(self._plan.read_text())
        except ValueError:
            raise CampaignError(f"--resume {self.report}: {self._plan} is cut off, so begin again") from None
        if begun["sources"] != plan["sources"]:
            hint = "begin again, so that all of it is judged alike"
            raise CampaignError(f"--resume {self.report}: another version of schedspec began it: {hint}")
        given = json.loads(json.dumps(plan["units"]))
        if begun["units"] != given:
            was = {unit["name"]: unit for unit in begun["units"]}
            differs = [unit["name"] for unit in given if was.pop(unit["name"], None) != unit] + list(was)
            hint = "give the arguments with which it began, or begin again without --resume"
            raise CampaignError(f"--resume {self.report}: {differs[0]} is not what it was: {hint}")

    def _read(self) -> None:
        """A last line that is cut off was never counted."""
        whole = [line for line in self._done.read_text().splitlines(keepends=True) if line.endswith("\n")]
        for line in whole:
            told = json.loads(line)
            self.results.setdefault(told["unit"], told["result"])
        self._done.write_text("".join(whole))
