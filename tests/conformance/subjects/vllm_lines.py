"""The lines of a recorded vLLM.  `TraceWriter` writes such lines, too, but not in the time that there is: vLLM decides
a step of 256 requests in 3 ms, and its lines have 2,000 values.  vLLM brings msgspec, which is fast enough."""

import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic_ns
from typing import IO, Any

from attrs import Factory, define

from schedspec.spec.encoding import encode
from schedspec.spec.vocabulary import SCHEMA, Delta, Header


def _fastest() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """What writes JSON, and what marks a part of it that is written already."""
    try:
        return importlib.import_module("msgspec.json").encode, importlib.import_module("msgspec").Raw
    except ImportError:
        return (lambda value: encode(value).encode("ascii")), json.loads


@define(eq=False)
class Lines:
    """`codes`: token -> what is written for it, if `renames`: other integers, equal where tokens are.
    `last`: a column of ids, and what was written for it."""

    file: IO[bytes]
    renames: bool = False
    started_ns: int = Factory(monotonic_ns)
    codes: dict[int, int] = Factory(lambda: defaultdict(count().__next__))
    json: tuple[Callable[[Any], bytes], Callable[[bytes], Any]] = Factory(_fastest)
    last: tuple[list[str], Any] = ([], [])

    def header(self, header: Header) -> None:
        plain = {name: getattr(header, name) for name in ("settings", "capabilities", "seed", "subject")}
        self.file.write(encode({"schema": SCHEMA, "type": "header", **plain}).encode("ascii") + b"\n")

    def submit(self, name: str, prompt: list[int], most: int, priority: int) -> None:
        request = {"id": name, "prompt_ids": self.renamed(prompt), "max_output_tokens": most, "priority": priority}
        self.put("submit", request=request, receipt={"verdict": "accepted"})

    def cancel(self, name: str, deltas: Sequence[Delta]) -> None:
        self.put("cancel", request_id=name, deltas=deltas)

    def notify(self, event: str, deltas: Sequence[Delta]) -> None:
        self.put("notify", event={"type": event}, deltas=deltas)

    def step(
        self, step: int, ids: list[str], start: list[int], tokens: list[int], samples: list[int], deltas: list[Delta]
    ) -> None:
        plan = {"step": step, "request": self.column(ids), "start": start, "tokens": tokens, "samples": samples}
        self.put("step", plan={**plan, "deltas": deltas})

    def complete(self, step: int, ids: list[str], tokens: list[int], got: list[str], deltas: list[Delta]) -> None:
        """`ids` sampled `tokens`; those of `got` were handed on."""
        tokens = self.renamed(tokens)
        stopped = {delta[1] for delta in deltas if delta[0] == "finished" and delta[2] == "stop"}
        stop = [name in stopped for name in ids] if stopped else [False] * len(ids)
        dump, written = self.json
        column = written(dump(tokens))
        outcome = {"step": step, "request": self.column(ids), "token": column, "stop": stop}
        if got:
            if got != ids:
                token = dict(zip(ids, tokens, strict=True))
                column = [token[name] for name in got]
            deltas = [("delivered", self.column(got), column), *deltas]
        self.put("complete", outcome=outcome, deltas=deltas)

    def end(self) -> None:
        self.put("end")

    def put(self, kind: str, **parts: Any) -> None:
        line = {"schema": SCHEMA, "type": kind, "now_ns": monotonic_ns() - self.started_ns, **parts}
        self.file.write(self.json[0](line))
        self.file.write(b"\n")

    def column(self, ids: list[str]) -> Any:
        """Mostly the same as last time."""
        if ids != self.last[0]:
            dump, written = self.json
            self.last = ids, written(dump(ids))
        return self.last[1]

    def renamed(self, tokens: list[int]) -> list[int]:
        return [self.codes[token] for token in tokens] if self.renames else tokens
