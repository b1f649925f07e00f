"""Asking Coq: terms of `proofs/coq` are computed by coqc, and their values come back as Python's."""

import ast
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from schedspec.proofs import theorems

Change = tuple[str, str, str]
"""File, what stands there once, and what stands there instead."""

needs_coqc = pytest.mark.skipif(theorems.coqc() is None, reason=theorems.MISSING)

_HEAD = """From Coq Require Import List ZArith.
From Schedspec Require Import {files}.
Import ListNotations.
Open Scope Z_scope.
Set Printing Depth 1000000.
Set Printing Width 1000000.
{prelude}
"""

_COMPILED: dict[str, bytes] = {}
"""By the texts of a file and of those before it: what coqc made of it."""


def computed(
    folder: Path, files: Sequence[str], terms: Iterable[str], *changes: Change, prelude: str = ""
) -> list[object]:
    """The value of each term: integers, truth values, lists, and tuples, which records are too."""
    for file in files:
        source = (theorems.FOLDER / f"{file}.v").read_text(encoding="utf-8")
        for where, old, new in changes:
            if where == file:
                assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {file}.v"
                source = source.replace(old, new)
        (folder / f"{file}.v").write_text(source, encoding="utf-8")
    questions = [_HEAD.format(files=" ".join(files), prelude=prelude), *(f"Compute {term}." for term in terms)]
    (folder / "Questions.v").write_text("\n".join(questions), encoding="utf-8")
    printed, before = "", ""
    for file in (*files, "Questions"):
        before += (folder / f"{file}.v").read_text(encoding="utf-8")
        if before in _COMPILED:
            (folder / f"{file}.vo").write_bytes(_COMPILED[before])
            continue
        command = ["coqc", "-q", "-R", ".", theorems.LIBRARY, f"{file}.v"]
        run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        assert not run.returncode, f"{file}.v: {run.stdout[-500:]}{run.stderr}"
        printed = run.stdout
        if file != "Questions":
            _COMPILED[before] = (folder / f"{file}.vo").read_bytes()
    return [_value(answer) for answer in re.findall(r"^ *= (.*?)\n *: ", printed, re.MULTILINE | re.DOTALL)]


def _value(printed: str) -> object:
    plain = re.sub(r"%\w+|\w+ :=", "", printed)
    for old, new in (("{|", "("), ("|}", ")"), (";", ","), ("true", "True"), ("false", "False")):
        plain = plain.replace(old, new)
    return ast.literal_eval(" ".join(plain.split()))


def listed(values: Iterable[object]) -> str:
    """A list of numbers, or of what has parentheses already."""
    return f"[{'; '.join(str(value) if str(value)[0] != '-' else f'({value})' for value in values)}]"


def naturals(values: Iterable[int]) -> str:
    return f"[{'; '.join(f'{value}%nat' for value in values)}]"


def made(constructor: str, *fields: object) -> str:
    """A record."""
    told = (str(field).lower() if isinstance(field, bool) else str(field) for field in fields)
    return f"({constructor} {' '.join(f'({text})' if text.startswith('-') else text for text in told)})"
