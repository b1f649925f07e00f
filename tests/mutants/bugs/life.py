"""Bugs of the life of a request: no end, two ends, or a cancel that does not find it."""

from typing import Any

from schedspec.reference import Scheduler
from schedspec.spec.vocabulary import Receipt, Request

from .registry import REFERENCE, bug, reused


@bug(
    "B28",
    rules=("LIFE-3", "ADMIT-5"),
    kind="lost-request",
    title="A refusal of a full queue reaches the clients of one front end, and nobody else",
    url="https://github.com/sgl-project/sglang/issues/33858",
    where="router",
)
class AnswersItsOwnClients(Scheduler):
    """The reply is sent to the front end that the request names; other clients have another one."""

    def submit(self, request: Request, now_ns: int) -> Any:
        receipt: Receipt = super().submit(request, now_ns)
        is_full = receipt.verdict == "refused" and receipt.reason == "queue_requests"
        return None if is_full and request.client not in ("", "a") else receipt


reused(
    "B30",
    REFERENCE["XFER-4"],
    rules=("LIFE-3", "XFER-4"),
    kind="duplicate-completion",
    title="A request is ended by the response handler and again when its transfer is complete",
    url="https://github.com/NVIDIA/TensorRT-LLM/pull/12816",
    where="transfer",
)
reused(
    "B32",
    REFERENCE["LIFE-6"],
    rules=("KV-7", "LIFE-6"),
    kind="abort/cancel",
    title="Abort does not look at the request that is half-way through its prompt",
    url="https://github.com/sgl-project/sglang-jax/pull/984",
)
