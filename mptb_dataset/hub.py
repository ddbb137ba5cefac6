"""Where a table's files are: a local copy, or a repository on the Hub of which the needed part is fetched.

From the Hub, everything that a table needs comes with one `snapshot_download`, never file by file.
Streaming, and `turns` without their audio, read the repository as they go, at the commit that the
revision names now.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from huggingface_hub import HfApi, HfFileSystem, constants, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from .corpus import SPLITS as MPTB_SPLITS
from .errors import CorpusError
from .schemas import MPTB_CONFIGS, SCENES, TURN_END_CONFIGS, audio_columns
from .stamp import annotations_read
from .turn_end import SPLITS as TURN_END_SPLITS

REPOSITORIES = dict.fromkeys(MPTB_CONFIGS, "puneetUMD/MultiPartyTurnBench") | dict.fromkeys(
    TURN_END_CONFIGS, "mazesmazes/turn-end-detection"
)
"""The published repository of every table."""

_FOLDERS = {"events": "events", "anchors": "anchors", "script": "scripts", "render": "render"}

_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@(refs/(?:pr|convert)/[^/]+|[^/]+))?(?:/(.*))?")

_WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses before the Hub is asked again: `huggingface_hub` repeats downloads, but not its first question."""

_WINDOW_S = 300.0
"""The Hub counts requests in windows of five minutes: no longer wait is worth it."""

_PASSING = {408, 429, 500, 502, 503, 504}
"""HTTP statuses that go away by waiting."""

Answer = TypeVar("Answer")


def locate(
    name: str,
    data_dir: str | os.PathLike[str] | None,
    *,
    splits: tuple[str, ...] | None,
    audio: str,
    columns: Sequence[str] | None = None,
    streaming: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
) -> tuple[str, str | None]:
    """Find a table's corpus, and fetch from the Hub what the table needs of it.

    Args:
        name: the table.
        data_dir: a local folder, or `hf://datasets/<org>/<name>[@revision][/folder]`; None for the published
            repository.
        splits: the splits that are wanted; None for all.
        audio: "noisy", "clean", "both" or "none".
        columns: the columns that are wanted; None for all. Without an audio column no audio is fetched.
        streaming: read as it goes instead of fetching; offline, what was fetched before is read.
        revision: branch, tag or commit.
        token: access token of the Hub.

    Returns:
        The folder, or an `hf://` address at a commit together with its repository's id.

    Raises:
        CorpusError: no such repository or revision, no access, or no answer; the message says which.
        ValueError: a revision for a local folder, or two of them.
    """
    address = os.fspath(data_dir) if data_dir is not None else f"hf://datasets/{REPOSITORIES[name]}"
    if not address.startswith("hf://"):
        if revision is not None:
            raise ValueError(f"revision: {revision!r} means nothing for the local folder {address}")
        return os.path.abspath(os.path.expanduser(address)), None
    repo_id, at, folder = _parse(address, revision)
    if not _wants_audio(name, audio, columns):
        audio = "none"
    if streaming and not constants.HF_HUB_OFFLINE:
        info = _patiently(HfApi(token=token).dataset_info, address, repo_id, revision=at)
        return _open(repo_id, info.sha or "main", folder, token=token), repo_id
    in_place = name == "turns" and audio == "none" and not streaming
    # The card is small; with it the cache knows the commit, so that the same call works offline later.
    patterns = ["README.md"] if in_place else _patterns(name, splits, audio, folder)
    local = _patiently(
        snapshot_download,
        address,
        repo_id,
        repo_type="dataset",
        revision=at,
        token=token,
        allow_patterns=patterns,
    )
    if in_place:
        return _open(repo_id, os.path.basename(local), folder, token=token), repo_id
    return os.path.join(local, *folder.split("/")) if folder else local, None


def _parse(address: str, revision: str | None) -> tuple[str, str | None, str]:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise CorpusError(f"{address}: expected hf://datasets/<org>/<name>[@revision][/folder]")
    if match[2] is not None and revision is not None:
        raise ValueError(f"revision: {revision!r}, but {address} names one too")
    return match[1], revision if match[2] is None else unquote(match[2]), (match[3] or "").strip("/")


def _open(repo_id: str, commit: str, folder: str, *, token: str | bool | None) -> str:
    """The address of a folder at a commit.

    Listing it here, patiently, makes this process's file system know the repository. Later it would ask
    for it once, impatiently, and take a refusal for a missing file.
    """
    address = "/".join(filter(None, [f"hf://datasets/{repo_id}@{commit}", folder]))
    if not constants.HF_HUB_OFFLINE:
        _patiently(HfFileSystem(token=token).ls, address, address, detail=False)
    return address


def _wants_audio(name: str, audio: str, columns: Sequence[str] | None) -> bool:
    if columns is None or audio == "none":
        return audio != "none"
    available = audio_columns(name, audio) if name in MPTB_CONFIGS else {"audio"}
    return bool(set(available) & set(columns))


def _patterns(name: str, splits: tuple[str, ...] | None, audio: str, folder: str) -> list[str]:
    """The files of a repository that a table is made from."""
    if name in TURN_END_CONFIGS:
        wanted = splits or TURN_END_SPLITS[name]
        patterns = [f"{name}/{name}-{split}{rest}.parquet" for split in wanted for rest in ("", "-*")]
    else:
        patterns = ["metadata/split.json"]
        for split in splits or MPTB_SPLITS:
            patterns.append(f"{split}/manifest.jsonl")
            patterns += [f"{split}/annotations/{_FOLDERS[field]}/*" for field in annotations_read(name)]
            patterns += [f"{split}/audio/{scene}/*" for scene in SCENES[audio]]
    return [f"{folder}/{pattern}" if folder else pattern for pattern in patterns]


def _patiently(ask: Callable[..., Answer], address: str, *arguments: Any, **options: Any) -> Answer:
    """Ask the Hub, and again after a pause while it is busy.

    Raises:
        CorpusError: what went wrong, from the Hub's own error.
    """
    waits_s = iter(_WAITS_S)
    while True:
        try:
            return ask(*arguments, **options)
        except OSError as error:
            refusal, wait_s = _refusal(error), next(waits_s, None)
            if wait_s is None or getattr(refusal, "status_code", None) not in _PASSING:
                raise CorpusError(f"{address}: {_explain(error, refusal)}") from error
            after = refusal.headers.get("Retry-After", "")
            time.sleep(max(wait_s, min(float(after), _WINDOW_S) if after.isdigit() else 0.0))


def _refusal(error: BaseException | None) -> Any:
    """The Hub's response behind an error, None where there was none."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return error.response
        error = error.__cause__
    return None


def _explain(error: OSError, refusal: Any) -> str:
    if isinstance(error, RevisionNotFoundError):
        return "no such revision: expected a branch, a tag or a commit of the repository"
    if isinstance(error, RepositoryNotFoundError):
        return "no such dataset repository, or none that you may read: pass token=... or `hf auth login`"
    status = getattr(refusal, "status_code", None)
    if status in (401, 403):
        return f"the Hub refused the access token ({status}): pass another as token=... or log in again"
    if status is not None:
        return f"the Hub answered {status}: {error}"
    if isinstance(error, LocalEntryNotFoundError) and constants.HF_HUB_OFFLINE:
        return f"HF_HUB_OFFLINE is set, and not all that is asked for was fetched before: {error}"
    return f"cannot be reached: {error}"
