"""Adapters: weights that are loaded while a running request uses them."""

from attrs import Factory, define

from .job import Job


@define(eq=False)
class Adapters:
    """Who uses which adapter; at most `slots` are loaded at once, 0 is no limit."""

    slots: int
    users: dict[str, set[str]] = Factory(dict)

    @property
    def has_room(self) -> bool:
        return not self.slots or len(self.users) < self.slots

    def can_serve(self, job: Job) -> bool:
        """It needs none, or one that is loaded or can be."""
        return job.request.adapter is None or job.request.adapter in self.users or self.has_room

    def enter(self, job: Job) -> None:
        if job.request.adapter is not None:
            self.users.setdefault(job.request.adapter, set()).add(job.id)

    def leave(self, job: Job) -> None:
        """Its adapter is unloaded with the last one who uses it."""
        users = self.users.get(job.request.adapter or "", set())
        users.discard(job.id)
        if not users:
            self.users.pop(job.request.adapter or "", None)
