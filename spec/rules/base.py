"""The base of rules that are plain classes: what the monitor tells them, each a method that does nothing."""

from typing import TYPE_CHECKING, Any

from ..vocabulary import blocks_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView, Victim
    from ..parking import Parked
    from ..tracks import Track
    from ..vocabulary import Delta, Message, Observation, Request


class TraceRule:
    """One instance per run; it speaks through `m.fail(rule, place, sentence, **facts)` and `m.count(rule)`."""

    active = True

    def on_call(self, m: "Monitor", message: "Message") -> None:
        """Before a message counts."""

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        """All of it has counted."""

    def on_accept(self, m: "Monitor", track: "Track") -> None: ...

    def on_preempt(self, m: "Monitor", victim: "Victim") -> None:
        """Before what the victim leaves is gone."""

    def on_door(self, m: "Monitor", request: "Request | None", delta: "Delta") -> None:
        """A request that the door held has entered or is gone; None: a delta of the door is about somebody else."""

    def on_wait(self, m: "Monitor", track: "Track") -> None:
        """A preempted request waits again."""

    def on_waits_again(self, m: "Monitor", track: "Track") -> None:
        """A request that was parked waits, for the first time or again."""

    def on_parked(self, m: "Monitor", track: "Track", dependencies: "Sequence[str]") -> None:
        """It is about to be parked in the middle; who is parked at the door is accepted, and not told here."""

    def on_unparked(self, m: "Monitor", parked: "Parked", how: str) -> None:
        """It is about to wait again (`unparked`) or to end."""

    def on_take(self, m: "Monitor", track: "Track", blocks: "Sequence[int]") -> None:
        """It is about to take fresh blocks."""

    def on_leased(self, m: "Monitor", track: "Track", blocks: "Sequence[int]", until_ns: int) -> None: ...

    def on_lease_over(self, m: "Monitor", track: "Track", cause: str) -> None: ...

    def on_logged(self, m: "Monitor", track: "Track", limit: str) -> None:
        """The subject says why a request waits."""

    def on_decided(self, m: "Monitor", track: "Track", delta: "Delta") -> None:
        """The subject says by which rule it decided about a request, or what its time was spent on."""

    def on_admit(self, m: "Monitor", track: "Track") -> None: ...

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        """Its client is charged for service."""

    def on_lane_charge(self, m: "Monitor", lane: str, amount: int) -> None:
        """Its lane is charged for service, per share; a refund is less than nothing."""

    def on_ended(self, m: "Monitor", track: "Track") -> None: ...

    def on_step(self, m: "Monitor", view: "StepView") -> None: ...

    def on_complete(self, m: "Monitor", deltas: "Sequence[Delta]") -> None: ...

    def on_observe(self, m: "Monitor", observation: "Observation") -> None: ...

    def on_end(self, m: "Monitor") -> None: ...


class LaneCharges(TraceRule):
    """No rule: counters of lanes follow the charges of clients.  Refunds they have of their own."""

    def on_charge(self, m: "Monitor", track: "Track", amount: int) -> None:
        if amount > 0:
            m.charge_lane(track, amount)


class Elsewhere:
    """A card whose check stands elsewhere (the shadow, the snapshot, the suite)."""


def has_stray(m: "Monitor", track: "Track") -> bool:
    """Results of before its preemption are still under way: it may have to wait for them."""
    return bool(track.epoch) and any(track in flight.tracks for flight in m.in_flight.values())


def record(m: "Monitor", request: str) -> Any:
    """The relation's record of a request."""
    return m.world.RequestId[request]


def positions_to_run(m: "Monitor", track: "Track") -> int:
    """What is known of one that waits, less what it kept when it was swapped."""
    r = record(m, track.id)
    return int(r.known - r.kept)


def tokens_to_hold(m: "Monitor", track: "Track") -> int:
    """What is claimed or asked to be reserved at its admission, or all that is known of it."""
    return m.reserved_tokens(track) or int(record(m, track.id).known)


def needed_blocks(m: "Monitor", track: "Track") -> int:
    """Blocks with which it surely fits: for those tokens, and what the subject looks ahead."""
    return blocks_for(tokens_to_hold(m, track) + m.capabilities.lookahead_tokens, m.settings.block_size)


def indexed_contents(m: "Monitor") -> set[int]:
    """Identities of the prefixes that the index names."""
    return {m.world.BlockId[block].content for block in m.world.indexed}


def cached_blocks(track: "Track", contents: set[int], block_size: int) -> int:
    """Blocks of its longest prefix that are among these, short of its last token."""
    blocks = 0
    while (blocks + 1) * block_size < len(track.tokens):
        if track.id_at((blocks + 1) * block_size - 1) not in contents:
            break
        blocks += 1
    return blocks
