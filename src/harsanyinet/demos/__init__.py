"""Demonstrations: what `harsanyinet demo` runs, on a table or on images. Part of the wheel.

Benchmarks and the paper's tables and figures are experiments: they live in a checkout, in `harsanyinet_experiments`.
"""
