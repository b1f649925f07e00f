"""What a request gets instead of a refusal: the first alternative that the door declares and that suits it, once.

    deferral       the door holds it for a while, if it is to be accepted within that, or nobody knows when it is
    pool, model    another pool, or a smaller model, takes it: here it is over
    asynchronous   the door holds it until there is room; its client need not stay

Whoever is held stands before the door, not in the queue: each call looks who of them may enter, in the order in which
they came.  Whom only a limit of its own client keeps out holds up nobody.
"""

from collections.abc import Iterator

from attrs import Factory, define, evolve, frozen

from ..spec.admission import Door
from ..spec.vocabulary import PERMANENT_REASONS, Receipt, Request

OF_ITS_CLIENT = ("client_requests", "client_tokens", "rate_requests", "rate_tokens")
"""Limits that say nothing of others."""


@frozen
class Refusal:
    reason: str
    limit: int
    value: int
    retry_after_ns: int | None = None

    @property
    def is_permanent(self) -> bool:
        return self.reason in PERMANENT_REASONS


@frozen
class Held:
    """`until_ns`: when the door has decided at the latest; None: the request is asynchronous."""

    request: Request
    until_ns: int | None

    def is_over(self, now_ns: int) -> bool:
        return self.until_ns is not None and now_ns > self.until_ns


@define(eq=False)
class Alternatives:
    """`held`: in the order in which they came."""

    door: Door
    held: dict[str, Held] = Factory(dict)

    def instead(self, request: Request, refusal: Refusal, *, is_hopeless: bool) -> Receipt | None:
        """What the request gets; `is_hopeless`: it would be refused at any time."""
        if request.was_converted:
            return None
        why = Receipt(verdict="converted", reason=refusal.reason, limit=refusal.limit, value=refusal.value)
        if not is_hopeless and self.may_defer(refusal):
            held = ("deferred", request.id, self.door.defer_ns)
            return evolve(why, verdict="deferred", decided_after_ns=self.door.defer_ns, deltas=[held])
        into = next(self.conversions(request, is_hopeless=is_hopeless), None)
        return None if into is None else evolve(why, how=into, deltas=[("converted", request.id, into)])

    def may_defer(self, refusal: Refusal) -> bool:
        deferred = sum(held.until_ns is not None for held in self.held.values())
        comes_too_late = (refusal.retry_after_ns or 0) > self.door.defer_ns
        return deferred < self.door.deferred_requests and not comes_too_late

    def conversions(self, request: Request, *, is_hopeless: bool) -> Iterator[str]:
        if request.declared_tokens <= self.door.pool_tokens:
            yield "pool"
        if request.declared_tokens <= self.door.model_tokens:
            yield "model"
        asynchronous = sum(held.until_ns is None for held in self.held.values())
        if not is_hopeless and asynchronous < self.door.asynchronous_requests:
            yield "asynchronous"

    def hold(self, request: Request, receipt: Receipt, now_ns: int) -> None:
        """Its client need not stay for a request that is asynchronous."""
        if receipt.decided_after_ns is not None:
            self.held[request.id] = Held(request, now_ns + receipt.decided_after_ns)
        else:
            self.held[request.id] = Held(evolve(request, survives_disconnect=True), None)

    def over(self, now_ns: int) -> list[Request]:
        """Those whose time at the door is over."""
        return [held.request for held in self.held.values() if held.is_over(now_ns)]
