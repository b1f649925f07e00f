"""Two pools and a link: what the reference does in the corners, and that what engines do wrong is named."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.commands.exhaust import clean_cases
from schedspec.conformance.driver import Driver
from schedspec.conformance.scenarios import scenarios
from schedspec.conformance.scenarios_of_transfers import PREFILLED, TWO_POOLS
from schedspec.conformance.script import (
    BEGIN_TRANSFER,
    END_TRANSFER,
    FAIL_TRANSFER,
    REPEAT_TRANSFER,
    STEP,
    TRANSFER,
    Op,
    cancel,
    rounds,
    submit,
    with_setting,
)
from schedspec.conformance.walks import walk
from schedspec.reference import make
from schedspec.reference.faults import FOREIGN
from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.trace import TraceWriter
from schedspec.spec.vocabulary import Delta, Door, Message, Pools, Settings, SubjectFactory, Unsupported

OF_TWO = tuple(scenario for scenario in scenarios(0) if scenario.script.settings.pools.are_two)
LATE = (*PREFILLED, BEGIN_TRANSFER, Op("tick", ns=60), *rounds(4))
EARLY = (submit("a", 4, 1), submit("b", 4, 3), *rounds(2), BEGIN_TRANSFER, cancel("b"), *rounds(2))
SHORT = (STEP, submit("a", 1, 4), submit("b", 1, 3), *rounds(6))


def run(settings: Settings, ops: Sequence[Op], factory: SubjectFactory = make) -> Driver:
    driver = Driver.start(factory, settings, 0)
    driver.run(ops)
    driver.drain()
    return driver


def deltas(message: Message) -> Sequence[Delta]:
    return message.answer if message.kind in ("notify", "cancel", "complete") else getattr(message.answer, "deltas", ())


def all_deltas(driver: Driver, kind: str) -> list[Delta]:
    return [delta for message in driver.messages for delta in deltas(message) if delta[0] == kind]


@pytest.mark.parametrize("does", FOREIGN)
def test_what_engines_have_done_is_named_by_its_rule(does: str) -> None:
    """Each of them breaks its rule in a directed run, and in the message where that shows nothing undeclared."""
    rule, factory = FOREIGN[does]
    crowd = tuple(submit(name, 1, 3) for name in "abc")
    worlds = [(one.script.settings, one.script.ops) for one in OF_TWO]
    worlds += [(TWO_POOLS, ops) for ops in (LATE, EARLY, SHORT, (*crowd, *rounds(6)))]
    found = [run(settings, ops, factory).broken for settings, ops in worlds]
    named = [{v.rule for v in broken} for broken in found if any(v.rule == rule for v in broken)]
    assert named, f"{rule} is not broken by a scheduler that {does}: {[{v.rule for v in b} for b in found]}"
    assert all(rules <= registry.closure(rule) for rules in named), named


def test_the_prefill_pool_stalls_when_its_blocks_are_held() -> None:
    """Back-pressure (D2 of DistServe): what is not pulled counts, and nobody is admitted beside it."""
    settings = evolve(TWO_POOLS, blocks=4, pools=evolve(TWO_POOLS.pools, decode_blocks=4))
    driver = Driver.start(make, settings, 0)
    driver.run((*(submit(name, 4, 3) for name in "abcd"), *rounds(8)))
    assert [delta[1] for delta in all_deltas(driver, "held")] == ["a", "b"]
    assert [delta[1] for delta in all_deltas(driver, "pulled")] == ["a"]
    driver.drain()
    assert not driver.broken
    assert {delta[1] for delta in all_deltas(driver, "finished")} == set("abcd")


def test_who_ends_at_its_first_token_is_never_held() -> None:
    driver = run(TWO_POOLS, (submit("a", 4, 1), *rounds(2)))
    assert all_deltas(driver, "held") == []
    assert all_deltas(driver, "finished") == [("finished", "a", "length")]


@pytest.mark.parametrize(
    ("ops", "outcomes"),
    [
        ((FAIL_TRANSFER,), ["failed", "done"]),
        ((BEGIN_TRANSFER, FAIL_TRANSFER), ["failed", "done"]),
        ((BEGIN_TRANSFER, Op("tick", ns=100)), ["timeout", "done"]),
        ((Op("tick", ns=100),), ["timeout", "done"]),
        (TRANSFER, ["done"]),
        ((*TRANSFER, REPEAT_TRANSFER), ["done"]),
    ],
)
def test_a_transfer_ends_once_and_who_lost_its_kv_is_prefilled_again(ops: Sequence[Op], outcomes: list[str]) -> None:
    driver = run(TWO_POOLS, (submit("a", 4, 4), *rounds(1), *ops, *rounds(6)))
    assert not driver.broken
    assert [delta[2] for delta in all_deltas(driver, "transferred")] == outcomes
    assert len(all_deltas(driver, "held")) == len(outcomes)
    assert len([d for d in all_deltas(driver, "released") if d[2][0] < TWO_POOLS.blocks]) == len(outcomes)
    assert sum(len(delta[1]) for delta in all_deltas(driver, "delivered")) == 4


@pytest.mark.parametrize(
    ("ops", "outcome", "released_at_once"),
    [
        ((), "dropped", True),
        ((BEGIN_TRANSFER,), "done", False),
        (TRANSFER, "done", True),
    ],
)
def test_cancel_ends_what_the_link_has_not_begun_and_waits_for_the_rest(
    ops: Sequence[Op], outcome: str, released_at_once: bool
) -> None:
    driver = Driver.start(make, TWO_POOLS, 0)
    driver.run((submit("a", 4, 4), *rounds(1), *ops, cancel("a")))
    shown = driver.subject.observe()
    assert shown is not None
    assert (not shown.obligations) == released_at_once
    driver.run((END_TRANSFER, *rounds(2)))
    driver.drain()
    assert not driver.broken
    assert [delta[2] for delta in all_deltas(driver, "transferred")] == [outcome]
    assert sorted(driver.subject.observe().free) == list(range(16))  # type: ignore[union-attr]


def test_tokens_do_not_depend_on_where_they_were_computed() -> None:
    """OUT-1 across the move: the content shadow copies what the link copied."""
    ops = (submit("a", 5, 6), submit("b", 3, 5), *rounds(12))
    two = run(TWO_POOLS, (*ops[:2], *rounds(1), *TRANSFER, *TRANSFER, *ops[2:]))
    one = run(Settings(blocks=16, block_size=2, seats=4, token_budget=8), ops)
    assert tokens_of(two) == tokens_of(one)


def tokens_of(driver: Driver) -> dict[str, list[int]]:
    tokens: dict[str, list[int]] = {}
    for _, requests, column in all_deltas(driver, "delivered"):
        for request, token in zip(requests, column, strict=True):
            tokens.setdefault(request, []).append(token)
    return tokens


def test_a_request_has_to_fit_into_each_pool() -> None:
    small = evolve(TWO_POOLS, pools=evolve(TWO_POOLS.pools, decode_blocks=3))
    receipt = make(small, 0).submit(submit("a", 6, 2).request, 0)
    assert (receipt.verdict, receipt.reason, receipt.limit, receipt.value) == ("refused", "kv_blocks", 3, 4)
    assert not run(small, (submit("a", 6, 2),)).broken


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"decode_seats": 0}, "pools: decode_seats is 0, but a decode pool needs at least 1"),
        ({"transfer_ns": 0}, "pools: transfer_ns is 0, but a decode pool needs at least 1"),
        ({"decode_blocks": -1}, "pools: decode_blocks is -1, but must be an integer of at least 0"),
    ],
)
def test_half_a_pool_is_refused_in_a_sentence(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        evolve(TWO_POOLS, pools=evolve(TWO_POOLS.pools, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        *({"policy": "vtc"}, {"reserve": "peak"}, {"victim": "lowest_priority"}, {"batch_mix": "exclusive"}),
        *({"host_blocks": 4, "recover": "swap", "swap_block_ns": 5}, {"door": Door(queue_requests=2)}),
        *({"park_timeout_ns": 100}, {"adapter_slots": 2}, {"overlap_depth": 3}),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_two_pools_do_not_do_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=f"setting {next(iter(changes))}="):
        make(evolve(TWO_POOLS, **changes), 0)


@pytest.mark.parametrize("changes", [{"prefix_caching": True}, {"draft_tokens": 2}])
def test_what_is_defined_for_one_pool_makes_no_settings_of_two(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(changes))}.*, which is defined for one pool only"):
        evolve(TWO_POOLS, **changes)


def test_why_tells_of_two_pools_and_small_scopes_say_that_they_know_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = run(OF_TWO[0].script.settings, OF_TWO[0].script.ops)
    with (tmp_path / "run.jsonl").open("w") as file:
        writer = TraceWriter(file, driver.header)
        for message in driver.messages:
            writer.write(message)
    told = CliRunner().invoke(cli, ["why", str(tmp_path / "run.jsonl"), "a"])
    assert (told.exit_code, "admitted to the prefill pool" in told.output) == (0, True)
    monkeypatch.setattr("schedspec.commands.check.clean_cases", lambda: clean_cases()[:2])
    asked = ["check", "distserve", "--depth", "small-scope", "--report", str(tmp_path / "report")]
    scopes = CliRunner().invoke(cli, asked)
    says = "distserve refuses every small scope, so nothing was looked at: a small scope has one pool and no link"
    assert (scopes.exit_code, says in scopes.output) == (2, True)


def test_deltas_of_two_pools_mean_nothing_in_one() -> None:
    from schedspec.spec.monitor import Monitor
    from schedspec.spec.vocabulary import Capabilities, Header, Plan

    monitor = Monitor(Header(settings=Settings(), capabilities=Capabilities(ordered=True)))
    monitor.feed(
        Message("submit", 0, submit("a", 2, 2).request, make(Settings(), 0).submit(submit("a", 2, 2).request, 0))
    )
    with pytest.raises(ProtocolError, match="there is one pool only: claim two_pools"):
        monitor.feed(Message("step", 0, None, Plan(step=1, deltas=[("held", "a", [0], "unpulled")])))


def test_every_world_can_be_asked_for_in_two_pools() -> None:
    """A subject of two pools refuses each world of one, and is asked for the same in two: also one that holds KV for a
    while, which is found in the prefix cache, and that is one pool's."""
    two = Pools(decode_blocks=64, decode_seats=8, decode_token_budget=64, transfer_ns=1_000)
    worlds = [scenario.script.settings for scenario in scenarios(0)] + [walk(seed).settings for seed in range(40)]
    for settings in worlds:
        assert with_setting(settings, "pools", two).pools == two
