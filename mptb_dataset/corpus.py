"""A MultiPartyTurnBench tree, local or on the Hub: its splits, its files, one conversation at a time.

The layout is that of the card, section 2. A split's `manifest.jsonl` names every file of a conversation
by a path relative to the root; where a split has no manifest it is rebuilt from the folder layout.
Nothing here reads audio.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from .anchors import Anchor, Anchors, collect_anchors, event_anchors, parse_anchors
from .annotations import join_utterances, load_json, parse_event_log
from .errors import CorpusError

SPLITS = ("dev", "test")

_ANNOTATIONS = {"events": "events", "anchors": "anchors", "script": "scripts", "render": "render"}
"""Each annotation of a conversation with the folder below `<split>/annotations/` that holds it."""


@dataclass(frozen=True)
class Entry:
    """A conversation's line of the manifest: root-relative paths, `None` for a file that is not there."""

    conversation_id: str
    split: str
    events: str
    anchors: str | None
    script: str | None
    render: str | None
    audio_noisy: Mapping[str, str]
    audio_clean: Mapping[str, str]


@dataclass(frozen=True)
class Conversation:
    """A conversation's checked annotations; times are seconds on its own clock.

    `anchors` are the shipped ones where the corpus has them, else those derived from the log;
    `log_anchors` are always the log's, each with its event.
    """

    entry: Entry
    conversation_id: str
    conversation_type: str | None
    speakers: tuple[str, ...]
    duration_s: float
    metadata: Mapping[str, Any]
    events: list[Mapping[str, Any]]
    log_anchors: list[Anchor]
    anchors: Anchors

    def audio(self, scene: str) -> Mapping[str, str]:
        """Root-relative path of each speaker's channel in the `noisy` or `clean` scene.

        Raises:
            CorpusError: a speaker of the event log has no channel, or a channel has no speaker.
        """
        paths = self.entry.audio_noisy if scene == "noisy" else self.entry.audio_clean
        missing = [speaker for speaker in self.speakers if speaker not in paths]
        unknown = [speaker for speaker in paths if speaker not in self.speakers]
        if missing or unknown:
            raise CorpusError(
                f"{self.entry.split}/manifest.jsonl: {self.conversation_id}: field 'audio_{scene}': "
                f"expected a channel for each of {', '.join(self.speakers)}; "
                f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            )
        return {speaker: paths[speaker] for speaker in self.speakers}


class Corpus:
    """A MultiPartyTurnBench tree.

    Args:
        root: a local folder, or `hf://datasets/<org>/<name>[@revision]`.
        token: access token for a tree on the Hub.

    Raises:
        CorpusError: no such folder, or a folder that has neither a manifest nor the layout.
    """

    def __init__(self, root: str | os.PathLike[str], *, token: str | bool | None = None):
        self.root = os.fspath(root)
        self._hub = None
        if self.root.startswith("hf://"):
            from huggingface_hub import HfFileSystem

            self._hub = HfFileSystem(token=token)
            self.root = self.root.rstrip("/")
        else:
            self.root = os.path.abspath(os.path.expanduser(self.root))
            if not os.path.isdir(self.root):
                raise CorpusError(f"{root}: no such folder: expected a MultiPartyTurnBench tree")
        self.splits = tuple(name for name in SPLITS if self._has_split(name))
        if not self.splits:
            raise CorpusError(
                f"{root}: expected a MultiPartyTurnBench tree, found no manifest "
                "(dev/manifest.jsonl, test/manifest.jsonl) and no layout (dev/annotations/events/)"
            )

    @property
    def is_remote(self) -> bool:
        """Whether reading goes over the network."""
        return self._hub is not None

    def url(self, path: str) -> str:
        """Where a root-relative path lies: an absolute local path, or an `hf://` address."""
        return f"{self.root}/{path}"

    def read(self, path: str) -> bytes:
        """Read a root-relative file.

        Raises:
            CorpusError: it cannot be read.
        """
        try:
            if self._hub:
                return self._hub.cat_file(self.url(path))
            with open(self.url(path), "rb") as file:
                return file.read()
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read: {error.strerror or error}") from None

    def read_json(self, path: str) -> Any:
        """Read and parse a root-relative JSON file; `CorpusError` where it is not one."""
        return load_json(self.read(path), path)

    def exists(self, path: str) -> bool:
        """Whether a root-relative path is there."""
        return self._hub.exists(self.url(path)) if self._hub else os.path.exists(self.url(path))

    def entries(self, split: str) -> list[Entry]:
        """The conversations of a split, in the manifest's order.

        Raises:
            CorpusError: no such split, or a manifest line that cannot be understood (line number, field).
        """
        if split not in self.splits:
            raise CorpusError(f"{self.root}: no split {split!r}: expected one of {', '.join(self.splits)}")
        manifest = f"{split}/manifest.jsonl"
        if not self.exists(manifest):
            return [self._entry_from_layout(split, name) for name in self._list(f"{split}/annotations/events")]
        entries = parse_manifest(self.read(manifest), split)
        if not all(entry.events and entry.anchors and entry.script and entry.render for entry in entries):
            entries = tuple(self._complete(entry) for entry in entries)
        return list(entries)

    def conversation(self, entry: Entry) -> Conversation:
        """Read and check one conversation's event log and anchors.

        Raises:
            CorpusError: a file is missing or cannot be understood.
        """
        log = parse_event_log(self.read_json(entry.events), entry.events)
        if log.conversation_id != entry.conversation_id:
            raise CorpusError(
                f"{entry.events}: field 'conversation_id': {log.conversation_id!r}, "
                f"expected {entry.conversation_id!r} as in the manifest"
            )
        log_anchors = event_anchors(log.events, source=entry.events)
        anchors = collect_anchors(log_anchors, log.speakers)
        if entry.anchors is not None:
            anchors = _shipped_anchors(self.read_json(entry.anchors), entry.anchors, anchors)
        return Conversation(
            entry=entry,
            conversation_id=log.conversation_id,
            conversation_type=log.conversation_type,
            speakers=log.speakers,
            duration_s=log.duration_s,
            metadata=log.metadata,
            events=log.events,
            log_anchors=log_anchors,
            anchors=anchors,
        )

    def utterances(self, conversation: Conversation) -> tuple[list[dict[str, Any]], Any]:
        """The rendered clips joined with the script, and the render's noise manifest.

        A conversation without a script or a render has no utterances.

        Raises:
            CorpusError: one of the two files cannot be understood.
        """
        entry = conversation.entry
        render = self.read_json(entry.render) if entry.render else None
        noise = render.get("noise") if isinstance(render, Mapping) else None
        if entry.script is None or entry.render is None:
            return [], noise
        rows = join_utterances(
            self.read_json(entry.script),
            render,
            speakers=conversation.speakers,
            script_source=entry.script,
            render_source=entry.render,
        )
        return rows, noise

    def conversations(self, split: str) -> Iterator[Conversation]:
        """Every conversation of a split, in the manifest's order."""
        for entry in self.entries(split):
            yield self.conversation(entry)

    def official_ids(self, split: str) -> list[str] | None:
        """The split's ids as `metadata/split.json` lists them; None where there is no such file."""
        if not self.exists("metadata/split.json"):
            return None
        content = self.read_json("metadata/split.json")
        ids = content.get(split) if isinstance(content, Mapping) else None
        return [str(name) for name in ids] if isinstance(ids, list) else None

    def _has_split(self, split: str) -> bool:
        return self.exists(f"{split}/manifest.jsonl") or self.exists(f"{split}/annotations/events")

    def _list(self, folder: str) -> list[str]:
        """The sorted stems of a folder's JSON files."""
        if self._hub:
            names = [PurePosixPath(path).name for path in self._hub.ls(self.url(folder), detail=False)]
        else:
            names = os.listdir(self.url(folder))
        return sorted(name[: -len(".json")] for name in names if name.endswith(".json"))

    def _entry_from_layout(self, split: str, conversation_id: str) -> Entry:
        events = f"{split}/annotations/events/{conversation_id}.json"
        speakers = parse_event_log(self.read_json(events), events).speakers
        scenes = {
            scene: {name: f"{split}/audio/{scene}/{conversation_id}_{name}.flac" for name in speakers}
            for scene in ("noisy", "clean")
        }
        return Entry(
            conversation_id=conversation_id,
            split=split,
            **{name: self._layout_path(split, conversation_id, name) for name in _ANNOTATIONS},  # type: ignore[arg-type]
            audio_noisy=scenes["noisy"],
            audio_clean=scenes["clean"],
        )

    def _complete(self, entry: Entry) -> Entry:
        """An entry with the layout's files in place of those that its line leaves out."""
        found = {
            name: getattr(entry, name) or self._layout_path(entry.split, entry.conversation_id, name)
            for name in _ANNOTATIONS
        }
        if found["events"] is None:
            raise CorpusError(
                f"{entry.split}/manifest.jsonl: {entry.conversation_id}: field 'events': "
                "expected the path of the event log"
            )
        return replace(entry, **found)

    def _layout_path(self, split: str, conversation_id: str, annotation: str) -> str | None:
        path = f"{split}/annotations/{_ANNOTATIONS[annotation]}/{conversation_id}.json"
        return path if self.exists(path) else None


@lru_cache(maxsize=4)  # naming a table's cache and building it read the same manifest
def parse_manifest(data: bytes, split: str) -> tuple[Entry, ...]:
    """Understand a split's `manifest.jsonl`; annotations that a line does not name are None.

    Raises:
        CorpusError: a line that cannot be understood, or a conversation that stands twice.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        where = f"{split}/manifest.jsonl, line {number}"
        if line.strip():
            entry = _entry(line, split, where)
            if entry.conversation_id in entries:
                raise CorpusError(
                    f"{where}: field 'conversation_id': {entry.conversation_id!r} stands on an earlier line too"
                )
            entries[entry.conversation_id] = entry
    return tuple(entries.values())


def _entry(line: bytes, split: str, where: str) -> Entry:
    record = load_json(line, where)
    if not isinstance(record, Mapping):
        raise CorpusError(f"{where}: expected a JSON object, got {type(record).__name__}")
    conversation_id = record.get("conversation_id")
    if not isinstance(conversation_id, str) or not conversation_id:
        raise CorpusError(f"{where}: field 'conversation_id': expected a text, got {conversation_id!r}")
    paths = {name: record.get(name, record.get(folder)) for name, folder in _ANNOTATIONS.items()}
    return Entry(
        conversation_id=conversation_id,
        split=split,
        **{name: None if path is None else safe_path(path, where, name) for name, path in paths.items()},  # type: ignore[arg-type]
        audio_noisy=_audio_paths(record, "audio_noisy", where),
        audio_clean=_audio_paths(record, "audio_clean", where),
    )


_PLAIN_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def safe_path(path: Any, where: str, field: str) -> str:
    """A path of the corpus that stays below its root, normalised, with forward slashes.

    Raises:
        CorpusError: not a text, absolute, with a URL scheme, or leading out of the root.
    """
    if not isinstance(path, str) or not path:
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


def check_files(paths: list[str]) -> list[os.stat_result]:
    """Stat local files.

    Raises:
        CorpusError: a file is missing or has no content.
    """
    found = []
    for path in paths:
        try:
            found.append(os.stat(path))
        except OSError as error:
            raise CorpusError(f"{path}: {error.strerror or error}: expected a FLAC file") from None
        if found[-1].st_size == 0:
            raise CorpusError(f"{path}: the file is empty: expected a FLAC file")
    return found


def _audio_paths(record: Mapping[str, Any], field: str, where: str) -> dict[str, str]:
    value = record.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CorpusError(f"{where}: field '{field}': expected an object speaker -> path, got {value!r}")
    return {speaker: safe_path(path, where, f"{field}.{speaker}") for speaker, path in value.items()}


def _shipped_anchors(content: Any, source: str, derived: Anchors) -> Anchors:
    """The anchors file's content for the log's speakers, in their order."""
    as_shipped = {s: {track.upper(): lists for track, lists in tracks.items()} for s, tracks in derived.items()}
    if isinstance(content, Mapping) and content.get("anchors") == as_shipped:
        return derived
    shipped = parse_anchors(content, source)
    unknown = [speaker for speaker in shipped if speaker not in derived]
    if unknown:
        raise CorpusError(
            f"{source}: speaker {unknown[0]!r} is not in the event log: expected one of {', '.join(derived)}"
        )
    anchors = {}
    for speaker, tracks in derived.items():
        if speaker not in shipped and any(values for lists in tracks.values() for values in lists.values()):
            raise CorpusError(f"{source}: {speaker}: no anchors, but the event log has events of this speaker")
        anchors[speaker] = shipped.get(speaker, tracks)
    return anchors
