"""The monitor's part that follows host blocks: whose KV they save, and which copies are still to be made."""

from collections.abc import Sequence
from typing import Any

from .content import Copy
from .errors import ProtocolError
from .judging import Judge
from .tracks import Track
from .vocabulary import Delta, blocks_for


class HostBlocks(Judge):
    """`swapped`: so many of those who wait have their KV in host blocks."""

    def is_swapped(self, track: Track) -> bool:
        """It waits, and what it has computed is in host blocks."""
        return bool(self.world.RequestId[track.id].kept)

    def _must_claim_swap(self, method: str, delta: Delta) -> None:
        if not self.claims("swap"):
            hint = "claim 'swap', or recompute"
            raise ProtocolError(method, f"deltas.{delta[0]}", delta[1], "is swapped by one that does not swap", hint)

    def _may_be_swapped(self, record: Any) -> bool:
        """Nothing of it is in flight, something is computed, and there is room for it, or it is saved already."""
        needed = blocks_for(record.computed, self.settings.block_size) - len(record.saved)
        is_still = record.issued == record.computed >= 1 and not record.in_flight
        return self.claims("swap") and is_still and needed <= len(self.world.host_free)

    def _swapped_out(self, track: Track, delta: Delta) -> None:
        self._copy(track.table[len(track.saved) :], delta[2], is_out=True)
        for block in delta[2]:
            self._fire("Save", track.id, block)
        track.saved += delta[2]

    def _swapped_in(self, track: Track, delta: Delta) -> None:
        self._copy(track.table[track.brought_back :], delta[2], is_out=False)
        track.brought_back += len(delta[2])
        for block in delta[2]:
            self._fire("Unsave", track.id, block)

    def _dropped(self, track: Track, delta: Delta) -> None:
        for block in delta[2]:
            self._fire("Unsave", track.id, block)
        track.saved = [block for block in track.saved if block not in delta[2]]

    def _copy(self, blocks: Sequence[int], host: Sequence[int], *, is_out: bool) -> None:
        """Copies of a call are made before the step of that call runs, or before the next one."""
        if self.shadow is not None:
            step = self.last_step + 1 if self.view is None else self.view.plan.step
            self.shadow.copies.append(Copy(step, tuple(blocks), tuple(host), is_out))

    def _comes_back(self, track: Track) -> None:
        """It needs nothing of the host any more."""
        self.swapped -= self.is_swapped(track)
        track.saved, track.brought_back = [], 0
