"""`load_dataset`: every table of both corpora, one call away; and the registration with `datasets`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import datasets

from .corpus import SPLITS as MPTB_SPLITS
from .corpus import Corpus
from .errors import CorpusError
from .hub import REPOSITORIES, locate
from .mptb_dataset import MPTB, TABLE_ROWS
from .schemas import MPTB_CONFIGS, SCENES
from .stamp import code_hash
from .turn_end import SPLITS as TURN_END_SPLITS

Loaded = datasets.Dataset | datasets.DatasetDict | datasets.IterableDataset | datasets.IterableDatasetDict


def load_dataset(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    audio: str = "noisy",
    streaming: bool = False,
    delay_s: float = 0.0,
    include_excluded: bool = False,
    columns: Sequence[str] | None = None,
    decode: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | None = None,
    num_proc: int | None = None,
    download_mode: Any = None,
    verification_mode: Any = None,
    keep_in_memory: bool = False,
) -> Any:
    """Load a table of MultiPartyTurnBench or turn-end-detection.

    It is `datasets.load_dataset` without the path: the same splits, slices, caches and return types. Only
    the splits and the audio that are asked for are fetched and read.

    Args:
        name: `conversations`, `channels`, `decision_points` (splits dev, test), `observations`, `turns`
            (train, validation, test) or `endpoints` (test).
        split: as in `datasets`: "dev", "dev[:10]", "dev+test", a list; None for all splits, in a dict.
        data_dir: a local copy of the corpus, or `hf://datasets/<org>/<name>[@revision]`; None for the
            published repository.
        audio: "noisy" (the evaluation input), "clean", "both" or "none"; what is not asked for is no
            column and is not fetched. For `turns`, all but "none" give its one `audio` column.
        streaming: an `IterableDataset` that reads as it goes, with a shard per few conversations or per
            Parquet row group.
        delay_s: `decision_points` only: how many seconds after the event the detector is asked, >= 0.
        include_excluded: `decision_points` only: also what scoring ignores, with label -1.
        columns: keep, and read, only these columns.
        decode: whether audio columns decode themselves; None for where torchcodec can be imported. Where
            not, a value is `{"path", "bytes"}`, as `turn_end_prefix.read_prefix` takes it.
        revision: branch, tag or commit of the repository.
        token: access token of the Hub.
        cache_dir: where `datasets` keeps the built table.
        num_proc: processes to build the table with.
        download_mode: as in `datasets`.
        verification_mode: as in `datasets`.
        keep_in_memory: as in `datasets`.

    Returns:
        A `Dataset` for one split, a list of them for a list, a `DatasetDict` for None; iterable ones
        when streaming. Tables and columns are those of the README.

    Raises:
        CorpusError: the corpus is missing, malformed or has no such split; the message names file and field.
        ValueError: an option that means nothing.
    """
    if not isinstance(name, str) or name not in REPOSITORIES:
        raise ValueError(f"unknown table {name!r}: expected one of {', '.join(REPOSITORIES)}")
    if audio not in SCENES:
        raise ValueError(f"audio: {audio!r}: expected one of {', '.join(SCENES)}")
    if streaming and num_proc is not None:
        raise ValueError("num_proc does not go with streaming: use the num_workers of a DataLoader")
    if columns is not None and (isinstance(columns, str) or not columns):
        raise ValueError(f"columns: {columns!r}: expected a list of column names")
    splits = _split_names(split, name)
    root, repo_id = locate(
        name,
        data_dir,
        splits=splits,
        audio=audio,
        columns=columns,
        streaming=streaming,
        revision=revision,
        token=token,
    )
    builder = MPTB(
        config_name=name,
        data_dir=root,
        repo_id=repo_id,
        token=token,
        cache_dir=cache_dir,
        dataset_name="mptb",
        hash=code_hash(),
        writer_batch_size=TABLE_ROWS if name in MPTB_CONFIGS else None,
        splits=splits,
        audio=audio,
        delay_s=delay_s,
        include_excluded=include_excluded,
        columns=None if columns is None else tuple(columns),
    )
    if streaming:
        loaded = _stream(builder, split)
    else:
        builder.download_and_prepare(
            download_mode=download_mode, verification_mode=verification_mode, num_proc=num_proc
        )
        loaded = builder.as_dataset(split=split, in_memory=keep_in_memory)
    if name in MPTB_CONFIGS and not root.startswith("hf://"):
        _warn_if_partial(root, splits)
    if decode is None:
        decode = not _has_audio(builder.info.features) or torchcodec_works()
    return loaded if decode else _each(loaded, _undecoded)


def _stream(builder: MPTB, split: Any) -> Any:
    """As `as_streaming_dataset`, which does not know lists."""
    if isinstance(split, (list, tuple)):
        return [_stream(builder, part) for part in split]
    return builder.as_streaming_dataset(split=split)


def register() -> bool:
    """Make `datasets.load_dataset("mptb", ...)` find the builder in this process.

    The table of packaged modules is internal to `datasets`. Where it is no longer what it was, nothing is
    changed, and `mptb_dataset.load_dataset` works as before.

    Returns:
        Whether the builder is registered.
    """
    try:
        modules = importlib.import_module("datasets.packaged_modules")._PACKAGED_DATASETS_MODULES
        modules["mptb"] = (MPTB.__module__, code_hash())
    except (ImportError, AttributeError, TypeError):
        return False
    return True


def torchcodec_works() -> bool:
    """Whether torchcodec can be imported, not only found: it also needs FFmpeg's shared libraries."""
    if importlib.util.find_spec("torchcodec") is None:
        return False
    try:
        importlib.import_module("torchcodec.decoders")
    except Exception as error:  # a broken install raises whatever its loader raises
        warnings.warn(
            f"torchcodec is installed but cannot be imported ({type(error).__name__}): audio columns give "
            "undecoded {'path', 'bytes'}; turn_end_prefix.read_prefix reads them",
            stacklevel=3,
        )
        return False
    return True


def _split_names(split: Any, name: str) -> tuple[str, ...] | None:
    """The splits that a split expression names; None where it may be any."""
    if split is None:
        return None
    if isinstance(split, (list, tuple)):
        found = [_split_names(part, name) for part in split]
        return None if None in found else tuple(dict.fromkeys(s for part in found for s in part or ()))
    if not isinstance(split, str):  # a NamedSplit or a ReadInstruction
        text = str(split)
        if not re.fullmatch(r"\w+", text):
            return None
        split = text
    names = [part.strip().split("[")[0] for part in split.split("+")]
    if names == ["all"]:
        return None
    known = MPTB_SPLITS if name in MPTB_CONFIGS else TURN_END_SPLITS[name]
    for found_name in names:
        if found_name not in known:
            raise CorpusError(f"no split {found_name!r} of {name}: expected one of {', '.join(known)}")
    return tuple(dict.fromkeys(names))


def _warn_if_partial(root: str, splits: Iterable[str] | None) -> None:
    corpus = Corpus(root)
    for split in splits or corpus.splits:
        official = corpus.official_ids(split)
        if official is None:
            continue
        there = {entry.conversation_id for entry in corpus.entries(split)}
        missing = [name for name in official if name not in there]
        if missing:
            warnings.warn(
                f"{root}: {split} has {len(there)} conversations, but metadata/split.json lists "
                f"{len(official)}: {missing[0]} is missing; scores are not those of the whole split",
                stacklevel=3,
            )


def _has_audio(features: datasets.Features) -> bool:
    return any(_as_undecoded(feature) is not feature for feature in features.values())


def _as_undecoded(feature: Any) -> Any:
    if isinstance(feature, datasets.Audio):
        return datasets.Audio(sampling_rate=feature.sampling_rate, decode=False)
    if isinstance(feature, datasets.List) and isinstance(feature.feature, datasets.Audio):
        return datasets.List(_as_undecoded(feature.feature))
    return feature


def _undecoded(table: datasets.Dataset | datasets.IterableDataset) -> Any:
    features = datasets.Features({name: _as_undecoded(kind) for name, kind in table.features.items()})
    if not isinstance(table, datasets.Dataset):
        return table.cast(features)
    # `Dataset.cast` would copy a table with lists of audio; the stored values stay as they are.
    info = table.info.copy()
    info.features = features
    fingerprint = datasets.fingerprint.Hasher.hash((table._fingerprint, "undecoded"))
    return datasets.Dataset(table.data, info=info, split=table.split, fingerprint=fingerprint)


def _each(loaded: Any, change: Any) -> Any:
    """Apply `change` to every table of whatever `as_dataset` returned."""
    if isinstance(loaded, dict):
        return type(loaded)({name: change(table) for name, table in loaded.items()})
    if isinstance(loaded, (list, tuple)):
        return [change(table) for table in loaded]
    return change(loaded)
