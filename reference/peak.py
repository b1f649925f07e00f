"""The most blocks that requests will hold at any moment to come, if nobody else enters: LightLLM's rule (Gong et al.,
ASPLOS 2025, https://arxiv.org/abs/2507.10150), made safe where they do not go on in lock step."""

from collections.abc import Sequence

from attrs import frozen

from ..spec.vocabulary import blocks_for


@frozen
class Course:
    """Positions that a request holds, outputs that it has declared and not got yet, and whether it may fall behind
    those who get a token in each step."""

    held: int
    left: int
    lags: bool

    def blocks_after(self, steps: int, block_size: int) -> int:
        return blocks_for(self.held + min(self.left, steps), block_size)


def peak_blocks(courses: Sequence[Course], block_size: int, late_steps: int) -> int:
    """Most is held just before somebody ends: then all who have as much to come as it, or more, are still there and
    have got as many outputs.  Who lags may be anywhere, and counts with all that it declared.  An end shows
    `late_steps` later."""
    behind = sum(course.blocks_after(course.left, block_size) for course in courses if course.lags)
    going = sorted((course for course in courses if not course.lags), key=lambda course: -course.left)
    peak = 0
    for there, ends in enumerate(going, start=1):
        steps = ends.left + late_steps
        peak = max(peak, sum(course.blocks_after(steps, block_size) for course in going[:there]))
    return behind + peak
