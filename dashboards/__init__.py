"""Results to pages: a static site that says what broke, where, since when, and how to rerun it.

Reads results and nothing else; knows no clock, so that the same results give the same bytes.
"""
