"""Kernels and the host code that launches them: made anywhere, executed where a driver is."""
