"""Auditing causality: a detector conversation by conversation, or any program that writes submissions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mptb_metric import load_submission, write_submission
from mptb_metric.submission import read_submission
from turn_end_prefix.audit import AuditError, audit_command
from turn_end_prefix.causality import CausalityReport, check_causal

from .files import write_json
from .gold import read_split
from .render import console, errors, progress
from .running import HOP_S, new_detector, read_channels
from .scores import TRACKS

SHOWN = 20
"""Violations that are printed; the record counts them all."""


def audit_detector(
    name: str, root: str, split: str, *, probes: int, seed: int, tolerance: float, most: int
) -> dict[str, Any]:
    """Check a detector on the first `most` conversations of a split; print it and return the record."""
    gold = read_split(root, split)
    chosen = gold.conversations[:most]
    reports = []
    with progress(f"auditing {name}") as report:
        for done, conversation in enumerate(chosen, start=1):
            reports.append(
                check_causal(
                    new_detector(name, conversation),
                    read_channels(root, conversation),
                    probes=probes,
                    seed=seed,
                    tolerance=tolerance,
                    hop_s=HOP_S,
                    conversation_id=conversation.conversation_id,
                )
            )
            report(done, len(chosen))
    _print_violations(reports)
    return {
        **reports[0].to_record(),
        "ok": all(one.ok for one in reports),
        "n_runs": sum(one.n_runs for one in reports),
        "n_violations": sum(len(one.violations) for one in reports),
        "conversations": [one.conversation_id for one in chosen],
        "split": split,
        "corpus": gold.checksum,
    }


def audit_program(
    command: str,
    root: str,
    split: str,
    *,
    probes: int,
    seed: int,
    lookahead_s: float,
    most: int,
    submission: Path | None = None,
) -> dict[str, Any]:
    """Run a program on altered copies of a split; print what changed and return the record.

    Args:
        command: how to call it, with `{root}` and `{out}`.
        root: the corpus.
        split: the split.
        probes: number of altered copies.
        seed: of the probe times.
        lookahead_s: audio after a decision's time that it may use.
        most: most conversations to use.
        submission: what the record is for; the program must give the same decisions on the audio as it is.

    Raises:
        ValueError: a command without its placeholders, an unreadable corpus, a program that failed, or one
            that did not make the submission.
    """
    gold = read_split(root, split)
    said: list[list[dict[str, Any]]] = []

    def read(path: Path) -> list[dict[str, Any]]:
        said.append(load_submission(path))
        return said[-1]

    try:
        with progress("auditing") as report:
            found = audit_command(
                command,
                root,
                split,
                read_submission=read,
                probes=probes,
                seed=seed,
                lookahead_s=lookahead_s,
                max_conversations=most,
                progress=report,
            )
    except AuditError as error:
        raise ValueError(str(error)) from error
    if submission is not None:
        _check_same(said[0], load_submission(submission), submission)
    _print_violations([found])
    return {**found.to_record(), "split": split, "corpus": gold.checksum}


def _check_same(said: Sequence[dict[str, Any]], submitted: Sequence[dict[str, Any]], path: Path) -> None:
    """Refuse a record for decisions that the audited program, given no gold to read, does not make."""
    rows = {(row["conversation_id"], row["speaker"]): row for row in submitted}
    for row in said:
        channel = row["conversation_id"], row["speaker"]
        for track in TRACKS:
            if channel not in rows or list(rows[channel][track]) != list(row[track]):
                raise ValueError(
                    f"{path}: {'/'.join(channel)}, {track}: not what the audited program decides: "
                    "the record cannot stand for this submission"
                )


def _print_violations(reports: Sequence[CausalityReport]) -> None:
    violations = [violation for report in reports for violation in report.violations]
    for violation in violations[:SHOWN]:
        errors.print(f"mptb: {violation}", markup=False, highlight=False, soft_wrap=True)
    if len(violations) > SHOWN:
        errors.print(f"mptb: and {len(violations) - SHOWN} more", markup=False, highlight=False)


def keep_record(record: dict[str, Any], *, out: Path | None, submission: Path | None) -> None:
    """Write the record to a file, and into a submission that it is about."""
    if out is not None:
        write_json(out, record)
    if submission is not None:
        content = read_submission(submission)
        if content.detector not in (None, record["detector"]) and "conversations" in record:
            raise ValueError(
                f"{submission}: made by {content.detector!r}, but {record['detector']!r} was audited"
            )
        write_submission(submission, content.rows, detector=content.detector, audit=record)
    console.print(f"{record['detector']}: {told(record)}", highlight=False, soft_wrap=True)


def told(record: dict[str, Any] | None) -> str:
    """Say in a few words what an audit found, or that there was none."""
    if record is None:
        return "not audited"
    runs = f"{record.get('n_runs', '?')} runs"
    if record.get("ok") is True:
        return f"audited: causal in {runs}"
    return f"audited: NOT causal, {record.get('n_violations', '?')} violations in {runs}"
