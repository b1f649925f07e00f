"""Bugs of the door: who is let in though nothing will ever have room for it, or though the queue is full."""

from attrs import evolve

from schedspec.reference import Scheduler
from schedspec.reference.alternatives import Refusal
from schedspec.spec.vocabulary import Request

from .registry import bug, sibling


@bug(
    "B35",
    rules=("ADMIT-1",),
    kind="never fits",
    title="A prompt that is larger than the whole cache, but within the model's limit, is queued and blocks everybody",
    url="https://github.com/vllm-project/vllm/issues/39734",
)
class AsksTheModelOnly(Scheduler):
    """What the model can read is what the door asks; that the whole prompt is reserved is the admission's business."""

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        refusal = super().refusal(request)
        is_of_memory = refusal is not None and refusal[0] == "kv_blocks"
        return None if is_of_memory and self.state.settings.reserve == "known" else refusal


@sibling("B35", "a prompt above the step's budget, where prompts are not split")
class SplitsLater(Scheduler):
    """That prompts are not split is decided after the door was built."""

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        refusal = super().refusal(request)
        return None if refusal is not None and refusal[0] == "token_budget" else refusal


@sibling("B35", "the prompt fits, and what may come out is not asked")
class AsksForThePrompt(Scheduler):
    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        refusal = super().refusal(request)
        if refusal is None or refusal[0] != "kv_blocks":
            return refusal
        return super().refusal(evolve(request, max_output_tokens=1))


class WithTwoWays(Scheduler):
    """One way in asks the bounds of the queue, the other one does not."""

    def takes_the_short_way(self, request: Request) -> bool:
        raise NotImplementedError

    def refusal_at_the_gate(self, request: Request) -> Refusal | None:
        gate = self.state.gate
        if gate is None or not self.takes_the_short_way(request):
            return super().refusal_at_the_gate(request)
        declared = gate.settings
        gate.settings = evolve(declared, door=evolve(declared.door, queue_requests=0, queue_tokens=0))
        try:
            return super().refusal_at_the_gate(request)
        finally:
            gate.settings = declared


@bug(
    "B37",
    rules=("ADMIT-3",),
    kind="queue bound",
    where="router",
    title="The bound of the queue is asked where a model is loaded, and not where it is there already",
    url="https://github.com/ollama/ollama/issues/7758",
)
class AsksWhenItLoads(WithTwoWays):
    """While somebody runs the model is there, and a semaphore lets in one after the other."""

    def takes_the_short_way(self, request: Request) -> bool:
        return bool(self.state.running)


@sibling("B37", "a request of a better class is put into the line without asking how long that is")
class AsksTheFirstClass(WithTwoWays):
    def takes_the_short_way(self, request: Request) -> bool:
        return request.priority > 0


@sibling("B37", "the bound counts requests that came at the same moment once")
class CountsMoments(WithTwoWays):
    """A burst is one call of the front end."""

    last_ns = -1

    def takes_the_short_way(self, request: Request) -> bool:
        is_same, self.last_ns = self.state.now_ns == self.last_ns, self.state.now_ns
        return is_same
