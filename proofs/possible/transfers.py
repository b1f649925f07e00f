"""What must stay possible between two pools."""

from schedspec.spec.terms import Bool, card
from schedspec.spec.transfers import (
    ARRIVED,
    HELD,
    Adopt,
    Arrive,
    Await,
    Begin,
    Close,
    Enter,
    LetGo,
    Lose,
    Offer,
    Pull,
    Quit,
    Run,
    Transfers,
    registry,
)

from .step import Steps, all_of

TRANSFERS = Steps(registry)
step = TRANSFERS.step


@step(Begin)
def a_request_is_prefilled_again(s: Transfers, e: Begin, t: Transfers) -> Bool:
    """Whose transfer failed is admitted in the prefill pool once more."""
    return all_of(s.pulls[e.request] >= 1, s.offers[e.request] >= 1, t.prefilling.has(e.request))


@step(Offer)
def a_prefill_is_offered(s: Transfers, e: Offer, t: Transfers) -> Bool:
    """All of one block is held, and waits to be pulled."""
    return all_of(e.blocks >= 1, t.stage[e.request] == HELD)


@step(Await)
def a_free_block_is_set_aside(s: Transfers, e: Await, t: Transfers) -> Bool:
    """A block is set aside while another one is written to."""
    return ~s.writing.is_empty()


@step(Pull)
def more_is_set_aside_than_is_written(s: Transfers, e: Pull, t: Transfers) -> Bool:
    """An admission may take more blocks than its KV fills."""
    return e.blocks + 1 <= card(s.awaited_of[e.request])


@step(Arrive)
def what_nobody_wants_arrives(s: Transfers, e: Arrive, t: Transfers) -> Bool:
    """The request of a transfer was cancelled, and it ends all the same."""
    return all_of(~e.is_wanted, s.writing.has(e.request))


@step(Lose)
def a_transfer_fails_while_it_is_written(s: Transfers, e: Lose, t: Transfers) -> Bool:
    """The link gives up what it had begun."""
    return all_of(s.writing.has(e.request), e.told)


@step(Lose)
def a_transfer_is_dropped(s: Transfers, e: Lose, t: Transfers) -> Bool:
    """One that the link has not begun ends though nobody told."""
    return ~e.told


@step(Adopt)
def what_arrived_is_adopted(s: Transfers, e: Adopt, t: Transfers) -> Bool:
    """A block of somebody whose KV has arrived becomes part of its table."""
    return s.stage[e.request] == ARRIVED


@step(Enter)
def who_arrived_enters(s: Transfers, e: Enter, t: Transfers) -> Bool:
    """Somebody enters while the KV of another one is on its way."""
    return ~s.moving.is_empty()


@step(Run)
def somebody_decodes(s: Transfers, e: Run, t: Transfers) -> Bool:
    """The decode pool runs a second token of a request."""
    return all_of(e.in_decode, s.decoded[e.request] >= 1)


@step(Run)
def somebody_prefills(s: Transfers, e: Run, t: Transfers) -> Bool:
    """A prompt is run to its end in one piece."""
    return all_of(~e.in_decode, e.start == 0, e.tokens == s.goal[e.request])


@step(LetGo)
def the_prefill_pool_lets_go(s: Transfers, e: LetGo, t: Transfers) -> Bool:
    """The source is released while the decode pool keeps what arrived."""
    return all_of(~e.in_decode, s.target.has(e.request), s.stage[e.request] == ARRIVED)


@step(LetGo)
def the_decode_pool_lets_go(s: Transfers, e: LetGo, t: Transfers) -> Bool:
    """After the source, the target of a lost transfer is released."""
    return all_of(e.in_decode, ~s.source.has(e.request))


@step(Quit)
def somebody_quits_while_it_is_written(s: Transfers, e: Quit, t: Transfers) -> Bool:
    """A request is cancelled while the link writes for it."""
    return s.writing.has(e.request)


@step(Close)
def a_transfer_takes_its_time(s: Transfers, e: Close, t: Transfers) -> Bool:
    """A call is over, some time after the one before, and a transfer stands."""
    return all_of(~s.moving.is_empty(), s.closed_ns < e.now_ns)
