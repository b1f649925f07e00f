"""What the monitor remembers of one request beside the relation: its tokens, prefix identities and table."""

from array import array
from collections.abc import MutableSequence, Sequence
from contextlib import suppress

from attrs import Factory, define, field

from .vocabulary import Request

ROOT = 0x5EED


def chained(parent: int, token: int) -> int:
    """The identity of a prefix from that of the prefix before and its last token: the same in every process."""
    return hash((parent, token))


def root_of(adapter: str | None) -> int:
    """What identities begin with: the KV of equal tokens differs between adapters, and between one and none (vLLM keys
    its cached blocks by them, https://github.com/vllm-project/vllm/pull/3263)."""
    if adapter is None:
        return ROOT
    return chained(ROOT, int.from_bytes(adapter.encode("utf-8", "surrogatepass"), "big"))


@define(eq=False)
class Track:
    """`ids[p]` identifies the prefix that ends with position p; `table` is replaced, never cut, when blocks go
    back, so that a step in flight keeps the one that it was planned with.  `epoch` counts departures from the running
    set.  Its first `verified_blocks` hold its own prefix, with `last_content` in the block after them.  Of its
    table, what lies below `shared_tokens` was not taken fresh.  Its client has been charged for
    `paid_tokens` of its prompt, and for `paid_outputs`.  `began` numbers the spell of waiting that it is in, or was in
    last, and `place` is where it stands in that one.  `saved`: its host blocks, in the order of its
    table, of which so many are `brought_back`.  `root`: what the identities of its prefixes begin with."""

    id: str
    queue: tuple[str, str]
    priority: int
    arrival: int
    limit_tokens: int
    prompt_tokens: int
    tokens: MutableSequence[int]
    ids: MutableSequence[int] = Factory(list)
    table: list[int] = Factory(list)
    epoch: int = 0
    ended: bool = False
    ended_in_step: int = 0
    verified_blocks: int = 0
    last_content: list[int] = Factory(list)
    shared_tokens: int = 0
    expected_tokens: int = 0
    paid_tokens: int = 0
    paid_outputs: int = 0
    adapter: str | None = None
    waits: bool = False
    began: int = 0
    place: int = 0
    saved: list[int] = Factory(list)
    brought_back: int = 0
    root: int = ROOT
    client: str = field(init=False, default=Factory(lambda self: self.queue[1], takes_self=True))

    @classmethod
    def of(cls, request: Request, arrival: int, lane: str = "") -> "Track":
        """`lane`: that of the settings, if they have any; else it is what the request names."""
        limit = request.declared_tokens
        prompt = list(request.prompt_ids)
        queue = (lane or request.lane, request.client)
        track = cls(request.id, queue, request.priority, arrival, limit, len(prompt), prompt)
        track.adapter, track.expected_tokens = request.adapter, request.expected_output_tokens
        return track

    @property
    def lane(self) -> str:
        return self.queue[0]

    @property
    def declared_output(self) -> int:
        return self.limit_tokens - self.prompt_tokens

    @property
    def outputs(self) -> int:
        """Output tokens that were delivered."""
        return len(self.tokens) - self.prompt_tokens

    def id_at(self, position: int) -> int:
        """Identity of the prefix that ends with `position`; a token that nobody delivered, and a position that is none
        (of a block that its table lacks), is unlike any other."""
        ids = self.ids
        if 0 <= position < len(ids):
            return ids[position]
        if not 0 <= position < len(self.tokens):
            return chained(ROOT - 1, hash((self.arrival, position)))
        parent = ids[-1] if ids else self.root
        for token in self.tokens[len(ids) : position + 1]:
            parent = hash((parent, token))  # `chained`, without a call for each token
            ids.append(parent)
        return parent

    def ids_of(self, start: int, stop: int) -> Sequence[int]:
        """Identities of a range of positions."""
        self.id_at(stop - 1)
        if stop <= len(self.ids):
            return self.ids[start:stop]
        return [self.id_at(position) for position in range(start, stop)]

    def pack(self) -> None:
        """It ended, and no step knows it any more: what is kept in case that it is named again takes little room.
        Identities follow from the tokens."""
        with suppress(OverflowError):  # a subject may have its own idea of a token
            self.tokens = array("q", self.tokens)
        self.ids = []

    def doubt(self, block: int) -> None:
        """Somebody wrote to the block: it and what comes after it have to be verified again."""
        place = self.table.index(block) if block in self.table else 0
        self.verified_blocks = min(self.verified_blocks, place)
        self.last_content = []

    def replace_table(self, table: list[int]) -> None:
        self.table = table
        self.verified_blocks = self.shared_tokens = 0
        self.last_content = []


class BlockPrefixes:
    """`prefix[r][base]` of the relation: the identity of the prefix that ends with the block that starts at base."""

    __slots__ = ("block_size", "track")

    def __init__(self, track: Track, block_size: int) -> None:
        self.track = track
        self.block_size = block_size

    def __getitem__(self, base: int) -> int:
        return self.track.id_at(base + self.block_size - 1)

    def __repr__(self) -> str:
        return f"prefixes of {self.track.id}"


@define(eq=False)
class InFlight:
    """A planned step that has not completed: its columns; which of its requests have left since, `void` those that were
    parked; and the tables that have been replaced since, as they were when it was planned."""

    step: int
    request: Sequence[str]
    tracks: Sequence[Track]
    start: Sequence[int]
    tokens: Sequence[int]
    samples: Sequence[int]
    departed: set[Track] = Factory(set)
    tables: dict[Track, list[int]] = Factory(dict)
    void: set[Track] = Factory(set)

    def table_of(self, track: Track) -> list[int]:
        """Its table as it was when the step was planned, blocks that were added since included."""
        return self.tables.get(track, track.table)
