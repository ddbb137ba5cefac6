"""A MultiPartyTurnBench tree, local or on the Hub: its splits, its files, one conversation at a time.

The layout is that of the card, section 2. What a split's `manifest.jsonl` does not name, or all of it where
there is none, is found in the folder layout. Nothing here reads audio.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .anchors import Anchor, Anchors, log_anchors, parse_anchors
from .annotations import EventLog, join_utterances, load_json, parse_event_log
from .errors import CorpusError
from .manifest import ANNOTATIONS, Entry, parse_manifest, safe_path

SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Conversation:
    """A conversation's checked annotations; times are seconds on its own clock.

    Attributes:
        entry: its files.
        conversation_id: its name, unique in the split.
        conversation_type: one of the card's six types, None where the log has none.
        speakers: in the log's order.
        duration_s: the length of every channel.
        metadata: the log's free-form part.
        events: the log's records.
        log_anchors: the anchors that the log gives, each with its event.
        anchors: the shipped anchors where the corpus has them, else those of the log.
        as_logged: whether `anchors` are exactly those of the log.
    """

    entry: Entry
    conversation_id: str
    conversation_type: str | None
    speakers: tuple[str, ...]
    duration_s: float
    metadata: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    log_anchors: list[Anchor]
    anchors: Anchors
    as_logged: bool

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
            with open(self.url(path), "rb", buffering=0) as file:
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
        if self.exists(manifest):
            entries = parse_manifest(self.read(manifest), split)
        else:
            entries = tuple(Entry(name, split) for name in self._names(f"{split}/annotations/events"))
        return [entry if all(vars(entry).values()) else self._complete(entry) for entry in entries]

    def conversation(self, entry: Entry) -> Conversation:
        """Read and check one conversation's event log and anchors.

        Raises:
            CorpusError: a file is missing or cannot be understood.
        """
        log = self._log(entry)
        if log.conversation_id != entry.conversation_id:
            raise CorpusError(
                f"{entry.events}: field 'conversation_id': {log.conversation_id!r}, "
                f"expected {entry.conversation_id!r} as in the manifest"
            )
        found, derived = log_anchors(log.events, log.speakers, source=entry.events)
        anchors = derived
        if self._is_there(entry.anchors):
            anchors = _shipped_anchors(self.read_json(entry.anchors), entry.anchors, derived)
        return Conversation(
            entry=entry,
            conversation_id=log.conversation_id,
            conversation_type=log.conversation_type,
            speakers=log.speakers,
            duration_s=log.duration_s,
            metadata=log.metadata,
            events=log.events,
            log_anchors=found,
            anchors=anchors,
            as_logged=anchors is derived,
        )

    def _is_there(self, optional: str) -> bool:
        """Whether an annotation that can be done without is named and, in a local tree, on disk."""
        return bool(optional) and (self.is_remote or os.path.exists(self.url(optional)))

    def utterances(self, conversation: Conversation) -> tuple[list[dict[str, Any]], Any]:
        """The rendered clips joined with the script, and the render's noise manifest.

        A conversation without a script or a render has no utterances; one that lacks only the files, though
        the manifest names them, is one without.

        Raises:
            CorpusError: one of the two files cannot be understood.
        """
        entry = conversation.entry
        render = self.read_json(entry.render) if self._is_there(entry.render) else None
        noise = render.get("noise") if isinstance(render, Mapping) else None
        if render is None or not self._is_there(entry.script):
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
        return ids if isinstance(ids, list) and all(isinstance(name, str) for name in ids) else None

    def _has_split(self, split: str) -> bool:
        return self.exists(f"{split}/manifest.jsonl") or self.exists(f"{split}/annotations/events")

    def _names(self, folder: str) -> list[str]:
        """The sorted stems of a folder's JSON files."""
        if self._hub:
            files = [posixpath.basename(str(path)) for path in self._hub.ls(self.url(folder), detail=False)]
        else:
            files = os.listdir(self.url(folder))
        names = sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))
        if not names:
            raise CorpusError(f"{folder}: expected an event log per conversation, found none")
        return names

    def _log(self, entry: Entry) -> EventLog:
        if not entry.events:
            raise CorpusError(
                f"{entry.split}/manifest.jsonl: {entry.conversation_id}: field 'events': "
                "expected the path of the event log"
            )
        return parse_event_log(self.read_json(entry.events), entry.events)

    def _complete(self, entry: Entry) -> Entry:
        """An entry with the layout's files in place of those that the manifest does not name."""
        where = f"{entry.split}/manifest.jsonl: {entry.conversation_id}"
        for field, folder in ANNOTATIONS.items():
            path = f"{entry.split}/annotations/{folder}/{entry.conversation_id}.json"
            if not getattr(entry, field) and self.exists(safe_path(path, where, field)):
                entry = replace(entry, **{field: path})  # type: ignore[arg-type]
        for scene in ("noisy", "clean"):
            start = f"{entry.split}/audio/{scene}/{entry.conversation_id}"
            if not getattr(entry, f"audio_{scene}") and self.exists(posixpath.dirname(start)):
                paths = {
                    speaker: safe_path(f"{start}_{speaker}.flac", where, f"audio_{scene}")
                    for speaker in self._log(entry).speakers
                }
                entry = replace(entry, **{f"audio_{scene}": paths})  # type: ignore[arg-type]
        return entry


def _shipped_anchors(content: Any, source: str, derived: Anchors) -> Anchors:
    """The anchors file's content for the log's speakers, in their order; `derived` itself if the same."""
    in_capitals = {
        speaker: {track.upper(): lists for track, lists in tracks.items()}
        for speaker, tracks in derived.items()
    }
    if isinstance(content, Mapping) and content.get("anchors") == in_capitals:
        return derived
    shipped = parse_anchors(content, source)
    unknown = [speaker for speaker in shipped if speaker not in derived]
    if unknown:
        raise CorpusError(
            f"{source}: speaker {unknown[0]!r} is not in the event log: expected one of {', '.join(derived)}"
        )
    for speaker, tracks in derived.items():
        if speaker not in shipped and any(times for lists in tracks.values() for times in lists.values()):
            raise CorpusError(f"{source}: {speaker}: no anchors, but the event log has some for this speaker")
    return {speaker: shipped.get(speaker, tracks) for speaker, tracks in derived.items()}
