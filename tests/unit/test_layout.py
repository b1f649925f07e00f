"""The house stands: links resolve, no folder is imported bare, and the wheel holds what the tree holds."""

import ast
import importlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "spec": "spec",
    "reference": "reference",
    "optimized": "optimized",
    "kernels": "kernels",
    "proofs": "proofs",
    "conformance": "tests/conformance",
}


def test_links_resolve() -> None:
    assert broken_links(ROOT) == []


def test_a_checkout_without_links_is_noticed(tmp_path: Path) -> None:
    front = tmp_path / "src/schedspec"
    front.mkdir(parents=True)
    for name, folder in FOLDERS.items():
        (tmp_path / folder).mkdir(parents=True)
        (front / name).write_text(f"../../{folder}")  # what git writes where core.symlinks is false
    assert len(broken_links(tmp_path)) == len(FOLDERS)
    assert "core.symlinks" in broken_links(tmp_path)[0]


@pytest.mark.parametrize("name", FOLDERS)
def test_subpackage_imports(name: str) -> None:
    module = importlib.import_module(f"schedspec.{name}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / FOLDERS[name] / "__init__.py"


def test_no_folder_is_imported_bare() -> None:
    """A test and not ruff's banned-api, which takes `from .terms import Term` in spec/ for `spec`."""
    sources = list(python_files(ROOT))
    assert Path(__file__) in sources
    found = [
        f"{path.relative_to(ROOT)}:{line}: import it as schedspec.{name}"
        for path in sources
        for line, name in imports(path.read_text(encoding="utf-8"))
        if name in FOLDERS
    ]
    assert found == []


def test_spec_imports_attrs_and_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"attr", "attrs", "schedspec"}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in python_files(ROOT / "spec")
        for line, name in imports(path.read_text(encoding="utf-8"))
        if name not in allowed
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import kernels", ["kernels"]),
        ("import kernels.paged as paged", ["kernels"]),
        ("def f():\n    from spec.terms import Term", ["spec"]),
        ("from schedspec import spec", ["schedspec"]),
        ("from . import spec", []),
        ("'import spec'", []),
    ],
)
def test_imports_are_found(source: str, expected: list[str]) -> None:
    assert [name for _, name in imports(source)] == expected


def test_the_front_door_is_light() -> None:
    """Pytest loads the plugin wherever schedspec is installed: a missing extra must break nobody's run."""
    extras = {"cvc5", "hypothesis", "jinja2", "jsonschema", "matplotlib", "numpy", "pebble", "torch", "triton", "z3"}
    program = (
        "import sys, schedspec, schedspec.spec, schedspec.cli, schedspec.conformance.pytest_plugin\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "schedspec" in loaded
    assert loaded & extras == set()


def test_wheel_and_sdist_hold_every_file(tmp_path: Path) -> None:
    tree = copy_of_what_is_built(tmp_path)
    expected = {
        f"schedspec/{name}/{path.relative_to(ROOT / folder).as_posix()}"
        for name, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".c", ".json", ".jsonl", ".md", ".toml", ".v"}
    }
    front = ROOT / "src/schedspec"  # rglob does not follow the links
    expected |= {
        f"schedspec/{path.relative_to(front).as_posix()}"
        for path in front.rglob("*")
        if path.suffix in {".py", ".html"} or path.name == "py.typed"
    }
    assert {"schedspec/cli.py", "schedspec/py.typed"} <= expected
    assert {f"schedspec/{name}/__init__.py" for name in FOLDERS} <= expected

    with zipfile.ZipFile(build("wheel", tree, tmp_path)) as wheel:
        in_wheel = {name for name in wheel.namelist() if name.startswith("schedspec/")}
    assert in_wheel == expected

    with tarfile.open(build("sdist", tree, tmp_path)) as sdist:
        in_sdist = {member.name.partition("/src/")[2] for member in sdist.getmembers() if member.isfile()}
    assert expected - in_sdist == set()


def test_wheel_of_a_tree_without_links_lacks_the_folders(tmp_path: Path) -> None:
    """The fault that the guards are for: setuptools builds such a wheel without a word."""
    tree = copy_of_what_is_built(tmp_path)
    for name, folder in FOLDERS.items():
        link = tree / "src/schedspec" / name
        link.unlink()
        link.write_text(f"../../{folder}")
    with zipfile.ZipFile(build("wheel", tree, tmp_path)) as wheel:
        assert "schedspec/__init__.py" in wheel.namelist()
        assert "schedspec/spec/__init__.py" not in wheel.namelist()


def broken_links(root: Path) -> list[str]:
    found = []
    for name, folder in FOLDERS.items():
        link = root / "src/schedspec" / name
        if not link.is_symlink() or link.resolve() != (root / folder).resolve() or not link.is_dir():
            found.append(
                f"src/schedspec/{name} is not a link to {folder}, and without links the wheel is empty. "
                "Run `git config core.symlinks true`, then `git checkout -- src/schedspec`."
            )
    return found


def python_files(root: Path) -> Iterator[Path]:
    """Every Python file of the tree once: links are not followed."""
    for path in sorted(root.iterdir()):
        if path.is_symlink() or path.name.startswith(".") or path.name in {"build", "dist"}:
            continue
        if path.is_dir():
            yield from python_files(path)
        elif path.suffix == ".py":
            yield path


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every absolute import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def copy_of_what_is_built(tmp_path: Path) -> Path:
    """A copy, so that neither an old build/ gets into the wheel nor a new one into the tree."""
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ["src", *FOLDERS.values()]:
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=skipped)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    return tree


def build(kind: str, tree: Path, out: Path) -> Path:
    program = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(out)]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return out / run.stdout.splitlines()[-1]
