"""Writes down what the scheduler of a serving vLLM decides; `schedspec trace FILE` judges it.

    SCHEDSPEC_TRACE=run-%p.jsonl vllm serve … \
        --scheduler-cls schedspec.conformance.subjects.vllm_recorder.recording_scheduler

(`%p`: the process; SCHEDSPEC_RENAME_TOKENS=1 hides the texts), or `with record(scheduler, "run.jsonl"): …`, where
`scheduler` is that of vllm.v1.engine.core.EngineCore before its first request.  Methods of that one object are wrapped
and answer as before.  What a trace has no words for (`vllm_recordable.py`) is refused, or ends the recording: one line
on stderr, and no `end` in the trace.  vLLM goes on.
"""

import importlib
import os
import sys
from typing import Any, ClassVar

from attrs import Factory, define

from schedspec.spec.vocabulary import Header

from .vllm import capabilities_of
from .vllm_lines import Lines
from .vllm_listener import Listener
from .vllm_recordable import ASKED, CONFIGURED, Unrecordable, most_output_tokens, refuse, settings_of
from .vllm_release import installed


def record(scheduler: Any, to: Any, *, rename_tokens: bool = False) -> "Recorder":
    """Records until `close()`, to a path or a binary file.  `rename_tokens`: other integers, equal where tokens are."""
    refuse(scheduler, CONFIGURED)
    settings = settings_of(scheduler)
    capabilities = capabilities_of(settings, installed())
    given = hasattr(to, "write")
    file = to if given else open(to, "wb", buffering=1 << 20)  # noqa: SIM115
    recorder = Recorder(scheduler, lines=Lines(file, rename_tokens), owns=not given)
    recorder.lines.header(Header(settings=settings, capabilities=capabilities, subject="vllm"))
    recorder.watch()
    return recorder


def recording_scheduler(vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
    """What vLLM makes without `--scheduler-cls`, recorded if SCHEDSPEC_TRACE names a file."""
    name = "AsyncScheduler" if vllm_config.scheduler_config.async_scheduling else "Scheduler"
    module = importlib.import_module("vllm.v1.core.sched.async_scheduler")  # it imports the other one
    scheduler = getattr(module, name)(vllm_config, *args, **kwargs)
    if path := os.environ.get("SCHEDSPEC_TRACE", "").replace("%p", str(os.getpid())):
        try:
            record(scheduler, path, rename_tokens=os.environ.get("SCHEDSPEC_RENAME_TOKENS") == "1")
        except Exception as error:
            print(f"schedspec: nothing is recorded, vLLM goes on: {error}", file=sys.stderr)
    return scheduler


@define(eq=False, kw_only=True)
class Recorder(Listener):
    """`in_flight`: by the identity of what was planned, which is kept as long; its step, and who is in it."""

    HEARD: ClassVar[dict[str, str]] = {
        "add_request": "submit",
        "finish_requests": "cancel",
        "schedule": "step",
        "update_from_output": "complete",
        "reset_prefix_cache": "reset",
        "set_pause_state": "pause",
        "shutdown": "finish",
    }
    lines: Lines
    owns: bool
    steps: int = 0
    in_flight: dict[int, tuple[Any, int, list[str]]] = Factory(dict)
    prefilling: set[str] = Factory(set)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.tell(self.finish)

    def finish(self, *_: object) -> None:
        if not self.scheduler.requests:  # else somebody was cut off
            self.lines.end()
        self.stop(f"{self.steps:,} steps, {self.share:.1%} of the scheduler's own time", "recorded")

    def release(self) -> None:
        (self.lines.file.close if self.owns else self.lines.file.flush)()

    def submit(self, _: Any, request: Any) -> None:
        refuse(request, ASKED)
        most = most_output_tokens(self.scheduler, request)
        self.lines.submit(request.request_id, request.prompt_token_ids, most, request.priority)

    def cancel(self, _: Any, request_ids: Any, *__: Any, **___: Any) -> None:
        deltas: dict[str, list[Any]] = {}
        for delta in self.take():
            deltas.setdefault(delta[1], []).append(delta)
        for name in [request_ids] if isinstance(request_ids, str) else request_ids or ():
            deltas.setdefault(name, [])  # unknown, or it has ended
        for name, own in deltas.items():
            self.lines.cancel(name, own)

    def step(self, out: Any, *_: Any, **__: Any) -> None:
        self.steps += 1
        ids, old, new = list(out.num_scheduled_tokens), out.scheduled_cached_reqs, out.scheduled_new_reqs
        names = old.req_ids + [one.req_id for one in new]
        start = old.num_computed_tokens + [one.num_computed_tokens for one in new]
        if names != ids:  # new ones and resumed ones by turns
            places = dict(zip(names, start, strict=True))
            start = [places[name] for name in ids]
        deltas = self.take()
        entered = {delta[1] for delta in deltas if delta[0] in ("admitted", "resumed")}
        requests = self.scheduler.requests
        self.prefilling = {
            name for name in self.prefilling | entered if name in requests and requests[name].is_prefill_chunk
        }
        samples = [int(name not in self.prefilling) for name in ids] if self.prefilling else [1] * len(ids)
        tokens = list(out.num_scheduled_tokens.values())
        self.lines.step(self.steps, ids, start, tokens, samples, deltas)
        self.asking = None
        if ids:
            self.in_flight[id(out)] = out, self.steps, ids

    def complete(self, answers: Any, scheduler_output: Any, model_runner_output: Any) -> None:
        key = id(scheduler_output)
        if key not in self.in_flight:  # it ran nobody
            return
        _, step, ids = self.in_flight.pop(key)
        sampled, index = model_runner_output.sampled_token_ids, model_runner_output.req_id_to_index
        try:
            tokens = [sampled[index[name]][0] for name in ids]
        except IndexError:  # some are in the middle of their prompt
            rows = [(name, sampled[index[name]]) for name in ids] if sampled else []
            ids, tokens = [name for name, row in rows if row], [row[0] for _, row in rows if row]
        got = [one.request_id for answer in answers.values() for one in answer.outputs if one.new_token_ids]
        self.lines.complete(step, ids, tokens, got, self.take())

    def reset(self, done: Any, *_: Any, **__: Any) -> None:
        if done and self.indexed:
            self.deltas.append(("unindexed", sorted(self.indexed)))
            self.indexed.clear()
        self.lines.notify("reset_prefix_cache", self.take())

    def pause(self, _: Any, pause_state: Any) -> None:
        if pause_state.name != "UNPAUSED":
            raise Unrecordable("a trace has no words for a scheduler that is paused")
