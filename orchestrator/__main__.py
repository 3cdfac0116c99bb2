"""`python -m orchestrator` is `lh-ci`."""

from __future__ import annotations

from orchestrator.cli import main

if __name__ == "__main__":
    main()
