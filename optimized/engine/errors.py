"""What is wrong with what the engine was given: one sentence each."""


class EngineError(ValueError):
    """A plan, request or pool that this engine cannot run."""


class CheckpointError(EngineError):
    """Files that are no checkpoint which this engine can load."""
