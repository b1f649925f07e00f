"""Whether the engine was as fast as the settings declare: promises about time hold only while it was."""

from typing import TYPE_CHECKING

from attrs import Factory, define

if TYPE_CHECKING:
    from .admission import Door
    from .monitor import Monitor
    from .vocabulary import Message


@define(eq=False)
class DeclaredTime:
    """`delays` counts how often a step took longer than the door's time model says, or time went by with work to do and
    no step under way.  `flights`: step under way -> the most that it takes; the next of them ends by `due_ns`."""

    door: "Door"
    delays: int = 0
    flights: dict[int, int] = Factory(dict)
    due_ns: int = 0
    now_ns: int = 0

    def hear(self, m: "Monitor", message: "Message") -> None:
        """Before the message counts."""
        now, before = message.now_ns, self.now_ns
        self.now_ns = now
        if now > before and m.live and not self.flights:
            self.delays += 1
        if message.kind == "step" and message.answer.request:
            if not self.flights:
                self.due_ns = now + self.door.takes_ns(sum(message.answer.tokens))
            self.flights[message.answer.step] = self.door.takes_ns(sum(message.answer.tokens))
        elif message.kind == "complete" and message.given.step in self.flights:
            self.delays += now > self.due_ns
            del self.flights[message.given.step]
            self.due_ns = now + next(iter(self.flights.values()), 0)
