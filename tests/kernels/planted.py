"""Kernels with one small change each: the package is copied, texts in it are changed, and it is loaded under another
name."""

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

KERNELS = Path(__file__).parents[2] / "kernels"
Change = tuple[str, str, str]
"""Module, what stands there once, and what stands there instead."""


def planted(folder: Path, module: str, *changes: Change) -> ModuleType:
    """The module as it is after the changes, of its own text or of those that it imports."""
    package = folder / "kernels"
    shutil.copytree(KERNELS, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in changes:
        file = package / f"{name}.py"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        file.write_text(text.replace(old, new), encoding="utf-8")
    name = f"planted_{folder.name}"
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{name}.{module}")
