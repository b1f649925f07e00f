"""What may happen: who may come, how many at once, and what else the world may do."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any, Literal

from attrs import field, frozen

from schedspec.spec.vocabulary import Request, Settings

from ..script import tool

TOKEN = 1
"""Every output token is this one, and every token of a prompt that is given by its length: a scheduler does not look at
tokens, but for prefixes, and those are all equal then."""


def _prompt(given: int | Sequence[int]) -> tuple[int, ...]:
    return (TOKEN,) * given if isinstance(given, int) else tuple(given)


@frozen
class Kind:
    """Requests that are alike.  A prompt is its tokens, or how many; `others` are fields of the request; `pauses`: the
    output tokens after which it calls a tool."""

    prompt: tuple[int, ...] = field(converter=_prompt)
    output: int
    others: tuple[tuple[str, Any], ...] = ()
    pauses: tuple[int, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """All that it depends on, at the door and later."""
        return (*dict(self.others).get("dependencies", ()), *map(tool, self.pauses))

    @property
    def positions(self) -> int:
        """Those that are computed: the last token is not."""
        return len(self.prompt) + self.output - 1

    @cache  # noqa: B019  (few, and they never change)
    def request(self, id: str, client: str) -> Request:
        fields = {"client": client, **dict(self.others)}
        return Request(id=id, prompt_ids=self.prompt, max_output_tokens=self.output, **fields)


@frozen
class Scope:
    """At most `requests` are there at once, of `clients` and `kinds`; `arrivals` in all, or without end.

    Between any two calls somebody may come; with `cancels` anybody may be cancelled, with `stops` any token may turn
    out to be the last.  Clients differ in nothing but their names.  What somebody needs may be there, or fail, at any
    time; time itself stands still.
    """

    settings: Settings
    kinds: tuple[Kind, ...]
    requests: int = 3
    clients: int = 2
    arrivals: int | None = None
    cancels: bool = True
    stops: bool = True
    seed: int = field(default=0)

    @property
    def client_names(self) -> tuple[str, ...]:
        return tuple("ABCDEFGH"[: self.clients])


@frozen
class Event:
    """One call.  Requests are numbered in order of arrival among those that are there, clients in the order in which
    their first requests came, then those of whom nobody is there.

    `submit` has a kind and a client, `cancel` a request, `complete` those who stop early, `answer` a request, which of
    its needs it is about, and whether that is there.
    """

    what: Literal["submit", "cancel", "step", "complete", "answer"]
    kind: int = 0
    number: int = 0
    stops: tuple[int, ...] = ()
    need: int = 0
    is_there: bool = True

    @property
    def is_quiet(self) -> bool:
        """Nobody comes, goes, or stops early: the scheduler is left to itself."""
        return self.what == "step" or (self.what == "complete" and not self.stops)


STEP = Event("step")


def subsets(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(numbers) + 1):
        yield from combinations(numbers, size)
