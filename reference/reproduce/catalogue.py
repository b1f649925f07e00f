"""All reproductions, by name.  A new one is a file beside this one, and is listed here."""

from collections.abc import Mapping

from .distserve import DISTSERVE
from .framework import Reproduction
from .vllm import VLLM

REPRODUCTIONS: Mapping[str, Reproduction] = {found.name: found for found in (DISTSERVE, VLLM)}
