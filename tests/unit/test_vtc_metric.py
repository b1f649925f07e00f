"""The measure of fairness is the one of VTC's tables: of its own measured runs it gives the published digits."""

import pytest

from schedspec.reference.reproduce.vtc import measured
from schedspec.reference.reproduce.vtc_metric import Served, service_difference, tokens_per_s
from schedspec.spec.workloads import MissingWorkload

# VTC (OSDI 2024), table of the real trace: maximum and average service difference, tokens per second.
PUBLISHED = {
    "FCFS": (759.97, 433.53, 777),
    "LCF": (750.49, 323.82, 778),
    "VTC": (368.40, 251.66, 779),
    "VTC_predict": (365.47, 240.33, 773),
    "VTC_oracle": (329.46, 227.51, 781),
    "LShare_rpm5": (143.86, 83.58, 340),
    "LShare_rpm20": (446.76, 195.71, 694),
    "LShare_rpm30": (693.66, 309.45, 747),
}


@pytest.mark.parametrize("scheduler", PUBLISHED)
def test_measured_runs_give_the_published_table(scheduler: str) -> None:
    try:
        served = measured(f"real__{scheduler}")
    except MissingWorkload as error:
        pytest.skip(str(error))
    found = service_difference(served)
    maximum, average, speed = PUBLISHED[scheduler]
    assert (round(found.maximum, 2), round(found.average, 2)) == (maximum, average)
    assert round(tokens_per_s(served)) == speed


def test_two_clients_who_get_the_same_do_not_differ() -> None:
    served = [Served(client, 0.0, 0.0, 600.0, 100, 100) for client in "ab"]
    assert service_difference(served).maximum == 0


def test_who_asked_for_less_is_not_behind_by_more_than_it_asked_for() -> None:
    served = [Served("a", 0.0, 0.0, 600.0, 6_000, 3_000), Served("b", 88.0, 800.0, 900.0, 60, 0)]
    assert service_difference(served).maximum == 1.0
