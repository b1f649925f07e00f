"""Systems of the literature: each keeps what it claims, and a baseline breaks what the other's paper says it does."""

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.commands.described import describe, members
from schedspec.commands.subjects import builtin_subjects
from schedspec.conformance.driver import replay
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.script import Script
from schedspec.conformance.walks import walk
from schedspec.reference.systems import COMPARED, SYSTEMS
from schedspec.reference.systems.published import HOW, SIZES
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import CLAIMS, Settings, Unsupported

WALKS = 25

BREAKS = {
    "fastertransformer:orca": {"LIVE-8", "KV-5"},  # late arrivals wait for the batch; memory for the longest request
    "orca-max:vllm-2023": {"KV-5", "LIVE-8"},  # memory for the longest request, so others wait while it is unused
    "orca:vllm-2023": {"KV-5", "LIVE-8"},  # the same for the longest output that is declared
    "vllm-2023:sarathi": {"STEP-8", "STEP-9", "STEP-10"},  # decodes stand still while prompts run
}
"""Baseline -> the promises of the other system that it breaks (Orca, sections 2 and 3; PagedAttention, section 3.1;
Sarathi-Serve, section 3)."""


def musts(name: str) -> set[str]:
    """Broken ones, in all scenarios and some walks, with the settings of the system and the sizes of those."""
    own, _, other = name.partition(":")
    fixed = {**SYSTEMS[own].fixed, **{n: SYSTEMS[other].fixed.get(n, getattr(Settings(), n)) for n in HOW if other}}
    broken: set[str] = set()
    for script in (*(scenario.script for scenario in scenarios(0)), *map(walk, range(WALKS))):
        if script.settings.pools.are_two:  # its calls are of a link, and results come in another order
            continue
        sizes = {size: getattr(script.settings, size) for size in SIZES}
        pool = sizes["blocks"] * sizes["block_size"]
        sizes |= {"token_budget": max(sizes["token_budget"], 8), "max_model_tokens": max(2, min(pool, 24))}
        sizes |= {"host_blocks": sizes["blocks"]} if "host_blocks" in SYSTEMS[own].numbers else {}
        run = replay(builtin_subjects()[name], Script(Settings(**sizes, **fixed), script.seed, script.ops))
        assert run.fault is None
        broken |= {violation.rule for violation in run.broken} | set(run.advice)
    return {rule for rule in broken if registry.rules[rule].level == "MUST"}


@pytest.mark.parametrize("name", ["fastertransformer", "orca", "vllm-2023", "vllm-2023-swap", "sarathi", "vtc"])
def test_each_system_keeps_what_it_claims(name: str) -> None:
    assert musts(name) == set()


@pytest.mark.parametrize("name", BREAKS)
def test_a_baseline_breaks_what_the_other_paper_says(name: str) -> None:
    assert musts(name) == BREAKS[name]


def test_every_comparison_has_its_breaks() -> None:
    assert {f"{own.name}:{other.name}" for own, other in COMPARED} == set(BREAKS)


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=lambda system: system.name)
def test_a_system_claims_what_its_paper_promises_and_is_its_profile(system) -> None:  # type: ignore[no-untyped-def]
    host = dict.fromkeys(set(system.numbers) & {"host_blocks"}, 8)
    settings = system.settings(blocks=8, block_size=4, seats=4, token_budget=64, max_model_tokens=32, **host)
    shown = system.make(settings).capabilities()
    assert system.promises <= set(CLAIMS)
    assert system.promises <= shown.claims
    assert (shown.name, shown.profile) == (system.name, system.name)


def test_what_is_another_systems_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="setting batch_mix='hybrid' is not supported"):
        SYSTEMS["vllm-2023"].make(Settings())
    with pytest.raises(Unsupported, match="setting policy='vtc' is not supported"):
        SYSTEMS["sarathi"].make(SYSTEMS["sarathi"].settings(policy="vtc"))


def test_every_subject_is_described_alone_or_with_its_family() -> None:
    described = {one.name for one in describe()}
    alone = described & builtin_subjects().keys()
    families = {name for family in described for name in members(family, described)}
    assert alone | families == set(builtin_subjects())
    assert described - alone == {"fault", "vllm-v1-wrong"}  # these are families only


def test_subjects_are_listed_with_their_papers_and_one_is_shown_whole() -> None:
    listed = CliRunner().invoke(cli, ["subjects"]).output
    assert all(system.source in listed for system in SYSTEMS.values())
    card = CliRunner().invoke(cli, ["subjects", "orca"]).output
    assert "settings  reserve=declared, chunked_prefill=False, disjoint_steps=True" in card
    assert "iteration_fcfs" in card
    asked = CliRunner().invoke(cli, ["subjects", "orka"])
    assert (asked.exit_code, "did you mean 'orca'" in asked.output) == (2, True)
