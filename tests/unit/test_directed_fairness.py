"""The published bounds of fair sharing, and what they need: each side condition left out once.

U is the certificate of a trace, the most that a client was charged or may still be charged at a pick; the closed forms
are those of Sheng et al. (OSDI 2024) and what has to be added to them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from attrs import evolve

from schedspec.conformance.driver import Driver, all_but
from schedspec.conformance.script import Op, cancel, rounds, submit
from schedspec.reference import make
from schedspec.reference.faults import FAULTS
from schedspec.reference.scheduler import Scheduler
from schedspec.spec.vocabulary import Capabilities, Settings, SubjectFactory

from .service_gap import Gap, gap

NOTHING_JUDGED = all_but(["DET-1"])


def requests(client: str, sizes: Iterable[tuple[int, int]]) -> list[Op]:
    """Submissions of one client: prompt and output tokens of each."""
    return [submit(f"{client}{n}", p, q, client=client) for n, (p, q) in enumerate(sizes, start=1)]


def run(ops: Sequence[Op], settings: Settings, subject: SubjectFactory = make, *, judged: bool = True) -> Driver:
    driver = Driver.start(subject, settings, 0, ignored=frozenset() if judged else NOTHING_JUDGED)
    driver.observe_every = 256
    driver.run(ops)
    driver.drain()
    assert driver.fault is None, str(driver.fault)
    assert not driver.broken, str(driver.broken[0])
    return driver


def of_memory(tokens: int, **changes: Any) -> Settings:
    """As the paper has it: a token is a block, and a request has its whole life reserved when it is admitted."""
    plain = Settings(
        blocks=tokens, block_size=1, seats=tokens, token_budget=2 * tokens, policy="vtc", reserve="declared"
    )
    return evolve(plain, **changes)


def certificate(driver: Driver) -> int:
    return int(driver.monitor.ledger.certificate)


# --- the bounds are tight --------------------------------------------------------------------------------------


def test_an_input_dearer_than_an_output_needs_a_larger_constant() -> None:
    """w_p = 10, w_q = 1, M = 100, L = 50: max(w_p·L, w_q·M) would be 500; w_q·M + (w_p - w_q)·L = 550 is reached."""
    settings = of_memory(100, input_weight=10, output_weight=1)
    driver = run([*requests("a", [(50, 50)] * 6), *requests("b", [(50, 50)] * 6)], settings)
    measured = gap(driver, waits="b", served="a")
    assert certificate(driver) == 550
    assert measured.counter == 550 > 500


def test_the_dearer_input_reaches_twice_that_constant_in_service() -> None:
    """A is a request ahead when the interval begins, and B another one when it ends: nearly 2U, and over 2 · 500."""
    settings = of_memory(100, input_weight=10, output_weight=1)
    ops = [*requests("a", [(50, 50)] * 3), *requests("b", [(50, 48), (50, 50), (50, 50)])]
    driver = run(ops, settings)
    measured = gap(driver, waits="a", served="b")
    assert 0.99 * 2 * 550 <= measured.service <= 2 * certificate(driver)
    assert measured.service > 2 * 500


def test_admission_by_the_peak_lets_a_client_get_more_than_the_plain_constant() -> None:
    """Outputs M, M/2, M/3 …: all fit at every moment, and together they decode M times a harmonic number."""
    memory, count = 600, 20
    settings = of_memory(memory, reserve="peak")
    f = [(1, max(1, memory // n - 2)) for n in range(1, count + 1)]
    whole = (1, memory - 1)
    ops = [*requests("g", [whole] * 3), *requests("f", [*f, whole, whole])]
    driver = run(ops, settings)
    measured = gap(driver, waits="g", served="f")
    plain = 2 * memory
    assert measured.counter > 1.5 * plain
    assert measured.counter <= certificate(driver)


def test_who_comes_back_again_and_again_gets_3u_more_than_somebody_who_waits() -> None:
    """U = 50 outputs, prompts cost nothing, ties go to G, X, F, H in this order.

    G enters at 0 with a long prompt.  While it is computed F gets 100 and H 50, so the least counter is 50.  Then F
    waits, and G gets what it still had to come; it is lifted to 50, gets 50 again, and at 100, where F stands too, once
    more.  X takes the other seat whenever F could have had it.
    """
    settings = Settings(
        blocks=4_000,
        block_size=1,
        seats=2,
        token_budget=9,
        chunk_tokens=8,
        policy="vtc",
        input_weight=0,
        output_weight=1,
    )
    whole: Any = {"output": 50, "prompt": 1}
    ops = [submit("g1", 8 * 151, 50, client="g"), submit("x0", client="x", **whole), cancel("x0")]
    ops = [*ops, *(submit(f"f{n}", client="f", **whole) for n in range(1, 4))]
    ops = [*ops, *(submit(f"h{n}", client="h", **whole) for n in range(1, 4)), *rounds(150)]
    ops = [*ops, *(submit(f"x{n}", client="x", **whole) for n in range(1, 3)), *rounds(50)]
    ops = [*ops, submit("g2", client="g", **whole), *rounds(50), submit("g3", client="g", **whole)]
    driver = run(ops, settings)
    measured = gap(driver, waits="f", served="g", both=False)
    assert certificate(driver) == 50
    assert measured.service >= 0.99 * 3 * certificate(driver)


# --- no bound at all ---------------------------------------------------------------------------------------------


def drift(settings: Settings, length: int, subject: SubjectFactory = make) -> Gap:
    """A sends three times as much as B, all of it waits."""
    ops = []
    for number in range(length):
        ops += [submit(f"a{number}.{n}", 2, 2, client="a") for n in range(3)]
        ops.append(submit(f"b{number}", 2, 2, client="b"))
    return gap(run(ops, settings, subject, judged=False), waits="b", served="a")


def test_first_come_first_served_drifts_in_proportion_to_time() -> None:
    settings = of_memory(16, policy="fcfs")
    once, twice = drift(settings, 40).service, drift(settings, 80).service
    assert twice / once == pytest.approx(2, rel=0.05)
    shared = of_memory(16)
    assert drift(shared, 40).service == drift(shared, 80).service


def lead_after(idle: int, settings: Settings, subject: SubjectFactory = make) -> int:
    """A works while B is away for so many requests; then both flood."""
    ops = [*requests("a", [(2, 2)] * (idle + 20)), *rounds(2 * idle), *requests("b", [(2, 2)] * (idle + 20))]
    return gap(run(ops, settings, subject, judged=False), waits="a", served="b").service


@pytest.mark.parametrize(("subject", "policy"), [(make, "lcf"), (FAULTS["FAIR-3"], "vtc")])
def test_credit_that_is_banked_grows_with_the_time_away(subject: SubjectFactory, policy: Any) -> None:
    settings = of_memory(16, policy=policy, seats=1)
    assert lead_after(40, settings, subject) > 1.8 * lead_after(20, settings, subject)
    assert lead_after(40, of_memory(16, seats=1)) == lead_after(20, of_memory(16, seats=1))


def empty_queue(alone: int, subject: SubjectFactory) -> int:
    """A is served alone, its queue empty all the time; then both flood."""
    ops = []
    for number in range(alone):
        ops += [submit(f"alone{number}", 2, 2, client="a"), *rounds(2)]
    ops += [*requests("b", [(2, 2)] * (alone + 20)), *requests("a", [(2, 2)] * (alone + 20))]
    return gap(run(ops, of_memory(16, seats=1), subject, judged=False), waits="a", served="b").service


def test_without_a_lift_on_an_empty_queue_there_is_no_bound() -> None:
    assert empty_queue(40, FAULTS["FAIR-4"]) > 1.8 * empty_queue(20, FAULTS["FAIR-4"])
    assert empty_queue(40, make) == empty_queue(20, make)


def test_a_victim_that_is_not_lifted_is_credit() -> None:
    """B has one request running, the newest, and A six: when it is preempted B stands where A was long ago."""

    def ahead(subject: SubjectFactory) -> int:
        settings = Settings(blocks=175, block_size=1, seats=7, token_budget=64, policy="vtc")
        ops = [*requests("a", [(1, 60)] * 6), *rounds(1), submit("b", 1, 60, client="b"), *rounds(22)]
        ops += [*requests("a-later", [(1, 60)] * 12), *rounds(4), *requests("b-later", [(1, 8)] * 30)]
        ops = [evolve(op, request=evolve(op.request, client=op.request.id[0])) if op.request else op for op in ops]
        return gap(run(ops, settings, subject, judged=False), waits="a", served="b").service

    assert ahead(FAULTS["FAIR-5"]) > ahead(make) + 100


class Skips(Scheduler):
    """Goes past a blocked head, and promises that it shares all the same."""

    def __init__(self, settings: Settings, seed: int = 0, *, record: bool = True) -> None:
        super().__init__(evolve(settings, at_blocked_head="skip"), seed, record=record)

    def capabilities(self) -> Capabilities:
        shown = super().capabilities()
        return evolve(shown, claims=shown.claims - {"skip"} | {"break", "fair_share"})


def test_who_goes_past_a_blocked_head_may_leave_it_behind_for_ever() -> None:
    """A wants nearly all of the memory at once, of which B always has a part: its requests end at different times."""

    def behind(length: int, subject: SubjectFactory) -> int:
        ops = requests("b", [(2, 6), (2, 3)])
        ops += [*rounds(1), submit("a", 10, 10, client="a")]
        ops += [submit(f"b-later{n}", 2, 6, client="b") for n in range(length)]
        settings = of_memory(20)
        return gap(run(ops, settings, subject, judged=False), waits="a", served="b").counter

    assert behind(80, Skips) > 1.8 * behind(40, Skips)
    assert behind(80, make) == behind(40, make)
