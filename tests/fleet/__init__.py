"""Tests of agents, keys, signed jobs and signed results."""
