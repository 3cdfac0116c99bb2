"""Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from orchestrator.backends.signals import stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), stopping(said.append):
        signal.raise_signal(number)
    assert said == []
    assert signal.getsignal(number) is before


def test_an_impatient_second_one_is_answered_and_the_clean_up_goes_on() -> None:
    said: list[str] = []
    assert _interrupted(said.append, while_cleaning=1)
    assert said == [
        "stopping; what finished is kept (2 more to leave at once: the next start cleans up)"
    ]


def test_who_insists_leaves_at_once() -> None:
    assert not _interrupted(lambda _: None, while_cleaning=3)


def test_a_supervisor_may_repeat_itself() -> None:
    said: list[str] = []
    assert _interrupted(said.append, while_cleaning=9, by=signal.SIGTERM)
    assert said == []


def _interrupted(
    say: Callable[[str], None], *, while_cleaning: int, by: signal.Signals = signal.SIGINT
) -> bool:
    """Interrupts a block, and its clean-up so many times; whether the clean-up came to its end."""
    cleaned = False

    def block() -> None:
        nonlocal cleaned
        with stopping(say):
            try:
                signal.raise_signal(by)
            finally:
                for _ in range(while_cleaning):
                    signal.raise_signal(by)
                cleaned = True

    with pytest.raises(KeyboardInterrupt):
        block()
    return cleaned


def test_in_another_thread_it_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with stopping(lambda _: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
