"""The specification made fast: the monitor that judges whole steps."""
