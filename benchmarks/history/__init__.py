"""A made-up year of nights, with what is wrong in it written down.

    python -m benchmarks.history OUT --series 7000 --nights 300 --seed 1

writes OUT as `orchestrator.results.history` reads it: an archive for each month, one for the newest
night, and `planted.json`, which says what was planted where. A night is a function of the seed, the
number of series and its own number alone: a year with one more night differs by that night.
"""
