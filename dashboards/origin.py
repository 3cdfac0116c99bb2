"""What of the results a night, or all nights up to one, was read from."""

from __future__ import annotations

import hashlib

from dashboards.facts import Facts


class Origin:
    """Digests over archives."""

    def __init__(self, facts: Facts) -> None:
        """Reads each archive once, to know whether it is the same as before."""
        nights: dict[str, set[bytes]] = {night: set() for night in facts.nights.nights}
        for source in facts.nights.table.sources:
            for run in source.archive.runs:
                nights.get(run.started[:10], set()).add(source.digest)
        self._nights = nights

    def of(self, night: str) -> bytes:
        """Of what has runs of a night."""
        return _digest(self._nights[night])

    def until(self, night: str) -> bytes:
        """Of what has runs of this night or one before it."""
        return _digest(set().union(*(d for n, d in self._nights.items() if n <= night)))


def _digest(sources: set[bytes]) -> bytes:
    return hashlib.sha256(b"".join(sorted(sources))).digest()
