"""Systems of the literature as settings of the one loop, a file each (`published.py` has the frame), and models of
released schedulers: what one version of one system decides, on the parts of the reference.

A model is held to its release step by step (`schedspec parity`).  It is not meant to be legal: where the release
breaks a rule, so does its model.
"""

from collections.abc import Mapping
from typing import Any

from ...spec.vocabulary import SubjectFactory
from .fastertransformer import FASTERTRANSFORMER
from .orca import ORCA, ORCA_MAX, ORCA_ORACLE, ORCA_POW2
from .published import System, declared_as, held_to
from .sarathi import SARATHI
from .vllm_2023 import VLLM_2023, VLLM_2023_SWAP
from .vtc import VTC
from .vtc_artifact import ARTIFACT, Artifact

__all__ = [
    "COMPARED",
    "FASTERTRANSFORMER",
    "ORCA",
    "ORCA_MAX",
    "ORCA_ORACLE",
    "ORCA_POW2",
    "SARATHI",
    "SYSTEMS",
    "VLLM_2023",
    "VLLM_2023_SWAP",
    "VTC",
    "System",
    "fixed_by",
    "subjects",
]

SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        *(FASTERTRANSFORMER, ORCA, ORCA_MAX, ORCA_POW2, ORCA_ORACLE),
        *(VLLM_2023, VLLM_2023_SWAP, SARATHI, VTC),
    )
}

COMPARED = ((FASTERTRANSFORMER, ORCA), (ORCA_MAX, VLLM_2023), (ORCA, VLLM_2023), (VLLM_2023, SARATHI))
"""A baseline, and the system whose paper says what the baseline does not do: it breaks that promise, and no other."""


def fixed_by(subject: str) -> Mapping[str, Any]:
    """Setting -> the value that makes it this system, of a subject that is one: whoever asks for it need not say so."""
    systems = {**SYSTEMS, ARTIFACT.name: ARTIFACT}
    systems |= {f"{own.name}:{other.name}": declared_as(own, other) for own, other in COMPARED}
    return systems[subject].fixed if subject in systems else {}


def subjects() -> dict[str, SubjectFactory]:
    """`orca` and the like; `vllm-2023:sarathi` is the former, held to what the latter's paper promises."""
    alone: dict[str, SubjectFactory] = {name: system.make for name, system in SYSTEMS.items()}
    alone[ARTIFACT.name] = Artifact
    return alone | {f"{own.name}:{other.name}": held_to(own, other) for own, other in COMPARED}
