"""What is asked of `schedspec prove`, and what its solvers answer.  Importing it needs no solver."""

from collections.abc import Callable, Mapping
from typing import Literal

from attrs import frozen

from .manifest import Manifest

Say = Callable[[str], None]
Changes = Literal["none", "sample", "all"]
NOT_RUN = "not run"


@frozen(kw_only=True)
class Wanted:
    """What is asked of a run; `missing`: tool -> why it does not run."""

    rule: str | None
    mutate: bool
    changes: Changes
    seed: int
    missing: Mapping[str, str]

    def runs(self, tool: str) -> bool:
        return tool not in self.missing


@frozen
class Solved:
    """`statuses`: a proof's name -> tool -> its verdict; `examples`: a mutant's name -> the step that it breaks;
    `wrong`: changes that nothing shows, and the manifest does not have."""

    manifest: Manifest
    statuses: Mapping[str, Mapping[str, str]]
    examples: Mapping[str, str] = {}
    wrong: tuple[str, ...] = ()


def named(theory: str, rule: str) -> str:
    return rule if theory == "engine" else f"{rule} of {theory}"
