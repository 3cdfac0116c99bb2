"""Programs that answer from a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.health.programs import Programs, Said

Answer = Said | Callable[[Sequence[str]], Said]


def said(text: str = "", code: int = 0) -> Said:
    """What a program that ends by itself says."""
    return Said(end="exit", code=code, text=text)


class StubPrograms(Programs):
    """Answers by the program's name; none is there that is not in the table."""

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        """Asks nothing of this machine."""
        super().__init__()
        self.answers: dict[str, Answer] = answers or {}
        self.asked: list[tuple[str, ...]] = []

    def ask(self, argv: Sequence[str], limit_s: float) -> Said:
        """See `Programs`."""
        assert limit_s > 0
        self.asked.append(tuple(argv))
        answer = self.answers.get(argv[0], Said(end="missing"))
        return answer if isinstance(answer, Said) else answer(argv)
