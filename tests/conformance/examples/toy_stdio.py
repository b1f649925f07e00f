"""Serves a scheduler over stdio: `schedspec check 'exec:python toy_stdio.py toy_scheduler:Scheduler'`.

One question per line of stdin, one answer per line of stdout and nothing else: what prints, prints to stderr.
It imports nothing of schedspec, so the scheduler may live in an environment of its own.
"""

import json
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any


class Server:
    def __init__(self, factory: Any) -> None:
        self.factory = factory

    def configure(self, settings: Any, seed: int) -> Any:
        self.given = settings, seed
        self.reset()
        return self.scheduler.capabilities()

    def reset(self) -> None:
        self.scheduler = self.factory(*self.given)

    def observe(self) -> Any:
        return self.scheduler.observe() if hasattr(self.scheduler, "observe") else None

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self.call(method, params)}
        except NotImplementedError as refusal:
            return {"error": {"message": f"not supported: {refusal}", "unsupported": str(refusal)}}

    def call(self, method: str, params: dict[str, Any]) -> Any:
        if method in ("configure", "reset", "observe"):
            return getattr(self, method)(**params)
        return getattr(self.scheduler, method)(**params)


def main() -> None:
    module, _, name = (sys.argv[1] if len(sys.argv) > 1 else "toy_scheduler:Scheduler").partition(":")
    server, answers, sys.stdout = Server(getattr(import_module(module), name)), sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        params = question["params"]
        for name in {"settings", "request", "outcome"} & params.keys():
            params[name] = SimpleNamespace(**params[name])
        answer = server.answer(question["method"], params)
        print(json.dumps({"id": question["id"], **answer}), file=answers, flush=True)


if __name__ == "__main__":
    main()
