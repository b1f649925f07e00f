"""Draft tokens: guesses that a decode has the model verify in its step, beside its own token.

To the relation an accepted draft is a decode of its own, which is planned and computed in the result that brings it: so
whatever it asks of positions and tokens it asks of drafts too.  How many there are, and of whom, is judged here.
"""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import Factory, define, evolve

from .errors import ProtocolError
from .vocabulary import Outcome, Plan

if TYPE_CHECKING:
    from .judging import Judge
    from .tracks import Track

CLAIM = "drafts"


@define(eq=False)
class Drafts:
    """`planned`: step in flight -> how many drafts each request has in it.  Of the result at hand: `accepted` tokens
    behind the first of each request, and who `stops` at the last of them."""

    planned: dict[int, Mapping[str, int]] = Factory(dict)
    accepted: dict[str, deque[int]] = Factory(dict)
    stops: set[str] = Factory(set)

    # --- a plan ------------------------------------------------------------------------------------------

    def plan(self, m: "Judge", plan: Plan) -> None:
        """STEP-1, 6 and 7, and KV-4, as far as they speak of drafts."""
        if not m.claims(CLAIM):
            hint = f"claim {CLAIM!r} where draft_tokens is not 0, and nowhere else"
            raise ProtocolError("step", "plan.drafts", dict(plan.drafts), "are drafts that nobody asked for", hint)
        self.planned[plan.step] = plan.drafts
        ends = {
            request: start + tokens
            for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True)
        }
        decodes = {
            request
            for request, start, samples in zip(plan.request, plan.start, plan.samples, strict=True)
            if samples and start >= m.world.RequestId[request].goal
        }
        for request, count in plan.drafts.items():
            self._judge(m, request, count, ends, is_decode=request in decodes)
        self._judge_sum(m, sum(plan.drafts.values()))

    def _judge(self, m: "Judge", request: str, count: int, ends: Mapping[str, int], *, is_decode: bool) -> None:
        m.count("STEP-6")
        victims = m.view.victims if m.view is not None else ()
        if request not in ends and any(victim.track.id == request for victim in victims):
            says = "what a victim would have used is given back, its drafts too"
            m.fail("STEP-7", "drafts", says, request=request, drafts=count)
        elif request not in ends:
            says = "drafts exist only for requests in the step"
            m.fail("STEP-6", "stray", says, request=request, drafts=count)
        elif not is_decode:
            m.fail("STEP-6", "prefill", "drafts go on behind a decode", request=request, drafts=count)
        elif not 1 <= count <= m.settings.draft_tokens:
            says = "a decode has at most draft_tokens drafts"
            m.fail("STEP-6", "most", says, request=request, drafts=count, draft_tokens=m.settings.draft_tokens)
        elif m.shows_tables and ends[request] + count > (room := m.world.RequestId[request].room):
            m.fail("KV-4", "drafts", "the block table covers drafts", request=request, drafts=count, room=room)

    def _judge_sum(self, m: "Judge", drafts: int) -> None:
        m.count("STEP-1")
        prefill, decode, budget = m.world.prefill, m.world.decode, m.settings.token_budget
        if (prefill or m.claims("hard_budget")) and prefill + decode + drafts > budget:
            says = "all tokens of a step, drafts included, stay within the token budget"
            facts = {"prefill": prefill, "decode": decode, "drafts": drafts, "token_budget": budget}
            m.fail("STEP-1", "drafts", says, **facts)
        if m.view is not None:
            m.view.drafts = drafts

    # --- a result ----------------------------------------------------------------------------------------

    def begin(self, outcome: Outcome) -> Outcome:
        """The first token of each row, behind which no request stops that has more."""
        planned = self.planned.pop(outcome.step, {})
        self.accepted, self.stops = {}, set()
        if not outcome.accepted:
            return outcome
        for request, tokens, stop in zip(outcome.request, outcome.accepted, outcome.stop, strict=True):
            if len(tokens) > planned.get(request, 0):
                problem = f"are {len(tokens)} tokens of {request!r}, which has {planned.get(request, 0)} drafts"
                raise ProtocolError("complete", "outcome.accepted", list(tokens), f"{problem} in step {outcome.step}")
            if tokens:
                self.accepted[request] = deque(tokens)
                self.stops |= {request} if stop else set()
        stops = [stop and not tokens for stop, tokens in zip(outcome.stop, outcome.accepted, strict=True)]
        return evolve(outcome, stop=stops)

    def next_token(self, m: "Judge", track: "Track") -> int | None:
        """The next accepted token of a request that stands, which is planned and computed with that."""
        tokens = self.accepted.get(track.id)
        if not tokens or track.ended or track.id not in m.world.running:
            return None
        token = tokens.popleft()
        record = m.world.RequestId[track.id]
        position = record.issued
        record.issued += 1
        record.known += 1
        record.in_flight += 1
        record.high = max(record.high, record.issued)
        if m.shadow is not None:
            m.shadow.write(track, position)
        m.computed(track.id, record.issued, stop=track.id in self.stops and not tokens)
        return token

    def end(self, m: "Judge") -> None:
        """What nobody delivered is owed."""
        for request in list(self.accepted):
            if request in m.tracks:
                self.next_token(m, m.tracks[request])
        self.accepted = {}
