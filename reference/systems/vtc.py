"""VTC: fair sharing (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2).

Memory for a request's whole life is reserved when it is picked; those who are picked are prefilled in a step of their
own; the first that does not fit ends the round.  Its promises: the client with the least counter is picked, who comes
back is lifted, and clients who wait differ in service by no more than a bound (`vtc`, FAIR-1 to FAIR-9).

`vtc-artifact` is the program that the paper measured, with its deviations (`vtc_artifact.py`).
"""

from .published import System

VTC = System(
    name="vtc",
    source="VTC, OSDI 2024, algorithm 2",
    fixed={
        "policy": "vtc",
        "reserve": "declared",
        "chunked_prefill": False,
        "batch_mix": "exclusive",
        "phase_first": "prefill",
    },
    promises=frozenset({"vtc", "break", "exclusive", "declared_reserve", "no_preemption"}),
    numbers=("prices", "input_weight", "output_weight"),
)
