"""Scenes that every operator knows, under each policy: who waits, who starves, and which remedy helps.

A step is one forward pass.  What is asserted of a policy is what the literature says of it, its failures included: a
policy that does better than it should here is as wrong as one that does worse.  Every claimed rule holds on the way.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
from attrs import evolve

from schedspec.spec.vocabulary import Lane, Request, Settings, hybrid

from .scene import Scene, play, request


def passed_by(scene: Scene, waiting: str) -> int:
    """Admissions from when it came until its own; in the step of its own those of later arrivals do not count."""
    came, went = scene.arrived[waiting], scene.admitted[waiting]
    return sum(came <= step < went for step in scene.admitted.values())


# --- a long document comes a moment before twenty chats --------------------------------------------------------

ROOMY = Settings(blocks=400, seats=8, token_budget=128)
CHUNKS = {"chunk_tokens": 64}


def a_document_and_twenty_chats(step: int) -> Iterator[Request]:
    if step == 1:
        yield request("document", 2_000, 20, priority=1)
        for number in range(20):
            yield request(f"chat {number}", 20, 10, client=f"user {number}")


def chats_behind_a_document(**changes: Any) -> Scene:
    return play(evolve(ROOMY, **changes), 60, a_document_and_twenty_chats)


@pytest.mark.parametrize("policy", ["fcfs", "edf", "round_robin", "vtc", "lcf", "drr"])
def test_a_document_that_came_first_stalls_every_chat_whoever_is_next(policy: str) -> None:
    """Its prompt takes the whole budget of 16 steps: that is composition, and no order of admission mends it."""
    scene = chats_behind_a_document(policy=policy)
    assert min(scene.waits("chat")) >= 15
    assert scene.waits("document") == [15]


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "vtc", "lcf", "drr"])
def test_chunks_let_the_chats_ride_along(policy: str) -> None:
    whole, chunked = chats_behind_a_document(policy=policy), chats_behind_a_document(policy=policy, **CHUNKS)
    assert min(chunked.waits("chat")) == 0
    assert median(chunked.waits("chat")) < median(whole.waits("chat")) / 2
    assert chunked.waits("document") == [31]


@pytest.mark.parametrize("policy", ["priority", "sjf", "srpt", "mlfq"])
def test_who_puts_the_short_ahead_lets_the_document_wait(policy: str) -> None:
    """The chats need no chunks then, and the document has its turn when they are through."""
    scene = chats_behind_a_document(policy=policy)
    assert min(scene.waits("chat")) == 0
    assert scene.admitted["document"] >= max(step for id, step in scene.admitted.items() if id != "document")


def test_an_endless_supply_of_short_ones_starves_the_document_only_without_a_guard() -> None:
    """Shortest first where arrivals weigh nothing would; here each token of output is worth 8 arrivals."""

    def chats_for_ever(step: int) -> Iterator[Request]:
        for number in range(2):
            yield request(f"chat {step}.{number}", 20, 10, client="chats")
        if step == 8:
            yield request("document", 200, 20, priority=1)

    settings = evolve(ROOMY, policy="priority")
    assert "document" not in play(settings, 300, chats_for_ever).admitted
    guarded = play(evolve(settings, max_overtaken=50), 300, chats_for_ever)
    assert passed_by(guarded, "document") <= 50
    assert "document" in play(evolve(settings, policy="aging"), 300, chats_for_ever).admitted
    assert "document" in play(evolve(settings, policy="sjf"), 300, chats_for_ever).admitted


# --- chat, documents and a pipeline on one endpoint ----------------------------------------------------------

ENDPOINT = Settings(blocks=600, seats=12, token_budget=128, chunk_tokens=64)
LANES = (
    Lane(name="chat", share_percent=60, max_prompt_tokens=16, burst=64),
    Lane(name="document", share_percent=25),
    Lane(name="pipeline", share_percent=15, by_shape=False),
)


def endpoint(chats_per_step: int, step: int) -> Iterator[Request]:
    """The pipeline sends all that it has at once, and nobody waits for it."""
    if step == 1:
        for number in range(80):
            yield request(f"summary {number}", 60, 12, client="pipeline", lane="pipeline", priority=2)
    if step % 40 == 2:
        yield request(f"document {step}", 600, 30, client="reader", priority=1)
    if step >= 3:
        for number in range(chats_per_step):
            yield request(f"chat {step}.{number}", 12, 8, client=f"user {step % 7}")


def at_the_endpoint(chats_per_step: int = 1, **changes: Any) -> Scene:
    return play(evolve(ENDPOINT, **changes), 160, lambda step: endpoint(chats_per_step, step))


def answered(scene: Scene, prefix: str) -> int:
    return sum(id.startswith(prefix) for id in scene.answered)


def test_arrival_builds_a_wall_in_front_of_the_chats() -> None:
    scene = at_the_endpoint(policy="fcfs")
    assert median(scene.waits("chat")) > 50
    assert answered(scene, "summary") == 80


def test_strict_priority_is_good_to_chats_and_leaves_the_pipeline_unfinished_under_load() -> None:
    assert max(at_the_endpoint(policy="priority").waits("chat")) <= 8
    loaded = at_the_endpoint(2, policy="priority")
    assert answered(loaded, "summary") <= 12  # who was there before the first chat
    assert max(loaded.waits("document")) > 100


def test_shortest_first_keeps_the_documents_waiting() -> None:
    scene = at_the_endpoint(2, policy="sjf")
    assert max(scene.waits("document")) > 140
    assert answered(scene, "chat") > 0


@pytest.mark.parametrize("policy", ["vtc", "round_robin", "drr"])
def test_fair_sharing_isolates_clients_and_knows_nothing_of_promises(policy: str) -> None:
    """One pipeline is one client of nine: it gets a ninth, and the chats go past it."""
    scene = at_the_endpoint(policy=policy)
    assert median(scene.waits("chat")) <= 6
    assert 0 < answered(scene, "summary") < 80


def test_lanes_keep_the_chats_responsive_and_the_rest_moving() -> None:
    scene = at_the_endpoint(policy="lanes", lanes=LANES)
    assert max(scene.waits("chat")) <= 8
    assert max(scene.waits("document")) <= 20
    loaded = at_the_endpoint(2, policy="lanes", lanes=LANES)
    strict = at_the_endpoint(2, policy="priority")
    assert answered(loaded, "summary") > answered(strict, "summary")
    assert max(loaded.waits("document")) < max(strict.waits("document")) / 2


def test_unused_share_is_borrowed_but_not_from_rigid_slices() -> None:
    """The pipeline alone: with lanes it has the machine, with slices the third that is its own."""

    def pipeline_alone(step: int) -> Iterator[Request]:
        if step == 1:
            for number in range(200):
                yield request(f"summary {number}", 60, 12, client="pipeline", lane="pipeline")

    small = evolve(ENDPOINT, blocks=60, policy="lanes", lanes=LANES)
    slices = tuple(evolve(lane, share_percent=33 - n, maximum_percent=34) for n, lane in enumerate(LANES))
    borrowing = play(small, 100, pipeline_alone)
    rigid = play(evolve(small, lanes=slices), 100, pipeline_alone)
    assert rigid.outputs["pipeline"] < borrowing.outputs["pipeline"] / 2


def test_the_hybrid_settings_keep_every_promise_at_once() -> None:
    """Overload is refused by nobody yet: the queue grows, but each lane moves and no client holds the pool."""
    scene = play(
        hybrid(blocks=600, seats=12, token_budget=128, chunk_tokens=64, lanes=LANES), 160, lambda s: endpoint(1, s)
    )
    assert max(scene.waits("chat")) <= 10
    assert max(scene.waits("document")) <= 30
    assert answered(scene, "summary") > 20


# --- one noisy client with tiny calls ------------------------------------------------------------------------

BUSY = Settings(blocks=64, block_size=4, seats=4, token_budget=32)


def noisy(step: int) -> Iterator[Request]:
    """Three clients ask for long answers; a fourth makes six tiny calls a step."""
    if step % 20 == 1:
        for name in ("a", "b", "c"):
            for number in range(3):
                yield request(f"{name} {step}.{number}", 8, 12)
    for number in range(6):
        yield request(f"noisy {step}.{number}", 2, 2)


def test_a_noisy_client_takes_what_it_asks_for_by_arrival_and_by_length() -> None:
    for policy in ("fcfs", "sjf"):
        scene = play(evolve(BUSY, policy=policy), 200, noisy)
        others = [scene.outputs[name] for name in "abc"]
        assert scene.outputs["noisy"] > max(others), policy


@pytest.mark.parametrize("policy", ["vtc", "drr"])
def test_a_noisy_client_gets_its_share_by_service(policy: Any) -> None:
    """Prompts count too, and half of its calls is prompt: fewer outputs than the others have, and no more service."""
    scene = play(evolve(BUSY, policy=policy, quantum=16), 200, noisy)
    service = scene.driver.monitor.ledger.counters
    assert service["noisy"] <= min(service[name] for name in "abc") + 2 * scene.driver.monitor.ledger.certificate + 32


def test_a_noisy_client_is_capped_by_seats() -> None:
    scene = play(evolve(BUSY, policy="vtc", client_seats=1), 100, noisy)
    assert all(scene.outputs[name] > 0 for name in ("a", "b", "c", "noisy"))


def test_fairness_by_request_is_none_where_requests_differ() -> None:
    """In turn, who asks for more each time gets more: three to one here."""

    def long_and_short(step: int) -> Iterator[Request]:
        if step == 1:
            for number in range(60):
                yield request(f"long {number}", 4, 24)
                yield request(f"short {number}", 4, 4)

    by_turns = play(evolve(BUSY, policy="round_robin"), 150, long_and_short).outputs
    by_service = play(evolve(BUSY, policy="vtc"), 150, long_and_short).outputs
    assert by_turns["long"] > 4 * by_turns["short"]
    assert by_service["long"] < 2 * by_service["short"]


# --- a quiet tenant returns ------------------------------------------------------------------------------------


def a_quiet_one_returns(step: int) -> Iterator[Request]:
    """Two clients flood from the start, the third from step 80 on."""
    for name in ("a", "b", *["quiet"] * (step > 80)):
        for number in range(2):
            yield request(f"{name} {step}.{number}", 4, 8, lane=name)


def since_the_return(steps: int, **changes: Any) -> dict[str, int]:
    """Outputs of each in so many steps after the return."""
    before = play(evolve(BUSY, **changes), 80, a_quiet_one_returns).outputs
    after = play(evolve(BUSY, **changes), 80 + steps, a_quiet_one_returns).outputs
    return {name: after[name] - before[name] for name in ("a", "b", "quiet")}


def test_least_counter_first_lets_it_live_on_what_it_saved() -> None:
    got = since_the_return(30, policy="lcf")
    assert got["quiet"] > 3 * (got["a"] + got["b"])


@pytest.mark.parametrize("changes", [{"policy": "vtc"}, {"policy": "drr", "quantum": 8}])
def test_with_a_lift_it_gets_a_third_at_once(changes: dict[str, Any]) -> None:
    got = since_the_return(60, **changes)
    assert got["quiet"] >= 0.8 * (got["a"] + got["b"]) / 2
    assert got["quiet"] <= 1.5 * (got["a"] + got["b"]) / 2


def test_a_burst_is_bounded_and_throws_nobody_out() -> None:
    lanes = tuple(Lane(name=name, share_percent=33, burst=60) for name in ("a", "b", "quiet"))
    none = tuple(evolve(lane, burst=0) for lane in lanes)
    with pytest.warns(UserWarning, match="promise the same"):
        burst = since_the_return(20, policy="lanes", lanes=lanes)
    with pytest.warns(UserWarning, match="promise the same"):
        plain = since_the_return(20, policy="lanes", lanes=none)
    assert plain["quiet"] < burst["quiet"] <= plain["quiet"] + 60


# --- prefixes ----------------------------------------------------------------------------------------------------


def sharers_and_a_loner(step: int) -> Iterator[Request]:
    if step == 2:
        yield Request(id="loner", prompt_ids=range(9_000, 9_012), max_output_tokens=2, client="loner")
    for number in range(2):
        prompt = (*range(1, 13), 100 + 2 * step + number)
        yield Request(id=f"sharer {step}.{number}", prompt_ids=prompt, max_output_tokens=4, client="sharers")


def test_longest_prefix_first_starves_who_shares_with_nobody() -> None:
    settings = evolve(BUSY, policy="lpm", prefix_caching=True)
    assert "loner" not in play(settings, 100, sharers_and_a_loner).admitted
    guarded = play(evolve(settings, max_overtaken=20), 100, sharers_and_a_loner)
    assert passed_by(guarded, "loner") <= 20
    assert play(evolve(settings, policy="dlpm", quantum=40), 100, sharers_and_a_loner).admitted["loner"] <= 20
