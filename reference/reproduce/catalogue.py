"""All reproductions, by name.  A new one is a file beside this one, and is listed here."""

from collections.abc import Mapping

from .distserve import DISTSERVE
from .framework import Reproduction
from .orca import ORCA_THROUGHPUT
from .sarathi import SARATHI_CAPACITY
from .vllm import VLLM

_ALL = (ORCA_THROUGHPUT, VLLM, SARATHI_CAPACITY, DISTSERVE)

REPRODUCTIONS: Mapping[str, Reproduction] = {found.name: found for found in _ALL}
