"""(request, step) pairs that the monitor judges in a second: all rules, block tables shown, with and without the
content shadow, on the same messages in turn."""

from collections.abc import Callable, Iterator

from attrs import frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import Message, Settings

from .measure import Result, median, quiet, seconds
from .recording import Recorder, requests

ASKED_PLAIN = 300_000.0
ASKED_CONTENT = 150_000.0

Rounds = Callable[[], list[Message]]


@frozen(kw_only=True)
class Size:
    requests: int = 1024
    prompt: tuple[int, int] = (256, 2048)
    warm_rounds: int = 120
    rounds: int = 8
    repeats: int = 9


TINY = Size(requests=8, prompt=(16, 40), warm_rounds=20, rounds=2, repeats=2)


class Pair:
    """Two monitors that hear the same."""

    def __init__(self, recorder: Recorder) -> None:
        self.plain = Monitor(recorder.header, content=False)
        self.content = Monitor(recorder.header, content=True)

    def feed(self, message: Message) -> None:
        self.plain.feed(message)
        self.content.feed(message)

    def check(self) -> None:
        """A run that breaks a rule measures something else."""
        broken = {v.rule for m in (self.plain, self.content) for v in m.violations}
        if wrong := {rule for rule in broken if registry.rules[rule].level == "MUST"}:
            raise AssertionError(f"the reference breaks {', '.join(sorted(wrong))}")


def bench(size: Size) -> Iterator[Result]:
    for caching in (False, True):
        yield from decode(size, caching=caching)
    yield from mixed(size)
    yield from preempting(size)


def decode(size: Size, *, caching: bool) -> Iterator[Result]:
    """Nobody comes or goes: each request gets a token a step."""
    blocks = size.requests * (size.prompt[1] + 512) // 16
    settings = Settings(blocks=blocks, seats=size.requests, token_budget=8 * size.requests, prefix_caching=caching)
    recorder = Recorder(settings)
    pair = Pair(recorder)
    recorder.fill(requests(1, size.prompt, (512, 512)), size.requests, pair.feed)
    name = "monitor.decode.prefix_cache" if caching else "monitor.decode"
    return results(name, size, pair, recorder.round, asked=True)


def mixed(size: Size) -> Iterator[Result]:
    """Requests come and end; chunks of prompts ride along."""
    settings = Settings(
        blocks=64 * size.requests, seats=size.requests, token_budget=4 * size.requests, prefix_caching=True
    )
    return busy("monitor.mixed", size, settings, (64, 512), (32, 256))


def preempting(size: Size) -> Iterator[Result]:
    """As above, in a pool in which not all who are admitted can end."""
    settings = Settings(blocks=6 * size.requests, seats=size.requests, token_budget=4 * size.requests)
    return busy("monitor.preempting", size, settings, (64, 128), (64, 256))


def busy(
    name: str, size: Size, settings: Settings, prompt: tuple[int, int], output: tuple[int, int]
) -> Iterator[Result]:
    recorder = Recorder(settings)
    pair = Pair(recorder)
    arrivals = requests(2, prompt, output)
    waiting = size.requests // 16 + 1
    for _ in range(size.warm_rounds):
        for message in recorder.busy_round(arrivals, waiting):
            pair.feed(message)
    return results(name, size, pair, lambda: recorder.busy_round(arrivals, waiting), asked=False)


def results(name: str, size: Size, pair: Pair, one_round: Rounds, *, asked: bool) -> Iterator[Result]:
    """Without and with the shadow, on the same rounds."""
    speeds: dict[str, list[float]] = {"plain": [], "content": []}
    victims = 0
    for _ in range(size.repeats):
        messages = [message for _ in range(size.rounds) for message in one_round()]
        plans = [message.answer for message in messages if message.kind == "step"]
        pairs = sum(len(plan.request) for plan in plans)
        victims += sum(delta[0] == "preempted" for plan in plans for delta in plan.deltas)
        for kind, monitor in (("plain", pair.plain), ("content", pair.content)):
            with quiet():
                took = seconds(lambda feed, given: [feed(message) for message in given], monitor.feed, messages)
            speeds[kind].append(pairs / took)
    pair.check()
    more = {"victims_per_step": victims / size.repeats / size.rounds}
    plain, content = median(speeds["plain"]), median(speeds["content"])
    yield Result(
        name=name,
        figure=plain,
        unit="pairs/s",
        asked=ASKED_PLAIN if asked else None,
        more={"best": max(speeds["plain"]), **more},
    )
    yield Result(
        name=f"{name}.content",
        figure=content,
        unit="pairs/s",
        asked=ASKED_CONTENT if asked else None,
        more={"best": max(speeds["content"]), "plain_over_content": plain / content, **more},
    )
