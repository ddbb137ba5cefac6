"""How rows are cut into row groups and shards, whatever their sizes."""

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Audio, Dataset, Features, Value
from hypothesis import given, settings
from hypothesis import strategies as st

from mptb_dataset.shards import write_split

FEATURES = Features({"turn_key": Value("string"), "audio": Audio(sampling_rate=16_000, decode=False)})


def audio_bytes(table):
    return [len(audio["bytes"]) for audio in table["audio"].to_pylist()]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=40),
    row_group_bytes=st.integers(1, 60_000),
    max_shard_bytes=st.integers(1, 200_000),
)
def test_rows_keep_their_order_and_sizes_keep_their_bounds(
    tmp_path_factory, sizes, row_group_bytes, max_shard_bytes
):
    folder = tmp_path_factory.mktemp("shards")
    rows = [
        {"turn_key": f"turn-{n}", "audio": {"bytes": bytes([n]) * size, "path": f"{n}.flac"}}
        for n, size in enumerate(sizes)
    ]
    stream = Dataset(pa.Table.from_pylist(rows, schema=FEATURES.arrow_schema)).to_iterable_dataset()
    n_rows = write_split(
        stream,
        folder,
        config="turns",
        split="test",
        max_shard_bytes=max_shard_bytes,
        row_group_bytes=row_group_bytes,
    )
    shards = sorted(folder.iterdir())
    assert n_rows == len(rows)
    assert [path.name for path in shards] == [
        f"test-{number:05d}-of-{len(shards):05d}.parquet" for number in range(len(shards))
    ]
    assert [row for path in shards for row in pq.read_table(path).to_pylist()] == rows
    for path in shards:
        file = pq.ParquetFile(path)
        groups = [audio_bytes(file.read_row_group(number)) for number in range(file.num_row_groups)]
        assert all(len(group) == 1 or sum(group) <= row_group_bytes for group in groups)
        assert len(groups) == 1 or path.stat().st_size <= max_shard_bytes
