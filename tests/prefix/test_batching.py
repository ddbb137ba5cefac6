"""`TurnBatchSampler` and `collate_prefixes`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turn_end_prefix import PrefixTransform, TurnBatchSampler, collate_prefixes

keys_and_sizes = given(
    st.lists(st.sampled_from("abcdefgh"), max_size=60),
    st.integers(1, 9),
    st.booleans(),
    st.integers(0, 5),
    st.integers(0, 3),
)


@keys_and_sizes
def test_every_row_comes_once_and_turns_stay_together(keys, batch_size, shuffle, seed, epoch):
    sampler = TurnBatchSampler(keys, batch_size, shuffle=shuffle, seed=seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(keys)))
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert len(sampler) == len(batches)
    for key in set(keys):
        where = [index for index, batch in enumerate(batches) for row in batch if keys[row] == key]
        assert where == sorted(where)
        assert where[-1] - where[0] + 1 == len(set(where)) == -(-keys.count(key) // batch_size)
        rows = [row for batch in batches for row in batch if keys[row] == key]
        assert rows == sorted(rows)


@keys_and_sizes
def test_drop_last_leaves_out_a_small_last_batch_only(keys, batch_size, shuffle, seed, epoch):
    sampler = TurnBatchSampler(keys, batch_size, shuffle=shuffle, seed=seed)
    dropping = TurnBatchSampler(keys, batch_size, shuffle=shuffle, seed=seed, drop_last=True)
    for each in (sampler, dropping):
        each.set_epoch(epoch)
    batches = list(sampler)
    expected = batches[:-1] if batches and len(batches[-1]) < batch_size else batches
    assert list(dropping) == expected and len(dropping) == len(expected)


def test_the_order_depends_on_seed_and_epoch_alone():
    keys = [f"t{row // 2}" for row in range(200)]
    generator_before = np.random.get_state()[1].copy()

    def order(seed, epoch):
        sampler = TurnBatchSampler(keys, 4, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1) != order(1, 0) != order(0, 0)
    np.testing.assert_array_equal(np.random.get_state()[1], generator_before)


def test_without_shuffling_turns_come_in_the_tables_order():
    sampler = TurnBatchSampler(["b", "a", "b", "c"], 2, shuffle=False)
    assert list(sampler) == [[0, 2], [1, 3]]


def test_a_turn_with_more_rows_than_a_batch_is_split_into_neighbours():
    assert list(TurnBatchSampler(["a"] * 5 + ["b"], 2, shuffle=False)) == [[0, 1], [2, 3], [4, 5]]


def test_tables_lists_arrays_and_columns_are_the_same_keys(table):
    import pandas as pd
    import pyarrow as pa

    keys = ["a", "b", "a", "c", "b"]
    rows = table(turn_key=keys, at_s=[0.1] * 5)
    heard = rows.with_transform(lambda batch: pytest.fail("the sampler ran the transform"))
    expected = list(TurnBatchSampler(keys, 2))
    for form in (
        tuple(keys),
        np.array(keys),
        pa.array(keys),
        pa.chunked_array([keys]),
        pd.Series(keys),
        rows["turn_key"],
        rows,
        heard,
    ):
        assert list(TurnBatchSampler(form, 2)) == expected


def test_decision_points_are_grouped_by_channel(table):
    points = table(
        conversation_id=["x", "x", "y", "x"], speaker=["s1", "s2", "s1", "s1"], at_s=[0.0, 1.0, 2.0, 3.0]
    )
    sampler = TurnBatchSampler(points, 2, key=("conversation_id", "speaker"), shuffle=False)
    assert list(sampler) == [[0, 3], [1, 2]]


@pytest.mark.parametrize(
    ("batch_size", "error"), [(0, ValueError), (-2, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_a_batch_size_that_is_none_is_an_error(batch_size, error):
    with pytest.raises(error, match="batch_size: expected"):
        TurnBatchSampler(["a"], batch_size)


def test_a_table_without_the_key_is_an_error(table):
    with pytest.raises(ValueError, match="no column 'turn_key', only at_s"):
        TurnBatchSampler(table(at_s=[1.0]), 2)


def test_no_rows_are_no_batches():
    assert list(TurnBatchSampler([], 3)) == [] and len(TurnBatchSampler([], 3)) == 0


def rows_of(*lengths, rate=16000):
    return [
        {
            "key": f"r{n}",
            "audio": {"array": np.arange(1, n + 1, dtype=np.float32), "sampling_rate": rate},
            "label": n % 2,
            "at_s": n / rate,
            "assemblyai_confidence": None if n == 2 else 0.5,
        }
        for n in lengths
    ]


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_prefixes_are_padded_to_the_longest_with_lengths_and_a_mask(padding_side):
    batch = collate_prefixes(rows_of(3, 0, 5), padding_side=padding_side)
    audio, mask = np.asarray(batch["audio"]), np.asarray(batch["attention_mask"])
    assert audio.dtype == np.float32 and audio.shape == mask.shape == (3, 5)
    assert np.asarray(batch["lengths"]).tolist() == [3, 0, 5] == mask.sum(axis=1).tolist()
    for row, length in enumerate((3, 0, 5)):
        there = slice(0, length) if padding_side == "right" else slice(5 - length, 5)
        assert audio[row, there].tolist() == list(range(1, length + 1))
        assert mask[row, there].all() and not audio[row][~mask[row]].any()
    assert batch["sampling_rate"] == 16000


def test_numbers_become_arrays_and_all_else_stays_a_list():
    batch = collate_prefixes(rows_of(3, 2))
    assert batch["key"] == ["r3", "r2"] and batch["assemblyai_confidence"] == [0.5, None]
    assert np.asarray(batch["label"]).tolist() == [1, 0]
    assert np.asarray(batch["at_s"]).tolist() == [3 / 16000, 2 / 16000]


def test_with_torch_loaded_arrays_are_tensors():
    torch = pytest.importorskip("torch")
    batch = collate_prefixes(rows_of(3, 2))
    assert all(
        isinstance(batch[name], torch.Tensor) for name in ("audio", "lengths", "attention_mask", "label")
    )


def test_without_torch_they_are_numpy_arrays_and_torch_stays_unloaded():
    script = (
        "import sys, numpy as np\n"
        "from turn_end_prefix import TurnBatchSampler, collate_prefixes\n"
        "rows = [{'audio': {'array': np.ones(n, np.float32), 'sampling_rate': 8000}} for n in (1, 2)]\n"
        "batch = collate_prefixes([rows[i] for i in next(iter(TurnBatchSampler('aa', 2)))])\n"
        "assert type(batch['audio']) is np.ndarray and batch['audio'].shape == (2, 2)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows is empty"),
        ([{"key": "a"}], "row 0 has no audio prefix"),
        ([{"audio": {"array": None, "sampling_rate": 1}}], "row 0 has no audio prefix"),
        (rows_of(2) + rows_of(2, rate=24000), r"rows at \[16000, 24000\] Hz do not go into one batch"),
    ],
)
def test_rows_that_make_no_batch_are_an_error(rows, message):
    with pytest.raises(ValueError, match=message):
        collate_prefixes(rows)


def test_an_unknown_padding_side_is_an_error():
    with pytest.raises(ValueError, match="padding_side: expected right or left, got 'both'"):
        collate_prefixes(rows_of(1), padding_side="both")


def test_other_channels_stay_a_dict_per_row(table, encode, noise):
    channels = table(
        [encode(noise(800, i), 8000) for i in (0, 1)], conversation_id=["x"] * 2, speaker=["s1", "s2"]
    )
    points = table(conversation_id=["x"] * 2, speaker=["s1", "s2"], at_s=[0.05, 0.1])
    heard = points.with_transform(PrefixTransform(channels, other_channels=True))
    batch = collate_prefixes(heard.__getitems__([0, 1]))
    assert [list(row) for row in batch["channels"]] == [["s1", "s2"]] * 2
    np.testing.assert_array_equal(np.asarray(batch["audio"])[1], batch["channels"][1]["s2"])
