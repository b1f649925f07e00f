"""The registry with all rules in it: whoever asks for rules imports it from here."""

from . import rules
from .relation import registry

__all__ = ["registry", "rules"]
