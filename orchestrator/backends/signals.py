"""Ctrl-C and SIGTERM: the first one stops cleanly, what comes meanwhile does not break that."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 2
"""So many more Ctrl-C are only answered; the next one ends us at once. SIGTERM is what supervisors
say, several of them at once, and as often as they like: who means it sends SIGKILL."""


@contextlib.contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM raise KeyboardInterrupt once.

    Containers and processes are taken down as the exception passes through, which takes seconds;
    an impatient second Ctrl-C must not leave them behind. `say` gets a line for people.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    seen = 0

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal seen
        if seen and number == signal.SIGTERM:
            return
        seen += 1
        if seen == 1 or seen > 1 + PATIENCE:
            raise KeyboardInterrupt
        say(
            "stopping; what finished is kept "
            f"({1 + PATIENCE - seen + 1} more to leave at once: the next start cleans up)"
        )

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
