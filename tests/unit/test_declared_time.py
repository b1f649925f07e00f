"""Time models that are derived from a cost model: one that no step exceeds, one for steps that read little."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.commands.check import step_time_of
from schedspec.commands.replay import with_time
from schedspec.conformance.replaying import StepTime
from schedspec.reference.simulation import PROFILES, Batch
from schedspec.reference.simulation.declared import _line_above, light_time, most_time
from schedspec.spec.admission import Door
from schedspec.spec.settings import Settings

TIGHT = Settings(blocks=2_000, block_size=16, seats=24, token_budget=700, max_model_tokens=6_000)


def drawn(dice: Random, s: Settings) -> Batch:
    """A step that such a scheduler may plan: within the budget, the seats, the pool and the longest request."""
    tokens, pool = dice.randint(1, s.token_budget), s.blocks * s.block_size
    decodes = dice.choice((0, dice.randint(0, min(tokens, s.seats)), min(tokens, s.seats)))
    left, context = tokens - decodes, 0
    chunks: list[tuple[int, int]] = []
    for _ in range(decodes):
        context += dice.randint(1, s.max_model_tokens) if pool - context > s.max_model_tokens else 1
    free = pool - context
    while left and len(chunks) + decodes < s.seats:
        size = dice.choice((left, dice.randint(1, left)))
        past = dice.choice((0, min(free - size, s.max_model_tokens - size)))
        chunks.append((max(0, past), size))
        free, left = free - chunks[-1][0] - size, left - size
    return Batch(decodes, context, tuple(chunks))


@pytest.mark.parametrize("name", PROFILES)
def test_no_step_takes_longer_than_is_declared(name: str) -> None:
    cost, dice = PROFILES[name].cost, Random(name)
    step_ns, token_ns = most_time(cost, TIGHT)
    batches = [drawn(dice, TIGHT) for _ in range(400)]
    longest = max(cost.step_ns(batch) / (step_ns + batch.tokens * token_ns) for batch in batches if batch.tokens)
    assert 0.5 < longest <= 1.0  # nor is it far from the longest


def test_the_line_is_above_all_and_lowest_in_the_middle() -> None:
    points = {1: 10, 2: 70, 3: 80, 4: 90, 5: 91}
    at_zero, slope = _line_above(points)
    assert all(at_zero + slope * at >= ns for at, ns in points.items())
    assert at_zero + slope * 2 == 70
    assert _line_above({1: 7}) == (7, 0)


@pytest.mark.parametrize("name", PROFILES)
def test_a_light_step_is_within_what_is_declared(name: str) -> None:
    cost = PROFILES[name].cost
    step_ns, token_ns = light_time(cost, 700)
    assert step_ns + token_ns <= cost.step_ns(Batch(1, 1))
    assert 0 <= cost.step_ns(Batch(chunks=((0, 700),))) - step_ns - 700 * token_ns <= 700
    most_step_ns, most_token_ns = most_time(cost, TIGHT)
    assert step_ns + 700 * token_ns <= most_step_ns + 700 * most_token_ns


def test_the_door_declares_what_the_cost_model_says_unless_it_was_told() -> None:
    asked = {"door_time": True, "cost": "roofline-llama2-7b-a100", "as_json": True}
    values: dict[str, Any] = {"blocks": 200, "token_budget": 64, "max_model_tokens": 900}
    step_ns, token_ns = most_time(PROFILES["roofline-llama2-7b-a100"].cost, Settings(**values))
    promise = Door(first_token_ns=10 * (step_ns + 64 * token_ns))
    door = with_time(values | {"door": promise}, asked).door
    assert (door.step_ns, door.token_ns, door.first_token_ns) == (step_ns, token_ns, promise.first_token_ns)
    assert with_time(values | {"door": Door(step_ns=7)}, asked).door == Door(step_ns=7)
    assert with_time(dict(values), asked | {"door_time": False}).door == Door()


def test_a_check_takes_its_step_times_from_a_cost_model() -> None:
    asked = {"cost": "roofline-llama2-7b-h100", "step_ns": None, "token_ns": 3}
    fixed_ns, _ = light_time(PROFILES["roofline-llama2-7b-h100"].cost, 2_048)
    assert step_time_of(asked) == StepTime(fixed_ns=fixed_ns, per_token_ns=3)
    assert step_time_of(dict.fromkeys(asked)) == StepTime()
    result = CliRunner().invoke(cli, ["check", "reference", "--cost", "h100"])
    assert result.exit_code == 2
    assert "there is no cost model 'h100'" in result.output


def test_right_predictions_make_an_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes the blocks of the true length preempts nobody where what is declared is twice as long."""
    monkeypatch.setattr("schedspec.simulation_report.write_page", lambda told, folder: "")
    csv = tmp_path / "twice.csv"
    rows = [f"{at / 10},64,60,120" for at in range(12)]
    csv.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,max_output_tokens", *rows]) + "\n")
    preemptions, peaks = [], []
    for reserve, more in (("on_demand", []), ("predicted", ["--predict"]), ("declared", [])):
        system = f"reference:reserve={reserve},blocks=48,seats=12"
        command = ["replay", f"csv:{csv}", "--system", system, *more, "--json", "--report", str(tmp_path)]
        (run,) = json.loads(CliRunner().invoke(cli, command, catch_exceptions=False).output)["runs"]
        preemptions.append(run["metrics"]["preemptions"])
        peaks.append(run["metrics"]["kv_tokens"]["max"][0])
    assert preemptions[0] > preemptions[1] == preemptions[2] == 0
    assert peaks[0] >= peaks[1] > peaks[2]
