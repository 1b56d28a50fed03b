"""How many threads `n_jobs` asks for. The same everywhere: as joblib counts, and of the cores that this process has."""

from __future__ import annotations

import os


def count_threads(n_jobs: int | None) -> int:
    """Threads, at least one.

    Args:
        n_jobs: A number of threads; -1 for all cores, -2 for all but one, and so on. None for all cores.

    Examples:
        >>> count_threads(3)
        3
        >>> count_threads(-1) == count_threads(None)
        True
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of threads, or negative to count from all of them, however: n_jobs=0")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    return max(1, _cores() + 1 + (-1 if n_jobs is None else int(n_jobs)))


def _cores() -> int:
    """The cores that this process may run on, which are fewer than the machine has where it is told so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
