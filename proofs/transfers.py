"""KV between two pools: the terms of `spec/rules/transfers.py`, and what is taken for granted beside them."""

from schedspec.spec.rules import transfers as _rules  # importing them fills the registry
from schedspec.spec.terms import Bool, implies
from schedspec.spec.transfers import (
    OUTSIDE,
    PULLED,
    Arrive,
    Close,
    Offer,
    Pull,
    Report,
    Run,
    Transfers,
    Write,
    registry,
)

from .theory import Theory

assert _rules

_BEFORE = Transfers("state")


def _parameters(s: Transfers) -> tuple[Bool, ...]:
    return (s.transfer_ns >= 1,)  # the settings ask for it


def _stands(s: Transfers, e: Write | Report) -> tuple[Bool, ...]:
    return (s.moving.has(e.request),)  # news of a transfer that is over is no event


def _arrives(s: Transfers, e: Arrive) -> tuple[Bool, ...]:
    """Whoever has ended, of the same request, was told before."""
    wanted = s.stage[e.request] == PULLED
    return (implies(e.is_wanted, wanted), implies(~e.is_wanted, s.stage[e.request] == OUTSIDE))


def _clock(s: Transfers, e: Pull | Close) -> tuple[Bool, ...]:
    return (s.closed_ns <= e.now_ns,)  # time never goes back: a message in which it does is void


TRANSFERS = Theory(
    registry,
    name="transfers",
    parameters=_parameters(_BEFORE),
    scope={"RequestId": 2, "BlockId": 3},
    events={
        "Write": _stands(_BEFORE, Write("field")),
        "Report": _stands(_BEFORE, Report("field")),
        "Arrive": _arrives(_BEFORE, Arrive("field")),
        "Pull": _clock(_BEFORE, Pull("field")),
        "Close": _clock(_BEFORE, Close("field")),
        "Offer": (Offer("field").positions >= 1,),  # a prompt has a token
        "Run": (Run("field").tokens >= 1,),  # STEP-4
    },
)
