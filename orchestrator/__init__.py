"""Lighthouse CI: plans, runs and judges end-to-end MLIR pipelines in containers."""

from __future__ import annotations

__version__ = "0.1.0"
