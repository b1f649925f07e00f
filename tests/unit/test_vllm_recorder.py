"""The recorder says what vLLM decides, refuses in a sentence, and breaks nothing.

vLLM lives in an environment of its own: what needs it is run by its interpreter, if there is one.  The other tests have
a stand-in with the same names.
"""

import io
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest

from schedspec.conformance.recorded import judge
from schedspec.conformance.subjects import vllm_recorder
from schedspec.conformance.subjects.vllm_lines import Lines
from schedspec.conformance.subjects.vllm_recordable import ASKED, CONFIGURED, Unrecordable, refuse, settings_of
from schedspec.conformance.subjects.vllm_recorder import Recorder, record, recording_scheduler
from schedspec.spec.catalogue import registry
from schedspec.spec.trace import read_trace
from schedspec.spec.vocabulary import Capabilities, Header, Message, Outcome, Plan, Receipt, Request, Settings

ROOT = Path(__file__).parents[2]
WALKS = 60


# --- the real one --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def python() -> str:
    found = Path(os.environ.get("SCHEDSPEC_VLLM_PYTHON") or ROOT / ".venv-vllm/bin/python")
    if not found.exists():
        pytest.skip("there is no vLLM to record: `make vllm`, or name a Python that has it in SCHEDSPEC_VLLM_PYTHON")
    return str(found)


def printed(*command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return ran.stdout


@pytest.fixture(scope="module")
def real(python: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("vllm") / "run.jsonl"
    lines = printed(python, str(ROOT / "tests/unit/recorded_vllm.py"), str(file), "0", str(WALKS))
    return [json.loads(line) for line in lines.splitlines()]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_engine_is_recorded_by_the_name_of_the_scheduler(kind: str, python: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    printed(python, str(ROOT / "tests/unit/recorded_engine.py"), str(file), kind)
    judged = judge(file)
    assert judged.fault is None
    assert {rule for rule in judged.first if registry.rules[rule].level == "MUST"} == set()
    header, messages = read_trace(file)
    read_back = list(messages)
    assert header.settings.overlap_depth == (2 if kind == "async" else 1)
    assert read_back[-1].kind == "end"
    plans = [message.answer for message in read_back if message.kind == "step"]
    assert {delta[0] for plan in plans for delta in plan.deltas} >= {"preempted", "resumed", "shared", "unindexed"}


def test_a_recording_says_what_the_adapter_says(real: list[dict[str, Any]]) -> None:
    walks = real[:-1]
    assert len(walks) > WALKS / 2
    assert [walk for walk in walks if walk["wrong"]] == []
    seen = Counter(delta for walk in walks for delta in walk["deltas"])
    assert seen.keys() >= {"shared", "took", "gave", "indexed", "unindexed", "admitted", "resumed", "preempted"}
    assert seen.keys() >= {"finished", "cancelled", "delivered"}


def test_a_scheduler_that_serves_is_recorded_to_its_end(real: list[dict[str, Any]]) -> None:
    served = real[-1]["serving"]
    assert served["broken"] == []
    assert served["fault"] == "None"
    assert served["kinds"] == ["cancel", "complete", "end", "header", "notify", "step", "submit"]
    assert served["prompt"] == list(range(9))  # the tokens were renamed
    assert sorted(served["cancelled"]) == [["a", [["cancelled", "a"]]], ["c", [["cancelled", "c"]]], ["nobody", []]]
    ends = [["finished", "b", "stop"], ["finished", "long", "length"], ["finished", "d", "length"]]
    assert served["finished"] == ends
    assert served["reset"]
    assert served["over"]
    assert served["stderr"].startswith("schedspec: recorded: ")
    assert served["stderr"].count("\n") == 1


def test_vllm_goes_on_whatever_happens(real: list[dict[str, Any]]) -> None:
    told = real[-1]["refused"]
    ends = "schedspec: the recording ends here, vLLM goes on: "
    assert told["an error inside"].startswith(ends + "ValueError('write to closed file')")
    assert told["a paused scheduler"] == ends + "a trace has no words for a scheduler that is paused\n"
    assert told["a cache salt"] == ends + "a trace has no words for a cache salt\n"
    assert told["a scheduler that has run"] == "a trace has no words for what came before: record a fresh scheduler"
    for name in ("Scheduler", "AsyncScheduler"):
        assert told[f"run.jsonl, {name}"].startswith("schedspec: recorded: 1 steps")
        assert told[f"no folder, {name}"].startswith("schedspec: nothing is recorded, vLLM goes on: ")


# --- lines ---------------------------------------------------------------------------------------------------


def read(file: io.BytesIO) -> list[Message]:
    return list(read_trace(io.BytesIO(file.getvalue()))[1])


def lines(*, renames: bool = False) -> tuple[Lines, io.BytesIO]:
    file = io.BytesIO()
    written = Lines(file, renames)
    written.header(Header(settings=Settings(), capabilities=Capabilities(name="é", claims={"fcfs"}), subject="vllm"))
    return written, file


def test_lines_are_read_as_they_were_meant() -> None:
    written, file = lines()
    written.submit('a"é', [5, 6], 3, 1)
    written.step(1, ['a"é'], [0], [2], [1], [("took", 'a"é', [7]), ("admitted", 'a"é', 0)])
    written.complete(1, ['a"é', "b"], [9, 8], ['a"é'], [("finished", 'a"é', "stop")])
    written.complete(2, ["b"], [9], [], [])
    written.cancel("b", [("cancelled", "b")])
    written.notify("reset_prefix_cache", [("unindexed", [7])])
    written.end()
    read_back = read(file)
    assert [m.now_ns for m in read_back] == sorted(m.now_ns for m in read_back)
    assert [(m.kind, m.given, m.answer) for m in read_back] == [
        (
            "submit",
            Request(id='a"é', prompt_ids=[5, 6], max_output_tokens=3, priority=1),
            Receipt(verdict="accepted"),
        ),
        (
            "step",
            None,
            Plan(
                step=1,
                request=('a"é',),
                start=(0,),
                tokens=(2,),
                samples=(1,),
                deltas=(("took", 'a"é', (7,)), ("admitted", 'a"é', 0)),
            ),
        ),
        (
            "complete",
            Outcome(step=1, request=('a"é', "b"), token=(9, 8), stop=(True, False)),
            (("delivered", ('a"é',), (9,)), ("finished", 'a"é', "stop")),
        ),
        ("complete", Outcome(step=2, request=("b",), token=(9,), stop=(False,)), ()),
        ("cancel", "b", (("cancelled", "b"),)),
        ("notify", {"type": "reset_prefix_cache"}, (("unindexed", (7,)),)),
        ("end", None, None),
    ]


def test_renamed_tokens_are_equal_where_tokens_are() -> None:
    written, file = lines(renames=True)
    written.submit("a", [500, 600, 500], 3, 0)
    written.complete(1, ["a"], [600], ["a"], [])
    submitted, completed = read(file)
    assert submitted.given.prompt_ids == (0, 1, 0)
    assert completed.given.token == (1,)
    assert completed.answer == (("delivered", ("a",), (1,)),)


# --- what is refused -----------------------------------------------------------------------------------------


def scheduler(**changes: Any) -> Any:
    return Serving(**changes)


class FullAttentionManager(Thing):
    pass


class Serving(Thing):
    """The names that are looked at, and methods that do nothing but call each other."""

    def __init__(self, **changes: Any) -> None:
        group = FullAttentionManager(block_size=16, req_to_blocks={})
        cache = Thing(
            coordinator=Thing(single_type_managers=[group]),
            empty_kv_cache_blocks=Thing(blocks=((),)),
            watermark_blocks=3,
            allocate_slots=None,
            free=None,
            block_pool=Thing(cache_full_blocks=None),
        )
        plan = Thing(
            max_num_batched_tokens=128,
            enable_chunked_prefill=True,
            long_prefill_token_threshold=0,
            async_scheduling=True,
            prefill_schedule_interval=1,
        )
        usual: dict[str, Any] = {
            "current_step": 0,
            "requests": {},
            "lora_config": None,
            "num_spec_tokens": 0,
            "num_sampled_tokens_per_step": 1,
            "is_encoder_decoder": False,
            "connector": None,
            "ec_connector": None,
            "kv_cache_config": Thing(kv_cache_groups=["only"]),
            "kv_cache_manager": cache,
            "block_size": 16,
            "use_pp": False,
            "scheduler_config": plan,
            "cache_config": Thing(num_gpu_blocks=40, enable_prefix_caching=True),
            "policy": Thing(value="priority"),
            "max_num_active_reqs": 5,
            "max_num_scheduled_tokens": 100,
            "scheduler_reserve_full_isl": True,
            "max_model_len": 99,
        }
        super().__init__(**{**usual, **changes})

    def add_request(self, request: Any) -> str:
        self.requests[request.request_id] = request
        return "added"

    def finish_requests(self, request_ids: Any, finished_status: Any) -> str:
        self.requests.clear()
        return "ended"

    def schedule(self, throttle_prefills: bool = False) -> Any:
        raise RuntimeError("out of luck")

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        return self.finish_requests(["x"], "an error")

    def reset_prefix_cache(self) -> bool:
        return False

    def set_pause_state(self, pause_state: Any) -> None: ...

    def shutdown(self) -> None: ...


def request(**changes: Any) -> Any:
    usual = {
        "request_id": "a",
        "prompt_token_ids": [1, 2],
        "num_prompt_tokens": 2,
        "max_tokens": 500,
        "priority": 0,
        "prompt_embeds": None,
        "structured_output_request": None,
        "mm_features": [],
        "resumable": False,
        "cache_salt": None,
    }
    return Thing(**{**usual, **changes})


ODD_SCHEDULERS: dict[str, dict[str, Any]] = {
    "what came before: record a fresh scheduler": {"current_step": 7},
    "LoRA": {"lora_config": object()},
    "speculative decoding": {"num_spec_tokens": 2},
    "pooling and diffusion models": {"num_sampled_tokens_per_step": 0},
    "encoder-decoder models": {"is_encoder_decoder": True},
    "KV and encoder connectors": {"ec_connector": object()},
    "more or less than one KV cache group": {"kv_cache_config": Thing(kv_cache_groups=["full", "window"])},
    "other than full attention": {
        "kv_cache_manager": Thing(coordinator=Thing(single_type_managers=[Thing(block_size=16)]))
    },
    "context parallelism": {"block_size": 32},
    "pipeline parallelism": {"use_pp": True},
    "prefill_schedule_interval": {"scheduler_config": Thing(prefill_schedule_interval=4)},
}
ODD_REQUESTS: dict[str, dict[str, Any]] = {
    "multimodal input": {"mm_features": ["an image"]},
    "prompt embeddings": {"prompt_token_ids": None},
    "structured output": {"structured_output_request": object()},
    "streaming input": {"resumable": True},
    "a cache salt": {"cache_salt": "of a tenant"},
}


def test_the_usual_is_not_refused() -> None:
    refuse(scheduler(), CONFIGURED)
    refuse(request(), ASKED)
    assert ODD_SCHEDULERS.keys() == CONFIGURED.keys()
    assert ODD_REQUESTS.keys() == ASKED.keys()


@pytest.mark.parametrize("what", ODD_SCHEDULERS)
def test_a_scheduler_is_refused_in_a_sentence(what: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with pytest.raises(Unrecordable, match=f"^a trace has no words for {what}$"):
        record(scheduler(**ODD_SCHEDULERS[what]), file)
    assert not file.exists()


def test_the_settings_are_those_that_the_scheduler_lives_by() -> None:
    assert settings_of(scheduler()) == Settings(
        blocks=40,
        block_size=16,
        seats=5,
        token_budget=100,
        watermark_blocks=3,
        policy="priority",
        victim="lowest_priority",
        reserve="known",
        prefix_caching=True,
        overlap_depth=2,
        max_model_tokens=99,
    )


# --- it breaks nothing ---------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Recorder, io.BytesIO]:
    monkeypatch.setattr(vllm_recorder, "installed", lambda: "0.33.0")
    serving, file = scheduler(), io.BytesIO()
    return serving, record(serving, file), file


Recorded = tuple[Any, Recorder, io.BytesIO]


def test_methods_answer_as_before(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    serving, recorder, file = recorded
    assert serving.add_request(request()) == "added"
    assert serving.update_from_output(None, None) == "ended"  # which cancels, in there: no call from outside
    assert serving.finish_requests("unknown", "aborted") == "ended"
    recorder.close()
    recorder.close()
    kinds = [message.kind for message in read(file)]
    assert kinds == ["submit", "cancel", "end"]
    assert read(file)[0].given.max_output_tokens == 97  # its context ends there
    assert capsys.readouterr().err.startswith("schedspec: recorded: 0 steps, ")


def test_methods_are_given_back(recorded: Recorded) -> None:
    serving, recorder, file = recorded
    with recorder:
        serving.add_request(request())
    written = file.getvalue()
    for name in Recorder.HEARD:
        assert getattr(serving, name).__self__ is serving
    serving.add_request(request())
    assert file.getvalue() == written
    assert read(file)[-1].kind == "submit"  # somebody had not ended


def test_somebody_else_may_have_wrapped_it_since(recorded: Recorded) -> None:
    serving, recorder, file = recorded
    ours = serving.add_request
    serving.add_request = lambda request: "theirs, " + ours(request)
    recorder.close()
    assert serving.add_request(request()) == "theirs, added"
    assert [message.kind for message in read(file)] == ["end"]


def test_an_error_of_the_scheduler_stays_its_own(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    serving, recorder, _ = recorded
    with pytest.raises(RuntimeError, match="out of luck"):
        serving.schedule()
    assert recorder.over
    assert "the scheduler raised RuntimeError('out of luck')" in capsys.readouterr().err


def test_an_error_in_here_ends_the_recording(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    serving, recorder, file = recorded
    file.close()
    assert serving.add_request(request()) == "added"
    assert serving.add_request(request()) == "added"
    assert recorder.over
    told = capsys.readouterr().err
    assert told == "schedspec: the recording ends here, vLLM goes on: ValueError('I/O operation on closed file.')\n"


@pytest.mark.parametrize("what", ODD_REQUESTS)
def test_an_odd_request_ends_the_recording(what: str, recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    serving, recorder, file = recorded
    assert serving.add_request(request(**ODD_REQUESTS[what])) == "added"
    assert recorder.over
    told = capsys.readouterr().err
    assert told == f"schedspec: the recording ends here, vLLM goes on: a trace has no words for {what}\n"
    assert read(file) == []


def test_a_version_that_nobody_knows_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By name, vLLM serves all the same."""
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.1.0")
    monkeypatch.setattr("importlib.import_module", lambda name: Thing(Scheduler=lambda config: Serving()))
    monkeypatch.setenv("SCHEDSPEC_TRACE", str(tmp_path / "run-%p.jsonl"))
    monkeypatch.delenv("SCHEDSPEC_ANY_VERSION", raising=False)
    made = recording_scheduler(Thing(scheduler_config=Thing(async_scheduling=False)))
    assert isinstance(made, Serving)
    told = capsys.readouterr().err
    assert told.startswith(
        "schedspec: nothing is recorded, vLLM goes on: vLLM 0.1.0 is installed, but this adapter knows"
    )
    assert list(tmp_path.iterdir()) == []
