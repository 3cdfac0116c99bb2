"""All kinds of faults; run as a module, their table as docs/faults.md shows it."""

from __future__ import annotations

from tests.faults import at_the_seam, elsewhere, of_processes

FAULTS = (
    *at_the_seam.fault.faults,
    *of_processes.fault.faults,
    *elsewhere.fault.faults,
)
_AGAIN = {False: "the run goes on", True: "`lh-ci run --resume`"}


def table() -> str:
    """Markdown: what happens, where, the kind of the misses that it leaves, who tries again."""
    lines = ["| what happens | where | `miss` | tried again by |", "| --- | --- | --- | --- |"]
    for fault in FAULTS:
        kind = f"`{fault.kind}`" if fault.kind else "none"
        lines.append(f"| {fault.name} | {fault.layer} | {kind} | {_AGAIN[fault.resumes]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
