"""The second process of the DET rules: one for all runs, and its faults are told in a sentence."""

import subprocess
import sys

import pytest

from schedspec.conformance import determinism
from schedspec.conformance.determinism import Elsewhere, rerun_here
from schedspec.conformance.script import Script, rounds, submit
from schedspec.reference import make
from schedspec.spec.vocabulary import Settings

SCRIPT = Script(Settings(blocks=8, block_size=2), 0, (submit("a", 3, 2), *rounds(4)))
RERUN = (sys.executable, "-m", "schedspec", "rerun", "reference")


def test_one_process_serves_all_runs_and_both_paces() -> None:
    here = rerun_here(make, [SCRIPT])
    with Elsewhere(RERUN) as elsewhere:
        assert elsewhere.run([SCRIPT], "as it is") == here
        first = elsewhere._process
        assert elsewhere.run([SCRIPT, SCRIPT], "another") == here * 2
        assert elsewhere._process is first
        assert elsewhere.run([SCRIPT], "as it is") == here
        assert elsewhere._process is not first, "clocks that were quickened stay so"
    assert elsewhere._process is None


def test_a_process_that_dies_is_told_with_its_last_words() -> None:
    program = "import sys; sys.exit('no luck')"
    with Elsewhere((sys.executable, "-c", program)) as elsewhere, pytest.raises(RuntimeError, match="no luck"):
        elsewhere.run([SCRIPT], "as it is")


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(determinism, "LONGEST_RERUN_S", 0.2)
    monkeypatch.setattr(determinism, "GRACE_S", 0.2)
    program = "import time; time.sleep(60)"
    with Elsewhere((sys.executable, "-c", program)) as elsewhere, pytest.raises(subprocess.TimeoutExpired):
        elsewhere.run([SCRIPT], "as it is")
