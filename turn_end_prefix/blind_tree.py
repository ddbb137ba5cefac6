"""A copy of some conversations of an MPTB tree with the noisy channels and without gold.

Every file that the layout promises is there, so that programs which open all of them still run: the event
log, the anchors, the script and the render of a conversation are empty. Audio is copied, or written with
its future replaced, sample by sample exact before that.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

FOLDERS = {"events": "events", "anchors": "anchors", "script": "scripts", "render": "render"}
"""Manifest fields of the annotation files, each with its folder under ``<split>/annotations``."""

KEPT_FIELDS = ("conversation_type", "sample_rate", "domain", "tone")
"""Manifest fields that are handed over as they are: beside ids, speakers and paths, all that is no gold."""

CHANNEL_FILE = re.compile(r"(?P<conversation>.+)_(?P<speaker>speaker_\d+)\.flac")


@dataclass(frozen=True)
class Conversation:
    """One conversation's noisy channels in a tree.

    Attributes:
        conversation_id: its id.
        fields: the manifest's fields that are handed over.
        root: the tree.
        audio: root-relative path per speaker.
        n_samples: length of each channel.
        sampling_rate: Hz.
    """

    conversation_id: str
    fields: dict[str, Any]
    root: Path
    audio: dict[str, str]
    n_samples: int
    sampling_rate: int


def read_manifest(root: Path, split: str) -> list[Conversation]:
    """Return the conversations of a split, from its manifest or, without one, from ``<split>/audio/noisy``.

    Raises:
        ValueError: no such split, a line that is not understood, a path that leaves the root, or channels
            of a conversation that cannot be read or differ in length or rate. The message names file and
            field.
    """
    manifest = root / split / "manifest.jsonl"
    if manifest.is_file():
        lines = manifest.read_text(encoding="utf-8").splitlines()
        entries = [_parse_line(line, manifest, n) for n, line in enumerate(lines, start=1) if line.strip()]
    else:
        entries = _entries_of_folder(root, split)
    if not entries:
        raise ValueError(
            f"{root}: no conversations of split {split!r}: no {split}/manifest.jsonl, no channels"
        )
    return [_open(root, entry) for entry in entries]


def _parse_line(line: str, manifest: Path, number: int) -> dict[str, Any]:
    where = f"{manifest}, line {number}"
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error}") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("conversation_id"), str):
        raise ValueError(f"{where}: field 'conversation_id': expected a string")
    audio = entry.get("audio_noisy")
    if not isinstance(audio, dict) or not audio:
        raise ValueError(f"{where}: field 'audio_noisy': expected {{speaker: path}}")
    for speaker, path in audio.items():
        if (
            not isinstance(path, str)
            or PurePosixPath(path).is_absolute()
            or ".." in PurePosixPath(path).parts
        ):
            raise ValueError(
                f"{where}: field 'audio_noisy', {speaker}: expected a path inside the root, got {path!r}"
            )
    return entry


def _entries_of_folder(root: Path, split: str) -> list[dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for path in sorted((root / split / "audio" / "noisy").glob("*.flac")):
        match = CHANNEL_FILE.fullmatch(path.name)
        if match:
            name = match["conversation"]
            entry = entries.setdefault(name, {"conversation_id": name, "audio_noisy": {}})
            entry["audio_noisy"][match["speaker"]] = path.relative_to(root).as_posix()
    return list(entries.values())


def _open(root: Path, entry: Mapping[str, Any]) -> Conversation:
    lengths = {}
    for speaker, path in entry["audio_noisy"].items():
        try:
            info = soundfile.info(root / path)
        except (OSError, soundfile.LibsndfileError) as error:
            raise ValueError(f"{root / path}: cannot be read: {error}") from error
        lengths[speaker] = (info.frames, info.samplerate)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{speaker} {frames} at {rate} Hz" for speaker, (frames, rate) in lengths.items())
        raise ValueError(f"{entry['conversation_id']}: channels differ in samples: {told}")
    n_samples, sampling_rate = next(iter(lengths.values()))
    kept = {field: entry[field] for field in KEPT_FIELDS if field in entry}
    return Conversation(
        entry["conversation_id"], kept, root, dict(entry["audio_noisy"]), n_samples, sampling_rate
    )


def read_channels(conversation: Conversation) -> dict[str, NDArray[np.int32]]:
    """Return the channels as integers of full range, in which PCM of at most 32 bits is exact."""
    return {
        speaker: soundfile.read(conversation.root / path, dtype="int32")[0]
        for speaker, path in conversation.audio.items()
    }


def write_blind(
    conversation: Conversation,
    destination: Path,
    split: str,
    *,
    altered: Mapping[str, NDArray[np.int32]] | None = None,
) -> None:
    """Add a conversation to the blind tree at ``destination``.

    Args:
        conversation: what to copy.
        destination: root of the blind tree.
        split: the split that it belongs to.
        altered: channels to write instead of the conversation's own; they may be shorter.
    """
    for speaker, path in conversation.audio.items():
        source, target = conversation.root / path, destination / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if altered is None:
            shutil.copyfile(source, target)
        else:
            subtype = soundfile.info(source).subtype
            soundfile.write(target, altered[speaker], conversation.sampling_rate, subtype=subtype)
    n_samples = conversation.n_samples if altered is None else len(next(iter(altered.values())))
    entry = {
        "conversation_id": conversation.conversation_id,
        "split": split,
        "num_speakers": len(conversation.audio),
        "speakers": list(conversation.audio),
        "duration_s": n_samples / conversation.sampling_rate,
        **conversation.fields,
    }
    paths = {
        field: f"{split}/annotations/{folder}/{conversation.conversation_id}.json"
        for field, folder in FOLDERS.items()
    }
    for field, content in _empty_annotations(entry, conversation).items():
        target = destination / paths[field]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(content), encoding="utf-8")
    with (destination / split / "manifest.jsonl").open("a", encoding="utf-8") as manifest:
        manifest.write(json.dumps({**entry, **paths, "audio_noisy": conversation.audio}) + "\n")


def _empty_annotations(entry: Mapping[str, Any], conversation: Conversation) -> dict[str, Any]:
    name = conversation.conversation_id
    nothing: dict[str, list[float]] = {"positives": [], "negative_spans": [], "excluded_spans": []}
    files = {speaker: PurePosixPath(path).name for speaker, path in conversation.audio.items()}
    log = {key: value for key, value in entry.items() if key != "split"}
    log |= {"audio": {"mode": "channel_separated", "files": files}}
    log |= {"metadata": {"sample_rate": conversation.sampling_rate}, "events": []}
    anchors = {speaker: {"EOT": nothing, "INT": nothing} for speaker in conversation.audio}
    return {
        "events": log,
        "anchors": {"conversation_id": name, "anchors": anchors},
        "script": {"conversation_id": name, "utterances": []},
        "render": {"conversation_id": name, "clips": []},
    }
