"""Triton as a compiler of its own: kernels recorded, compiled, interpreted, launched."""
