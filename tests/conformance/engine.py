"""The engine that the suite plays: it samples tokens from what each request really read.

A token is a function of the identity of the prefix that the content shadow found in the blocks, so wrong KV shows as
wrong output; and of nothing else, so any legal schedule of a request yields the same tokens.  When a request stops is
the workload's secret: the scheduler sees the declared length only.
"""

from typing import Any

from attrs import Factory, define

from schedspec.spec.vocabulary import Outcome, Plan

from .script import tool

VOCABULARY = 32_003


@define(eq=False)
class Engine:
    """`stop_after[request]`: output tokens after which the model ends by itself; `pauses[request]`: those after which
    it calls a tool.  Tools are called where the subject looks at dependencies."""

    stop_after: dict[str, int] = Factory(dict)
    prompt_tokens: dict[str, int] = Factory(dict)
    pauses: dict[str, tuple[int, ...]] = Factory(dict)

    def expect(self, request: str, prompt_tokens: int, stop_after: int | None, pauses: tuple[int, ...] = ()) -> None:
        self.prompt_tokens.setdefault(request, prompt_tokens)
        if pauses:
            self.pauses.setdefault(request, pauses)
        if stop_after is not None:
            self.stop_after.setdefault(request, stop_after)

    def outcome(self, plan: Plan, monitor: Any) -> Outcome:
        """Execute a planned step; one row per entry that samples."""
        digests = monitor.execute(plan.step)
        rows = [
            (request, digest % VOCABULARY, start + tokens - self.prompt_tokens[request] + 1)
            for request, start, tokens, samples, digest in zip(
                plan.request, plan.start, plan.tokens, plan.samples, digests, strict=True
            )
            if samples
        ]
        calls = [tool(place) if place in self.pauses.get(request, ()) else "" for request, _, place in rows]
        return Outcome(
            step=plan.step,
            request=[request for request, _, _ in rows],
            token=[token for _, token, _ in rows],
            stop=[place >= self.stop_after.get(request, place + 1) for request, _, place in rows],
            pause=calls if monitor.parks and any(calls) else (),
        )
