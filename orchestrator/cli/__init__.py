"""The command line, `lh-ci`."""

from __future__ import annotations

from orchestrator.cli.root import cli, main

__all__ = ["cli", "main"]
