"""`pytest --pyargs schedspec.conformance --scheduler …`: every verdict becomes what pytest has for it."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
TOY = "schedspec.conformance.examples.toy_scheduler:Scheduler"
SCENARIOS_ONLY = """
from attrs import evolve
from schedspec.conformance import check
check.DEPTHS["quick"] = evolve(check.DEPTHS["quick"], search_s=0.0, examples=0)
"""
RULES = 15
"""Fewer than there are: enough to tell a judged scheduler from one that is not."""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of somebody else's; the search is left out, since scenarios find what is planted here."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    pytester.makeconftest(SCENARIOS_ONLY)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plugin = ("-p", "schedspec.conformance.pytest_plugin")
    return suite.runpytest_subprocess(*plugin, "--pyargs", "schedspec.conformance", *arguments)


def counts(result: pytest.RunResult) -> dict[str, int]:
    return result.parseoutcomes()


def test_a_good_scheduler_passes_and_says_what_was_not_judged(suite: pytest.Pytester) -> None:
    result = run(suite, "--scheduler", TOY, "-rs")
    found = counts(result)
    assert result.ret == 0
    assert found["passed"] > RULES
    assert found["skipped"] > 0
    assert "failed" not in found
    skips = "\n".join(line for line in result.outlines if line.startswith("SKIPPED"))
    assert "KV-14 not claimed: it binds who claims prefix_cache" in skips
    assert "OBS-3 not observable: it compares snapshots, and observe() shows none" in skips
    assert re.search(r"PRE-3 not exercised: in \d+ runs its precondition never held", skips)


def test_a_broken_should_is_seen_without_options(suite: pytest.Pytester) -> None:
    result = run(suite, "--scheduler", TOY, "-k", "LIVE-11")
    assert counts(result) == {"xfailed": 1, "deselected": counts(result)["deselected"]}
    result.stdout.fnmatch_lines(["LIVE-11: What fits is not left idle* (SHOULD)", "  However LIVE-11.idle asks that*"])


def test_a_planted_fault_fails_with_its_report(suite: pytest.Pytester) -> None:
    result = run(suite, "--scheduler", "schedspec.reference.faults:PreemptsTheOldest")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "PRE-5: Among equals, nobody admitted earlier is preempted to keep somebody admitted later. (MUST)",
            "  Let     *",
            "  Then    *",
            "  However *",
            "  Instead *",
            "✗ *step * preempted *",
            "  Again   schedspec replay-failure *PRE-5.json",
            "FAILED *PreemptsTheOldest-PRE-5*",
        ]
    )
    report = next(line for line in result.outlines if line.startswith("  Again ") and "PRE-5" in line)
    assert (suite.path / report.split()[-1]).is_file()


@pytest.mark.deep
def test_a_report_fits_on_a_screen(suite: pytest.Pytester) -> None:
    result = run(suite, "--scheduler", "schedspec.reference.faults:PreemptsTheOldest", "-k", "PRE-5")
    begin, end = (result.outlines.index(next(filter(is_edge, result.outlines))) for is_edge in (_begins, _ends))
    assert 8 < end - begin <= 40
    assert max(map(len, result.outlines[begin:end])) <= 120


def _begins(line: str) -> bool:
    return line.startswith("PRE-5: Among")


def _ends(line: str) -> bool:
    return line.startswith("  Again ") and "PRE-5" in line


def test_whoever_breaks_the_protocol_is_void_and_never_passes(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        mine=f"""
        from {TOY.partition(":")[0]} import Scheduler

        class Void(Scheduler):
            def step(self, now_ns):
                return super().step(now_ns) | {{"samples": [2]}}
        """
    )
    result = run(suite, "--scheduler", "mine:Void")
    found = counts(result)
    assert result.ret == 1
    assert found["errors"] == 1
    assert found["skipped"] > RULES
    assert "passed" not in found
    result.stdout.fnmatch_lines(["mine:Void is void, no rule is judged: step: samples*"])


def test_a_factory_that_raises_is_void(suite: pytest.Pytester) -> None:
    suite.makepyfile(mine="def make(settings, seed):\n    raise RuntimeError('no device')")
    result = run(suite, "--scheduler", "mine:make", "-k", "KV-1 or KV-2")
    assert counts(result)["errors"] == 1
    result.stdout.fnmatch_lines(["mine:make is void, no rule is judged: configure raised RuntimeError: no device"])


@pytest.mark.deep
def test_what_a_scheduler_prints_is_no_answer(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        mine=f"""
        from {TOY.partition(":")[0]} import Scheduler

        class Prints(Scheduler):
            def step(self, now_ns):
                print("stepping")
                return super().step(now_ns)
        """
    )
    result = run(suite, "--scheduler", "mine:Prints", "-k", "DET")
    assert counts(result)["passed"] == 3


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.at_all:make", "--scheduler: there is no module 'nowhere' in *"),
        ("mine.py:make", "--scheduler: 'mine.py' is a file: write the name of the module, mine:FACTORY"),
        ("mine:mak", "--scheduler: mine has no attribute 'mak': did you mean 'make'?"),
    ],
)
def test_a_missing_factory_is_one_sentence(suite: pytest.Pytester, name: str, sentence: str) -> None:
    suite.makepyfile(mine="def make(settings, seed): ...")
    result = run(suite, "--scheduler", name)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.deep
def test_two_schedulers_in_one_session(suite: pytest.Pytester) -> None:
    adapter = ROOT / "tests/conformance/examples/toy_stdio.py"
    result = run(suite, "--scheduler", TOY, "--scheduler", f"exec:python3 {adapter}", "-k", "LIFE-3 or DET-2")
    assert counts(result)["passed"] == 4


def test_nobody_to_judge_is_skipped_with_what_to_type(suite: pytest.Pytester) -> None:
    result = run(suite)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["*pytest --pyargs schedspec.conformance --scheduler package.module:factory*"])


@pytest.mark.deep
def test_seed_and_depth_are_said(suite: pytest.Pytester) -> None:
    result = run(suite, "--scheduler", TOY, "--scheduler-seed", "7", "-k", "LIFE-3")
    result.stdout.fnmatch_lines(["  seed 7, * runs, *"])
    assert run(suite, "--scheduler-depth", "soak").ret == pytest.ExitCode.USAGE_ERROR
