"""What a check of a corpus found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""


@dataclass(frozen=True)
class Problem:
    """Something wrong in a corpus.

    Attributes:
        file: where, relative to the root.
        message: what, with the field and what was expected.
        count: how many rows or files are affected.
        examples: the first of them.
    """

    file: str
    message: str
    count: int = 1
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.file}: {self.message}"
        if self.examples:
            text += f" ({self.count} in all, first: {', '.join(self.examples)})"
        return text


@dataclass
class Report:
    """What `verify` found.

    Attributes:
        problems: what is wrong, each with the file it lies in.
        checked: how many of what was looked at, by name.
    """

    problems: list[Problem] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, file: str, message: str) -> None:
        """Report one thing that is wrong."""
        self.problems.append(Problem(file, message))

    def add_all(self, file: str, message: str, examples: Sequence[Any]) -> None:
        """Report the same fault of many rows or files: their number and the first three; nothing for none."""
        if examples:
            first = tuple(str(example) for example in examples[:3])
            self.problems.append(Problem(file, message, count=len(examples), examples=first))

    def count(self, what: str, number: int = 1) -> None:
        """Add to what was looked at."""
        self.checked[what] = self.checked.get(what, 0) + number
