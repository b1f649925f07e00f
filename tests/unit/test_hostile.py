"""Every policy under a workload that means harm: what it claims holds and is exercised; what it does not claim breaks
where the literature says so."""

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.reference import make
from schedspec.reference.scheduler import Scheduler
from schedspec.spec.catalogue import registry
from schedspec.spec.vocabulary import Capabilities, Lane, Settings, SubjectFactory

from .hostile import SMALL, overlapped, workload

LANES = (
    Lane(name="interactive", share_percent=50, max_prompt_tokens=16, burst=30),
    Lane(name="long_context", share_percent=30, order="vtc"),
    Lane(name="offline", share_percent=20, by_shape=False),
)
POLICIES: dict[str, dict[str, Any]] = {
    "fcfs": {"policy": "fcfs"},
    "fcfs, guarded": {"policy": "fcfs", "max_overtaken": 4},
    "priority": {"policy": "priority", "victim": "lowest_priority"},
    "priority, guarded": {"policy": "priority", "max_overtaken": 20},
    "priority that takes places": {"policy": "priority", "victim": "lowest_priority", "preempt_lower_class": True},
    "aging": {"policy": "aging"},
    "sjf": {"policy": "sjf"},
    "srpt, guarded": {"policy": "srpt", "max_overtaken": 30},
    "edf": {"policy": "edf"},
    "mlfq": {"policy": "mlfq", "quantum": 8, "max_overtaken": 40},
    "mlfq that takes places": {"policy": "mlfq", "quantum": 8, "max_overtaken": 40, "preempt_lower_class": True},
    "lpm": {"policy": "lpm"},
    "lpm, guarded": {"policy": "lpm", "max_overtaken": 25},
    "round robin": {"policy": "round_robin"},
    "lcf": {"policy": "lcf"},
    "vtc": {"policy": "vtc"},
    "vtc, lifetime reserved": {"policy": "vtc", "reserve": "declared"},
    "vtc, by the peak": {"policy": "vtc", "reserve": "peak"},
    "vtc with prices": {"policy": "vtc", "prices": {"flood": 3, "batch": 2}},
    "vtc by chunks": {"policy": "vtc", "charge_prompt": "chunk"},
    "vtc with predictions": {"policy": "vtc", "charge_prediction": True},
    "vtc, general cost": {
        "policy": "vtc",
        "request_weight": 11,
        "input_weight": 2,
        "product_weight": 1,
        "square_weight": 1,
    },
    "vtc, dear inputs": {"policy": "vtc", "input_weight": 5, "output_weight": 1},
    "vtc, aged": {"policy": "vtc", "aging_picks": 20, "aging_credit": 40},
    "vtc, capped": {"policy": "vtc", "client_seats": 2, "client_resident_tokens": 120, "prefilling_requests": 2},
    "vtc, committed": {"policy": "vtc", "client_committed_cost": 80},
    "drr": {"policy": "drr", "quantum": 20},
    "dlpm": {"policy": "dlpm", "quantum": 40},
    "lanes": {"policy": "lanes", "lanes": LANES},
    "lanes, aged and capped": {
        "policy": "lanes",
        "lanes": LANES,
        "aging_picks": 20,
        "aging_credit": 60,
        "client_seats": 3,
        "resident_tokens": 180,
        "prefilling_requests": 2,
    },
}
OF_LONG_RUNS = {
    "fair_share": {"FAIR-7", "FAIR-8", "FAIR-9", "FAIR-18"},
    "weighted": {"FAIR-10"},
    "bounded_overtaking": {"LIVE-3"},
    "shares": {"LANE-1"},
    "borrowing": {"LANE-2"},
    "burst": {"LANE-3"},
    "class_preemption": {"LIVE-10"},
    "aged_sharing": {"FAIR-17", "LANE-5"},
    "aging_due": {"FAIR-21", "LANE-8"},
    "committed_cap": {"FAIR-12"},
    "prefill_cap": {"STEP-15"},
    "prompt_share": {"STEP-12"},
    "drr": {"FAIR-15"},
    "dlpm": {"FAIR-16"},
}
"""Claim -> the rules that are its promise."""
NOT_ASKED = {
    "vtc with prices": {"FAIR-8", "FAIR-9"},  # FAIR-10 asks the same of priced service
    "vtc, capped": {"FAIR-8", "FAIR-9"},  # a client at its cap is not backlogged: no interval is long enough
    "vtc, committed": {"FAIR-8", "FAIR-9"},
    "drr": {"FAIR-7"},  # it ranks by rounds, not by counters
    "dlpm": {"FAIR-7"},
}
SEEDS = (0, 1)


def run(seed: int, settings: Settings, subject: SubjectFactory = make, ignored: Iterable[str] = ()) -> Driver:
    driver = Driver.start(subject, settings, 0, ignored=frozenset(ignored), keep_messages=False)
    driver.observe_every = 16
    driver.run(workload(seed, settings=settings))
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    return driver


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_claims_holds_and_is_exercised(name: str) -> None:
    exercised: dict[str, int] = {}
    for seed in SEEDS:
        settings = evolve(SMALL, **POLICIES[name])
        driver = run(seed, overlapped(settings) if seed else settings)
        assert not driver.broken, f"seed {seed}: {driver.broken[0]}"
        for rule, count in driver.monitor.exercised().items():
            exercised[rule] = exercised.get(rule, 0) + count
    claims = driver.monitor.capabilities.claims
    promised = {rule for claim in claims for rule in OF_LONG_RUNS.get(claim, ())} - NOT_ASKED.get(name, set())
    unseen = {rule for rule in promised if driver.monitor.binds(rule) and not exercised[rule]}
    assert unseen == set()


class Boasts(Scheduler):
    """Claims what it does not promise."""

    boast: tuple[str, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims | set(self.boast), constants=(*shown.constants, *self.constants))


def boasting(*claims: str, **constants: int) -> type[Scheduler]:
    return type("Boasting", (Boasts,), {"boast": claims, "constants": tuple(constants.items())})


UNKEPT: dict[str, tuple[dict[str, Any], type[Scheduler], str]] = {
    "arrival is not fair": ({"policy": "fcfs"}, boasting("fair_share"), "FAIR-8"),
    "shortest first is not fair": ({"policy": "sjf"}, boasting("fair_share"), "FAIR-8"),
    "strict priority is not fair": ({"policy": "priority"}, boasting("fair_share"), "FAIR-8"),
    "the longest prefix is not fair": ({"policy": "lpm"}, boasting("fair_share"), "FAIR-8"),
    "turns are not fair by service": ({"policy": "round_robin"}, boasting("fair_share"), "FAIR-8"),
    "banked credit is spent": ({"policy": "lcf"}, boasting("fair_share"), "FAIR-9"),
    "strict priority overtakes": ({"policy": "priority"}, boasting("bounded_overtaking", max_overtaken=40), "LIVE-3"),
    "the longest prefix overtakes": ({"policy": "lpm"}, boasting("bounded_overtaking", max_overtaken=40), "LIVE-3"),
    "rigid slices do not lend": (
        {
            "policy": "lanes",
            "lanes": tuple(evolve(lane, share_percent=33, maximum_percent=33 + n) for n, lane in enumerate(LANES)),
        },
        boasting("borrowing"),
        "LANE-2",
    ),
}


@pytest.mark.parametrize("name", UNKEPT)
def test_a_promise_that_nobody_made_is_not_kept(name: str) -> None:
    changes, subject, rule = UNKEPT[name]
    broken = set()
    for seed in SEEDS:
        driver = run(seed, evolve(SMALL, **changes), subject, all_but([rule]))
        broken |= {violation.rule for violation in driver.broken}
    assert broken == {rule}


def test_every_promise_of_long_runs_is_asked_of_somebody() -> None:
    assert set().union(*OF_LONG_RUNS.values()) <= set(registry.rules)
