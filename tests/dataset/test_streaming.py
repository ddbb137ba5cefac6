"""Streaming: every row once, whatever reads them."""

from collections import Counter

import pytest
from datasets.distributed import split_dataset_by_node

import mptb_dataset


def key(row):
    return row["conversation_id"], row["speaker"], row["at_s"]


@pytest.fixture
def rows(load, many):
    """The multiset of all decision points."""
    found = Counter(key(row) for row in load("decision_points", data_dir=many, split="test", audio="none"))
    assert max(found.values()) == 1
    return found


@pytest.fixture
def stream(load, many):
    return load("decision_points", data_dir=many, split="test", audio="none", streaming=True).select_columns(
        ["conversation_id", "speaker", "at_s"]
    )


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_workers_of_a_data_loader_share_the_rows(rows, stream, workers, shuffled):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    if shuffled:
        stream = stream.shuffle(seed=0, buffer_size=7)
    loader = data.DataLoader(stream, batch_size=None, num_workers=workers)
    assert Counter(key(row) for row in loader) == rows


@pytest.mark.slow
def test_workers_that_start_from_scratch_share_the_rows_too(rows, stream):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    loader = data.DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert Counter(key(row) for row in loader) == rows


@pytest.mark.parametrize("shuffled", [False, True])
def test_two_nodes_share_the_rows(rows, stream, shuffled):
    if shuffled:
        stream = stream.shuffle(seed=0)
    nodes = [split_dataset_by_node(stream, rank=rank, world_size=2) for rank in range(2)]
    found = [Counter(key(row) for row in node) for node in nodes]
    assert found[0] + found[1] == rows
    assert all(found)


def test_the_workers_of_two_nodes_share_the_rows(rows, stream):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    found = Counter()
    for rank in range(2):
        node = split_dataset_by_node(stream, rank=rank, world_size=2)
        found += Counter(key(row) for row in data.DataLoader(node, batch_size=None, num_workers=2))
    assert found == rows


def test_a_shard_holds_few_conversations(load, many):
    stream = load("conversations", data_dir=many, split="test", streaming=True)
    shards = stream.num_shards if hasattr(stream, "num_shards") else stream.n_shards
    assert shards == 12


@pytest.mark.parametrize("conversations", [1, 16, 48, 192, 1000])
def test_shards_grow_with_the_corpus_but_stay_even(conversations):
    from mptb_dataset.mptb_dataset import _group

    groups = _group(list(range(conversations)))
    assert [entry for group in groups for entry in group] == list(range(conversations))
    assert max(map(len, groups)) <= 4
    assert len(groups) >= min(conversations, 12)


@pytest.mark.parametrize("name", ["conversations", "channels", "decision_points"])
def test_streamed_rows_are_those_of_the_table(load, tree, name):
    table = load(name, data_dir=tree, split="test", audio="both")
    stream = load(name, data_dir=tree, split="test", audio="both", streaming=True)
    assert list(stream) == table.to_list()
    assert stream.features == table.features


def test_a_stream_of_all_splits_is_a_dict_of_them(load, tree):
    streams = load("conversations", data_dir=tree, streaming=True)
    assert {split: len(list(rows)) for split, rows in streams.items()} == {"dev": 2, "test": 2}


def test_a_stream_stops_at_the_conversation_at_fault_not_before(load, many, edit):
    edit(many, "events", lambda log: log.update(duration_s=-1), split="test", conversation_id="test_00005")
    stream = iter(load("conversations", data_dir=many, split="test", streaming=True))
    assert [next(stream)["conversation_id"] for _ in range(4)] == [f"test_{k:05d}" for k in range(1, 5)]
    with pytest.raises(mptb_dataset.CorpusError, match=r"events/test_00005\.json: field 'duration_s'"):
        next(stream)


def test_a_stream_goes_on_where_it_was_left(load, many):
    stream = load("conversations", data_dir=many, split="test", audio="none", streaming=True)
    ids = [row["conversation_id"] for row in stream]
    for index, _ in enumerate(stream):
        if index == 4:
            state = stream.state_dict()
            break
    stream.load_state_dict(state)
    assert [row["conversation_id"] for row in stream] == ids[5:]


def test_a_list_of_splits_streams_as_a_list(load, tree):
    dev, test = load("channels", data_dir=tree, split=["dev", "test"], audio="none", streaming=True)
    assert {row["conversation_id"].split("_")[0] for row in dev} == {"dev"}
    assert {row["conversation_id"].split("_")[0] for row in test} == {"test"}
