"""LIVE-12: who is next by what the prefix cache holds of it."""

from heapq import nsmallest
from typing import TYPE_CHECKING

from ..caps import usable_adapters
from ..relation import registry
from ..settings import LPM_WINDOW
from .base import TraceRule, cached_blocks, indexed_contents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..monitor import Monitor
    from ..tracks import Track
    from ..vocabulary import Message

ADMISSIONS = ("admitted", "resumed")


@registry.monitor("LIVE-12", needs="tables", claims=("lpm", "break"))
class TheLongestPrefixIsNext(TraceRule):
    """Under longest prefix match the request picked has the longest cached prefix of the first 128 that wait, by
    arrival; who is first among equals is free. What is cached is what the index names before the step, or when the
    request is admitted. One that has been overtaken max_overtaken times may go before; one that is blocked on an
    adapter, that is swapped, or whose results are still under way after a preemption, may be passed.

    Why: where whoever shares the longest prefix is first, most of what is computed is computed once, and an order that
    is not kept costs just that (RadixAttention, NeurIPS 2024, section 3, https://arxiv.org/abs/2312.07104); a released
    engine documented one order and sorted its queue by another (https://github.com/kekzl/imp/issues/1634).
    """

    def __init__(self) -> None:
        self.before: set[int] = set()

    def on_call(self, m: "Monitor", message: "Message") -> None:
        """A pick may be decided before anything of its step is done; what is taken for others may be forgotten then."""
        if message.kind == "step" and m.waiting > 1 and any(d[0] in ADMISSIONS for d in message.answer.deltas):
            self.before = indexed_contents(m)

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        if not m.settings.prefix_caching or m.is_promoted(track) or track.saved:
            return
        now = indexed_contents(m)
        own = self._lengths(m, track, now)
        others = [(self._lengths(m, other, now), other) for other in self._may_be_next(m, track)]
        if any(lengths != own for lengths, _ in others):
            m.count("LIVE-12")
        for lengths, passed in others:
            if lengths[0] > own[0] and lengths[1] > own[1]:
                says = "the request picked has the longest cached prefix of those that wait"
                m.fail("LIVE-12", "passed", says, picked=track.id, cached=own[1], passed=passed.id, longer=lengths[1])
                return

    def _lengths(self, m: "Monitor", track: "Track", now: set[int]) -> tuple[int, int]:
        size = m.settings.block_size
        return cached_blocks(track, self.before, size), cached_blocks(track, now, size)

    def _may_be_next(self, m: "Monitor", picked: "Track") -> "Iterator[Track]":
        """Of the first that wait, those whom the scheduler may not pass over by right."""
        usable, strays = usable_adapters(m), m.strays()
        waiting = (track for track in m.spells.waiting() if usable is None or track.adapter in usable)
        for track in nsmallest(LPM_WINDOW, waiting, key=lambda track: track.place):
            if not (track is picked or track in strays or track.saved):
                yield track
