"""All reproductions, by name.  A new one is a file beside this one, and is listed here."""

from collections.abc import Mapping

from .distserve import DISTSERVE
from .framework import Reproduction
from .hindsight import HINDSIGHT
from .orca import ORCA_THROUGHPUT
from .sarathi import SARATHI_CAPACITY
from .stability import STABILITY
from .vllm import VLLM
from .vtc import VTC_MEDIANS, VTC_REAL
from .vtc_synthetic import VTC_DRIFT, VTC_WEIGHTED

REPRODUCTIONS: Mapping[str, Reproduction] = {
    found.name: found
    for found in (
        *(ORCA_THROUGHPUT, VLLM, SARATHI_CAPACITY, DISTSERVE),
        *(VTC_REAL, VTC_MEDIANS, VTC_WEIGHTED, VTC_DRIFT),
        *(STABILITY, HINDSIGHT),
    )
}
