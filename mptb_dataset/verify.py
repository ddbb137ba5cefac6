"""A corpus against itself: files, checksums, channels, anchors, joins, and the card's totals.

`verify` looks at everything and collects what is wrong; it raises only where there is no corpus at all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .anchors import TRACKS, derive_anchors
from .checksums import check_checksum, read_checksums
from .corpus import Conversation, Corpus
from .errors import CorpusError
from .manifest import Entry
from .report import Progress, Report
from .schemas import MPTB_SAMPLING_RATE_HZ, TURN_END_CONFIGS
from .sound import count_samples
from .verify_turn_end import verify_turn_end

LENGTH_TOLERANCE_S = 0.05
"""How far a channel's length may be from `duration_s`: a file ends on a sample, the log on its own grid."""

CARD_TOTALS: dict[str, dict[str, Any]] = {
    "dev": {"conversations": 48, "eot": (706, 55), "int": (86, 309)},
    "test": {"conversations": 192, "eot": (2716, 186), "int": (281, 1172)},
}
"""The composition table of the card, section 3: conversations, then positives and negatives per track."""


def verify(root: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Check a local corpus, MultiPartyTurnBench or turn-end-detection, against itself.

    MultiPartyTurnBench: every file of the manifests exists and can be read; every checksum of `SHA256SUMS`
    holds and every file has one; channels are 24 kHz, mono, of equal length and as long as the log says;
    shipped anchors are those of the log; no conversation is in both splits, and the splits are those of
    `metadata/split.json`; a split of the published size has the card's totals. turn-end-detection: see
    `verify_turn_end.verify_turn_end`.

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
        verify_turn_end(root, report, progress=progress)
        return report
    corpus = Corpus(root)
    entries = {split: _entries(corpus, split, report) for split in corpus.splits}
    splits_of = Counter(entry.conversation_id for found in entries.values() for entry in found)
    twice = sorted(name for name, number in splits_of.items() if number > 1)
    report.add_all("manifest.jsonl", "conversations in more than one split", twice)
    sums = read_checksums(corpus, report)
    steps = sum(len(found) for found in entries.values()) + len(sums)
    for done, step in enumerate(_steps(corpus, entries, sums, report), start=1):
        step()
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
        yield lambda path=path, digest=digest: check_checksum(corpus, path, digest, report)  # type: ignore[misc]


def _entries(corpus: Corpus, split: str, report: Report) -> list[Entry]:
    try:
        return corpus.entries(split)
    except CorpusError as error:
        report.add(f"{split}/manifest.jsonl", str(error))
        return []


def _check_conversation(corpus: Corpus, entry: Entry, totals: dict[str, list[int]], report: Report) -> None:
    report.count("conversations")
    for field in ("anchors", "script", "render"):
        path = getattr(entry, field)
        if path and not corpus.exists(path):
            report.add(path, "cannot be read: No such file, but the manifest names it")
    try:
        conversation = corpus.conversation(entry)
        corpus.utterances(conversation)
    except CorpusError as error:
        report.add(entry.events or f"{entry.split}/manifest.jsonl", str(error))
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
            report.add(
                conversation.entry.events,
                f"event {event['id']!r}: field 'offset': {event['offset']} s is past the conversation's end "
                f"at {conversation.duration_s} s",
            )


def _check_anchors(conversation: Conversation, report: Report) -> None:
    if not conversation.entry.anchors:
        return
    derived = derive_anchors(conversation.events, conversation.speakers)
    for speaker in conversation.speakers:
        for track in TRACKS:
            for name, expected in derived[speaker][track].items():
                report.count("anchor lists")
                found = conversation.anchors[speaker][track][name]
                if _microseconds(found) != _microseconds(expected):
                    where = f"{speaker}, track {track.upper()}, {name}"
                    report.add(
                        conversation.entry.anchors, f"{where}: {found}, but the event log gives {expected}"
                    )


def _microseconds(times: list[Any]) -> list[Any]:
    return [_microseconds(t) if isinstance(t, list) else round(t * 1e6) for t in times]


def _check_channels(corpus: Corpus, conversation: Conversation, report: Report) -> None:
    manifest = f"{conversation.entry.split}/manifest.jsonl"
    lengths: dict[str, int] = {}
    for scene in ("noisy", "clean"):
        if scene == "clean" and not conversation.entry.audio_clean:
            continue
        try:
            paths = conversation.audio(scene)
        except CorpusError as error:
            report.add(manifest, str(error))
            continue
        if len(set(paths.values())) < len(paths):
            report.add(
                manifest, f"{conversation.conversation_id}: field 'audio_{scene}': speakers share a file"
            )
        for path in paths.values():
            report.count("channels")
            if not os.path.isfile(corpus.url(path)):
                report.add(path, f"the file is missing: {manifest} names it as 'audio_{scene}'")
                continue
            found = count_samples(corpus.url(path), sampling_rate_hz=MPTB_SAMPLING_RATE_HZ)
            if isinstance(found, str):
                report.add(path, found)
            else:
                lengths[path] = found
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{path}: {samples}" for path, samples in lengths.items())
        report.add(conversation.entry.events, f"channels of unequal length, in samples: {listed}")
    for path, samples in lengths.items():
        length_s = samples / MPTB_SAMPLING_RATE_HZ
        if abs(length_s - conversation.duration_s) > LENGTH_TOLERANCE_S:
            report.add(
                path,
                f"{length_s:.3f} s long, but field 'duration_s' of {conversation.entry.events} is "
                f"{conversation.duration_s}",
            )


def _check_totals(split: str, conversations: int, totals: dict[str, list[int]], report: Report) -> None:
    card = CARD_TOTALS[split]
    if conversations != card["conversations"]:
        return
    for track in TRACKS:
        if tuple(totals[track]) != card[track]:
            report.add(
                f"{split}/manifest.jsonl",
                f"{track.upper()}: {totals[track][0]} positives and {totals[track][1]} negatives, but the "
                f"card lists {card[track]} for the whole split",
            )


def _check_official(corpus: Corpus, split: str, entries: list[Entry], report: Report) -> None:
    source = "metadata/split.json"
    try:
        official = corpus.official_ids(split)
    except CorpusError as error:
        report.add(source, str(error))
        return
    if official is None:
        return
    there = {entry.conversation_id for entry in entries}
    report.add_all(source, f"{split}: listed, but not in the manifest", sorted(set(official) - there))
    report.add_all(source, f"{split}: in the manifest, but not listed", sorted(there - set(official)))
