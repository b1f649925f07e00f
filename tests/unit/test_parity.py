"""Parity finds what differs, says nothing where nothing does, and shows the difference so that a person sees it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.conformance.driver import replay
from schedspec.conformance.parity import NothingCompared, Parity, Void
from schedspec.conformance.parity_report import as_json, headline
from schedspec.conformance.parity_workloads import (
    CONFIGURATIONS,
    PrefixEngine,
    continued,
    draw_script,
    draw_settings,
    draw_style,
)
from schedspec.conformance.script import ROUND, Script, submit
from schedspec.reference.systems import vllm_v1
from schedspec.reference.systems.vllm_v1_wrong import WRONG
from schedspec.spec.vocabulary import Capabilities, Delta, Outcome, Plan, Request, Settings, Unsupported

CACHING = {"policy": "fcfs", "prefix_caching": True, "overlap_depth": 1}
AHEAD = {"policy": "fcfs", "prefix_caching": False, "overlap_depth": 2}
PRIORITY = {"policy": "priority", "prefix_caching": False, "overlap_depth": 1}
PRIORITY_AHEAD = PRIORITY | {"overlap_depth": 2}
PLAIN = {"policy": "fcfs", "prefix_caching": False, "overlap_depth": 1}

WHERE: dict[str, tuple[dict[str, Any], int]] = {
    "victim-by-admission": (PRIORITY_AHEAD, 7),
    "victim-from-the-tail": (PRIORITY, 0),
    "victim-keeps-tokens": (PRIORITY, 8),
    "self-preemption-ends-the-round": (PRIORITY, 0),
    "back-to-its-arrival": (AHEAD, 6),
    "admits-after-preemption": (PLAIN, 0),
    "skips-a-blocked-head": (PLAIN, 0),
    "watermark-alone": (PLAIN, 0),
    "no-full-sequence-check": (PLAIN, 0),
    "full-sequence-check-ignores-hits": (CACHING, 0),
    "cached-blocks-are-free": (CACHING, 0),
    "threshold-alone": (PLAIN, 0),
    "adaptive-threshold": (PLAIN, 0),
    "hashed-blocks-to-the-front": (CACHING, 0),
    "one-copy-per-hash": (CACHING, 0),
    "frees-from-the-head": (CACHING, 0),
    "names-when-computed": (CACHING, 0),
    "whole-prompt-hit": (CACHING, 0),
    "drops-the-last-hit": (CACHING, 0),
    "drops-stale-results": (AHEAD, 0),
    "resumes-at-once": (AHEAD, 1),
    "stale-results-block-the-queue": (AHEAD, 1),
    "one-step-too-many": (AHEAD, 0),
    "ignores-the-context": (PLAIN, 0),
}
"""Wrong model -> the configuration in which it shows, and a seed with which it shows soon."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["parity", *arguments])


def plain(result: Result) -> str:
    return " ".join(result.output.split())


def parity(subject: Any, model: Any = vllm_v1.raw, seeds: int = 60, seed: int = 0, **pinned: Any) -> Parity:
    compared = Parity(subject, model, seeds, seed, pinned, shrink_s=0.5)
    compared.run()
    return compared


# --- the model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [vllm_v1.raw, vllm_v1.make])
def test_a_model_and_itself_do_not_differ(factory: Any) -> None:
    same = parity(factory, factory, seeds=8)
    assert same.difference is None
    assert same.workloads == {str(configuration): 8 for configuration in CONFIGURATIONS}
    assert same.steps > 500
    assert same.compares_tables
    assert not same.refused


def test_every_wrong_model_has_its_place() -> None:
    assert set(WHERE) == set(WRONG)
    assert all(model.__doc__ and "\n" not in model.__doc__ for model in WRONG.values())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_is_found(name: str) -> None:
    pinned, seed = WHERE[name]
    found = Parity(WRONG[name], vllm_v1.raw, 60, seed, pinned, shrink_s=0.1)
    found.run()
    assert found.difference is not None
    assert found.script is not None
    assert found.difference.ops == found.script.ops, "what is shown is what was shortened"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reserve", "declared"),
        ("overlap_depth", 3),
        ("at_blocked_head", "skip"),
        ("victim", "lowest_priority"),
        ("blocks", 1),
        ("max_prompt_tokens", 5),
    ],
)
def test_the_model_refuses_what_the_release_has_not(name: str, value: Any) -> None:
    changes: dict[str, Any] = {name: value}
    with pytest.raises(Unsupported, match=name):
        vllm_v1.raw(evolve(Settings(), **changes), 0)


def test_what_is_longer_than_the_pool_is_refused_as_shipped_and_waits_for_ever_raw() -> None:
    settings = Settings(blocks=3, block_size=2, seats=1, token_budget=4, reserve="known")
    request = Request(id="a", prompt_ids=range(5), max_output_tokens=1)
    refused = vllm_v1.make(settings, 0).submit(request, 0)
    assert (refused.verdict, refused.limit, refused.value) == ("refused", 4, 6)
    raw = vllm_v1.raw(settings, 0)
    assert raw.submit(request, 0).verdict == "accepted"
    assert [raw.step(0).request for _ in range(3)] == [[], [], []]


def test_the_model_names_blocks_that_are_never_computed_as_the_release_does() -> None:
    """v is given a chunk and loses it in the same step to u, which is more urgent; the index keeps its block."""
    pool = Settings(blocks=10, block_size=2, seats=2, token_budget=8, chunk_tokens=4, prefix_caching=True)
    settings = evolve(pool, policy="priority", victim="lowest_priority")
    ops = [submit("v", 15, 2, priority=1), *ROUND, submit("u", 2, 2), *ROUND * 3]
    first = replay(vllm_v1.make, Script(settings, 0, ops))
    assert [violation.rule for violation in first.broken] == ["KV-14"]
    later = replay(vllm_v1.make, Script(settings, 0, ops), ignored=frozenset({"KV-14"}))
    resumed = [delta for message in later.messages if message.kind == "step" for delta in message.answer.deltas]
    assert ("resumed", "v", 14) in resumed, "positions 12 and 13 were never computed"
    assert [violation.rule for violation in later.broken] == ["KV-12"]


# --- workloads ---------------------------------------------------------------------------------------------


def test_workloads_are_a_function_of_the_seed() -> None:
    def drawn(seed: int) -> Script:
        random = Random(seed)
        style = draw_style(random)
        return draw_script(random, style, draw_settings(random, style, PLAIN), seed)

    assert drawn(1) == drawn(1)
    assert drawn(1).ops != drawn(2).ops


def test_the_engine_goes_on_as_prompts_do() -> None:
    """A prompt that holds what another request has generated shares its blocks."""
    engine = PrefixEngine()
    sequence = continued([1, 2], 6)
    engine.expect(Request(id="a", prompt_ids=[1, 2], max_output_tokens=4), 3)
    engine.expect(Request(id="b", prompt_ids=sequence[:4], max_output_tokens=2), None)
    outcome = engine.outcome(Plan(step=1, request=["a", "b"], start=[2, 0], tokens=[2, 4], samples=[1, 1]))
    assert list(outcome.token) == [sequence[4], sequence[4]]
    assert list(outcome.stop) == [True, False]


# --- subjects of all kinds -----------------------------------------------------------------------------------


class DecisionsOnly(vllm_v1.Shipped):
    """Shows no tables."""

    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities(), observes="decisions")


class OtherBlocks(vllm_v1.Shipped):
    """The same decisions with blocks called something else."""

    def step(self, now_ns: int) -> Plan:
        plan = super().step(now_ns)
        return evolve(plan, deltas=[self.renamed(delta) for delta in plan.deltas])

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        return [self.renamed(delta) for delta in super().complete(outcome, now_ns)]

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        return [self.renamed(delta) for delta in super().cancel(request_id, now_ns)]

    def renamed(self, delta: Delta) -> Delta:
        blocks = self.state.settings.blocks
        if delta[0] in ("took", "shared", "gave", "indexed"):
            return (delta[0], delta[1], [blocks - block for block in delta[2]])
        return ("unindexed", [blocks - block for block in delta[1]]) if delta[0] == "unindexed" else delta


class SharesNothing(vllm_v1.Shipped):
    """The same decisions, but the tables say that cached blocks were taken afresh."""

    def share(self, job: Any, blocks: list[int]) -> None:
        super().share(job, blocks)
        if blocks:
            fresh = [block + 1_000 * job.admission + 100_000 for block in blocks]
            self.state.deltas[-1] = ("took", job.id, fresh)


class Breaks(vllm_v1.Shipped):
    """Raises in its second step."""

    def step(self, now_ns: int) -> Plan:
        if self.state.step:
            raise KeyError("r1")
        return super().step(now_ns)


class WithoutCaching(vllm_v1.Shipped):
    """Refuses prefix caching."""

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if settings.prefix_caching:
            raise Unsupported("prefix_caching", True)


def test_names_of_blocks_do_not_matter_but_who_shares_does() -> None:
    assert parity(OtherBlocks, vllm_v1.make, seeds=6).difference is None
    found = parity(SharesNothing, vllm_v1.make, seeds=20, prefix_caching=True).difference
    assert found is not None
    assert "blocks" in found.fields
    assert "runs" not in found.fields


def test_without_tables_decisions_are_compared_and_it_says_so() -> None:
    same = parity(DecisionsOnly, vllm_v1.make, seeds=3)
    assert same.difference is None
    assert as_json(same, "subject", "model")["compared"] == "decisions"
    shown = run(f"{__name__}:DecisionsOnly", "--seeds", "2")
    assert shown.exit_code == 0, shown.output
    assert "decisions only were compared" in plain(shown)


def test_a_refused_configuration_is_said_and_not_counted() -> None:
    some = parity(WithoutCaching, vllm_v1.make, seeds=2)
    assert len(some.workloads) == len(some.refused) == 4
    assert "in 4 configurations" in headline(some, "subject", "model")
    shown = plain(run(f"{__name__}:WithoutCaching", "--seeds", "1"))
    assert "not compared: fcfs, prefix caching on, overlap 1: setting prefix_caching=True is not supported" in shown


def test_when_everything_is_refused_nothing_is_equal() -> None:
    with pytest.raises(NothingCompared, match="reserve='declared'"):
        parity(vllm_v1.make, vllm_v1.make, reserve="declared")


def test_a_subject_that_breaks_the_protocol_is_void() -> None:
    with pytest.raises(Void, match="the subject cannot be compared: step raised KeyError"):
        parity(Breaks, vllm_v1.make)
    with pytest.raises(Void, match="the model cannot be compared: step raised KeyError"):
        parity(vllm_v1.make, Breaks)


# --- the command -------------------------------------------------------------------------------------------


def test_equal_is_status_0() -> None:
    result = run("vllm-v1", "--seeds", "2", "--seed", "5")
    assert result.exit_code == 0, result.output
    assert "vllm-v1 and vllm-v1: no difference; 16 workloads in 8 configurations" in plain(result)
    assert "seed 5" in result.output


def test_a_difference_is_status_1_and_a_table() -> None:
    pinned = [word for name, value in CACHING.items() for word in ("--setting", f"{name}={value}")]
    result = run("vllm-v1-wrong:names-when-computed", "--model", "vllm-v1-raw", "--seeds", "60", *pinned)
    assert result.exit_code == 1, result.output
    text = plain(result)
    assert "settings: blocks=" in text
    assert "both answered" in text
    assert "prefix_caching=True" in text
    assert "✗ admitted" in text
    assert "cached" in text
    assert "a difference in" in text


def test_json_has_the_difference_and_a_script_that_differs_again() -> None:
    result = run("vllm-v1-wrong:threshold-alone", "--model", "vllm-v1-raw", "--seeds", "60", "--json")
    assert result.exit_code == 1, result.output
    report: Mapping[str, Any] = json.loads(result.output)
    assert not report["equal"]
    assert report["difference"]["call"].startswith("step")
    assert {"field", "subject", "model", "differs"} == set(report["difference"]["fields"][0])
    assert any(field["differs"] for field in report["difference"]["fields"])
    assert report["difference"]["script"]["ops"][-1] == {"op": "step"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody"], "there is no subject 'nobody'"),
        (["vllm-v1", "--model", "vllm-v2"], "did you mean 'vllm-v1'?"),
        (["vllm-v1-wrong:nothing"], "there is no subject 'vllm-v1-wrong:nothing'"),
        (["vllm-v1", "--setting", "overlap_depth=3"], "setting overlap_depth is 3, but must be 1 or 2"),
        (["vllm-v1", "--setting", "policy=lifo"], "setting policy is 'lifo', but must be 'fcfs' or 'priority'"),
        (["vllm-v1", "--setting", "blocks"], "write NAME=VALUE"),
        (["vllm-v1", "--setting", "blocks=0"], "blocks is 0, but must be an integer of at least 1"),
        (["vllm-v1", "--setting", "reserve=declared"], "nothing was compared"),
        (["vllm-v1", "--seeds", "0"], "0 is not in the range"),
    ],
)
def test_bad_input_is_status_2_and_a_sentence(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert sentence in plain(result)
    assert "Traceback" not in result.output


def test_a_subject_without_an_answer_is_status_2(tmp_path: Path) -> None:
    result = run(f"{__name__}:Breaks", "--seeds", "3")
    assert result.exit_code == 2
    assert "the subject cannot be compared: step raised KeyError" in plain(result)
