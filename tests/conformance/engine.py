"""The engine that the suite plays: it samples tokens from what each request really read.

A token is a function of the identity of the prefix that the content shadow found in the blocks, so wrong KV shows as
wrong output; and of nothing else, so any legal schedule of a request yields the same tokens.  When a request stops is
the workload's secret: the scheduler sees the declared length only.
"""

from collections.abc import Iterator
from itertools import compress
from operator import add
from typing import Any

from attrs import Factory, define

from schedspec.spec.tracks import chained
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
        if not (plan.drafts or self.pauses):
            return self._tokens(plan, digests)
        rows = [
            (request, digest % VOCABULARY, *self._accepted(request, plan.drafts.get(request, 0), digest, place))
            for request, digest, place in self._sampled(plan, digests)
        ]
        calls = [tool(place) if place in self.pauses.get(request, ()) else "" for request, _, _, place in rows]
        return Outcome(
            step=plan.step,
            request=[request for request, _, _, _ in rows],
            token=[token for _, token, _, _ in rows],
            stop=[self._stops(request, place) for request, _, _, place in rows],
            pause=calls if monitor.parks and any(calls) else (),
            accepted=[tokens for _, _, tokens, _ in rows] if any(tokens for _, _, tokens, _ in rows) else (),
        )

    def _tokens(self, plan: Plan, digests: list[int]) -> Outcome:
        """One for each entry that samples: nobody has drafts, or calls a tool."""
        last, prompts = self.stop_after, self.prompt_tokens
        ends = map(add, plan.start, plan.tokens)
        requests = list(compress(plan.request, plan.samples))
        return Outcome(
            step=plan.step,
            request=requests,
            token=[digest % VOCABULARY for digest in compress(digests, plan.samples)],
            stop=[
                request in last and end - prompts[request] + 1 >= last[request]
                for request, end in zip(requests, compress(ends, plan.samples), strict=True)
            ],
        )

    def _sampled(self, plan: Plan, digests: list[int]) -> Iterator[tuple[str, int, int]]:
        """Request, digest, and which output token of the request it is, from 1."""
        columns = zip(plan.request, plan.start, plan.tokens, plan.samples, digests, strict=True)
        for request, start, tokens, samples, digest in columns:
            if samples:
                yield request, digest, start + tokens - self.prompt_tokens[request] + 1

    def _accepted(self, request: str, drafts: int, digest: int, place: int) -> tuple[list[int], int]:
        """Of so many drafts the tokens of those that are right, up to one behind which the model stops or calls a tool;
        and the place of the last token.  Each is what the model would have said had it been asked alone."""
        right = digest // VOCABULARY % (drafts + 1)
        tokens: list[int] = []
        while len(tokens) < right and not (self._stops(request, place) or place in self.pauses.get(request, ())):
            digest = chained(digest, digest % VOCABULARY)
            tokens.append(digest % VOCABULARY)
            place += 1
        return tokens, place

    def _stops(self, request: str, place: int) -> bool:
        return place >= self.stop_after.get(request, place + 1)
