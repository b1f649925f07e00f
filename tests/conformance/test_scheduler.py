"""Collected by `pytest --pyargs schedspec.conformance --scheduler package.module:factory` (`pytest_plugin.py`)."""

import pytest

from schedspec.conformance.pytest_plugin import Judged, hold, schedulers, stop_if_void


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    found = schedulers(metafunc.config)
    from schedspec.spec.catalogue import registry

    rules = [rule.id for rule in registry.sorted_rules()]
    pairs = [(judged, rule) for judged in found.values() for rule in rules]
    ids = [f"{judged.name}-{rule}" for judged, rule in pairs]
    metafunc.parametrize(("judged", "rule"), pairs, ids=ids)


@pytest.fixture(autouse=True)
def _not_void(judged: Judged, rule: str) -> None:
    stop_if_void(judged, rule)


def test_rule(judged: Judged, rule: str) -> None:
    hold(judged, rule)
