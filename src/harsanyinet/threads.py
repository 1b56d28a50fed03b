"""How many threads `n_jobs` asks for. The same everywhere: as joblib counts, and of the cores that this process has."""

from __future__ import annotations

import os


def count_threads(n_jobs: int | None) -> int:
    """Threads, at least one, of a number of them; -1 or None for all cores, -2 for all but one, and so on.

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
    # A process may run on fewer cores than the machine has.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + (-1 if n_jobs is None else int(n_jobs)))
