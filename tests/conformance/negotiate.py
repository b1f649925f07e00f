"""Settings that a subject honours, found by asking: it refuses what it does not, by name."""

from collections.abc import Callable
from typing import TypeVar

from schedspec.spec.vocabulary import Settings, Unsupported

from .script import with_setting

T = TypeVar("T")


def negotiated(start: Callable[[Settings], T], wanted: Settings, refused: dict[str, Unsupported]) -> T:
    """What `start` makes of settings as near to the wanted ones as the subject honours; `refused` collects what it
    does not.  Raises Unsupported when a refused setting has no other value left to try."""
    settings = wanted
    tried: set[Settings] = set()
    while True:
        tried.add(settings)
        try:
            return start(settings)
        except Unsupported as no:
            refused[f"{no.setting}={no.value}"] = no
            others = (with_setting(settings, no.setting, value) for value in INSTEAD.get(no.setting, ()))
            settings = next((other for other in others if other not in tried), settings)
            if settings in tried:
                raise


INSTEAD: dict[str, tuple[object, ...]] = {
    "policy": ("fcfs", "priority", "vtc", "lcf", "round_robin", "edf", "sjf", "aging"),
    "victim": ("newest", "lowest_priority"),
    "at_blocked_head": ("break", "skip"),
    "reserve": ("on_demand", "known", "declared"),
    "prefix_caching": (False, True),
    "chunked_prefill": (True, False),
    "chunk_tokens": (0,),
    "overlap_depth": (1, 2),
    "watermark_blocks": (0,),
    "seats": (8, 4, 2, 1),
    "block_size": (4, 8, 16, 2, 1),
    "max_prompt_tokens": (1_048_576,),
    "max_output_tokens": (1_048_576,),
    "max_model_tokens": (2_097_152,),
}
"""What to ask for instead of a refused value."""
