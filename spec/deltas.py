"""The monitor's part that hears deltas, one by one, in the order of the subject or in the canonical one."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import stays
from .caps import held_lanes
from .entering import ENDS, Entering
from .errors import ProtocolError
from .judging import Victim
from .queueing import PRIORITY_WEIGHT
from .relation import WAITING
from .tracks import Track
from .vocabulary import Delta, blocks_for

_CANONICAL = {
    "delivered": 0,
    "indexed": 1,
    "lease_over": 2,
    "unindexed": 3,
    "entered": -1,
    "deferred": -1,
    "converted": -1,
}
"""Places of what neither leaves nor takes blocks; others come last."""
_LAST = 6
_ACQUIRING = ("shared", "took", "swapped_in")


class Deltas(Entering):
    """A method for each kind of delta."""

    def charge_lane(self, track: Track, amount: int) -> None:
        self._tell("on_lane_charge", track.lane, self.lane_ledger.charge(track, amount))

    def _apply(self, method: str, deltas: Sequence[Delta]) -> None:
        ordered = deltas if self.capabilities.ordered or len(deltas) < 2 else canonical(deltas)
        for delta in ordered:
            kind = delta[0]
            if kind == "delivered":
                self._delivered(delta[1], delta[2])
            elif kind == "unindexed":
                stays.spare_leased(self, delta[1])
                for block in delta[1]:
                    self._fire("Unindex", block)
            else:
                track = self.tracks.get(delta[1])
                if track is None:
                    self._at_the_door(method, delta)
                    continue
                if kind not in _DELTAS:
                    hint = "claim two_pools where the setting pools is given, and nowhere else"
                    raise ProtocolError(method, f"deltas.{kind}", delta[1], "there is one pool only", hint)
                if kind == "swapped_out" or (kind == "preempted" and delta[2] == "swap"):
                    self._must_claim_swap(method, delta)
                _DELTAS[kind](self, track, delta)

    def _tracks_of(self, requests: Sequence[str]) -> list[Track | None]:
        """Most often the same requests as the last time: then nobody is looked up again."""
        column = tuple(requests)
        if column != self._looked_up[0]:
            self._looked_up = column, list(map(self.tracks.get, column))
        return self._looked_up[1]

    def _took(self, track: Track, delta: Delta) -> None:
        self._acquire("Take", track, delta[2])

    def _shared(self, track: Track, delta: Delta) -> None:
        self._acquire("Share", track, delta[2])

    def _gave(self, track: Track, delta: Delta) -> None:
        self._fire_each("Give", track.id, delta[2])
        self._gave_back(track, delta[2])

    def _indexed(self, track: Track, delta: Delta) -> None:
        for block in delta[2]:
            self._fire("Index", track.id, block)
            if self.shadow is not None:
                step = self.view.plan.step if self.view is not None else self.last_step
                self._pledges.append((step, track.id, block, self.world.BlockId[block].content))
                self._check_pledges()

    def _admitted(self, track: Track, delta: Delta) -> None:
        self._admissions += 1
        key = self._admissions
        if self.claims("lowest_priority"):
            key += track.priority * PRIORITY_WEIGHT
        if self.view is not None and self.is_swapped(track):
            self.view.brought_back = True
        self._comes_back(track)
        self._fire("Admit", track.id, delta[2], delta[0] == "resumed", self.reserved_tokens(track), key)
        self.waiting -= 1
        if self.view is not None:
            self.view.admitted.append(track)
        held_back = self.held_back(track) if self.keeps_ledger else set()
        waited, track.waits = track.waits, False
        for rule in self.rules:
            rule.on_admit(self, track)
        if self.keeps_lanes:
            self.lane_ledger.pick(track, self.residents.cost(track), held_lanes(self, track))
        if waited:
            self._waits_no_longer(track, admitted=True)
        self.residents.enter(track)
        if self.keeps_ledger:
            charge = self.ledger.pick(track, delta[2], held_back)
            self._tell("on_charge", track, charge)

    def _waits(self, track: Track, delta: Delta) -> None:
        self._tell("on_logged", track, delta[2])

    def _decided(self, track: Track, delta: Delta) -> None:
        self._tell("on_decided", track, delta)

    def _recorded(self, track: Track, delta: Delta) -> None:
        """What the door says of somebody whom it does not hold."""
        self._tell("on_door", None, delta)

    def _preempted(self, track: Track, delta: Delta) -> None:
        record = self.world.RequestId[track.id]
        wanted = max(0, blocks_for(record.known, self.settings.block_size) - self._given.get(track.id, 0))
        left = record.output_limit - record.outputs
        victim = Victim(track, wanted, self.world.freed, delta[3], record.computed, left, delta[2] == "swap")
        victim.may_be_swapped = self._may_be_swapped(record)
        self._tell("on_preempt", victim)
        if victim.is_swapped:
            self._fire("Swap", track.id)
            self.swapped += self.is_swapped(track)
        self._fire("Preempt", track.id, delta[3] == track.id)
        self._replace_table(track, [])
        self._depart(track)
        self.waiting += 1
        if self.view is not None:
            self.view.victims.append(victim)
        if self.keeps_ledger:
            self.ledger.enter(track, preempted=True)
        if not track.waits:
            self._begins_to_wait(track)
        self._tell("on_wait", track)

    def _ended(self, track: Track, delta: Delta) -> None:
        parked, has_failed = self.parking.parked.get(track.id), self.parking.has_failed(track.id)
        if parked is not None:
            stays.leave(self, parked, delta[0])
        was_waiting = parked is None and self.world.RequestId[track.id].phase == WAITING
        self._comes_back(track)
        usable = self.world.usable_blocks
        tokens = track.limit_tokens - 1
        fits = -(-tokens // self.settings.block_size) <= usable and not has_failed
        self._fire("End", track.id, ENDS[delta[0]], fits)
        if track.ended:
            return
        self.live -= 1
        self.waiting -= was_waiting
        if self.keeps_ledger:
            refund = self.ledger.end(track)
            if refund:
                self._tell("on_charge", track, -refund)
        if self.claims("deferred_frees"):
            self._defer_frees(track)
        self._leaves(track)
        if self.keeps_lanes and (refund := self.lane_ledger.end(track)):
            self._tell("on_lane_charge", track.lane, -refund)
        self._tell("on_ended", track)
        self.parking.end(track.id)
        self._retire(track)

    def _delivered(self, requests: Sequence[str], tokens: Sequence[int]) -> None:
        if not self.drafts.accepted:
            self._deliver(requests, tokens)
            return
        told: set[str] = set()
        for request, token in zip(requests, tokens, strict=True):
            track = self.tracks.get(request)
            expected = self.drafts.next_token(self, track) if track is not None and request in told else None
            told.add(request)
            self._deliver([request], [token], expected)

    def _deliver(self, requests: Sequence[str], tokens: Sequence[int], accepted: int | None = None) -> None:
        tracks = self._tracks_of(requests)
        if None in tracks:
            unknown = requests[tracks.index(None)]
            raise ProtocolError("complete", "deltas.delivered", unknown, "is a request that was never submitted")
        expected: Sequence[int] = tokens
        if accepted is not None:
            expected = [accepted]
        elif self._outcome is not None:
            expected = in_order(requests, self._outcome.request, self._outcome.token, tokens)
        self._fire_many("Deliver", requests, tokens, expected)
        for track, token in zip(tracks, tokens, strict=True):
            track.tokens.append(token)  # type: ignore[union-attr]
        if self.keeps_ledger:
            serve, listeners = self.ledger.serve, self._listeners["on_charge"]
            for track in tracks:
                charge = serve(track)  # type: ignore[arg-type]
                for listen in listeners:
                    listen(self, track, charge)


def canonical(deltas: Sequence[Delta]) -> list[Delta]:
    """The one order for deltas that come in none: what was computed, then who leaves (each with its blocks), then
    growth of those who run, then admissions (each with its blocks)."""
    leaving_order = {"swapped_out": -1, "gave": 0, "dropped": 0}
    leaving = {d[1]: n for n, d in enumerate(deltas) if d[0] in ("preempted", "parked") or d[0] in ENDS}
    entering = {d[1]: n for n, d in enumerate(deltas) if d[0] in ("admitted", "resumed")}

    def key(item: tuple[int, Delta]) -> tuple[int, int, int, int]:
        number, delta = item
        kind = delta[0]
        if kind in leaving_order:
            return (2, leaving.get(delta[1], number), leaving_order[kind], number)
        if kind in ("preempted", "parked") or kind in ENDS:
            return (2, number, 1, number)
        if kind in _ACQUIRING:
            group = entering.get(delta[1])
            return (4, number, 0, number) if group is None else (5, group, _ACQUIRING.index(kind), number)
        if kind in ("admitted", "resumed"):
            return (5, number, len(_ACQUIRING), number)
        return (_CANONICAL.get(kind, _LAST), number, 0, number)

    return [delta for _, delta in sorted(enumerate(deltas), key=key)]


def in_order(
    wanted: Sequence[str], requests: Sequence[str], column: Sequence[Any], otherwise: Iterable[Any]
) -> Sequence[Any]:
    """A column with a value for each of `requests`, for those that are wanted; most often they are the same."""
    if tuple(wanted) == tuple(requests):
        return column
    return list(map(dict(zip(requests, column, strict=True)).get, wanted, otherwise))


_DELTAS: dict[str, Callable[[Deltas, Track, Delta], None]] = {
    "took": Deltas._took,
    "shared": Deltas._shared,
    "gave": Deltas._gave,
    "indexed": Deltas._indexed,
    "admitted": Deltas._admitted,
    "resumed": Deltas._admitted,
    "preempted": Deltas._preempted,
    "waits": Deltas._waits,
    "parked": stays.parked,
    "unparked": stays.unparked,
    "leased": stays.leased,
    "lease_over": stays.lease_over,
    "swapped_out": Deltas._swapped_out,
    "swapped_in": Deltas._swapped_in,
    "dropped": Deltas._dropped,
    "chosen": Deltas._decided,
    "displaced": Deltas._decided,
    "spent": Deltas._decided,
    "deferred": Deltas._recorded,
    "converted": Deltas._recorded,
    "entered": Deltas._recorded,
    "finished": Deltas._ended,
    "failed": Deltas._ended,
    "cancelled": Deltas._ended,
    "expired": Deltas._ended,
}
