"""State and events of the second relation: KV on its way from the prefill pool to the decode pool.

It runs beside the relation of each pool (`relation.py`), which sees a request that is prefilled as one that has ended
there, and one whose KV has arrived as one that comes.  What is under an obligation is nobody's there; here it has an
owner.  A request has at most one transfer at a time; its blocks in the two pools have different ids.
"""

from .registry import Registry
from .relation import BlockId, RequestId
from .terms import Bool, Event, Int, Map, Set, State

OUTSIDE, HELD, PULLED, ARRIVED, DECODING = range(5)
STAGES = {OUTSIDE: "outside", HELD: "held", PULLED: "pulled", ARRIVED: "arrived", DECODING: "decoding"}
"""Of a request: not prefilled yet, or in no pool any more; its KV waits in the prefill pool; it was asked for; it is
in the decode pool; it decodes."""


class Transfers(State):
    """`source`: whose KV the prefill pool holds under an obligation; `target`: for whom the decode pool holds blocks,
    under an obligation or in a table."""

    # parameter
    transfer_ns: Int

    # of a request
    stage: Map[RequestId, Int]
    prefilling: Set[RequestId]  # its table is in the prefill pool
    source: Set[RequestId]
    target: Set[RequestId]
    moving: Set[RequestId]  # its transfer stands
    writing: Set[RequestId]  # the link has begun to write for it, and has not ended
    reported: Set[RequestId]  # the link has told how it went
    due_at_source: Set[RequestId]  # nothing is left to pull: the prefill pool lets go before the call is over
    due_at_target: Set[RequestId]  # nothing will arrive any more: so does the decode pool
    goal: Map[RequestId, Int]  # what was known when its prefill began
    reach: Map[RequestId, Int]  # positions whose KV was handed over
    offers: Map[RequestId, Int]
    pulls: Map[RequestId, Int]
    releases: Map[RequestId, Int]
    decoded: Map[RequestId, Int]  # positions that the decode pool ran
    prefilled: Map[RequestId, Int]  # positions that the prefill pool ran
    deadline: Map[RequestId, Int]

    # of blocks
    tabled: Set[BlockId]  # in a table
    lent: Set[BlockId]  # of the prefill pool, under an obligation
    awaited: Set[BlockId]  # of the decode pool, under an obligation
    lent_of: Map[RequestId, Set[BlockId]]
    awaited_of: Map[RequestId, Set[BlockId]]

    # of calls
    closed_ns: Int  # when the last one was over


class Fill(Event):
    """A table takes a fresh block, in either pool."""

    request: RequestId
    block: BlockId


class Empty(Event):
    """A table gives a block back."""

    request: RequestId
    block: BlockId


class Begin(Event):
    """Its prefill begins: it is admitted in the prefill pool, first time or again."""

    request: RequestId
    known: Int


class Yield(Event):
    """It leaves the prefill pool's running set with nothing left there: preempted, or ended."""

    request: RequestId


class Run(Event):
    """One entry of a step."""

    request: RequestId
    in_decode: Bool
    start: Int
    tokens: Int


class Hold(Event):
    """A block of its table in the prefill pool comes under an obligation."""

    request: RequestId
    block: BlockId


class Offer(Event):
    """Its prefill is complete: so many positions in so many blocks wait to be pulled."""

    request: RequestId
    positions: Int
    blocks: Int


class Await(Event):
    """A free block of the decode pool is set aside for what will arrive."""

    request: RequestId
    block: BlockId


class Pull(Event):
    """The link is asked for its KV; the blocks that are needed at its admission have been set aside."""

    request: RequestId
    blocks: Int
    now_ns: Int


class Write(Event):
    """The link has begun."""

    request: RequestId


class Report(Event):
    """The link tells that it has written all, or that it gave up."""

    request: RequestId


class Arrive(Event):
    """The transfer is over as it should be; `told`: the link said so."""

    request: RequestId
    told: Bool
    is_wanted: Bool


class Lose(Event):
    """The transfer is over without a result; `told`: the link gave up, or its time is up."""

    request: RequestId
    told: Bool


class Adopt(Event):
    """A block that was set aside for it is of its table now."""

    request: RequestId
    block: BlockId


class Enter(Event):
    """It is admitted in the decode pool."""

    request: RequestId


class Release(Event):
    """The obligation on one block ends, and it is free."""

    request: RequestId
    block: BlockId


class LetGo(Event):
    """All its obligations in one of the pools have ended."""

    request: RequestId
    in_decode: Bool


class Quit(Event):
    """It has ended, or lost its place in the decode pool."""

    request: RequestId


class Close(Event):
    """Any call is over."""

    now_ns: Int


registry = Registry(Transfers, STAGES)
