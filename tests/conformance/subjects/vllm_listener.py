"""Methods of a scheduler that serves, wrapped: they answer as before, whatever goes wrong in who listens."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter_ns
from typing import Any, ClassVar

from attrs import Factory, define

from .vllm_events import Events
from .vllm_recordable import Unrecordable


@define(eq=False)
class Listener(Events):
    """`HEARD`: method of the scheduler -> the one of ours that is told its answer and its arguments.  `busy`: in the
    middle of a call of the scheduler.  `over`: nothing is told any more."""

    HEARD: ClassVar[dict[str, str]] = {}
    over: bool = False
    busy: bool = False
    own_ns: int = 0
    vllm_ns: int = 0
    wrapped: list[tuple[Any, str, Any, Any]] = Factory(list)

    @property
    def share(self) -> float:
        """Time in here per time of the scheduler's own, in the methods that are heard."""
        return self.own_ns / max(self.vllm_ns, 1)

    def watch(self) -> None:
        Events.watch(self)
        for name, what in self.HEARD.items():
            self.wrap(self.scheduler, name, partial(self.around, getattr(self, what)))

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        Events.wrap(self, owner, name, wrapper)
        self.wrapped.append((owner, name, original, getattr(owner, name)))  # `vars` would make the owner slower

    def around(self, what: Callable[..., None], original: Callable[..., Any]) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self.busy or self.over:  # one of these methods calls another
                return original(*args, **kwargs)
            self.busy, begun_ns, before_ns = True, perf_counter_ns(), self.own_ns
            try:
                answer = original(*args, **kwargs)
            except BaseException as error:
                self.stop(f"the scheduler raised {error!r}")
                raise
            finally:
                self.busy = False
            self.vllm_ns += perf_counter_ns() - begun_ns - (self.own_ns - before_ns)
            self.tell(what, answer, *args, **kwargs)
            return answer

        return wrapped

    def tell(self, what: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Whatever goes wrong in here ends the recording, and nothing else."""
        begun_ns = perf_counter_ns()
        try:
            if not self.over:
                what(*args, **kwargs)
        except Exception as error:
            self.stop(str(error) if isinstance(error, Unrecordable) else repr(error))
        self.own_ns += perf_counter_ns() - begun_ns

    def stop(self, why: str, what: str = "the recording ends here, vLLM goes on") -> None:
        if self.over:
            return
        self.over = True
        for owner, name, original, wrapper in self.wrapped:
            if getattr(owner, name) is wrapper:
                setattr(owner, name, original)
        with suppress(Exception):
            self.release()
        print(f"schedspec: {what}: {why}", file=sys.stderr)

    def release(self) -> None:
        """What is to be done when nothing more is told."""
