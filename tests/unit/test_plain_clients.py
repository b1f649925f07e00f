"""Picks in fewer calls (`PlainClients`) are held against those of `ClientQueue` on rounds made at random."""

from random import Random

import pytest

pytest.importorskip("numpy")

from schedspec.optimized import race
from schedspec.optimized.clients import ClientQueue
from schedspec.optimized.job import Job
from schedspec.optimized.plain_clients import PlainClients, are_plain
from schedspec.spec.settings import Lane
from schedspec.spec.vocabulary import Request, Settings

SETTINGS = Settings(blocks=64, policy="vtc", at_blocked_head="skip")
CLIENTS = 9


def job_of(number: int, client: str, prompt: int) -> Job:
    return Job.of(Request(id=f"r{number}", prompt_ids=tuple(range(prompt)), max_output_tokens=4, client=client), number)


class Pair:
    """Both hear the same."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.queues = PlainClients.of(SETTINGS), ClientQueue.of(SETTINGS)
        self.number = 0
        self.running: list[tuple[Job, ...]] = []

    def arrive(self) -> None:
        self.number += 1
        client, prompt = f"c{self.dice.randrange(CLIENTS)}", self.dice.choice((1, 1, 1, 2, 7))
        for queue in self.queues:
            queue.push(job_of(self.number, client, prompt))

    def admit(self) -> list[tuple[str, ...]]:
        """Who is popped, some of whom do not fit and are put back behind all others."""
        told, blocked = [], []
        for _ in range(self.dice.randint(1, 6)):
            jobs = tuple(queue.pop() for queue in self.queues)
            if None in jobs:
                break
            told.append(tuple(job.request.id for job in jobs if job))
            if self.dice.random() < 0.3:
                blocked.append(jobs)
                continue
            for queue, job in zip(self.queues, jobs, strict=True):
                assert job is not None
                queue.picked(job)
            self.running.append(jobs)  # type: ignore[arg-type]
        for jobs in blocked:
            for queue, job in zip(self.queues, jobs, strict=True):
                assert job is not None
                queue.put_back(job)
        return told

    def serve(self) -> None:
        """Outputs are charged; some are preempted and wait again."""
        for jobs in list(self.running):
            for queue, job in zip(self.queues, jobs, strict=True):
                queue.of_clients.add(job.members[-1].account, job.rate)
            if self.dice.random() < 0.2:
                self.running.remove(jobs)
                if self.dice.random() < 0.3:
                    for queue, job in zip(self.queues, jobs, strict=True):
                        queue.push(job)

    def seen(self) -> list[object]:
        groups = [queue.group for queue in self.queues]
        known = [(group.size, group.virtual_time, group.last_left and group.last_left.name) for group in groups]
        return [(*of, queue.counters()) for of, queue in zip(known, self.queues, strict=True)]


@pytest.mark.parametrize("front", [1, 2, 64])
def test_both_pick_the_same(front: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "FRONT", front)
    for seed in range(60):
        pair = Pair(seed)
        for _ in range(30):
            for _ in range(pair.dice.randrange(4)):
                pair.arrive()
            for one, other in pair.admit():
                assert one == other, f"seed {seed}"
            pair.serve()
            shown = pair.seen()
            assert shown[0] == shown[1], f"seed {seed}"


@pytest.mark.parametrize(
    "changed",
    [
        {"aging_picks": 3, "aging_credit": 2},
        {"client_seats": 2},
        {"client_committed_cost": 9},
        {"policy": "lcf"},
        {"policy": "lanes", "lanes": (Lane(name="a", share_percent=50),)},
    ],
)
def test_who_holds_or_ages_has_all_calls(changed: dict[str, object]) -> None:
    assert are_plain(SETTINGS)
    assert not are_plain(Settings(**{"blocks": 64, "policy": "vtc", **changed}))  # type: ignore[arg-type]
