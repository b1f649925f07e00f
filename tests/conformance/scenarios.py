"""Directed scenarios: short runs that lead into the corners on purpose, so that each rule's precondition holds."""

from collections.abc import Iterator

from attrs import evolve, frozen

from schedspec.spec.vocabulary import Door, Lane, Settings

from .parked_scenarios import PARKED
from .scenarios_of_costs import BUILDERS as OF_COSTS
from .scenarios_of_counters import BUILDERS as OF_COUNTERS
from .scenarios_of_edges import BUILDERS as OF_EDGES
from .scenarios_of_iterations import BUILDERS as OF_ITERATIONS
from .scenarios_of_lines import BUILDERS as OF_LINES
from .scenarios_of_neighbours import BUILDERS as OF_NEIGHBOURS
from .scenarios_of_others import BUILDERS as OF_OTHERS
from .scenarios_of_pairs import BUILDERS as OF_PAIRS
from .scenarios_of_pressure import BUILDERS as OF_PRESSURE
from .scenarios_of_swapping import BUILDERS as OF_SWAPPING
from .scenarios_of_transfers import BUILDERS as OF_TRANSFERS
from .script import COMPLETE, RETRY, STEP, Op, Script, cancel, leave, rounds, submit


@frozen
class Scenario:
    """`shows`: the rules whose precondition it is made for; `is_later`: it is one of `LATER`."""

    name: str
    shows: tuple[str, ...]
    script: Script
    is_later: bool = False


def scenarios(seed: int) -> Iterator[Scenario]:
    for build in (*_BUILDERS, *LATER):
        shows, settings, ops = build()
        yield Scenario(build.__name__.replace("_", " "), shows, Script(settings, seed, ops), build in LATER)


_Built = tuple[tuple[str, ...], Settings, tuple[Op, ...]]

SAME = (7, 7, 7, 7, 7, 7)


def one_request_from_door_to_end() -> _Built:
    ops = (submit("a", 5, 3), *rounds(8))
    return ("LIFE-2", "LIFE-3", "LIFE-4", "LIFE-5", "STEP-6"), Settings(blocks=8, block_size=2), ops


def prompt_in_chunks() -> _Built:
    ops = (submit("a", 9, 2), submit("b", 2, 4), *rounds(10))
    return ("STEP-1", "STEP-11"), Settings(blocks=16, block_size=2, token_budget=3), ops


def growth_runs_out_of_blocks() -> _Built:
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8)
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), *rounds(20))
    return ("PRE-1", "PRE-2", "PRE-5", "PRE-6", "PRE-7", "PRE-8", "STEP-7", "LIFE-9"), settings, ops


def growth_runs_out_with_priorities() -> _Built:
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8, policy="priority", victim="lowest_priority")
    ops = (
        submit("a", 1, 4, priority=2),
        submit("b", 1, 4, priority=0),
        submit("c", 1, 4, priority=1),
        *rounds(20),
    )
    return ("PRE-2", "PRE-7"), settings, ops


def two_victims_in_one_step() -> _Built:
    settings = Settings(blocks=6, block_size=1, seats=6, token_budget=16)
    ops = tuple(submit(name, 1, 5) for name in "abcdef")
    return ("PRE-3", "PRE-5", "PRE-6"), settings, (*ops, *rounds(30))


def a_victim_is_cancelled() -> _Built:
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8)
    ops = (
        submit("a", 1, 4),
        submit("b", 1, 4),
        submit("c", 1, 4),
        *rounds(3),
        cancel("c"),
        submit("d", 1, 2),
        *rounds(12),
    )
    return ("PRE-7", "LIFE-6"), settings, ops


def the_survivor_of_a_preemption_is_cancelled() -> _Built:
    settings = Settings(blocks=4, block_size=4, seats=4, token_budget=16)
    ops = (submit("a", 7, 6), submit("b", 7, 6), *rounds(3), cancel("a"), *rounds(4), submit("c", 2, 2), *rounds(8))
    return ("LIVE-1", "LIVE-2", "PRE-8"), settings, ops


def the_victim_was_served_in_the_same_step() -> _Built:
    """Who takes blocks while it decides may have named some for a request that then does not run."""
    settings = Settings(
        blocks=10,
        block_size=2,
        seats=2,
        token_budget=8,
        chunk_tokens=4,
        policy="priority",
        victim="lowest_priority",
        prefix_caching=True,
    )
    ops = (submit("a", 15, 2, priority=1), *rounds(1), submit("b", 2, 2), *rounds(10))
    return ("KV-12", "KV-14"), settings, ops


def preemption_while_results_are_in_flight() -> _Built:
    settings = Settings(blocks=5, block_size=1, seats=4, token_budget=8, overlap_depth=2)
    ops = (submit("a", 1, 4), submit("b", 1, 4), submit("c", 1, 4), STEP, *((STEP, COMPLETE) * 20))
    return ("LIFE-8",), settings, ops


def a_result_comes_after_the_resume() -> _Built:
    settings = Settings(blocks=4, block_size=1, seats=2, token_budget=8, overlap_depth=2)
    ops = (submit("a", 3, 1), submit("b", 1, 4), STEP, STEP, cancel("a"), STEP, COMPLETE, COMPLETE, *rounds(8))
    return ("LIFE-7", "LIFE-4"), settings, ops


def watermark_is_kept() -> _Built:
    settings = Settings(blocks=6, block_size=1, seats=4, token_budget=8, watermark_blocks=2)
    ops = (submit("a", 2, 3), submit("b", 2, 1), submit("c", 1, 1), *rounds(8))
    return ("KV-11",), settings, ops


def big_head_and_small_followers() -> _Built:
    settings = Settings(blocks=6, block_size=1, seats=4, token_budget=8)
    ops = (submit("a", 3, 3), *rounds(1), submit("b", 5, 1), submit("c", 1, 1), *rounds(8))
    return ("LIVE-8", "LIVE-11"), settings, ops


def big_head_on_an_empty_machine() -> _Built:
    settings = Settings(blocks=4, block_size=1, seats=4, token_budget=8, watermark_blocks=2)
    return ("LIVE-1",), settings, (submit("a", 3, 1), *rounds(3))


def cancel_at_every_moment() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=4, token_budget=4)
    ops = (
        submit("waiting", 4, 2),
        cancel("waiting"),
        submit("chunk", 9, 2),
        *rounds(1),
        cancel("chunk"),
        submit("flying", 2, 4),
        STEP,
        cancel("flying"),
        COMPLETE,
        submit("decoding", 2, 4),
        *rounds(2),
        cancel("decoding"),
        cancel("decoding"),
        cancel("unknown"),
        submit("last", 2, 1),
        *rounds(2),
    )
    return ("LIFE-6", "LIFE-7", "KV-7"), settings, ops


def results_come_twice() -> _Built:
    ops = (
        submit("a", 3, 4),
        *rounds(2),
        Op("repeat", back=1),
        *rounds(1),
        Op("repeat", back=2),
        *rounds(4),
        Op("repeat"),
    )
    return ("LIFE-7",), Settings(blocks=8, block_size=2), ops


def the_model_stops_early() -> _Built:
    ops = (submit("a", 2, 6, stop_after=2), submit("b", 2, 6, stop_after=1), *rounds(8))
    return ("LIFE-5",), Settings(blocks=8, block_size=2), ops


def two_ends_in_one_step() -> _Built:
    ops = (submit("a", 2, 2), submit("b", 2, 2), *rounds(4))
    return ("LIFE-4",), Settings(blocks=8, block_size=2), ops


def what_never_fits_is_refused() -> _Built:
    settings = Settings(blocks=4, block_size=2, max_prompt_tokens=6, max_output_tokens=6, max_model_tokens=10)
    ops = (
        submit("pool", 5, 5),
        submit("prompt", 7, 1),
        submit("output", 1, 7),
        submit("model", 6, 5),
        submit("fits", 4, 5),
        *rounds(8),
    )
    return ("ADMIT-1", "ADMIT-2"), settings, ops


def whole_prompts_only() -> _Built:
    settings = Settings(blocks=12, block_size=2, token_budget=6, chunked_prefill=False)
    ops = (submit("big", 7, 1), submit("a", 3, 3), submit("b", 4, 2), *rounds(8))
    return ("ADMIT-1", "STEP-1"), settings, ops


def equal_prompts_share_blocks() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=4, token_budget=8, prefix_caching=True)
    ops = (
        submit("a", SAME, 3),
        *rounds(1),
        submit("b", SAME, 3),
        submit("c", (*SAME[:4], 1, 2), 3),
        *rounds(6),
        submit("d", SAME[:4], 2),
        *rounds(4),
    )
    return ("KV-2", "KV-3", "KV-12", "KV-13", "KV-14"), settings, ops


def cached_blocks_are_evicted() -> _Built:
    settings = Settings(blocks=4, block_size=2, seats=2, token_budget=8, prefix_caching=True)
    ops = (submit("a", SAME, 2), *rounds(3), submit("b", 6, 2), *rounds(3), submit("c", SAME, 2), *rounds(3))
    return ("KV-14", "KV-12"), settings, ops


def a_sharer_ends_before_the_other() -> _Built:
    settings = Settings(blocks=10, block_size=2, seats=4, token_budget=8, prefix_caching=True)
    ops = (
        submit("a", SAME, 2),
        *rounds(1),
        submit("b", SAME, 6),
        *rounds(2),
        submit("c", SAME, 2),
        *rounds(8),
    )
    return ("KV-3", "KV-8"), settings, ops


def more_requests_than_seats() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=2, token_budget=8)
    return ("STEP-2",), settings, (*(submit(name, 2, 3) for name in "abcd"), *rounds(12))


def a_queue_forms_and_is_cancelled() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=1, token_budget=4)
    ops = (
        *(submit(name, 2, 2) for name in "abcdef"),
        *rounds(1),
        cancel("c"),
        cancel("d"),
        *rounds(10),
    )
    return ("LIFE-1", "OBS-3"), settings, ops


def steps_overlap() -> _Built:
    settings = Settings(blocks=16, block_size=2, seats=4, token_budget=6, overlap_depth=2)
    ops = (
        submit("a", 4, 5, stop_after=2),
        submit("b", 3, 5),
        STEP,
        *((STEP, COMPLETE) * 4),
        cancel("b"),
        *((STEP, COMPLETE) * 4),
    )
    return ("LIFE-8", "LIFE-7"), settings, ops


def the_clock_stands_still() -> _Built:
    ops = (submit("a", 4, 3), *rounds(2), Op("tick", ns=0), *rounds(2), Op("tick", ns=10**12), *rounds(2))
    return ("DET-3",), Settings(blocks=8, block_size=2), ops


def one_needs_a_block_and_the_other_has_its_own() -> _Built:
    settings = Settings(blocks=8, block_size=4, seats=2, token_budget=8)
    return ("STEP-8",), settings, (submit("a", 4, 3), submit("b", 2, 3), *rounds(4))


ONE_SEAT = Settings(blocks=64, block_size=1, seats=1, token_budget=8, policy="vtc")


def _of(client: str, ids: str, prompt: int = 1, output: int = 1) -> tuple[Op, ...]:
    """Submissions of one client, alike."""
    return tuple(submit(id, prompt, output, client=client) for id in ids.split())


def _many(client: str, count: int, prompt: int = 1) -> tuple[Op, ...]:
    """As many submissions of one client as are asked for, alike."""
    return _of(client, " ".join(f"{client.lower()}{number}" for number in range(1, count + 1)), prompt)


def a_client_comes_back_while_others_wait() -> _Built:
    ops = (*_of("A", "a1 a2 a3", 2, 3), *rounds(4), *_of("B", "b1 b2", 2, 2), *rounds(12))
    return ("FAIR-1", "FAIR-2", "FAIR-3"), ONE_SEAT, ops


def a_client_comes_back_to_an_empty_queue() -> _Built:
    ops = (*_of("A", "a1", 2, 4), *rounds(3), *_of("B", "b1 b2", 1, 2), *_of("A", "a2", 1, 2), *rounds(12))
    return ("FAIR-1", "FAIR-4"), ONE_SEAT, ops


def the_client_of_a_victim_was_passed_by_others() -> _Built:
    """B has one request running, A two and another one that waits."""
    settings = Settings(blocks=9, block_size=1, seats=3, token_budget=8, policy="vtc")
    ops = (*_of("A", "a1 a2", 1, 6), *_of("B", "b1", 1, 6), *rounds(1), *_of("A", "a3", 1, 2), *rounds(16))
    return ("FAIR-2", "FAIR-5"), settings, ops


def a_client_cancels() -> _Built:
    ops = (*_of("A", "a1 a2", 1, 4), *_of("B", "b1"), *rounds(2), cancel("a1"), cancel("a2"), *rounds(3))
    return ("FAIR-6",), ONE_SEAT, ops


def two_clients_wait_for_long() -> _Built:
    ops = (*_many("A", 7), *_many("B", 7), *rounds(14))
    return ("FAIR-8", "FAIR-9"), ONE_SEAT, ops


def the_first_to_come_sends_more() -> _Built:
    ops = (*_many("A", 5), *_many("B", 1), *rounds(6))
    return ("FAIR-8",), evolve(ONE_SEAT, policy="fcfs"), ops


def one_client_sends_one_request_at_a_time() -> _Built:
    ops = (*_many("A", 6), *rounds(1))
    for number in range(1, 9):
        ops += (*_of("B", f"b{number}"), *rounds(1))
    return ("FAIR-9",), ONE_SEAT, (*ops, *rounds(6))


def a_client_was_away_while_others_waited() -> _Built:
    ops = (*_many("A", 9), *rounds(2), *_many("B", 9), *rounds(18))
    return ("FAIR-3", "FAIR-7"), ONE_SEAT, ops


def the_service_of_one_client_counts_more() -> _Built:
    settings = evolve(ONE_SEAT, prices={"A": 9})
    return ("FAIR-10",), settings, (*_many("A", 6), *_many("B", 45), *rounds(51))


def the_client_whose_turn_it_is_does_not_fit() -> _Built:
    """B has most of the pool; A, whose request is the next, needs more than the rest, and B's other one does not."""
    settings = evolve(ONE_SEAT, blocks=8, seats=3, reserve="declared")
    ops = (*_of("B", "b1", 2, 3), STEP, *_of("A", "a1", 4, 3), *_of("B", "b2", 1, 2), *rounds(12))
    return ("FAIR-1", "FAIR-11"), settings, ops


def a_client_has_all_that_it_may_under_way() -> _Built:
    """A's first request may cost more than the cap, because nothing of A runs; the next one waits for it."""
    settings = evolve(ONE_SEAT, seats=2, client_committed_cost=6)
    ops = (*_of("A", "a1", 4, 3), *_of("A", "a2 a3"), *rounds(8))
    return ("FAIR-12",), settings, ops


def more_outputs_were_predicted_than_come() -> _Built:
    """A pays for nine outputs at the pick, and stops after four; until then B has got more than A owes."""
    settings = evolve(ONE_SEAT, seats=2, charge_prediction=True)
    ops = (submit("a1", 1, 9, client="A", predicted_output_tokens=9, stop_after=4), *_of("B", "b1 b2 b3 b4", 2))
    return ("FAIR-13",), settings, (*ops, *rounds(8))


def a_victim_computes_its_prompt_again() -> _Built:
    settings = evolve(ONE_SEAT, blocks=5, seats=3)
    ops = (*_of("A", "a1", 1, 4), *_of("B", "b1", 1, 4), *_of("C", "c1", 1, 4), *rounds(20))
    return ("FAIR-5", "FAIR-14"), settings, ops


def a_turn_takes_more_than_its_quantum() -> _Built:
    """A's requests are much larger than B's, and both than a quantum."""
    settings = evolve(ONE_SEAT, token_budget=16, policy="drr", quantum=1)
    return ("FAIR-15",), settings, (*_many("A", 6, 15), *_many("B", 40), *rounds(46))


def one_client_has_a_longer_cached_prefix() -> _Built:
    settings = evolve(ONE_SEAT, policy="dlpm", quantum=1, prefix_caching=True)
    ops = tuple(submit(f"a{number}", SAME[:3], 1, client="A") for number in range(1, 10))
    return ("FAIR-16",), settings, (*ops, *_many("B", 9, 3), *rounds(18))


def a_client_that_waits_long_is_dear() -> _Built:
    """A has got much, and its second request sees more admissions than somebody has patience for."""
    settings = evolve(ONE_SEAT, aging_picks=2, aging_credit=2)
    ops = (*_of("A", "a1", 1, 3), *_of("A", "a2"), *_of("B", "b1"), *rounds(3))
    for number in range(2, 6):
        ops += (*_of("B", f"b{number}"), *rounds(1))
    return ("FAIR-17",), settings, (*ops, *rounds(2))


def a_client_floods_and_another_one_comes() -> _Built:
    return ("FAIR-18",), ONE_SEAT, (*_many("A", 9), *rounds(1), *_many("B", 1), *rounds(9))


# --- lanes, classes, adapters, and prefill beside decode -----------------------------------------------------


LANES = (Lane(name="a", share_percent=60), Lane(name="b", share_percent=20))
ONE_AT_A_TIME = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="lanes", lanes=LANES)
ALL_AT_ONCE = Settings(blocks=64, block_size=16, seats=32, token_budget=1_024, policy="lanes", lanes=LANES)


def _in(lane: str, ids: str, prompt: int = 1, output: int = 1) -> tuple[Op, ...]:
    """Submissions to one lane, alike."""
    return tuple(submit(id, prompt, output, lane=lane) for id in ids.split())


def a_lane_comes_under_its_declared_load() -> _Built:
    lanes = (LANES[0], evolve(LANES[1], objective_steps=2, load_tokens=4))
    ops = (*_in("a", "a1 a2 a3"), *_in("b", "b1"), *rounds(5))
    return ("LANE-6",), evolve(ONE_AT_A_TIME, lanes=lanes, max_output_tokens=2), ops


def two_lanes_wait_for_long() -> _Built:
    ops = (*_in("b", "b1 b2 b3 b4", 30), *_in("a", "a1 a2 a3 a4 a5 a6 a7 a8 a9", 30), *rounds(2))
    return ("LANE-1",), ALL_AT_ONCE, ops


def one_lane_waits_alone() -> _Built:
    ops = (*_in("b", "b1 b2 b3 b4 b5"), *rounds(4))
    return ("LANE-2",), evolve(ONE_AT_A_TIME, seats=8, blocks=4), ops


def a_lane_has_a_maximum() -> _Built:
    """One of two that wait has a fifth of ten blocks at most, and eight idle."""
    slices = tuple(evolve(lane, maximum_percent=lane.share_percent) for lane in LANES)
    return ("LANE-2",), evolve(ONE_AT_A_TIME, seats=8, blocks=10, lanes=slices), (*_in("b", "b1 b2 b3 b4"), *rounds(4))


def a_lane_comes_back() -> _Built:
    ops = (*_in("b", "b1 b2 b3", 30), *rounds(1), *_in("b", "b4", 10), *_in("a", "a1 a2 a3 a4 a5 a6 a7 a8", 30))
    return ("LANE-3",), ALL_AT_ONCE, (*ops, *rounds(2))


def a_lane_waits_until_it_is_aged() -> _Built:
    settings = evolve(ONE_AT_A_TIME, seats=2, token_budget=32, aging_picks=2, aging_credit=3)
    ops = (*_in("a", "a1 a2 a3 a4", 10), *rounds(1), *_in("b", "b1", 10), *rounds(4))
    return ("LANE-5",), settings, ops


def the_least_urgent_is_overtaken() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=1, token_budget=16, policy="priority", max_overtaken=2)
    ops = (submit("a", 1, 1), *rounds(1), submit("low", 1, 1, priority=1))
    return ("LIVE-3",), settings, (*ops, *(submit(f"high{n}", 1, 1) for n in range(1, 5)), *rounds(6))


def an_adapter_is_in_use() -> _Built:
    """The last one leaves too few blocks to all but itself."""
    settings = Settings(blocks=7, block_size=1, seats=4, token_budget=16, adapter_slots=1)
    ops = (submit("p", 1, 6, adapter="p"), *rounds(1), submit("q", 1, 2, adapter="q"), submit("plain", 1, 2))
    ops = (*ops, submit("p2", 1, 2, adapter="p"), submit("big", 5, 1), *rounds(12))
    return ("LIVE-7",), settings, ops


def somebody_of_a_better_class_comes() -> _Built:
    settings = Settings(
        blocks=6,
        block_size=1,
        seats=2,
        token_budget=16,
        policy="priority",
        preempt_lower_class=True,
        victim="lowest_priority",
    )
    ops = (
        submit("x", 1, 6, priority=2),
        submit("y", 1, 6, priority=1),
        *rounds(1),
        submit("urgent", 1, 2),
        *rounds(12),
    )
    return ("LIVE-10", "PRE-4"), settings, ops


def a_prompt_comes_beside_a_stream() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=4, chunk_tokens=1)
    return ("STEP-9", "STEP-10"), settings, (submit("stream", 1, 9), *rounds(1), submit("long", 16, 1), *rounds(16))


def a_prompt_would_take_the_whole_budget() -> _Built:
    """With no limit on chunks it may; a budget that has no chunk for every seat promises nothing to decodes."""
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=4)
    return ("STEP-9", "STEP-10"), settings, (submit("stream", 1, 9), *rounds(1), submit("long", 16, 1), *rounds(9))


def a_short_prompt_stands_behind_a_long_one() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=4, chunk_tokens=2)
    return ("STEP-12",), settings, (submit("long", 9, 1), submit("short", 2, 1), *rounds(6))


def one_prompt_at_a_time() -> _Built:
    settings = Settings(blocks=64, block_size=1, seats=4, token_budget=16, prefilling_requests=1)
    return ("STEP-15",), settings, (submit("a", 2, 3), submit("b", 2, 3), *rounds(6))


def who_got_least_waits() -> _Built:
    ops = (*_of("A", "a1 a2 a3"), *rounds(1), *_of("B", "b1 b2"), *rounds(6))
    return ("FAIR-19",), evolve(ONE_SEAT, policy="lcf"), ops


def two_clients_take_turns() -> _Built:
    ops = (*_of("A", "a1 a2 a3"), *_of("B", "b1 b2"), *rounds(6))
    return ("FAIR-20",), evolve(ONE_SEAT, policy="round_robin"), ops


def a_client_has_its_seats() -> _Built:
    ops = (*_of("A", "a1 a2 a3", 1, 2), *_of("B", "b1", 1, 2), *rounds(6))
    return ("LANE-7",), evolve(ONE_SEAT, seats=4, client_seats=1), ops


FEW_SEATS = Settings(blocks=32, block_size=1, seats=1, token_budget=4, reserve="declared")


def the_queue_is_full() -> _Built:
    """Also for a client of whom somebody runs."""
    settings = evolve(FEW_SEATS, door=Door(queue_requests=1, queue_tokens=8))
    ops = (submit("a", 2, 3), *rounds(1), submit("b", 2, 3), submit("c", 2, 3), *rounds(3), submit("d", 8, 1))
    return ("ADMIT-3",), settings, (*ops, *rounds(3))


def a_lane_has_a_queue_of_its_own() -> _Built:
    lanes = (evolve(LANES[0], queue_requests=1, queue_tokens=20), *LANES[1:])
    ops = (*_in("a", "a1 a2", 4), submit("a3", 19, 2, lane="a"), *_in("b", "b1 b2", 4), *rounds(8))
    return ("ADMIT-3",), evolve(ONE_AT_A_TIME, lanes=lanes), ops


def somebody_waits_too_long() -> _Built:
    settings = evolve(FEW_SEATS, door=Door(queue_age_ns=20))
    ops = (submit("a", 2, 6), submit("b", 2, 3), *rounds(1), Op("tick", ns=21), submit("c", 1, 1), *rounds(6))
    return ("ADMIT-4",), settings, ops


def somebody_comes_again_when_told_to() -> _Built:
    """Of six that come at once the last have to wait too long."""
    settings = evolve(FEW_SEATS, door=Door(queue_age_ns=60, step_ns=10, token_ns=1))
    ops = tuple(submit(name, 2, 3) for name in "abcdef")
    return ("ADMIT-4", "ADMIT-5", "ADMIT-8"), settings, (*ops, *(STEP, COMPLETE, RETRY) * 12)


def the_door_shuts_and_opens_again() -> _Built:
    """Three steps are too long a wait, two are not: neither after a refusal, nor when everybody has ended."""
    settings = evolve(FEW_SEATS, door=Door(queue_age_ns=30, step_ns=10, token_ns=1))
    ops = (*(submit(name, 2, 1) for name in "abcd"), *rounds(1), submit("e", 2, 1), *rounds(2))
    return ("ADMIT-10",), settings, (*ops, *(submit(name, 2, 1) for name in "fghi"), *rounds(9))


def a_first_token_is_promised() -> _Built:
    settings = evolve(FEW_SEATS, seats=2, door=Door(first_token_ns=80, step_ns=10, token_ns=1))
    ops = tuple(submit(name, 9, 3) for name in "abcdef")
    return ("ADMIT-5", "ADMIT-8"), settings, (*ops, *(STEP, COMPLETE, RETRY) * 16)


def a_client_has_too_much_under_way() -> _Built:
    settings = evolve(FEW_SEATS, door=Door(client_requests=2, client_tokens=9, committed_tokens=12, step_ns=10))
    ops = (submit("a", 2, 3, client="A"), submit("b", 2, 3, client="A"), submit("c", 1, 1, client="A"))
    return ("ADMIT-5", "ADMIT-7"), settings, (*ops, submit("d", 6, 3, client="B"), *(STEP, COMPLETE, RETRY) * 8)


def a_rate_is_exceeded_across_an_edge() -> _Built:
    """At 90 and at 110: no window of 100 has both, if windows begin at multiples of it."""
    settings = evolve(FEW_SEATS, door=Door(rate_window_ns=100, rate_requests=1, rate_tokens=20, step_ns=1))
    ops = (Op("tick", ns=90), submit("a", 2, 1), *rounds(2), Op("tick", ns=20), submit("b", 2, 1), *rounds(2))
    return ("ADMIT-12", "ADMIT-5"), settings, (*ops, RETRY, *rounds(2), submit("c", 30, 1))


def a_key_comes_again() -> _Built:
    """While its generation lives, after it finished, when nobody answers for it any more, and after a cancel."""
    settings = evolve(FEW_SEATS, door=Door(retain_ns=50))
    again = [submit(name, 2, 1, idempotency_key="k") for name in "abcd"]
    ops = (again[0], again[1], *rounds(1), again[2], Op("tick", ns=50), again[3], cancel("d"))
    return ("ADMIT-6",), settings, (*ops, submit("e", 2, 1, idempotency_key="k"), *rounds(2))


def a_full_door_has_something_else() -> _Built:
    """One is held and enters, one is held and expires, one goes to another pool, one is asynchronous; one comes from
    another door already, one with the key of somebody who is held, and the clients of two who are held go away."""
    limits = {"queue_requests": 1, "retain_ns": 40, "defer_ns": 12, "deferred_requests": 1}
    door = Door(**limits, pool_tokens=4, asynchronous_requests=1)
    settings = evolve(FEW_SEATS, door=door, cancel_on_disconnect=True)
    come = (submit("a", 2, 4), submit("held", 2, 4, idempotency_key="k"), submit("again", 2, 4, idempotency_key="k"))
    more = (submit("pool", 2, 1), submit("later", 2, 4), leave("later"), submit("second", 2, 4, was_converted=True))
    ends = (submit("b", 2, 4), Op("tick", ns=13), *rounds(3), submit("c", 2, 4), leave("c"), cancel("b"))
    ops = (*come, *more, *rounds(1), *ends, *rounds(12), submit("d", 2, 1), *rounds(4))
    return ("ADMIT-11", "LIFE-10"), settings, ops


def a_smaller_model_takes_what_is_too_large() -> _Built:
    """And another pool takes some of those for whom the queue is full."""
    door = Door(model_tokens=20, pool_tokens=8, queue_requests=2)
    settings = Settings(blocks=4, block_size=1, seats=1, token_budget=4, door=door)
    come = (submit("a", 8, 4), submit("b", 3, 2), submit("c", 3, 2), submit("d", 3, 2), submit("e", 30, 4))
    ops = (*come, submit("f", 8, 4, was_converted=True), submit("g", 3, 2, was_converted=True), *rounds(3))
    return ("ADMIT-11",), settings, ops


def whoever_is_next_waits_for_one_limit_after_the_other() -> _Built:
    settings = Settings(blocks=6, block_size=1, seats=2, token_budget=4, log_waits=True)
    ops = (submit("a", 1, 4), submit("b", 3, 3), submit("c", 2, 2), *rounds(1), submit("d", 5, 1), *rounds(12))
    return ("OBS-1", "OBS-2"), settings, ops


def decisions_are_logged() -> _Built:
    """One is admitted before others who came earlier, one because it has waited long, and one loses its place."""
    settings = Settings(blocks=5, block_size=1, seats=2, token_budget=8, policy="priority", log_decisions=True)
    settings = evolve(settings, max_overtaken=2, door=Door(queue_requests=3, defer_ns=40, deferred_requests=1))
    come = (submit("a", 1, 4, priority=1), submit("low", 1, 2, priority=9), submit("b", 1, 4, priority=1))
    more = (submit("held", 1, 1), *rounds(1), *(submit(f"c{n}", 1, 2) for n in range(3)), Op("tick", ns=7))
    return ("OBS-4", "OBS-5", "OBS-6"), settings, (*come, *more, *rounds(3), submit("d", 1, 2), *rounds(16))


def somebody_loses_its_place_to_a_better_class() -> _Built:
    _, settings, ops = somebody_of_a_better_class_comes()
    return ("OBS-6",), evolve(settings, log_decisions=True), ops


def a_stream_has_an_objective() -> _Built:
    settings = evolve(FEW_SEATS, seats=3, door=Door(step_ns=10, token_ns=2, inter_token_ns=18))
    return ("STEP-14",), settings, (submit("stream", 1, 6), *rounds(2), submit("long", 12, 2), *rounds(8))


def clients_leave_at_every_moment() -> _Built:
    settings = Settings(blocks=12, block_size=2, seats=2, token_budget=4, cancel_on_disconnect=True)
    ops = (submit("waiting", 4, 2), leave("waiting"), submit("chunk", 9, 2), *rounds(1), leave("chunk"))
    ops = (*ops, submit("flying", 2, 4), STEP, leave("flying"), COMPLETE, submit("stream", 2, 4), *rounds(2))
    survivor = submit("survivor", 2, 3, survives_disconnect=True)
    return ("LIFE-10",), settings, (*ops, leave("stream"), survivor, leave("survivor"), *rounds(4), leave("survivor"))


_BUILDERS = (
    one_request_from_door_to_end,
    prompt_in_chunks,
    growth_runs_out_of_blocks,
    growth_runs_out_with_priorities,
    two_victims_in_one_step,
    a_victim_is_cancelled,
    the_survivor_of_a_preemption_is_cancelled,
    the_victim_was_served_in_the_same_step,
    preemption_while_results_are_in_flight,
    a_result_comes_after_the_resume,
    watermark_is_kept,
    big_head_and_small_followers,
    big_head_on_an_empty_machine,
    cancel_at_every_moment,
    results_come_twice,
    the_model_stops_early,
    two_ends_in_one_step,
    what_never_fits_is_refused,
    whole_prompts_only,
    equal_prompts_share_blocks,
    cached_blocks_are_evicted,
    a_sharer_ends_before_the_other,
    more_requests_than_seats,
    a_queue_forms_and_is_cancelled,
    steps_overlap,
    the_clock_stands_still,
    a_client_comes_back_while_others_wait,
    a_client_comes_back_to_an_empty_queue,
    the_client_of_a_victim_was_passed_by_others,
    a_client_cancels,
    two_clients_wait_for_long,
    the_first_to_come_sends_more,
    one_client_sends_one_request_at_a_time,
    one_needs_a_block_and_the_other_has_its_own,
    a_client_was_away_while_others_waited,
    the_service_of_one_client_counts_more,
    the_client_whose_turn_it_is_does_not_fit,
    a_client_has_all_that_it_may_under_way,
    more_outputs_were_predicted_than_come,
    a_victim_computes_its_prompt_again,
    a_turn_takes_more_than_its_quantum,
    one_client_has_a_longer_cached_prefix,
    a_client_that_waits_long_is_dear,
    a_client_floods_and_another_one_comes,
    a_lane_comes_under_its_declared_load,
    two_lanes_wait_for_long,
    one_lane_waits_alone,
    a_lane_has_a_maximum,
    a_lane_comes_back,
    a_lane_waits_until_it_is_aged,
    the_least_urgent_is_overtaken,
    an_adapter_is_in_use,
    somebody_of_a_better_class_comes,
    a_prompt_comes_beside_a_stream,
    a_prompt_would_take_the_whole_budget,
    a_short_prompt_stands_behind_a_long_one,
    one_prompt_at_a_time,
    who_got_least_waits,
    two_clients_take_turns,
    a_client_has_its_seats,
    the_queue_is_full,
    a_lane_has_a_queue_of_its_own,
    somebody_waits_too_long,
    somebody_comes_again_when_told_to,
    the_door_shuts_and_opens_again,
    a_first_token_is_promised,
    a_client_has_too_much_under_way,
    a_rate_is_exceeded_across_an_edge,
    a_key_comes_again,
    a_full_door_has_something_else,
    a_smaller_model_takes_what_is_too_large,
    whoever_is_next_waits_for_one_limit_after_the_other,
    decisions_are_logged,
    somebody_loses_its_place_to_a_better_class,
    a_stream_has_an_objective,
    clients_leave_at_every_moment,
    *PARKED,
    *OF_ITERATIONS,
    *OF_SWAPPING,
    *OF_TRANSFERS,
)

LATER = (*OF_NEIGHBOURS, *OF_PRESSURE, *OF_PAIRS, *OF_COSTS, *OF_LINES, *OF_COUNTERS, *OF_EDGES, *OF_OTHERS)
"""Written since pins were looked for: in no sample of theirs, whose runs have numbers (`tests/mutants/traces.py`)."""
