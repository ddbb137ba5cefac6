"""The causality of a command: a program that reads an MPTB tree and writes a submission.

The program runs on a copy of some conversations, twice, and then on copies whose audio after a probe time
is replaced, another time in every conversation. Decisions up to that time must be the same. The copies hold
the noisy channels and the layout's other files without their gold: no events, no anchors, no words. A
program cannot pass by reading what it should find out.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .blind_tree import Conversation, read_channels, read_manifest, write_blind
from .causality import ROUNDING_S, UNCHANGED, CausalityReport, Violation, check_settings, violations_of
from .futures import REPLACEMENTS, replace_future
from .traces import Traces, draw_probes, read_answers

Rows = Iterable[Mapping[str, Any]]
"""A row per channel: ``conversation_id``, ``speaker``, and decision times in seconds by track."""

Plan = Mapping[str, tuple[int, str]]
"""``{conversation_id: (samples that stay, what becomes of the others)}``."""

STDERR_SHOWN = 2000
"""Characters of a failed program's last words that an error repeats."""


class AuditError(RuntimeError):
    """The audited command failed, took too long or wrote no submission: nothing is known of its causality."""


def audit_command(
    command: str,
    root: str | Path,
    split: str,
    *,
    read_submission: Callable[[Path], Rows],
    probes: int = 8,
    seed: int = 0,
    lookahead_s: float = ROUNDING_S,
    max_conversations: int = 8,
    timeout_s: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CausalityReport:
    """Run a program on altered copies of a corpus; report what it had decided before the change and moved.

    Args:
        command: how to call the program, with ``{root}`` and ``{out}``, if it needs it ``{split}``: it
            reads the tree at ``{root}`` and writes a submission to ``{out}``. It is split as a shell would,
            but runs without one (write ``sh -c '...'`` for pipes).
        root: the corpus, in the card's layout.
        split: ``dev`` or ``test``.
        read_submission: reads a submission file into rows, as `mptb_metric.load_submission` does.
        probes: number of altered copies; the replacements take turns in each conversation.
        seed: seeds the choice of conversations, the probe times and the replacements.
        lookahead_s (float, s): audio after a decision's time that it may use: by default what a time loses
            when it is rounded to a hundredth of a second; more for a program whose times leave it out.
        max_conversations: most conversations that are handed over.
        timeout_s (float, s): longest run of the program; None: no limit.
        progress: called with the runs done and their number.

    Returns:
        CausalityReport: ``n_runs`` is ``probes + 2``.

    Raises:
        ValueError: a command without ``{root}`` or ``{out}``, a corpus that cannot be read, or faulty
            settings.
        AuditError: the program failed, took too long or wrote nothing.
    """
    missing = [placeholder for placeholder in ("{root}", "{out}") if placeholder not in command]
    if missing:
        raise ValueError(f"the command must say where {' and '.join(missing)} go, got {command!r}")
    if max_conversations < 1:
        raise ValueError(f"max_conversations must be at least 1, got {max_conversations}")
    check_settings(probes, 0.0, lookahead_s)
    rng = np.random.default_rng(seed)
    conversations = _choose(read_manifest(Path(root), split), max_conversations, rng)
    audit = _Audit(command, split, conversations, lookahead_s, timeout_s, read_submission, rng)
    n_runs = probes + 2
    tell = progress or (lambda done, total: None)

    before = audit.run()
    tell(1, n_runs)
    plans = [{c.conversation_id: (c.n_samples, UNCHANGED) for c in conversations}]
    plans += [{} for _ in range(probes)]
    for shift, conversation in enumerate(conversations):
        name = conversation.conversation_id
        for index, n_kept in enumerate(draw_probes(before[name], conversation.n_samples, probes, rng)):
            plans[index + 1][name] = (n_kept, REPLACEMENTS[(index + shift) % len(REPLACEMENTS)])
    violations: list[Violation] = []
    for done, plan in enumerate(plans, start=2):
        violations += audit.violations(before, audit.run(plan), plan)
        tell(done, n_runs)
    return CausalityReport(
        detector=command,
        probes=probes,
        seed=seed,
        tolerance=0.0,
        lookahead_s=lookahead_s,
        replacements=REPLACEMENTS,
        n_runs=n_runs,
        violations=tuple(violations),
    )


def _choose(conversations: list[Conversation], most: int, rng: np.random.Generator) -> list[Conversation]:
    if len(conversations) <= most:
        return conversations
    chosen = rng.choice(len(conversations), size=most, replace=False)
    return [conversations[index] for index in sorted(chosen.tolist())]


@dataclass(frozen=True)
class _Audit:
    """One program and the conversations that it runs on."""

    command: str
    split: str
    conversations: list[Conversation]
    lookahead_s: float
    timeout_s: float | None
    read_submission: Callable[[Path], Rows]
    rng: np.random.Generator

    def run(self, plan: Plan | None = None) -> dict[str, Traces]:
        """Run the program on a tree of its own, altered as planned; return its decisions per conversation."""
        with tempfile.TemporaryDirectory(prefix="mptb-") as folder:
            root = Path(folder) / "corpus"
            for conversation in self.conversations:
                n_kept, kind = (plan or {}).get(conversation.conversation_id, (0, UNCHANGED))
                rows = None
                if kind != UNCHANGED:
                    rows = replace_future(read_channels(conversation), n_kept, kind, rng=self.rng)
                write_blind(conversation, root, self.split, altered=rows)
            out = Path(folder) / "submission.json"
            self._call(root, out)
            return self._traces(self.read_submission(out))

    def _call(self, root: Path, out: Path) -> None:
        words = shlex.split(self.command)
        for placeholder, value in (("{root}", root), ("{split}", self.split), ("{out}", out)):
            words = [word.replace(placeholder, str(value)) for word in words]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AuditError(f"{self.command}: {error}") from error
        if done.returncode != 0:
            last_words = done.stderr[-STDERR_SHOWN:].strip()
            raise AuditError(f"{self.command}: exit code {done.returncode}\n{last_words}")
        if not out.is_file():
            raise AuditError(f"{self.command}: wrote no submission to {{out}}")

    def _traces(self, rows: Rows) -> dict[str, Traces]:
        """Arrange the rows of a submission by conversation; each channel must be there."""
        times: dict[str, dict[str, dict[str, Any]]] = {c.conversation_id: {} for c in self.conversations}
        for row in rows:
            name = row["conversation_id"]
            if name not in times:
                raise ValueError(f"{self.command}: conversation {name!r} was not handed over")
            for track, decided in row.items():
                if track not in ("conversation_id", "speaker"):
                    times[name].setdefault(track, {})[row["speaker"]] = decided
        return {
            conversation.conversation_id: read_answers(
                times[conversation.conversation_id],
                conversation.audio,
                conversation.sampling_rate,
                decisions=True,
                lookahead_s=self.lookahead_s,
            )
            for conversation in self.conversations
        }

    def violations(
        self, before: Mapping[str, Traces], after: Mapping[str, Traces], plan: Plan
    ) -> Iterator[Violation]:
        """Yield what moved in each conversation before its audio was replaced."""
        for conversation in self.conversations:
            name = conversation.conversation_id
            n_kept, kind = plan[name]
            yield from violations_of(
                before[name],
                after[name],
                probe_samples=n_kept,
                sampling_rate=conversation.sampling_rate,
                replacement=kind,
                tolerance=0.0,
                conversation_id=name,
            )
