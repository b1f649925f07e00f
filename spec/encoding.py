"""Objects of the vocabulary as lines of JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import fields_dict

from . import vocabulary
from .errors import shown
from .vocabulary import Capabilities, Outcome, Plan, Settings, fields_as_json


def as_object(value: Any) -> dict[str, Any]:
    """The fields of an object of the vocabulary, or of an object of JSON."""
    return dict(value) if isinstance(value, Mapping) else fields_as_json(value)


def encode(value: Any) -> str:
    """One line of JSON for plain data and objects of the vocabulary alike."""
    return _encoder.encode(value)


def _plain(value: Any) -> Any:
    """What json cannot write by itself.  Columns it can: they never pass through Python one by one."""
    if type(value) in _WITH_PAIRS:
        return fields_as_json(value)
    names = _NAMES.get(type(value))
    if names is not None:
        plain = {name: getattr(value, name) for name in names}
        for name in _SELDOM.get(type(value), ()):
            if not plain[name]:
                del plain[name]
        return plain
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON: {shown(value)}")


_NAMES = {
    cls: tuple(fields_dict(cls))
    for cls in vars(vocabulary).values()
    if isinstance(cls, type) and hasattr(cls, "__attrs_attrs__")
}
_SELDOM = {Plan: ("pool", "drafts"), Outcome: ("pause", "accepted")}
"""Columns that are left out where they say nothing, as in all lines that were written before there were any."""
_WITH_PAIRS = (Settings, Capabilities)
_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), allow_nan=False, check_circular=False)
