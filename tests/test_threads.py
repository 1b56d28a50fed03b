"""How many threads n_jobs asks for."""

from __future__ import annotations

import os

import joblib
import pytest

from harsanyinet.threads import count_threads

CORES = count_threads(-1)


def test_all_cores_are_those_of_this_process():
    there = os.cpu_count() or 1
    assert 1 <= CORES <= there
    if hasattr(os, "sched_getaffinity"):
        assert len(os.sched_getaffinity(0)) == CORES


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("n_jobs", [1, 3, -1, -2, -3, -20])
def test_counts_as_joblib_does(n_jobs, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    expected = n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)
    assert count_threads(n_jobs) == expected
    if cores == 8 and n_jobs == -2:
        assert expected == 7  # all but one


def test_joblib_says_the_same_of_this_machine():
    for n_jobs in (-1, -2):
        with joblib.parallel_config("threading"):
            assert joblib.effective_n_jobs(n_jobs) == count_threads(n_jobs)


def test_none_is_all_and_zero_is_an_error():
    assert count_threads(None) == CORES
    with pytest.raises(ValueError, match="however: n_jobs=0"):
        count_threads(0)
