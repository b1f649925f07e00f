"""State and events of the relation, and the registry that its rules join.

The state is built from deltas alone.  Blocks move between `free`, `evictable` and `in_use`; a request acquires
blocks (Take, Share) before it is admitted and gives them back before it leaves (Preempt, End).  Positions of a
request: `computed` ≤ `issued` ≤ `known`; `known` counts prompt, outputs and placeholders of tokens in flight.
"""

from .registry import Registry
from .terms import Bool, Event, Int, Key, Map, Set, State

ABSENT, WAITING, PARKED, RUNNING, SWAPPED, TRANSFERRING = range(6)
REFUSED, CONVERTED, FINISHED, FAILED, CANCELLED, EXPIRED = range(6, 12)
PHASES = {
    ABSENT: "absent",
    WAITING: "waiting",
    PARKED: "parked",
    RUNNING: "running",
    SWAPPED: "swapped",
    TRANSFERRING: "transferring",
    REFUSED: "refused",
    CONVERTED: "converted",
    FINISHED: "finished",
    FAILED: "failed",
    CANCELLED: "cancelled",
    EXPIRED: "expired",
}
FIRST_TERMINAL = REFUSED


class RequestId(Key):
    __slots__ = ()


class BlockId(Key):
    __slots__ = ()


class HostId(Key):
    """A block of host memory."""

    __slots__ = ()


class PrefixId(Key):
    """The identity of a token prefix: two are equal if and only if the prefixes are."""

    __slots__ = ()


class Engine(State):
    # parameters: no event changes them
    pool_blocks: Int
    host_pool: Int
    usable_blocks: Int
    block_size: Int
    seats: Int
    token_budget: Int
    watermark: Int
    lookahead: Int
    chunked: Bool
    max_prompt: Int
    max_output: Int
    max_model: Int
    aside: Set[BlockId]  # null and reserved
    prefix: Map[RequestId, Map[Int, PrefixId]]  # of the block that starts at a position, once its tokens are known

    # life of a request
    phase: Map[RequestId, Int]
    terminal_events: Map[RequestId, Int]
    prompt: Map[RequestId, Int]
    output_limit: Map[RequestId, Int]
    outputs: Map[RequestId, Int]  # delivered
    running: Set[RequestId]
    displaced: Set[RequestId]  # preempted and not resumed
    place: Map[RequestId, Int]  # in the waiting queue; smaller is earlier
    victim_key: Map[RequestId, Int]  # the largest is preempted first

    # positions
    issued: Map[RequestId, Int]
    computed: Map[RequestId, Int]
    known: Map[RequestId, Int]
    in_flight: Map[RequestId, Int]  # samples of steps that have not completed
    goal: Map[RequestId, Int]  # known when it was (re)admitted: where prefill ends
    covered: Map[RequestId, Int]  # cached prefix and chunks since then

    # of the current call
    step: Int
    prefill: Int
    decode: Int
    freed: Int  # blocks that became free since the last preemption
    served_in: Map[RequestId, Int]
    admitted_in: Map[RequestId, Int]
    preempted_in: Map[RequestId, Int]
    unserved: Set[RequestId]  # admitted in this step and not yet served
    owed: Set[RequestId]  # a token came back and is not delivered
    spare: Set[RequestId]  # a token came back for a request that was preempted since: it may be delivered
    closing: Set[RequestId]  # its spare token is its last
    late: Set[RequestId]  # a result came back that nothing waits for
    stopping: Set[RequestId]  # its last token came back
    grown: Set[RequestId]  # acquired blocks in this call
    leaving: Set[RequestId]  # gave blocks back and has not left yet

    # memory
    free: Set[BlockId]
    evictable: Set[BlockId]
    in_use: Set[BlockId]
    holders: Map[BlockId, Set[RequestId]]
    held: Map[RequestId, Set[BlockId]]
    refs: Map[BlockId, Int]
    granted: Map[BlockId, Int]
    returned: Map[BlockId, Int]
    room: Map[RequestId, Int]  # positions that its blocks hold
    high: Map[RequestId, Int]  # high water of positions since it last released
    base: Map[BlockId, Int]  # first position that a block holds
    sealed: Set[BlockId]  # its content is fixed
    content: Map[BlockId, PrefixId]
    indexed: Set[BlockId]

    # host memory, for requests that were preempted by swap
    host_free: Set[HostId]
    host_used: Set[HostId]
    saved: Map[RequestId, Set[HostId]]
    saver: Map[HostId, RequestId]  # whose block it saves, if it is used
    host_room: Map[RequestId, Int]  # positions that its host blocks hold
    kept: Map[RequestId, Int]  # positions with which it was swapped, until it is back
    moving: Set[RequestId]  # host blocks of it were taken or given back, and it has not left or come back since


class Accept(Event):
    """The door takes a request in."""

    request: RequestId
    prompt: Int
    max_output: Int
    blocks_alone: Int
    place: Int


class Refuse(Event):
    """The door turns it away; `reason` is a place in REFUSAL_REASONS."""

    request: RequestId
    prompt: Int
    max_output: Int
    blocks_alone: Int
    reason: Int
    limit: Int
    value: Int


class BeginStep(Event):
    step: Int


class Take(Event):
    """A fresh block, appended to the request's table."""

    request: RequestId
    block: BlockId


class Share(Event):
    """A block that holds the request's own prefix already."""

    request: RequestId
    block: BlockId


class Give(Event):
    request: RequestId
    block: BlockId


class Index(Event):
    """The prefix index now names a full block of the request."""

    request: RequestId
    block: BlockId


class Unindex(Event):
    block: BlockId


class Save(Event):
    """A host block, for the next block of the request's table."""

    request: RequestId
    block: HostId


class Unsave(Event):
    """A host block that the request needs no more."""

    request: RequestId
    block: HostId


class Swap(Event):
    """What the request has computed is saved: its preemption, which comes next, is by swap."""

    request: RequestId


class Admit(Event):
    """Into the running set, first time or again; its blocks were acquired before."""

    request: RequestId
    cached: Int
    resumed: Bool
    reserve: Int  # positions that the admission reserves blocks for
    victim_key: Int


class Preempt(Event):
    """Out of the running set, to be recomputed or brought back; its blocks were given back before."""

    request: RequestId
    for_itself: Bool


class Serve(Event):
    """One entry of a step."""

    request: RequestId
    start: Int
    tokens: Int
    samples: Int


class EndStep(Event):
    step: Int


class BeginComplete(Event):
    step: Int


class Computed(Event):
    """An entry of a step that has completed, of a request that still stands as it was planned."""

    request: RequestId
    end: Int
    sampled: Int
    stop: Bool


class Spare(Event):
    """A token of an entry whose request was preempted since and still waits; `last`: it would end the request."""

    request: RequestId
    last: Bool


class Late(Event):
    """A result that nothing waits for: repeated, or of a request that ended or was admitted anew."""

    request: RequestId


class Deliver(Event):
    """A token goes to the client; `sampled` is the one that the engine computed for this place."""

    request: RequestId
    token: Int
    sampled: Int


class EndComplete(Event):
    """`repeated`: the step had completed before; `deltas`: how many came back from the call."""

    step: Int
    repeated: Bool
    deltas: Int


class End(Event):
    """A terminal event, or a request is parked; `phase` says which.  `fits_alone`: its demand fits into the empty pool,
    and nothing that it depends on has failed."""

    request: RequestId
    phase: Int
    fits_alone: Bool


class CancelReturned(Event):
    request: RequestId


class Grown(Event):
    """The call is over for a request that acquired blocks in it."""

    request: RequestId


class EndCall(Event):
    """Any call is over."""

    now_ns: Int


registry = Registry(Engine, PHASES)
