"""The store: results of many runs as files that are created, merged by month, and never edited.

A store is a flat folder at an address that fsspec understands:

    2026-11-20T21-04-11.parquet        a run
    2026-10.3f9c2a1b5d6e7f80.parquet   a month of runs; the digits are a digest of what is in it
    artifacts/<run>/<cell>.<digest>.zip

Whoever reads takes each run from the first file that has it, months first.
"""
