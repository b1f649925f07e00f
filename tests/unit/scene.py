"""A run as somebody watches it who waits for an answer: who was admitted when, who had a first token when, who got how
much until then.  Time is counted in steps."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from attrs import Factory, define

from schedspec.conformance.driver import Driver
from schedspec.conformance.script import COMPLETE, STEP, Op
from schedspec.reference import make
from schedspec.spec.vocabulary import Request, Settings, SubjectFactory

Arrivals = Callable[[int], Iterable[Request]]
"""Step -> who arrives before it."""

SELDOM = 64
"""Calls between two snapshots: each costs what waits."""


@define
class Scene:
    """`arrived`, `admitted`, `answered` (first token), `ended`: request -> step.  `outputs`: client -> tokens."""

    driver: Driver
    arrived: dict[str, int] = Factory(dict)
    admitted: dict[str, int] = Factory(dict)
    answered: dict[str, int] = Factory(dict)
    ended: dict[str, int] = Factory(dict)
    outputs: Counter[str] = Factory(Counter)
    preemptions: int = 0
    step: int = 0

    def play(self, steps: int, arrivals: Arrivals) -> "Scene":
        for _ in range(steps):
            self.step += 1
            for new in arrivals(self.step):
                self.arrived[new.id] = self.step
                self.driver.do(Op("submit", new))
            self.driver.do(STEP)
            self._note()
            self.driver.do(COMPLETE)
            self._note()
        return self

    def waits(self, prefix: str) -> list[int]:
        """Steps until the first token of requests whose name begins so; of those without one, until now."""
        ours = (request for request in self.arrived if request.startswith(prefix))
        return [self.answered.get(request, self.step + 1) - self.arrived[request] for request in ours]

    def _note(self) -> None:
        called = [message for message in self.driver.messages[-2:] if message.kind in ("step", "complete")]
        answer: Any = called[-1].answer
        for delta in getattr(answer, "deltas", answer):
            if delta[0] in ("admitted", "resumed"):
                self.admitted.setdefault(delta[1], self.step)
            elif delta[0] == "preempted":
                self.preemptions += 1
            elif delta[0] in ("finished", "cancelled"):
                self.ended[delta[1]] = self.step
            elif delta[0] == "delivered":
                for request in delta[1]:
                    self.answered.setdefault(request, self.step)
                    self.outputs[self.driver.monitor.tracks[request].client] += 1


def play(settings: Settings, steps: int, arrivals: Arrivals, subject: SubjectFactory = make) -> Scene:
    """The scene under such settings; a broken rule, or a broken protocol, fails the test at once."""
    driver = Driver.start(subject, settings, 0)
    driver.observe_every = SELDOM
    scene = Scene(driver).play(steps, arrivals)
    assert scene.driver.fault is None, str(scene.driver.fault)
    assert not scene.driver.broken, str(scene.driver.broken[0])
    return scene


def request(id: str, prompt: int, output: int, client: str = "", **more: Any) -> Request:
    """Its client is the first word of its id, if none is named."""
    start = 1_000 * sum(id.encode())
    ids = range(start, start + prompt)
    return Request(id=id, prompt_ids=ids, max_output_tokens=output, client=client or id.split()[0], **more)
