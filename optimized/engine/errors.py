"""What is wrong with what the engine was given: one sentence each."""


class EngineError(ValueError):
    """A plan, request or pool that this engine cannot run."""


class TablesDiffer(EngineError):
    """KV-17: the worker's table of a request is not the scheduler's."""


class CheckpointError(EngineError):
    """Files that are no checkpoint which this engine can load."""
