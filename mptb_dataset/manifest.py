"""A split's `manifest.jsonl`: which files a conversation is made of.

A line names every file of a conversation by a path relative to the root (card, sections 1 and 2).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .annotations import load_json
from .errors import CorpusError

ANNOTATIONS = {"events": "events", "anchors": "anchors", "script": "scripts", "render": "render"}
"""Each annotation of a conversation with the folder below `<split>/annotations/` that holds it."""


@dataclass(frozen=True)
class Entry:
    """The files of a conversation, as root-relative paths.

    What a manifest line does not name is empty here, until `Corpus.entries` fills it in from the folder
    layout; what is empty then does not exist.
    """

    conversation_id: str
    split: str
    events: str = ""
    anchors: str = ""
    script: str = ""
    render: str = ""
    audio_noisy: Mapping[str, str] = field(default_factory=dict)
    audio_clean: Mapping[str, str] = field(default_factory=dict)


@lru_cache(maxsize=4)  # naming a table's cache and building it read the same manifest
def parse_manifest(data: bytes, split: str) -> tuple[Entry, ...]:
    """Understand the content of a split's `manifest.jsonl`.

    Raises:
        CorpusError: a line that cannot be understood, or a conversation that stands twice; the message has
            the line's number and the field.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            where = f"{split}/manifest.jsonl, line {number}"
            entry = _entry(line, split, where)
            if entry.conversation_id in entries:
                raise CorpusError(
                    f"{where}: field 'conversation_id': {entry.conversation_id!r} is on an earlier line too"
                )
            entries[entry.conversation_id] = entry
    if not entries:
        raise CorpusError(f"{split}/manifest.jsonl: expected a line per conversation, found none")
    return tuple(entries.values())


def _entry(line: bytes, split: str, where: str) -> Entry:
    record = load_json(line, where)
    if not isinstance(record, Mapping):
        raise CorpusError(f"{where}: expected a JSON object, got {type(record).__name__}")
    conversation_id = record.get("conversation_id")
    if not isinstance(conversation_id, str) or not conversation_id:
        raise CorpusError(f"{where}: field 'conversation_id': expected a text, got {conversation_id!r}")
    paths = {name: record.get(name, record.get(folder)) for name, folder in ANNOTATIONS.items()}
    return Entry(
        conversation_id,
        split,
        **{name: safe_path(path, where, name) for name, path in paths.items() if path is not None},
        audio_noisy=_audio_paths(record, "audio_noisy", where),
        audio_clean=_audio_paths(record, "audio_clean", where),
    )


def _audio_paths(record: Mapping[str, Any], field: str, where: str) -> dict[str, str]:
    value = record.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CorpusError(f"{where}: field '{field}': expected an object speaker -> path, got {value!r}")
    return {speaker: safe_path(path, where, f"{field}.{speaker}") for speaker, path in value.items()}


_PLAIN_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def safe_path(path: Any, where: str, field: str) -> str:
    """A path of the corpus that stays below its root, normalised, with forward slashes.

    Raises:
        CorpusError: not a text, absolute, with a URL scheme, or leading out of the root.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise CorpusError(f"{where}: field '{field}': expected a path, got {path!r}")
    if _PLAIN_PATH.fullmatch(path):
        return path
    plain = path.replace("\\", "/")
    normal = posixpath.normpath(plain)
    if plain.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", plain) or normal.split("/")[0] == "..":
        raise CorpusError(
            f"{where}: field '{field}': {path!r} leaves the corpus: expected a path relative to its root"
        )
    return normal
