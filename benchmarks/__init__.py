"""Measurements of this project, and the made-up data that they need; not installed."""
