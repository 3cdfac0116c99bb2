"""Standard output kept for what a program has to say to another one."""

from __future__ import annotations

import os


def take_stdout() -> int:
    """Standard output's descriptor; from now on, whoever else prints does so to standard error.

    Frontends, drivers and their compilers print what they like.
    """
    stream = os.dup(1)
    os.set_inheritable(stream, False)
    os.dup2(2, 1)
    return stream
