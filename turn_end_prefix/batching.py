"""Batches of prefixes for training: rows of one turn together, turns in any order, lengths made equal.

Neither class nor function imports torch. A `TurnBatchSampler` is what `torch.utils.data.DataLoader` takes as
`batch_sampler`, and `collate_prefixes` as `collate_fn`.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .slicing import check_rate


class TurnBatchSampler:
    """Batches of row indices in which the rows of a turn stay together.

    Turns are put into batches one after the other, in shuffled order. A turn that does not fit into what is
    left of a batch begins the next one, so a batch can be smaller than `batch_size`, never larger; only a
    turn with more rows than `batch_size` is split, into neighbouring batches. Every row comes exactly once
    per epoch. Within a turn, rows keep the table's order.

    The order depends on `seed` and the epoch alone: call `set_epoch` before each epoch, or every epoch is
    the same.

    Args:
        turn_keys: the key of every row, any sequence; or the table itself, of which only `key` is read.
        batch_size (> 0): rows per batch, at most.
        key: where a table is given, the column, or the columns, that say which rows belong together:
            "turn_key", or ("conversation_id", "speaker") for decision points.
        shuffle: shuffle the turns.
        seed: of the shuffling.
        drop_last: leave out the last batch if it is smaller than `batch_size`.

    Raises:
        TypeError: a batch size that is no whole number; keys that cannot be compared.
        ValueError: a batch size below one; a table without the column.

    Examples:
        >>> sampler = TurnBatchSampler(["a", "b", "a", "c"], batch_size=2, shuffle=False)
        >>> list(sampler), len(sampler)
        ([[0, 2], [1, 3]], 2)
    """

    def __init__(
        self,
        turn_keys: Any,
        batch_size: int,
        *,
        key: str | Sequence[str] = "turn_key",
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)):
            raise TypeError(f"batch_size: expected a whole number, got {batch_size!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        self.batch_size, self.shuffle, self.drop_last = int(batch_size), shuffle, drop_last
        self.seed, self.epoch = seed, 0
        rows_of: dict[Hashable, list[int]] = {}
        for row, turn in enumerate(_keys_of(turn_keys, key)):
            rows_of.setdefault(turn, []).append(row)
        self._turns = list(rows_of.values())
        self._sizes = np.array([len(rows) for rows in self._turns], np.int64)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the turns for the iterations to come."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for turn in self._order():
            rows = self._turns[turn]
            if batch and len(batch) + len(rows) > self.batch_size:
                yield batch
                batch = []
            while len(rows) > self.batch_size:
                yield rows[: self.batch_size]
                rows = rows[self.batch_size :]
            batch = batch + rows
        if batch and not (self.drop_last and len(batch) < self.batch_size):
            yield batch

    def __len__(self) -> int:
        """Number of batches of this epoch; it can differ by a few from one order to another."""
        n_batches = filled = 0
        for size in self._sizes[self._order()].tolist():
            if filled and filled + size > self.batch_size:
                n_batches, filled = n_batches + 1, 0
            whole = (size - 1) // self.batch_size
            n_batches, filled = n_batches + whole, filled + size - whole * self.batch_size
        return n_batches + (filled == self.batch_size if self.drop_last else filled > 0)

    def _order(self) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(len(self._turns))
        return np.random.default_rng([self.seed, self.epoch]).permutation(len(self._turns))


def collate_prefixes(rows: Sequence[Mapping[str, Any]], *, padding_side: str = "right") -> dict[str, Any]:
    """Put rows with prefixes of different lengths into one batch.

    Where torch is loaded, arrays come as tensors, which DataLoader workers hand over in shared memory; else
    as NumPy arrays.

    Args:
        rows: rows as `PrefixTransform` gives them, each with ``audio`` = {"array" [n], "sampling_rate"}.
        padding_side: where zeros go, "right" or "left".

    Returns:
        ``audio`` float32 [n_rows, longest], ``lengths`` int64 [n_rows] in samples, ``attention_mask`` bool
        [n_rows, longest], true where there is audio, and ``sampling_rate`` in Hz. Of the other columns, those
        that hold a number in every row are arrays [n_rows], all others lists.

    Raises:
        ValueError: no rows; a row without audio; rows at different rates; another padding side.
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f"padding_side: expected right or left, got {padding_side!r}")
    if not rows:
        raise ValueError("rows is empty: there is no batch of none")
    arrays, rate = _prefixes_of(rows)
    lengths = np.array([len(array) for array in arrays], np.int64)
    longest = int(lengths.max())
    padded, audio = _zeros((len(arrays), longest), np.float32)
    there, mask = _zeros((len(arrays), longest), np.bool_)
    for row, array in enumerate(arrays):
        start = 0 if padding_side == "right" else longest - len(array)
        padded[row, start : start + len(array)] = array
        there[row, start : start + len(array)] = True
    batch: dict[str, Any] = {
        "audio": audio,
        "lengths": _tensor(lengths),
        "attention_mask": mask,
        "sampling_rate": rate,
    }
    for name in rows[0]:
        if name not in batch:
            batch[name] = _column([row[name] for row in rows])
    return batch


def _keys_of(turn_keys: Any, key: str | Sequence[str]) -> list[Hashable]:
    names = [key] if isinstance(key, str) else list(key)
    if hasattr(turn_keys, "select_columns"):
        missing = [name for name in names if name not in turn_keys.column_names]
        if missing:
            raise ValueError(
                f"the table has no column {missing[0]!r}, only {', '.join(turn_keys.column_names)}"
            )
        columns = turn_keys.select_columns(names).with_format("arrow")[:]
        values = [columns[name].to_pylist() for name in names]
        return values[0] if len(values) == 1 else list(zip(*values, strict=True))
    if hasattr(turn_keys, "to_pylist"):
        return turn_keys.to_pylist()
    if hasattr(turn_keys, "tolist"):
        return turn_keys.tolist()
    return list(turn_keys)


def _prefixes_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[NDArray[np.float32]], int]:
    arrays, rates = [], set()
    for index, row in enumerate(rows):
        audio = row.get("audio")
        if not isinstance(audio, Mapping) or audio.get("array") is None:
            raise ValueError(f"row {index} has no audio prefix: expected {{'array', 'sampling_rate'}}")
        arrays.append(np.asarray(audio["array"], np.float32))
        check_rate(audio["sampling_rate"])
        rates.add(int(audio["sampling_rate"]))
    if len(rates) > 1:
        raise ValueError(f"rows at {sorted(rates)} Hz do not go into one batch: resample them to one rate")
    return arrays, rates.pop()


def _column(values: list[Any]) -> Any:
    if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in values):
        return _tensor(np.asarray(values))
    return values


def _tensor(array: NDArray[Any]) -> Any:
    torch = sys.modules.get("torch")
    return array if torch is None else torch.from_numpy(array)


def _zeros(shape: tuple[int, int], dtype: type[np.generic]) -> tuple[NDArray[Any], Any]:
    """Make an array of zeros and the tensor of the same memory, or the array twice without torch.

    In a DataLoader worker the memory is shared with the parent from the start, as in torch's own collate
    function: handing the batch over then copies nothing, and padding that is never written takes no memory.
    """
    torch, data = sys.modules.get("torch"), sys.modules.get("torch.utils.data")
    if torch is None or data is None or data.get_worker_info() is None or 0 in shape:
        array = np.zeros(shape, dtype)
        return array, _tensor(array)
    empty = torch.from_numpy(np.zeros(0, dtype))
    storage = torch.UntypedStorage._new_shared(shape[0] * shape[1] * empty.element_size())
    tensor = empty.set_(storage, 0, shape)
    return tensor.numpy(), tensor
