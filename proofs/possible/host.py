"""Steps with host blocks that the relation must leave possible: to the last block and the last position."""

from schedspec.spec.relation import CANCELLED, RUNNING, Admit, End, Save, Swap, Unsave
from schedspec.spec.terms import Bool, card

from ..history.watched import Watched
from .engine import step


@step(Save)
def the_last_host_block_saves_the_last_block(s: Watched, e: Save, t: Watched) -> tuple[Bool, ...]:
    """The last free host block is taken, for the last block of a table."""
    r = e.request
    return (
        (card(s.host_free) == 1) & (card(s.host_used) == 1) & (s.phase[r] == RUNNING),
        (s.host_room[r] == s.block_size) & (s.room[r] == 2 * s.block_size),
    )


@step(Save)
def one_request_is_saved_beside_another(s: Watched, e: Save, t: Watched) -> Bool:
    """A request is saved while another one is swapped, and has not moved before."""
    return (s.moves[e.request] == 0) & (card(s.host_used) == 1) & (s.host_room[e.request] == 0)


@step(Unsave)
def one_of_two_host_blocks_is_given_back(s: Watched, e: Unsave, t: Watched) -> tuple[Bool, ...]:
    """Of two host blocks of a request one is given back, and the other after it."""
    r = e.request
    return ((card(s.saved[r]) == 2) & (s.kept[r] >= 1), s.host_free.is_empty() & (s.moves[r] == 0))


@step(Swap)
def one_position_is_enough(s: Watched, e: Swap, t: Watched) -> tuple[Bool, ...]:
    """Who has computed one position is swapped with it."""
    r = e.request
    return ((s.computed[r] == 1) & (s.issued[r] == 1), (s.phase[r] == RUNNING) & s.running.has(r))


@step(Swap)
def a_block_may_be_full(s: Watched, e: Swap, t: Watched) -> Bool:
    """What has been computed may fill the host blocks."""
    return s.computed[e.request] == s.host_room[e.request]


@step(Swap)
def more_than_is_computed_may_be_saved(s: Watched, e: Swap, t: Watched) -> Bool:
    """Blocks beyond what has been computed may be saved too."""
    return s.computed[e.request] + s.block_size <= s.host_room[e.request]


@step(Admit)
def who_comes_back_needs_room_for_one_position_more(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """Who decoded when it was swapped decodes on, in the last place of its last block."""
    r = e.request
    return (
        (s.kept[r] >= 1) & (s.kept[r] + 1 == s.room[r]) & (s.kept[r] + 1 == s.known[r]),
        (s.goal[r] < s.kept[r]) & (t.goal[r] == s.goal[r]) & (t.covered[r] == s.goal[r]) & (s.goal[r] >= 1),
        (s.moves[r] >= 1) & e.resumed,
    )


@step(Admit)
def who_comes_back_may_be_in_its_prompt(s: Watched, e: Admit, t: Watched) -> tuple[Bool, ...]:
    """Who was swapped in its prompt goes on with it."""
    r = e.request
    return ((s.kept[r] >= 1) & (s.kept[r] + 1 < s.goal[r]), t.covered[r] == s.kept[r])


@step(Admit)
def who_is_new_may_take_its_blocks_afterwards(s: Watched, e: Admit, t: Watched) -> Bool:
    """Who was not swapped may be admitted without a block, and take the first one then."""
    return (s.kept[e.request] == 0) & (s.room[e.request] == 0)


@step(End)
def who_is_swapped_may_be_cancelled(s: Watched, e: End, t: Watched) -> tuple[Bool, ...]:
    """Who is swapped gives back its host blocks, and ends."""
    r = e.request
    return ((e.phase == CANCELLED) & (s.kept[r] >= 1), (s.moves[r] >= 1) & s.moving.has(r))
