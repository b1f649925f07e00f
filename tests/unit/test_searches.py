"""The table of which search finds what first."""

from tests.mutants.searches import SEARCHES, Looked, first, page, targets

MISSED = Looked(False, 9, 1.0)


def looked(**found: float) -> dict[str, Looked]:
    """Seconds of those that found it, by the first word of their names."""
    return {name: Looked(True, 3, found[name.split()[0]]) if name.split()[0] in found else MISSED for name in SEARCHES}


def test_whoever_took_least_is_first() -> None:
    assert first(looked(walks=0.5, scenarios=0.2)) == "scenarios"
    assert first(looked()) == "nobody"


def test_the_table_counts_what_was_found() -> None:
    results = {"KV-1": looked(walks=0.5), "KV-2": looked(walks=0.1, small=0.3), "KV-3": looked()}
    lines = list(page(results, "a command", 1.0, 9.0))
    assert "| found, of 3 | 0 | 0 | 2 | 0 | 1 |" in lines
    assert "| found first | 0 | 0 | 2 | 0 | 0 |" in lines
    assert "| found by nobody else | 0 | 0 | 1 | 0 | 0 |" in lines
    assert "| KV-3 | – | – | – | – | – | nobody |" in lines


def test_every_fault_that_a_run_may_show_is_looked_for() -> None:
    names = [target.name for target in targets(bugs=False)]
    assert "KV-7" in names
    assert "DET-1" not in names
    assert any(target.is_public for target in targets(bugs=True))
