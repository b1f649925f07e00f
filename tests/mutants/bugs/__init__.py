"""Public bugs of schedulers, each as a small seeded fault, and the search that has to find them.

    python -m tests.mutants.bugs                 all, seeds 0, 1, 2, standard depth; writes build/mutants.json
    python -m tests.mutants.bugs --only B01,B05 --seeds 0 --depth quick
    python -m tests.mutants.bugs --siblings      variants of the same bugs, which nobody has reported

A bug is a scheduler under test like any other: it knows nothing of the rules, and the search is told nothing of it.
Each other file of this folder has the bugs of one kind (`memory.py`, `life.py`, …); importing them fills `CATALOGUE`:

    @bug("B01", rules=("KV-7",), kind="block-leak", url="https://…", title="What went wrong, in one sentence")
    class ForgetsWhoWaits(Scheduler): ...

    reused("B41", REFERENCE["KV-14"], rules=("KV-14",), kind=…, url=…, title=…)  # a fault of the reference is that bug

    @sibling("B01", "when it expires", rules=("KV-7",))             # the same kind of fault, elsewhere; becomes B01.1
    class ForgetsWhoExpires(Scheduler): ...

What is decorated is a factory, `(settings, seed) -> subject`: a subclass of the reference, or a function, for instance
one that puts a router in front of replicas (`where="router"`), or breaks the transfer between pools
(`where="transfer"`; `of_two_pools` of `reference/faults/transfers.py` makes it from a `Disaggregated`). `rules` are
those that may name the bug: one of them must break.

`hunt(bug, seed, depth)` runs the search of `schedspec check` on one of them and answers with a `Catch`: by which rule,
found by which kind of run, after how many runs and seconds, and the messages of its shortest trace.
"""

from importlib import import_module
from pkgutil import iter_modules

from .hunt import Catch, hunt
from .registry import CATALOGUE, REFERENCE, Bug, bug, reused, sibling

FRAMEWORK = ("__main__", "hunt", "registry", "table")

for _module in iter_modules(__path__):
    if _module.name not in FRAMEWORK and not _module.name.startswith("test_"):
        import_module(f"{__name__}.{_module.name}")

__all__ = ["CATALOGUE", "REFERENCE", "Bug", "Catch", "bug", "hunt", "reused", "sibling"]
