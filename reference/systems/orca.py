"""Orca: iteration-level scheduling (Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative
Models", OSDI 2022, section 4.2, algorithm 1).

At each iteration the batch is made anew, of whoever came first: those who run, and new ones as long as there are a seat
(`max_bs`) and slots for prompt and declared output (`n_slots`); it ends at the first that does not fit.  A prompt runs
whole, beside decodes.  Slots are returned at the end, so nobody is ever preempted.  With batches in a pipeline
(`overlap_depth` is its `n_workers`) a request is in one of them at most.

Its promises: slots are reserved for whole lives (O1: `declared_reserve`, KV-1 and KV-5), iteration-level FCFS (O2:
`iteration_fcfs`), a request leaves when it ends (O3: LIFE-5, of everybody), an arrival waits for an iteration and not
for a batch (O4: `iteration_level`, LIVE-8), nobody is preempted (O5: `no_preemption`), batches in flight are disjoint
(O6: `disjoint_steps`).

PagedAttention (SOSP 2023, section 6.1) compares with three of it, which reserve the longest sequence of the model
(`orca-max`), the output rounded up to a power of two (`orca-pow2`), and the output that will come (`orca-oracle`).
"""

from attrs import evolve

from .published import System

ORCA = System(
    name="orca",
    source="Orca, OSDI 2022, section 4.2, algorithm 1",
    fixed={"reserve": "declared", "chunked_prefill": False, "disjoint_steps": True},
    promises=frozenset(
        {"fcfs", "break", "hybrid", "declared_reserve", "iteration_level", "iteration_fcfs", "no_preemption"}
        | {"disjoint_steps"}
    ),
)


def _reserving(name: str, reserve: str, claim: str) -> System:
    promises = (ORCA.promises - {"declared_reserve"}) | {claim}
    if reserve != "model":  # a prediction may be too short
        promises -= {"iteration_fcfs", "no_preemption"}
    return evolve(
        ORCA,
        name=name,
        source="PagedAttention, SOSP 2023, section 6.1",
        fixed={**ORCA.fixed, "reserve": reserve},
        promises=promises,
    )


ORCA_MAX = _reserving("orca-max", "model", "model_reserve")
ORCA_POW2 = _reserving("orca-pow2", "power_of_two", "power_of_two_reserve")
ORCA_ORACLE = _reserving("orca-oracle", "predicted", "predicted_reserve")
