"""For every guard and every effect it is known what pins it, and deleting it shows."""

import pytest
from tests.mutants import pins
from tests.mutants.traces import corpus

from schedspec.proofs.manifest import read
from schedspec.proofs.pins import from_proofs, joined, unpinned
from schedspec.spec.catalogue import registry

CONJUNCTS = {conjunct.name: conjunct for conjunct in registry.conjuncts}


def test_nothing_is_unpinned() -> None:
    assert unpinned(registry, joined((from_proofs(read()), pins.stored()))) == []


def test_no_pin_is_of_a_conjunct_that_is_gone() -> None:
    assert set(pins.stored()) <= set(CONJUNCTS)


def test_the_corpus_is_clean() -> None:
    assert [number for number, run in enumerate(corpus()) if pins.first_broken(run) is not None] == []


@pytest.mark.parametrize("name", pins.stored())
def test_deleting_it_shows(name: str) -> None:
    for pin in pins.stored()[name]:
        assert CONJUNCTS[name].event == pin.event
        if pin.kind == "clean run":
            assert pins.first_broken(corpus()[int(pin.by)], name) is not None
        else:
            assert pins.shows(CONJUNCTS[name], pins.planted(pin.by))


def test_the_page_is_what_was_found() -> None:
    page = "\n".join(pins.page(joined((from_proofs(read()), pins.stored())))) + "\n"
    assert pins.SHOWN.read_text() == page
