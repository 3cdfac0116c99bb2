"""Faults of the infrastructure, caused for real wherever they can be, and one judgement of all."""
