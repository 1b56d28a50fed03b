"""Experiments: benchmarks, and the tables and figures of the paper. In a checkout and the sdist, not in the wheel.

Each module writes result files, with public names of `harsanyinet` only. `runner` runs the cells that are not yet done,
`results` writes, `scoring` splits, fits, times and scores, `against_brute_force` has exact values and errors; `bench_*`
are the benchmarks, `experiment` and `reproduce` the paper's tables and figures, `documents` puts results into the
pages. `harsanyinet bench` and `harsanyinet reproduce` find them here by name.
"""
