"""Bugs of clients that leave: what was asked to end goes on."""

from collections.abc import Sequence
from contextlib import suppress

from schedspec.reference import Scheduler
from schedspec.reference.job import Job
from schedspec.spec.vocabulary import Delta

from .registry import bug, sibling


@bug(
    "B34",
    rules=("LIFE-6",),
    kind="abort",
    where="router",
    title="The handler of a cancel calls a method that does not exist, and the request runs to its full length",
    url="https://github.com/InternLM/lmdeploy/pull/4777",
)
class StopsASessionThatIsNone(Scheduler):
    """Whoever is being answered has a session, which is stopped before its request; what goes wrong there is logged."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        with suppress(AttributeError):
            job = self.state.jobs.get(request_id)
            if job is not None and job.outputs:
                job.stop_session()  # type: ignore[attr-defined]
            return super().cancel(request_id, now_ns)
        return []


@sibling("B34", "the handler of a lost connection, not of a cancel", rules=("LIFE-10",))
class StopsNobodyWhoIsAnswered(Scheduler):
    """A connection is looked for by a session that the request does not have yet."""

    def disconnect(self, request_id: str) -> None:
        with suppress(AttributeError):
            job = self.state.jobs.get(request_id)
            if job is not None and job.outputs:
                job.stop_session()  # type: ignore[attr-defined]
            super().disconnect(request_id)


@sibling("B34", "whoever was preempted is in neither of the two lists that are looked through")
class FindsNoVictim(Scheduler):
    """Waiting are those that have not run, running those that do."""

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        job: Job | None = self.state.jobs.get(request_id)
        if job is not None and job.was_preempted:
            return []
        return super().cancel(request_id, now_ns)


@sibling("B34", "the second cancel of the same moment is taken for the first one once more")
class HearsOneCancelAtATime(Scheduler):
    """A flag says that the abort of this iteration was sent."""

    aborted_in = -1

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        if self.aborted_in == self.state.step and request_id in self.state.running:
            return []
        if request_id in self.state.running:
            self.aborted_in = self.state.step
        return super().cancel(request_id, now_ns)
