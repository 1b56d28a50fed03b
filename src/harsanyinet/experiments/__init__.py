"""Commands that write result files: benchmarks, the demonstration, the tables and figures of the paper."""
