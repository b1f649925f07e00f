"""What the optimized scheduler and the kernels do not honour they refuse by name; and so do they where what they need
is not installed.  Nothing of this needs torch or triton."""

import importlib.util
from typing import Any, get_args

import pytest
from attrs import fields_dict
from click.testing import CliRunner

from schedspec import optimized
from schedspec.cli import cli
from schedspec.optimized import on_device, promises
from schedspec.spec.admission import Door
from schedspec.spec.settings import Policy
from schedspec.spec.vocabulary import Lane, Pools, Request, Settings, Unsupported

REFUSE = {"optimized": promises.refuse, "kernels": on_device.refuse}
HONOURED = {"optimized": promises.HONOURED, "kernels": on_device.HONOURED}

OTHER_WORDS = {"victim": "lowest_priority", "at_blocked_head": "skip", "reserve": "known", "charge_prompt": "chunk"}
OTHER_WORDS |= {"batch_mix": "exclusive", "phase_first": "decode", "batching": "request"}
OTHER_WORDS |= {"recover": "swap"}
OF_CLIENTS = ("aging_picks", "aging_credit", "client_seats", "client_resident_tokens", "client_committed_cost")
UNDER = dict.fromkeys((*OF_CLIENTS, "charge_prediction"), "vtc") | {"preempt_lower_class": "priority"}
UNDER |= {"decode_step_ns": "priority"}
TOGETHER: dict[str, dict[str, Any]] = {
    "aging_credit": {"aging_picks": 1},
    "aging_picks": {"aging_credit": 1},
    "host_blocks": {"recover": "swap"},
    "recover": {"host_blocks": 1},
    "hold_ns": {"park_timeout_ns": 1, "prefix_caching": True},
    "decode_step_ns": {"preempt_lower_class": True, "recompute_token_ns": 1},
}
"""A setting that says nothing without others."""


def one(name: str, order: str = "fifo", most: int = 100) -> tuple[Lane, ...]:
    return (Lane(name=name, share_percent=most, maximum_percent=most, order=order),)  # type: ignore[arg-type]


def at(name: str, value: int, policy: Policy = "fcfs") -> Settings:
    more: dict[str, Any] = {name: value, "policy": policy}
    return Settings(**more)


def changed(name: str) -> Settings:
    """One setting at another value than its default, under a policy where it says something."""
    plain: Any = getattr(Settings(), name)
    if name == "policy":
        return Settings(policy="priority")
    if name == "lanes":
        return Settings(policy="lanes", lanes=one("all"))
    if name == "prices":
        return Settings(policy="vtc", prices={"a": 2})
    if name == "door":
        return Settings(door=Door(queue_requests=1))
    if name == "pools":
        return Settings(pools=Pools(decode_blocks=8, decode_seats=2, decode_token_budget=4, transfer_ns=100))
    if isinstance(plain, str):
        other: Any = OTHER_WORDS[name]
    else:
        other = not plain if isinstance(plain, bool) else plain + 1
    more: dict[str, Any] = {name: other, "policy": UNDER.get(name, "fcfs")}
    return Settings(**more, **TOGETHER.get(name, {}))


@pytest.mark.parametrize("subject", REFUSE)
@pytest.mark.parametrize("name", fields_dict(Settings))
def test_each_setting_is_honoured_or_refused_by_its_name(subject: str, name: str) -> None:
    """A setting that comes later, too: it is in no list."""
    settings = changed(name)
    assert getattr(settings, name) != getattr(Settings(), name)
    if name in HONOURED[subject]:
        REFUSE[subject](settings)
        return
    with pytest.raises(Unsupported) as refusal:
        REFUSE[subject](settings)
    assert refusal.value.setting in (name, *TOGETHER.get(name, ()))
    assert str(refusal.value).startswith(f"setting {refusal.value.setting}=")


KNOWN = {
    "optimized": ({*get_args(Policy)} - {"lpm", "dlpm"}, {"on_demand", "known", "declared"}),
    "kernels": ({"fcfs", "priority", "edf", "sjf", "aging", "vtc", "lanes"}, {"on_demand", "known", "declared"}),
}


@pytest.mark.parametrize("subject", KNOWN)
def test_policies_and_reserves_beyond_its_own_are_refused_by_name(subject: str) -> None:
    policies, reserves = KNOWN[subject]
    for policy in get_args(Policy):
        assert refused(subject, Settings(policy=policy)) == (None if policy in policies else "policy")
    for reserve in ("on_demand", "known", "declared", "peak"):
        settings = Settings(reserve=reserve)
        assert refused(subject, settings) == (None if reserve in reserves else "reserve")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lanes", Settings(policy="lanes", lanes=one("fair", order="vtc"))),
        ("lanes", Settings(policy="lanes", lanes=one("capped", most=50))),
        ("prices", Settings(policy="vtc", prices={"a": 257})),
        ("blocks", Settings(blocks=(1 << 16) + 1)),
        ("seats", Settings(seats=(1 << 12) + 1)),
        *((name, at(name, 257, "vtc")) for name in on_device.WEIGHTS),
        *((name, at(name, (1 << 40) + 1)) for name in ("token_budget", "chunk_tokens", "block_size")),
    ],
)
def test_what_the_kernels_lack_within_a_setting_is_refused_by_its_name(name: str, settings: Settings) -> None:
    assert refused("kernels", settings) == name
    assert refused("optimized", settings) is None


def refused(subject: str, settings: Settings) -> str | None:
    try:
        REFUSE[subject](settings)
    except Unsupported as refusal:
        return refusal.setting
    return None


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_without_torch_or_triton_one_sentence_says_so_and_the_cpu_path_works(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    others = {"torch", "triton"} - {missing}
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == missing else found("json" if name in others else name),
    )
    result = CliRunner().invoke(cli, ["check", "kernels", "--depth", "smoke", "--workload", "none"])
    assert result.exit_code == 2
    told = " ".join(result.output.split())
    assert "the scheduler of kernels needs torch and triton: pip install 'schedspec[kernels]'" in told
    assert "or check optimized, which needs neither" in told
    assert "Traceback" not in result.output
    scheduler = optimized.make(Settings(), 0)
    assert scheduler.submit(Request(id="a", prompt_ids=(1, 2), max_output_tokens=1), 0).verdict == "accepted"
    assert scheduler.step(0).tokens == [2]
