"""Which tests CI leaves out for want of time: whole files here, and single tests that say so themselves.  `make test`
runs them all; `-m "not deep"` runs the others.  Those that need a browser have a part of their own, `-m browser`."""

from pathlib import Path

import pytest

DEEP = {
    "test_agreement.py": "the readings of random terms; those of the rules are compared on every vector",
    "test_baseline.py": "CI holds vLLM against a baseline",
    "test_bench.py": "whether each benchmark still runs",
    "test_hostile.py": "promises under hostile workloads; CI's check has scenarios, walks and search for each",
    "test_matrix.py": "many checks at a time",
    "test_simulation_report.py": "pages and pictures",
    "test_small_scope.py": "CI exhausts the same cases in its part for proofs",
}
"""File -> what it is about, and what of it CI sees all the same."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).name in DEEP:
            item.add_marker(pytest.mark.deep)
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
