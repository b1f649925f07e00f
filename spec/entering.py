"""The monitor's part that follows who comes: turned away, held at the door, or waiting."""

from collections.abc import Collection

from . import stays
from .caps import held_by_client, usable_adapters
from .errors import ProtocolError
from .memory import Memory
from .queueing import place_again, place_of
from .relation import CANCELLED, EXPIRED, FAILED, FINISHED
from .service import lane_of
from .tracks import BlockPrefixes, Track, root_of
from .vocabulary import REFUSAL_REASONS, Delta, Receipt, Request, blocks_alone

ENDS = {"finished": FINISHED, "failed": FAILED, "cancelled": CANCELLED, "expired": EXPIRED}
AWAY = Receipt(verdict="refused", reason="other")
"""How the relation knows of somebody who left at the door."""

NEED_SPELLS = ("bounded_overtaking", "aged_sharing", "lpm")
"""Claims that are judged by who waits, in the order in which they began to."""


class Entering(Memory):
    """`held`: whom the door holds; `lines`: who waits."""

    def place_of(self, track: Track) -> int:
        """Where a request would stand if it began to wait now."""
        place = self.world.RequestId[track.id].place
        return place_again(self.capabilities.claims, track, self.settings.quantum, place)

    def strays(self) -> set[Track]:
        """Preempted requests whose results are still under way, and others that left."""
        return {track for flight in self.in_flight.values() for track in flight.departed if track in flight.tracks}

    def held_back(self, picked: Track) -> set[str]:
        """Clients that may be passed over beside those that a cap holds: a preempted request of theirs waits for
        results that are under way, or whoever of theirs has an adapter to run with is held."""
        held = {track.client for track in self.strays() if self.ledger.waits(track)}
        usable = usable_adapters(self)
        if usable is not None:
            held.update(client for client in self.ledger.waiting if self._lacks_adapters(client, usable))
        return held - {picked.client}

    def _lacks_adapters(self, client: str, usable: Collection[str | None]) -> bool:
        entries = (entry for lane in self.lines.clients for entry in self.lines.first((lane, client), usable))
        first = min(entries, default=None)
        return first is None or held_by_client(self, first[2])

    def _accept(self, request: Request) -> None:
        known = request.id in self.tracks
        self._arrivals += 1
        track = self.tracks[request.id] if known else Track.of(request, self._arrivals, self._lane_of(request))
        prompt, output = request.prompt_tokens, request.max_output_tokens
        alone = blocks_alone(prompt, output, self.settings.block_size)
        if self.settings.adapter_slots:
            track.root = root_of(request.adapter)
        place = place_of(self.capabilities.claims, request, track.arrival)
        self._fire("Accept", request.id, prompt, output, alone, place)
        if known:
            return
        self._register(track)
        self._hold_to_the_model(track)
        self.live += 1
        if self.parks:
            self.parking.arrived[track.id] = prompt, output, alone, place
        if self.parks and request.dependencies:
            stays.park(self, track, request.dependencies)
            if self.keeps_ledger:
                self.ledger.parked.add(track.id)
        else:
            self._comes_to_wait(track)
        self._tell("on_accept", track)

    def _lane_of(self, request: Request) -> str:
        return lane_of(self.settings, request).name if self.settings.lanes else ""

    def _register(self, track: Track) -> None:
        self._looked_up = ((), [])
        self.tracks[track.id] = track
        self.world.RequestId[track.id].prefix = BlockPrefixes(track, self.settings.block_size)

    def _hold_to_the_model(self, track: Track) -> None:
        """Who was accepted though it is too long for the model (ADMIT-2) ends, at the latest, where the model does."""
        most = self.settings.max_model_tokens
        if track.limit_tokens > most:
            record = self.world.RequestId[track.id]
            record.output_limit = max(1, most - record.prompt)
            track.limit_tokens = record.prompt + record.output_limit

    def _comes_to_wait(self, track: Track) -> None:
        self.waiting += 1
        self._begins_to_wait(track)
        if self.keeps_ledger:
            self.ledger.enter(track, preempted=False)

    def _begins_to_wait(self, track: Track) -> None:
        self._spells += 1
        track.waits, track.began = True, self._spells
        track.place = self.place_of(track)
        self.lines.enter(track)
        self.residents.leave(track)
        if any(map(self.claims, NEED_SPELLS)):
            self.spells.begin(track)
        if self.keeps_lanes:
            self.lane_ledger.enter(track)

    def _waits_no_longer(self, track: Track, *, admitted: bool) -> None:
        self.lines.leave(track)
        self.spells.over(track, admitted=admitted)
        if self.keeps_lanes:
            self.lane_ledger.leave(track)

    def _leaves(self, track: Track) -> None:
        """It has ended or is parked, from the queue or from the running set."""
        self.residents.leave(track)
        if track.waits:
            track.waits = False
            self._waits_no_longer(track, admitted=False)

    def _refuse(self, request: Request, receipt: Receipt) -> None:
        reason = REFUSAL_REASONS.index(receipt.reason if receipt.reason in REFUSAL_REASONS else "other")
        prompt, output = request.prompt_tokens, request.max_output_tokens
        alone = blocks_alone(prompt, output, self.settings.block_size)
        limit, value = receipt.limit or 0, receipt.value or 0
        self._fire("Refuse", request.id, prompt, output, alone, reason, limit, value)
        if request.id not in self.tracks:
            track = Track.of(request, self._arrivals)
            self._register(track)
            self._retire(track)
            self._forget()

    def _turn_elsewhere(self, request: Request, receipt: Receipt) -> None:
        """Whom the door holds is not in yet; who goes to another pool or model is in no more."""
        if not self.claims("alternatives"):
            problem = "is an answer of those who claim 'alternatives'"
            raise ProtocolError(
                "submit", "receipt.verdict", receipt.verdict, problem, "claim it, or refuse the request"
            )
        if is_held(receipt):
            self.held[request.id] = request
        else:
            self._refuse(request, AWAY)

    def _at_the_door(self, method: str, delta: Delta) -> None:
        """Of a request that the door holds: it enters, or is gone; the relation knows it from then on, and calls who
        never entered turned away."""
        kind, request = delta[0], self.held.pop(delta[1], None)
        if request is None:
            raise ProtocolError(method, f"deltas.{kind}", delta[1], "is a request that was never submitted")
        if kind == "entered":
            self._accept(request)
        elif kind in ENDS:
            self._refuse(request, AWAY)
        elif kind in ("deferred", "converted"):
            self.held[request.id] = request
        else:
            raise ProtocolError(method, f"deltas.{kind}", delta[1], "is held at the door: write 'entered' before it")
        self._tell("on_door", request, delta)


def is_held(receipt: Receipt) -> bool:
    """The door holds the request: it may enter later."""
    return receipt.verdict == "deferred" or (receipt.verdict == "converted" and receipt.how == "asynchronous")
