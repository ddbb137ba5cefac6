"""Any table -> a folder of Parquet shards with a card that needs no code of this package; and onto the Hub.

Rows are the builder's, value by value; audio is the original file's bytes under the file's own name. The one
feature that changes is an integer `label`, which becomes a `ClassLabel` of the same numbers. Other columns of
few values, such as `track` and `kind`, stay text: as a `ClassLabel` their values would turn into numbers.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from datasets import IterableDataset
from huggingface_hub import HfApi

from .card import BENCHMARK_SPLIT, EXPORT_TAG, card_text, eval_yaml
from .corpus import SPLITS as MPTB_SPLITS
from .errors import CorpusError
from .hub import REPOSITORIES, locate
from .loading import load_dataset
from .new_folder import new_folder
from .schemas import MPTB_CONFIGS, TURN_END_CONFIGS
from .shards import write_split
from .turn_end import SPLITS as TURN_END_SPLITS

MAX_SHARD_BYTES = 500 << 20
"""As large as `datasets` makes its own: to repeat the transfer of one is cheap."""

ROW_GROUP_BYTES = 32 << 20
"""What a reader holds at once; pyarrow asks for as much at a time when it streams."""

Progress = Callable[[str, str, int], None]
"""Called with config, split and the number of its rows written so far."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        folder: where it is.
        rows: for every config, the number of rows of each split that has any.
        files: its files, relative to the folder, sorted.
        n_bytes: their size together.
    """

    folder: Path
    rows: dict[str, dict[str, int]]
    files: tuple[str, ...]
    n_bytes: int


def export(
    root: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    configs: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    audio: str = "noisy",
    delay_s: float = 0.0,
    include_excluded: bool = False,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    row_group_bytes: int = ROW_GROUP_BYTES,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write tables as `<config>/<split>-00000-of-0000N.parquet` with a card that declares them all.

    Args:
        root: the corpus: a folder, an `hf://` address, None for the published one.
        out: the folder to make.
        configs: tables of one corpus; None for all that the folder `root` has.
        splits: the splits; None for all that there are.
        audio: "noisy", "clean" or "both", embedded as the original files; "none" leaves audio out.
        delay_s: as in `load_dataset`.
        include_excluded: as in `load_dataset`.
        max_shard_bytes: no shard is larger, but for one of a single row group; > 0.
        row_group_bytes: no row group holds more, but for one of a single row; > 0.
        overwrite: replace an earlier export.
        revision: as in `load_dataset`.
        token: as in `load_dataset`.
        progress: called after every row group.

    Returns:
        What was written. With the test split of MultiPartyTurnBench that is also an `eval.yaml`.

    Raises:
        CorpusError: the corpus cannot be read, has no such split, or no rows in a table.
        FileExistsError: `out` is there, and is no earlier export or not to be replaced.
        RuntimeError: another process is exporting to `out`.
        ValueError: unknown tables, tables of both corpora, or sizes that are not positive.
    """
    if min(max_shard_bytes, row_group_bytes) <= 0:
        raise ValueError(
            f"max_shard_bytes={max_shard_bytes}, row_group_bytes={row_group_bytes}: expected > 0"
        )
    tables = _wanted(_configs(root, configs), None if splits is None else tuple(splits))
    target = Path(out).expanduser().absolute()
    _check_replaceable(target, overwrite=overwrite)
    rows: dict[str, dict[str, int]] = {}
    with new_folder(target) as folder:
        for config, wanted in tables.items():
            data_dir, _ = locate(config, root, splits=wanted, audio=audio, revision=revision, token=token)
            load = partial(
                load_dataset,
                config,
                data_dir=data_dir,
                audio=audio,
                delay_s=delay_s,
                include_excluded=include_excluded,
                token=token,
                streaming=True,
                decode=False,
            )
            streams = load() if wanted is None else {split: load(split=split) for split in wanted}
            rows[config] = _write_table(
                folder / config, config, streams, max_shard_bytes, row_group_bytes, progress
            )
            licence = os.path.join(data_dir, "LICENSE.md")
            if os.path.isfile(licence):
                shutil.copyfile(licence, folder / "LICENSE.md")
        _write_texts(folder, rows, audio)
        _check_replaceable(target, overwrite=overwrite)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    names = tuple(path.relative_to(target).as_posix() for path in files)
    return Exported(target, rows, names, sum(path.stat().st_size for path in files))


def push(
    folder: str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    create_pr: bool = False,
    token: str | bool | None = None,
    commit_message: str = "Export as Parquet",
) -> str:
    """Upload an export to a dataset repository, which is made where there is none.

    Shards of the same tables that an earlier export left there are deleted in the same commit. An upload that
    was interrupted goes on where it stopped when it is called again.

    Args:
        folder: what `export` made.
        repo_id: `<org>/<name>`.
        private: for a new repository; None for what the organization's default is.
        create_pr: open a pull request to an existing repository instead of committing to it.
        token: access token with the right to write.
        commit_message: the commit's, and the pull request's, title.

    Returns:
        The address of the commit or of the pull request.

    Raises:
        ValueError: `folder` is no export, or `repo_id` no repository's name.
        huggingface_hub.errors.HfHubHTTPError: the Hub refused.
    """
    source = Path(folder).expanduser()
    if not _is_export(source):
        raise ValueError(f"{folder}: expected a folder that export() made")
    api = HfApi(token=token)
    if not create_pr:
        api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
    done = api.upload_folder(
        repo_id=repo_id,
        folder_path=source,
        repo_type="dataset",
        commit_message=commit_message,
        create_pr=create_pr,
        delete_patterns=[f"{path.name}/*.parquet" for path in sorted(source.iterdir()) if path.is_dir()],
    )
    return done.pr_url or done.commit_url


def _configs(root: str | os.PathLike[str] | None, configs: Sequence[str] | None) -> tuple[str, ...]:
    """The tables to write, of one corpus."""
    if isinstance(configs, str):
        raise ValueError(f"configs: {configs!r}: expected a list of tables")
    if configs is not None:
        found = tuple(dict.fromkeys(configs))
        unknown = [name for name in found if name not in REPOSITORIES]
        if unknown or not found:
            raise ValueError(f"configs: {unknown or configs}: expected some of {', '.join(REPOSITORIES)}")
        if len({REPOSITORIES[name] for name in found}) > 1:
            raise ValueError(
                f"configs: {', '.join(found)} belong to two corpora: export each to its own folder"
            )
        return found
    if root is None:
        return MPTB_CONFIGS
    if os.fspath(root).startswith("hf://"):
        raise ValueError(f"configs: name the tables of {root} that are wanted")
    folder = Path(root).expanduser()
    turn_end = tuple(name for name in TURN_END_CONFIGS if (folder / name).is_dir())
    return turn_end or MPTB_CONFIGS


def _wanted(configs: tuple[str, ...], splits: tuple[str, ...] | None) -> dict[str, tuple[str, ...] | None]:
    """The splits of each table; a table that has none of them is left out."""
    if splits is None:
        return dict.fromkeys(configs)
    known = {name: MPTB_SPLITS if name in MPTB_CONFIGS else TURN_END_SPLITS[name] for name in configs}
    everywhere = sorted({split for names in known.values() for split in names})
    unknown = [split for split in splits if split not in everywhere]
    if unknown or not splits:
        raise CorpusError(f"splits: {unknown or splits}: expected some of {', '.join(everywhere)}")
    found = {name: tuple(split for split in known[name] if split in splits) for name in configs}
    return {name: there for name, there in found.items() if there}


def _write_table(
    folder: Path,
    config: str,
    streams: dict[str, IterableDataset],
    max_shard_bytes: int,
    row_group_bytes: int,
    progress: Progress | None,
) -> dict[str, int]:
    folder.mkdir()
    rows = {}
    for split, stream in streams.items():
        n_rows = write_split(
            stream,
            folder,
            config=config,
            split=split,
            max_shard_bytes=max_shard_bytes,
            row_group_bytes=row_group_bytes,
            progress=partial(progress, config, split) if progress else None,
        )
        if n_rows:
            rows[split] = n_rows
    if not rows:
        raise CorpusError(f"{config}: no rows in {', '.join(streams)}")
    return rows


def _write_texts(folder: Path, rows: dict[str, dict[str, int]], audio: str) -> None:
    (folder / "README.md").write_text(card_text(rows, audio=audio), encoding="utf-8")
    scored = [config for config in ("channels", "conversations", "decision_points") if config in rows]
    if scored and BENCHMARK_SPLIT in rows[scored[0]]:
        (folder / "eval.yaml").write_text(eval_yaml(scored[0]), encoding="utf-8")


def _check_replaceable(target: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise FileExistsError(f"{target} is there already: --overwrite replaces an earlier export")
    if not _is_export(target):
        raise FileExistsError(f"{target} is no earlier export: nothing else is replaced")


def _is_export(folder: Path) -> bool:
    """Whether a folder has the card of an export, and nothing that an export does not write."""
    card = folder / "README.md"
    if not card.is_file() or not re.search(rf"^- {EXPORT_TAG}$", card.read_text(encoding="utf-8"), re.M):
        return False
    known = {"README.md", "LICENSE.md", "eval.yaml", ".cache", ".git", ".gitattributes", *REPOSITORIES}
    return all(path.name in known for path in folder.iterdir())
