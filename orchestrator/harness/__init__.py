"""Runs cells inside a stack: ingress, recipes, codegen, execute, compare.

Needs the standard library, NumPy and the frontend of its stack; never the matrix.
"""
