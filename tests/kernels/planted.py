"""Kernels with one small change each: a module's text is changed, written to a folder, and loaded under another
name."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

KERNELS = Path(__file__).parents[2] / "kernels"
Change = tuple[str, str, str]
"""Module, what stands there once, and what stands there instead."""


def planted(folder: Path, module: str, *changes: Change) -> ModuleType:
    """The module as it is after the changes, of its own text or of those that it imports."""
    texts = {name: (KERNELS / f"{name}.py").read_text(encoding="utf-8") for name in {module, *(c[0] for c in changes)}}
    for name, old, new in changes:
        assert texts[name].count(old) == 1, f"{old!r} stands {texts[name].count(old)} times in {name}"
        texts[name] = texts[name].replace(old, new)
    mark = f"planted_{folder.name}_"
    for name in sorted(texts, key=lambda name: name == module):  # the module itself is last: it imports the others
        text = texts[name]
        for other in texts:
            text = text.replace(f"from .{other} import", f"from .{mark}{other} import")
        file = folder / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        loaded = load(f"schedspec.kernels.{mark}{name}", file)
    return loaded


def load(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
