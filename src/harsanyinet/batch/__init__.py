"""Batch: from file to file. Tables on disk are read, fitted, predicted, explained, scored and certified in parts.

textfiles: encoding, delimiter, names. tablefiles: CSV and Parquet, whole or in parts. fit_files: from a table to a
model file. runs: predict, explain, score and verify. The arguments of a command line are read in `cli`.
"""

from harsanyinet.batch.fit_files import fit_file
from harsanyinet.batch.runs import explain_file, predict_file, score_file, verify_file

__all__ = ["explain_file", "fit_file", "predict_file", "score_file", "verify_file"]
