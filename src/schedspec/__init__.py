"""The executable specification of LLM request scheduling, and the suite that holds schedulers to it."""

__version__ = "0.1.0.dev0"
