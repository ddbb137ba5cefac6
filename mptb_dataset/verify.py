"""A corpus against itself: files, checksums, channels, anchors, joins, and the card's totals.

`verify` looks at everything and collects what is wrong; it raises only where there is no corpus at all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import soundfile

from .anchors import TRACKS, collect_anchors
from .corpus import Conversation, Corpus, Entry, safe_path
from .errors import CorpusError
from .schemas import MPTB_SAMPLING_RATE_HZ, TURN_END_CONFIGS
from .verify_turn_end import Problem, verify_turn_end

LENGTH_TOLERANCE_S = 0.05
"""How far a channel's length may be from `duration_s`: a file ends on a sample, the log on its own grid."""

CARD_TOTALS = {
    "dev": {"conversations": 48, "eot": (706, 55), "int": (86, 309)},
    "test": {"conversations": 192, "eot": (2716, 186), "int": (281, 1172)},
}
"""The composition table of the card, section 3: conversations, then positives and negatives per track."""

Progress = Callable[[int, int], None]


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

    def count(self, what: str, number: int = 1) -> None:
        """Add to what was looked at."""
        self.checked[what] = self.checked.get(what, 0) + number


def verify(root: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Check a local corpus, MultiPartyTurnBench or turn-end-detection, against itself.

    MultiPartyTurnBench: every file of the manifests exists and can be read; every checksum of `SHA256SUMS`
    holds and every file has one; channels are 24 kHz, mono, of equal length and as long as the log says;
    shipped anchors are those of the log; the splits are those of `metadata/split.json`; a split of the
    published size has the card's totals. turn-end-detection: see `verify_turn_end.verify_turn_end`.

    Args:
        root: the folder.
        progress: called with steps done and steps in all.

    Returns:
        A `Report` with `.ok` and `.problems`.

    Raises:
        CorpusError: no such folder, or neither of the two layouts.
    """
    root = os.path.abspath(os.path.expanduser(os.fspath(root)))
    report = Report()
    if any(os.path.isdir(os.path.join(root, config)) for config in TURN_END_CONFIGS):
        problems, checked = verify_turn_end(root, progress=progress)
        report.problems += problems
        report.checked.update(checked)
        return report
    corpus = Corpus(root)
    entries = {split: _entries(corpus, split, report) for split in corpus.splits}
    sums = _checksums(corpus, report)
    steps = sum(len(found) for found in entries.values()) + len(sums)
    done = 0
    for step in _steps(corpus, entries, sums, report):
        step()
        done += 1
        if progress:
            progress(done, steps)
    return report


def _steps(
    corpus: Corpus, entries: dict[str, list[Entry]], sums: dict[str, str], report: Report
) -> Iterator[Callable[[], None]]:
    for split, found in entries.items():
        totals = {track: [0, 0] for track in TRACKS}
        for entry in found:
            yield lambda entry=entry, totals=totals: _check_conversation(corpus, entry, totals, report)  # type: ignore[misc]
        _check_totals(split, len(found), totals, report)
        _check_official(corpus, split, found, report)
    for path, digest in sums.items():
        yield lambda path=path, digest=digest: _check_sum(corpus, path, digest, report)  # type: ignore[misc]


def _entries(corpus: Corpus, split: str, report: Report) -> list[Entry]:
    try:
        return corpus.entries(split)
    except CorpusError as error:
        report.problems.append(Problem(f"{split}/manifest.jsonl", str(error)))
        return []


def _check_conversation(corpus: Corpus, entry: Entry, totals: dict[str, list[int]], report: Report) -> None:
    report.count("conversations")
    try:
        conversation = corpus.conversation(entry)
        corpus.utterances(conversation)
    except CorpusError as error:
        report.problems.append(Problem(entry.events, str(error)))
        return
    for tracks in conversation.anchors.values():
        for track, lists in tracks.items():
            totals[track][0] += len(lists["positives"])
            totals[track][1] += len(lists["negative_spans"])
    _check_log(conversation, report)
    _check_anchors(conversation, report)
    _check_channels(corpus, conversation, report)


def _check_log(conversation: Conversation, report: Report) -> None:
    report.count("events", len(conversation.events))
    for event in conversation.events:
        if event["offset"] > conversation.duration_s + LENGTH_TOLERANCE_S:
            report.problems.append(
                Problem(
                    conversation.entry.events,
                    f"event {event['id']!r}: field 'offset': {event['offset']} s is past the conversation's end "
                    f"at {conversation.duration_s} s",
                )
            )


def _check_anchors(conversation: Conversation, report: Report) -> None:
    if conversation.entry.anchors is None:
        return
    derived = collect_anchors(conversation.log_anchors, conversation.speakers)
    for speaker in conversation.speakers:
        for track in TRACKS:
            for name, expected in derived[speaker][track].items():
                report.count("anchor lists")
                found = conversation.anchors[speaker][track][name]
                if _microseconds(found) != _microseconds(expected):
                    report.problems.append(
                        Problem(
                            conversation.entry.anchors,
                            f"{speaker}, track {track.upper()}, {name}: {found}, "
                            f"but the event log gives {expected}",
                        )
                    )


def _microseconds(times: list[Any]) -> list[Any]:
    return [_microseconds(t) if isinstance(t, list) else round(t * 1e6) for t in times]


def _check_channels(corpus: Corpus, conversation: Conversation, report: Report) -> None:
    lengths: dict[str, int] = {}
    for scene in ("noisy", "clean"):
        if scene == "clean" and not conversation.entry.audio_clean:
            continue
        try:
            paths = conversation.audio(scene)
        except CorpusError as error:
            report.problems.append(Problem(f"{conversation.entry.split}/manifest.jsonl", str(error)))
            continue
        for path in paths.values():
            report.count("channels")
            found = _check_audio(corpus.url(path), path)
            if isinstance(found, Problem):
                report.problems.append(found)
            else:
                lengths[path] = found
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{path}: {frames}" for path, frames in lengths.items())
        report.problems.append(
            Problem(conversation.entry.events, f"channels of unequal length, in samples: {listed}")
        )
    for path, frames in lengths.items():
        length_s = frames / MPTB_SAMPLING_RATE_HZ
        if abs(length_s - conversation.duration_s) > LENGTH_TOLERANCE_S:
            report.problems.append(
                Problem(
                    path,
                    f"{length_s:.3f} s long, but field 'duration_s' of {conversation.entry.events} is "
                    f"{conversation.duration_s}",
                )
            )


def _check_audio(path: str, name: str) -> int | Problem:
    """The number of samples, or what is wrong; decodes all, as only that shows a file cut short."""
    if not os.path.isfile(path):
        return Problem(name, "the file is missing")
    try:
        with soundfile.SoundFile(path) as file:
            if file.samplerate != MPTB_SAMPLING_RATE_HZ or file.channels != 1:
                return Problem(
                    name,
                    f"{file.samplerate} Hz with {file.channels} channels: expected "
                    f"{MPTB_SAMPLING_RATE_HZ} Hz mono",
                )
            expected, frames = file.frames, 0
            while block := len(file.read(1 << 18, dtype="int16")):
                frames += block
    except soundfile.LibsndfileError as error:
        return Problem(name, f"expected a FLAC file that can be decoded to its end: {error}")
    if frames != expected:
        return Problem(name, f"cut short: {frames} samples of the {expected} that its header promises")
    return frames


def _check_totals(split: str, conversations: int, totals: dict[str, list[int]], report: Report) -> None:
    card = CARD_TOTALS[split]
    if conversations != card["conversations"]:
        return
    for track in TRACKS:
        if tuple(totals[track]) != card[track]:
            report.problems.append(
                Problem(
                    f"{split}/manifest.jsonl",
                    f"{track.upper()}: {totals[track][0]} positives and {totals[track][1]} negatives, but the "
                    f"card lists {card[track]} for the whole split",  # type: ignore[index]
                )
            )


def _check_official(corpus: Corpus, split: str, entries: list[Entry], report: Report) -> None:
    try:
        official = corpus.official_ids(split)
    except CorpusError as error:
        report.problems.append(Problem("metadata/split.json", str(error)))
        return
    if official is None:
        return
    there = [entry.conversation_id for entry in entries]
    for what, ids in (
        ("listed, but not in the manifest", sorted(set(official) - set(there))),
        ("in the manifest, but not listed", sorted(set(there) - set(official))),
    ):
        if ids:
            report.problems.append(
                Problem("metadata/split.json", f"{split}: {what}", count=len(ids), examples=tuple(ids[:3]))
            )


def _checksums(corpus: Corpus, report: Report) -> dict[str, str]:
    """The expected SHA-256 by path; files of the tree that have none are a problem."""
    if not corpus.exists("SHA256SUMS"):
        return {}
    sums: dict[str, str] = {}
    text = corpus.read("SHA256SUMS").decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        digest, _, path = line.strip().partition(" ")
        where = f"SHA256SUMS, line {number}"
        try:
            if len(digest) != 64 or not path:
                raise CorpusError(f"{where}: expected a SHA-256 and a path, got {line!r}")
            sums[safe_path(path.lstrip(" *"), where, "path")] = digest.lower()
        except CorpusError as error:
            report.problems.append(Problem("SHA256SUMS", str(error)))
    there = {
        os.path.relpath(os.path.join(folder, name), corpus.root).replace(os.sep, "/")
        for folder, folders, names in os.walk(corpus.root)
        for name in names
        if not _hidden(folders, name)
    }
    unlisted = sorted(there - set(sums) - {"SHA256SUMS"})
    if unlisted:
        report.problems.append(
            Problem("SHA256SUMS", "files without a checksum", count=len(unlisted), examples=tuple(unlisted[:3]))
        )
    return sums


def _hidden(folders: list[str], name: str) -> bool:
    """Skip what tools leave behind, such as the download cache of the Hub."""
    folders[:] = [folder for folder in folders if not folder.startswith(".")]
    return name.startswith(".")


def _check_sum(corpus: Corpus, path: str, expected: str, report: Report) -> None:
    report.count("checksums")
    try:
        with open(corpus.url(path), "rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        report.problems.append(Problem(path, f"listed in SHA256SUMS, but {error.strerror or error}"))
        return
    if digest.hexdigest() != expected:
        report.problems.append(Problem(path, "its SHA-256 is not the one that SHA256SUMS lists"))
