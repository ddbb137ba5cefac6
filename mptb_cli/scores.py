"""Score files: what a detector said at every frame of every channel of a split.

A score file is an `.npz` without pickled objects. `meta` is a JSON text with `schema_version` 1, `detector`,
`frame_rate` (Hz), `lookahead_s`, `split` and `corpus` (checksum); every other array is a score per frame,
named `<conversation_id>/<speaker>/<track>`.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gold import Split

TRACKS = ("eot", "int")


@dataclass(frozen=True)
class Scores:
    """The content of a score file; `traces` by (conversation_id, speaker, track), a score per frame."""

    detector: str
    frame_rate: float
    lookahead_s: float
    split: str
    corpus: str
    traces: Mapping[tuple[str, str, str], NDArray[np.floating[Any]]]

    @property
    def tracks(self) -> tuple[str, ...]:
        """The tracks that the detector speaks on."""
        found = {track for _, _, track in self.traces}
        return tuple(track for track in TRACKS if track in found)

    def channels(self, references: Iterable[Mapping[str, Any]], track: str) -> list[dict[str, Any]]:
        """The gold and the scores of every channel, as `mptb_metric.sweep` takes them.

        Raises:
            ValueError: a channel of the split has no scores, or scores belong to no channel of it.
        """
        rows = list(references)
        expected = {(row["conversation_id"], row["speaker"]) for row in rows}
        found = {key[:2] for key in self.traces if key[2] == track}
        for what, channels in (("no scores for", expected - found), ("scores for unknown", found - expected)):
            if channels:
                listed = ", ".join("/".join(channel) for channel in sorted(channels)[:5])
                raise ValueError(f"score file, track {track}: {what} {len(channels)} channels: {listed}")
        return [
            {
                "conversation_id": row["conversation_id"],
                "speaker": row["speaker"],
                **row[track],
                "scores": self.traces[row["conversation_id"], row["speaker"], track],
            }
            for row in rows
        ]

    def rows(self, references: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Both tracks of every channel, as `mptb_metric.frozen.decide_rows` takes them.

        Raises:
            ValueError: as `channels`.
        """
        rows = list(references)
        silent = [{"scores": np.zeros(1)} for _ in rows]  # a track that the detector does not speak on
        eot, interruptions = (
            self.channels(rows, track) if track in self.tracks else silent for track in TRACKS
        )
        return [
            {
                "conversation_id": row["conversation_id"],
                "speaker": row["speaker"],
                "eot_scores": end["scores"],
                "int_scores": interruption["scores"],
                "frame_rate": self.frame_rate,
                "lookahead_s": self.lookahead_s,
            }
            for row, end, interruption in zip(rows, eot, interruptions, strict=True)
        ]


def write_scores(path: str | os.PathLike[str], scores: Scores) -> None:
    """Write a score file, whole or not at all; equal scores give equal bytes."""
    meta = {
        "schema_version": 1,
        "detector": scores.detector,
        "frame_rate": scores.frame_rate,
        "lookahead_s": scores.lookahead_s,
        "split": scores.split,
        "corpus": scores.corpus,
    }
    arrays = {"/".join(key): trace for key, trace in sorted(scores.traces.items())}
    write_npz(Path(path), {"meta": np.array(json.dumps(meta)), **arrays})


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an `.npz` through a temporary file beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_scores(path: str | os.PathLike[str]) -> Scores:
    """Read a score file.

    Raises:
        ValueError: not an `.npz`, an array that is no trace of numbers, or a `meta` field that is missing or
            wrong; the message names the file and the field.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: expected a score file (.npz as `mptb run` writes it): {error}") from None
    meta = _meta(content.pop("meta", None), path)
    traces = {}
    for name, trace in content.items():
        key = tuple(name.rsplit("/", 2))
        if len(key) != 3 or key[2] not in TRACKS:
            raise ValueError(f"{path}: array {name!r}: expected <conversation_id>/<speaker>/<eot or int>")
        if trace.ndim != 1 or trace.dtype.kind not in "fiu":
            raise ValueError(
                f"{path}: array {name!r}: expected a score per frame, got {trace.dtype} {trace.shape}"
            )
        traces[key[0], key[1], key[2]] = trace
    return Scores(traces=traces, **meta)


_META: dict[str, Any] = {
    "detector": str,
    "frame_rate": (int, float),
    "lookahead_s": (int, float),
    "split": str,
    "corpus": str,
}


def _meta(array: NDArray[Any] | None, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        meta = json.loads(str(array[()])) if array is not None else None
    except (json.JSONDecodeError, IndexError):
        meta = None
    if not isinstance(meta, dict):
        raise ValueError(f"{path}: array 'meta': expected a JSON object with {', '.join(_META)}")
    if meta.get("schema_version") != 1:
        raise ValueError(
            f"{path}: meta field 'schema_version': expected 1, got {meta.get('schema_version')!r}"
        )
    for field, kind in _META.items():
        if not isinstance(meta.get(field), kind) or isinstance(meta.get(field), bool):
            raise ValueError(f"{path}: meta field {field!r}: got {meta.get(field)!r}")
    return {field: meta[field] for field in _META}


def check_split(scores: Scores, split: Split, path: str | os.PathLike[str]) -> None:
    """Refuse scores of another split or of other gold.

    Raises:
        ValueError: which, and what was expected.
    """
    if scores.split != split.name:
        raise ValueError(f"{path}: scores of split {scores.split!r}, expected {split.name!r}")
    if scores.corpus != split.checksum:
        raise ValueError(
            f"{path}: made from other annotations than {split.corpus.root}, split {split.name}: "
            f"checksum {scores.corpus[:12]}, expected {split.checksum[:12]}"
        )
