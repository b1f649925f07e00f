"""Fits the step times of `vtc-llama2-7b-a10g-served` (simulation/profiles.py) to what VTC's artefact measured.

python tests/bench/vtc_fit.py    (with numpy, and the artefact's runs in $SCHEDSPEC_DATA/vtc)

Of each request of the synthetic runs with `LEAST_OUTPUT` outputs or more: the time between its tokens, without the
prefills in between, against how many requests decoded beside it and how many positions they had, on average.  Sizes of
batches weigh the same, by the bins of `BINS`.  Runs of the real trace are left out: they are what is to be reproduced.
"""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np

from schedspec.spec.workloads.public import data_folder

PREFILL_MS_PER_TOKEN = 0.2177
LEAST_OUTPUT = 50
MOMENTS = 6_000
BINS = (0, 12, 15, 18, 21, 25, 30, 40, 60)


def requests_of(path: Path) -> np.ndarray:
    """A row each that was served: arrival s, prompt, output, TTFT s, latency s."""
    with path.open(encoding="utf-8") as lines:
        rows = [
            [float(row[name]) for name in ("req_time_s", "prompt_len", "output_len", "ttft_s", "latency_s")]
            for row in csv.DictReader(lines)
        ]
    found = np.array(rows)
    return found[found[:, 4] >= 0]


def samples_of(requests: np.ndarray) -> np.ndarray:
    """A row per request: ms between its tokens, requests that decode beside it, their positions."""
    came, prompt, output, ttft, latency = requests.T
    first, end = came + ttft, came + latency
    moments = np.linspace(0, end.max(), MOMENTS)
    runs = (first[:, None] <= moments) & (moments < end[:, None])
    done = np.clip((moments - first[:, None]) / np.maximum(end - first, 1e-9)[:, None], 0, 1)
    beside, positions = runs.sum(0), (runs * (prompt[:, None] + done * output[:, None])).sum(0)
    order = np.argsort(first)
    prefilled = np.concatenate([[0], np.cumsum(prompt[order])])
    rows = []
    for number in np.flatnonzero(output >= LEAST_OUTPUT):
        mine = runs[number]
        if mine.sum() < 3:
            continue
        between = np.searchsorted(first[order], [first[number], end[number]], side="right")
        prefill_ms = (prefilled[between[1]] - prefilled[between[0]]) * PREFILL_MS_PER_TOKEN
        token_ms = ((end[number] - first[number]) * 1e3 - prefill_ms) / (output[number] - 1)
        rows.append((token_ms, beside[mine].mean(), positions[mine].mean()))
    return np.array(rows)


def main() -> None:
    paths = [path for path in sorted((data_folder() / "vtc").glob("*.csv")) if not path.name.startswith("real__")]
    if not paths:
        raise SystemExit(f"there are no runs of VTC's artefact in {data_folder() / 'vtc'}: see `schedspec data vtc`")
    samples = np.concatenate([samples_of(requests_of(path)) for path in paths])
    weight = np.zeros(len(samples))
    for least, most in pairwise(BINS):
        inside = (samples[:, 1] >= least) & (samples[:, 1] < most)
        weight[inside] = 1 / np.sqrt(max(1, inside.sum()))
    terms = np.column_stack([np.ones(len(samples)), samples[:, 1:]])
    fixed, request, position = np.linalg.lstsq(terms * weight[:, None], samples[:, 0] * weight, rcond=None)[0]
    print(f"{len(samples):,} requests of {len(paths)} runs")
    print(f"a decode step: {fixed:.2f} ms + {request:.5f} ms a request + {position:.7f} ms a position")


if __name__ == "__main__":
    main()
