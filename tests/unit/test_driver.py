"""The driver: what ends a run and what does not."""

from pathlib import Path

from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.script import STEP, Script, cancel, rounds, submit
from schedspec.reference.faults import factory
from schedspec.spec.vocabulary import Settings


def test_a_wrong_answer_at_the_door_does_not_end_the_run() -> None:
    """What comes of it is worth seeing: here nobody ever runs again."""
    run = Driver.start(factory("ADMIT-1"), Settings(blocks=2, block_size=1), 0)
    run.run([submit("a", 5, 1), *rounds(3)])
    assert "ADMIT-1" in run.advice
    assert [v.rule for v in run.broken] == ["LIVE-1", "LIVE-9"]
    assert [v.rule for v in run.breaks_of("ADMIT-1")] == ["ADMIT-1"]


def test_a_broken_account_ends_the_run() -> None:
    script = Script(Settings(blocks=8, block_size=2), 0, (submit("a", 2, 9), *rounds(1), cancel("a"), STEP, *rounds(4)))
    run = replay(factory("KV-7"), script)
    assert run.over
    assert run.broken
    assert len(run.ops) < len(script.ops)


def test_with_one_rule_only_the_run_goes_on_past_others_and_its_report_repeats(tmp_path: Path) -> None:
    """A break of another rule, earlier in the same run, must not hide the one that was asked for."""
    args = ["check", "fault:KV-6", "--rule", "KV-12", "--workload", "none", "--report", str(tmp_path)]
    assert CliRunner().invoke(cli, args).exit_code == 1
    stored = tmp_path / "failures" / "KV-12.json"
    again = CliRunner().invoke(cli, ["replay-failure", str(stored)])
    assert again.exit_code == 1, again.output
    assert "KV-12 still fails" in again.output
    assert "only=True" in (tmp_path / "failures" / "KV-12_test.py").read_text()
