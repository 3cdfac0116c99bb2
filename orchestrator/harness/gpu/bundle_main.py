"""`__main__.py` of every bundle: `python3 matmul.bundle.zip`, or `python3 FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Exit code 4: this Python cannot execute it."""
    if sys.version_info < (3, 11):  # noqa: UP036  whoever executes a bundle installed nothing
        print("this bundle needs Python 3.11 or later", file=sys.stderr)
        return 4
    sys.dont_write_bytecode = True  # the bundle's folder stays as it was made
    try:
        import numpy as np  # noqa: F401
    except ImportError as error:
        words = f"this bundle needs NumPy ({error}): {sys.executable} -m pip install numpy"
        print(words, file=sys.stderr)
        return 4
    from orchestrator.harness.gpu import runner

    return runner.main(bundle=Path(__file__).parent)


if __name__ == "__main__":
    sys.exit(main())
