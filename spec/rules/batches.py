"""STEP rules on how prefill and decode share a step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..caps import in_prefill
from ..relation import registry
from .base import TraceRule, record

if TYPE_CHECKING:
    from ..monitor import Monitor, StepView

monitor = registry.monitor


def _idle_decodes(m: "Monitor", view: "StepView") -> list[str]:
    """Decodes that run, await no token in flight, and are not in the step."""
    if len(m.world.running) == len(view.plan.request):
        return []
    left_out = m.world.running.difference(view.plan.request)
    return sorted(request for request in left_out if _could_decode(record(m, request)))


def _could_decode(r: Any) -> bool:
    return bool(r.goal <= r.issued < r.known and not r.in_flight and r.outputs < r.output_limit)


def _prompts(m: "Monitor", view: "StepView") -> Iterator[tuple[str, int]]:
    """Requests in prefill in the step, recomputation included, and their tokens."""
    plan = view.plan
    for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
        if start < record(m, request).goal:
            yield request, tokens


@monitor("STEP-9", claims=("stall_free",))
class NoDecodeStalls(TraceRule):
    """Every decode that is not preempted and not awaiting a token in flight is in every step, unless decodes alone use
    up the budget.

    Why: one long prompt stops every stream that is being read (Sarathi-Serve, OSDI 2024, section 4.2: stall-free
    batching).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not m.world.prefill and view.budget_left < 1:
            return
        if m.world.decode or m.world.prefill:
            m.count("STEP-9")
        stalled = _idle_decodes(m, view)
        if stalled:
            says = "every decode that could run is in every step"
            m.fail("STEP-9", "stalled", says, request=stalled[0], prefill=m.world.prefill, budget_left=view.budget_left)


@monitor("STEP-10", claims=("mixes_prefill",), bugs=("B11",))
class PrefillAloneEnds(TraceRule):
    """At most prefill_only_steps steps in a row do prefill alone while a decode could run.

    Why: with prefill first whenever there is any, streams got one token in 24 seconds under steady arrivals
    (https://github.com/sgl-project/sglang/issues/32549).
    """

    def __init__(self) -> None:
        self.alone = 0

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not view.plan.request:
            return
        idle = [] if m.world.decode else _idle_decodes(m, view)
        if m.world.prefill and (m.world.decode or idle):
            m.count("STEP-10")
        if not idle:
            self.alone = 0
            return
        self.alone += 1
        most = m.capabilities.constant("prefill_only_steps")
        if self.alone > most:
            says = "at most so many steps in a row do prefill alone while a decode could run"
            m.fail("STEP-10", "alone", says, decode=idle[0], steps=self.alone, most=most)
            self.alone = 0


@monitor("STEP-12", claims=("prompt_share",))
class OnePromptLeavesRoom(TraceRule):
    """One prompt gets at most chunk_tokens of a step while another request waits for prefill.

    Why: one long prompt takes the whole budget of step after step, and short ones behind it wait for all of it
    (https://github.com/vllm-project/vllm/pull/30592).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        most = m.settings.chunk_tokens
        prompts = list(_prompts(m, view)) if most and m.settings.chunked_prefill else []
        if not prompts:
            return
        waiting = m.waiting - len(view.victims) > 0
        unfinished = [r for r in m.world.running if record(m, r).issued < record(m, r).goal]
        for request, tokens in prompts:
            if waiting or any(other != request for other in unfinished):
                m.count("STEP-12")
                if tokens > most:
                    says = "one prompt gets at most so many tokens of a step while another waits for prefill"
                    m.fail("STEP-12", "share", says, request=request, tokens=tokens, most=most)


@monitor("STEP-14", claims=("inter_token",))
class StepsKeepTheObjective(TraceRule):
    """By the declared time model no step takes longer than the inter-token objective.

    Why: a chunk of prefill stretches the step for every stream in it, so the token budget follows from the objective
    (Sarathi-Serve, OSDI 2024, section 4.3).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        tokens, door = sum(view.plan.tokens), m.settings.door
        if not (tokens and door.inter_token_ns):
            return
        m.count("STEP-14")
        if door.takes_ns(tokens) > door.inter_token_ns:
            says = "no step takes longer than the inter-token objective by the time model"
            m.fail("STEP-14", "time", says, tokens=tokens, takes=door.takes_ns(tokens), most=door.inter_token_ns)


@monitor("STEP-15", claims=("prefill_cap",))
class SoManyPromptsAtOnce(TraceRule):
    """At most prefilling_requests prompts are in prefill at once, recomputation included.

    Why: a few large prompts that are in prefill together hold memory and budget, and everything behind them piles up
    (https://github.com/vllm-project/vllm/pull/10235).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        most = m.settings.prefilling_requests
        prompts = in_prefill(m) if most else set()
        if not prompts:
            return
        m.count("STEP-15")
        if len(prompts) > most:
            says = "so many prompts at most are in prefill at once"
            m.fail("STEP-15", "prompts", says, prompts=sorted(prompts), most=most)


@monitor("STEP-19", claims=("adapters",))
class SoManyAdaptersAtOnce(TraceRule):
    """At most adapter_slots different adapters are in use at once, by all requests that run; the model itself is none.

    Why: SGLang's scheduler did not count the adapter of a prompt that was half-way, so a batch needed one more than
    there were slots, and the check that found it took the server down
    (https://github.com/sgl-project/sglang/pull/25078).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        slots, used = m.settings.adapter_slots, m.residents.adapters
        if not slots or not used:
            return
        m.count("STEP-19")
        if len(used) > slots:
            says = "so many adapters at most are in use at once"
            m.fail("STEP-19", "adapters", says, adapters=sorted(used), slots=slots)


@monitor("STEP-20")
class TheLastTokenIsNeverRun(TraceRule):
    """Whose declared tokens are all there or under way is in no further step: its last one is never run.

    Why: planned one step ahead, each request that ends by its length took a step more than it needed, whose result
    nobody reads (vLLM, https://github.com/vllm-project/vllm/pull/27922).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        plan = view.plan
        if view.nothing_in_flight or not plan.request:
            return  # whoever had all of them has ended (LIFE-5)
        m.count("STEP-20")
        for request, start, tokens in zip(plan.request, plan.start, plan.tokens, strict=True):
            last = m.tracks[request].limit_tokens - 1
            if start + tokens > last:
                says = "the last token of a request is never run"
                m.fail("STEP-20", "last", says, request=request, start=start, tokens=tokens, last=last)


@monitor("KV-18", needs="tables", claims=("on_demand_reserve",))
class WasteIsBelowABlock(TraceRule):
    """Where blocks are taken on demand, what is wasted inside blocks is below one block per sequence: what it holds
    beyond the positions that are issued is less than one block and what it looks ahead.

    Why: that is the point of paging: all waste of a request is in its last block (PagedAttention, SOSP 2023,
    section 4.3), where allocators that reserve use 20 to 38 % of the memory.
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        """Only who took blocks can have too many."""
        requests = m.running_among(view.acquired)
        most = m.settings.block_size + m.capabilities.lookahead_tokens
        m.count("KV-18", len(requests))
        if m.most_apart(requests, "room", "issued") < most:
            return
        columns = m.cells_of(requests, "room"), m.cells_of(requests, "issued")
        for request, room, issued in zip(requests, *columns, strict=True):
            if room - issued >= most:
                says = "what is wasted inside blocks is below one block per sequence"
                m.fail("KV-18", "waste", says, request=request, held=room, issued=issued, block_size=most)
