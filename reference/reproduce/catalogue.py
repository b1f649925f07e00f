"""All reproductions, by name.  A new one is a file beside this one, and is listed here."""

from collections.abc import Mapping

from .framework import Reproduction

REPRODUCTIONS: Mapping[str, Reproduction] = {}
