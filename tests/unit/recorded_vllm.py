"""The real vLLM through the recorder, for test_vllm_recorder.py: run by the interpreter that has vLLM.

    recorded_vllm.py FILE FIRST COUNT

Prints a JSON object per line: what differs for each random walk, and at last what else was seen.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve

from schedspec.conformance.driver import Driver
from schedspec.conformance.recorded import judge
from schedspec.conformance.script import COMPLETE, STEP, Script
from schedspec.conformance.subjects import vllm, vllm_release
from schedspec.conformance.subjects.vllm_recorder import Recorder, record, recording_scheduler
from schedspec.conformance.walks import plain_walk
from schedspec.spec.trace import read_trace
from schedspec.spec.vocabulary import Message, Settings, Unsupported

Rows = list[tuple[Any, ...]]


def main(file: Path, first: int, count: int) -> None:
    vllm.make.prepare()
    for seed in range(first, first + count):
        script = for_vllm(plain_walk(seed))
        with contextlib.suppress(Unsupported):
            driver, recorder = recorded(script, file)
            print(json.dumps({"seed": seed, **compared(driver, recorder, script, file)}), flush=True)
    print(json.dumps({"serving": serving(file), "refused": refused(file)}))


# --- random walks: the recording says what the adapter says --------------------------------------------------


def for_vllm(script: Script) -> Script:
    """The same walk, with the choices that vLLM has; block 0 is its own."""
    settings = script.settings
    policy: Any = settings.policy if settings.policy in ("fcfs", "priority") else "fcfs"
    victim: Any = "newest" if policy == "fcfs" else "lowest_priority"
    reserve: Any = "known" if settings.reserve == "declared" else settings.reserve
    seats, blocks = min(settings.seats, settings.token_budget), settings.blocks + 1
    queue: Any = {"policy": policy, "victim": victim, "at_blocked_head": "break"}
    changed = evolve(settings, reserve=reserve, seats=seats, blocks=blocks, **queue)
    return Script(changed, script.seed, script.ops)


def run(driver: Driver, script: Script) -> None:
    driver.run(script.ops)
    for _ in range(60):
        driver.do(STEP)
        driver.do(COMPLETE)


def recorded(script: Script, file: Path) -> tuple[Driver, Recorder]:
    """The run by the adapter, with a recorder on the scheduler that it drives."""
    recorders = []

    def factory(settings: Settings, seed: int) -> vllm.VllmScheduler:
        subject = vllm.make(settings, seed)
        recorders.append(record(subject.scheduler, file))
        return subject

    driver = Driver.start(factory, script.settings, script.seed, timeout_s=None)
    with recorders[-1]:
        run(driver, script)
    return driver, recorders[-1]


def compared(driver: Driver, recorder: Recorder, script: Script, file: Path) -> dict[str, Any]:
    alone = Driver.start(vllm.make, script.settings, script.seed, timeout_s=None)
    run(alone, script)
    header, lines = read_trace(file)
    messages = list(lines)
    ours, theirs = plain(messages), plain(driver.messages)
    known = {violation.rule for violation in driver.broken} | set(driver.advice)
    wrong = {
        "other decisions": alone.messages != driver.messages,
        "other capabilities": header.capabilities != driver.header.capabilities,
        "other settings": evolve(header.settings, max_model_tokens=script.settings.max_model_tokens) != script.settings,
        "other length": len(ours) != len(theirs),
        "other message": [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b][:1],
        "other end": (messages[-1].kind == "end") != (not recorder.scheduler.requests),
        "broken": sorted(set(judge(file).first) - known),
    }
    deltas = {delta[0] for message in ours for delta in message[-1]}
    return {"deltas": sorted(deltas), "wrong": {name: what for name, what in wrong.items() if what}}


def plain(messages: Iterable[Message]) -> Rows:
    """What both must say, without what never gets from the adapter to vLLM, and without time.

    Where the model stops, the suite has a token and the recording has vLLM's.  Of a token that nobody got any more vLLM
    does not know whether it stops.
    """
    accepted: set[str] = set()
    completed: set[int] = set()
    return [row for message in messages if (row := _plain(message, accepted, completed))]


def _plain(message: Message, accepted: set[str], completed: set[int]) -> tuple[Any, ...] | None:
    given, answer = message.given, message.answer
    if message.kind == "submit" and answer.verdict == "accepted":
        accepted.add(given.id)
        return message.kind, given.id, given.prompt_ids, given.max_output_tokens, given.priority, ()
    if message.kind == "cancel":
        return message.kind, given, _lists(answer)
    if message.kind == "step":
        columns = [list(column) for column in (answer.request, answer.start, answer.tokens, answer.samples)]
        return message.kind, answer.step, columns, _lists(answer.deltas)
    if message.kind == "complete" and given.step not in completed:
        completed.add(given.step)
        return message.kind, given.step, *_results(given, _lists(answer))
    return None


def _results(given: Any, deltas: list[list[Any]]) -> tuple[Rows, list[list[Any]]]:
    got = set(deltas[0][1]) if deltas and deltas[0][0] == "delivered" else set()
    stops = {name for name, stop in zip(given.request, given.stop, strict=True) if stop and name in got}
    known = got - stops
    rows = [(n, n in stops, t if n in known else None) for n, t in zip(given.request, given.token, strict=True)]
    if got:
        _, names, tokens = deltas[0]
        deltas[0] = ["delivered", *((n, t if n in known else None) for n, t in zip(names, tokens, strict=True))]
    return rows, deltas


def _lists(deltas: Any) -> list[list[Any]]:
    return [[list(part) if isinstance(part, tuple) else part for part in delta] for delta in deltas]


# --- a scheduler that serves ---------------------------------------------------------------------------------


class Server:
    """An engine around a scheduler; a token is the number of the step."""

    def __init__(self, settings: Settings) -> None:
        self.v = vllm_release.vllm()
        self.scheduler = vllm_release.new_scheduler(self.v, settings, settings.max_model_tokens)
        self.hasher = self.v.get_request_block_hasher(settings.block_size, self.v.sha256)
        self.steps = 0

    def add(self, name: str, prompt: int, most: int, stop: int = 0, **more: Any) -> None:
        ids = list(range(500, 500 + prompt))
        sampling = self.v.SamplingParams(max_tokens=most, stop_token_ids=[stop])
        self.scheduler.add_request(self.v.Request(name, ids, sampling, None, block_hasher=self.hasher, **more))

    def round(self) -> Any:
        self.steps += 1
        out = self.scheduler.schedule()
        ids = list(out.num_scheduled_tokens)
        requests = self.scheduler.requests
        sampled = [[] if requests[name].is_prefill_chunk else [self.steps] for name in ids]
        # The engine's batch has an order of its own.
        places = {name: len(ids) - 1 - place for place, name in enumerate(ids)}
        result = self.v.ModelRunnerOutput(req_ids=ids[::-1], req_id_to_index=places, sampled_token_ids=sampled[::-1])
        return self.scheduler.update_from_output(out, result)


SMALL = Settings(blocks=32, block_size=2, seats=4, token_budget=8, prefix_caching=True, reserve="known")
SMALL = evolve(SMALL, max_model_tokens=40)


def serving(file: Path) -> dict[str, Any]:
    """Cancels of several, an unknown one, a stop, a context that ends, a cache that is reset, an orderly end."""
    server = Server(SMALL)
    scheduler, errors = server.scheduler, io.StringIO()
    with contextlib.redirect_stderr(errors):
        recorder = record(scheduler, file, rename_tokens=True)
        for name, prompt, most in (("a", 9, 30), ("b", 9, 30), ("c", 5, 9), ("long", 29, 1_000)):
            server.add(name, prompt, most, stop=7 if name == "b" else 0)
        for _ in range(3):
            server.round()
        aborted = server.v.RequestStatus.FINISHED_ABORTED
        scheduler.finish_requests(["a", "c", "nobody"], aborted)
        while scheduler.requests:
            server.round()
        done = scheduler.reset_prefix_cache()
        server.add("d", 9, 2)
        while scheduler.requests:
            server.round()
        scheduler.shutdown()
        scheduler.shutdown()
    judged = judge(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ends = [delta for line in lines if line["type"] == "complete" for delta in line["deltas"] if delta[0] == "finished"]
    return {
        "broken": sorted(judged.first),
        "fault": str(judged.fault),
        "kinds": sorted({line["type"] for line in lines}),
        "prompt": lines[1]["request"]["prompt_ids"],
        "cancelled": [[line["request_id"], line["deltas"][-1:]] for line in lines if line["type"] == "cancel"],
        "finished": ends,
        "reset": done,
        "over": recorder.over,
        "stderr": errors.getvalue(),
    }


def refused(file: Path) -> dict[str, str]:
    """What was printed, or raised; the scheduler goes on each time."""
    told = {"an error inside": wrong_inside(file), "a paused scheduler": paused(file)}
    told["a cache salt"] = salted(file)
    server = Server(SMALL)
    server.round()
    try:
        record(server.scheduler, file)
    except ValueError as error:
        told["a scheduler that has run"] = str(error)
    return {**told, **by_name(file)}


def wrong_inside(file: Path) -> str:
    server, errors = Server(SMALL), io.StringIO()
    with contextlib.redirect_stderr(errors):
        recorder = record(server.scheduler, file)
        server.add("a", 3, 20)
        server.round()
        recorder.lines.file.close()
        for _ in range(30):
            server.round()
    assert not server.scheduler.requests
    return errors.getvalue()


def paused(file: Path) -> str:
    server, errors = Server(SMALL), io.StringIO()
    with contextlib.redirect_stderr(errors):
        record(server.scheduler, file)
        server.scheduler.set_pause_state(type(server.scheduler.pause_state).PAUSED_NEW)
        server.add("a", 3, 2)
        server.round()
    assert file.read_text().count("\n") == 1
    return errors.getvalue()


def salted(file: Path) -> str:
    server, errors = Server(SMALL), io.StringIO()
    with contextlib.redirect_stderr(errors):
        record(server.scheduler, file)
        server.add("a", 3, 2, cache_salt="of a tenant")
        server.round()
    return errors.getvalue()


def by_name(file: Path) -> dict[str, str]:
    """`--scheduler-cls`: of the class that vLLM would take, recorded; and if the file cannot be written, not."""
    v = vllm_release.vllm()
    server = Server(SMALL)
    config = server.scheduler.vllm_config
    told = {}
    for path in (file, file / "no folder"):
        os.environ["SCHEDSPEC_TRACE"] = str(path)
        for ahead in (False, True):
            config.scheduler_config.async_scheduling = ahead
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                made = recording_scheduler(
                    vllm_config=config,
                    kv_cache_config=server.scheduler.kv_cache_config,
                    structured_output_manager=v.structured_output,
                    block_size=SMALL.block_size,
                )
                made.schedule()
                made.shutdown()
            told[f"{path.name}, {type(made).__name__}"] = errors.getvalue()
    return told


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
