"""Who is next, without a scheduler around it: races of counters beside a plain minimum, entries that do not count."""

from itertools import count
from random import Random

import pytest

from schedspec.conformance.script import COMPLETE, STEP, submit
from schedspec.optimized import race
from schedspec.optimized.ints import LARGEST
from schedspec.optimized.job import Job, Member
from schedspec.optimized.members import Arrivals, Patience
from schedspec.optimized.queue import KeyQueue
from schedspec.optimized.race import CounterRace
from schedspec.optimized.service import Counters
from schedspec.spec.vocabulary import Request, Settings

from .lock_step import Pair

SCALES = (1, 1 << 31, 1 << 61, LARGEST, 1 << 70)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("front", [1, 2, 5])
def test_the_least_counter_is_the_least(monkeypatch: pytest.MonkeyPatch, front: int, scale: int) -> None:
    """Of those who wait, and among equals the first; few, or all, are looked up at once."""
    monkeypatch.setattr(race, "FRONT", front)
    monkeypatch.setattr(race, "MANY_FRONTS", 1 + front % 2)
    for seed in range(12):
        dice = Random(seed)
        counters, members = Counters(), list[Member]()
        runs = CounterRace(counters, lambda member: member.waiting, members)
        for number in range(dice.choice((1, 7, 40))):
            if number % 3 == 2:
                counters.new()  # whose account is not its number
            members.append(Member(f"c{number}", number, counters.new(), Arrivals()))
        for _ in range(150):
            _something(dice, counters, runs, members, scale)
            waiting = [member for member in members if member.waiting]
            least = min(waiting, key=lambda member: (counters.of(member.account), member.number), default=None)
            assert runs.first() is least


def _something(dice: Random, counters: Counters, runs: CounterRace, members: list[Member], scale: int) -> None:
    member, amount = dice.choice(members), dice.choice((0, 1, dice.randint(0, 3), scale))
    match dice.choice(("comes", "comes", "goes", "pays", "pays", "returns")):
        case "comes":
            member.waiting = 1
            runs.enter(member)
        case "goes":
            member.waiting = 0
        case "pays":
            counters.add(member.account, amount)
        case "returns":  # a refund: whose counter falls enters anew
            counters.add(member.account, -min(amount, counters.of(member.account)))
            runs.enter(member)


def test_who_came_back_stands_where_its_new_key_is() -> None:
    """Its older entry, which is still in the heap, does not count."""
    keys: dict[str, int] = {"a": 1, "b": 2}
    queue = KeyQueue(lambda job: keys[job.request.id], count(1))
    a, b = (Job.of(Request(id=name, prompt_ids=(0,), max_output_tokens=1), place) for place, name in enumerate("ab"))
    queue.push(a)
    queue.left(a)
    keys["a"] = 3
    queue.push(a)
    queue.push(b)
    assert [queue.pop(), queue.pop(), queue.pop()] == [b, a, None]
    assert queue.size == 0


@pytest.mark.parametrize("most", [1, 2])
def test_who_is_looked_at_is_not_moved_ahead_meanwhile(most: int) -> None:
    """It does not fit, others are admitted past it in the same step, and by that it has seen enough."""
    settings = Settings(
        **{"blocks": 8, "block_size": 4, "seats": 6, "token_budget": 64},  # type: ignore[arg-type]
        max_overtaken=most,
        at_blocked_head="skip",
        chunked_prefill=False,
    )
    pair = Pair.of(settings, 0)
    pair.do(submit("first", 12, 4))
    pair.do(STEP)
    pair.do(submit("large", 28, 2))
    for number in range(4):
        pair.do(submit(f"small{number}", 2, 2))
    for op in (STEP, COMPLETE, STEP, COMPLETE):
        pair.do(op)
    pair.drain()


def test_who_waits_again_begins_to_be_patient_again() -> None:
    """What it saw before it was admitted does not count."""
    patience = Patience(3)
    first, second = (Job.of(Request(id=f"r{n}", prompt_ids=(1,), max_output_tokens=1), n) for n in range(2))
    patience.begins(first)
    assert not patience.ends(first)
    assert [list(patience.admitted()) for _ in range(2)] == [[], []]
    for job in (first, second):
        patience.begins(job)
    assert [list(patience.admitted()) for _ in range(3)] == [[], [], [first, second]]
