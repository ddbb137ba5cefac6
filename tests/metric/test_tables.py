"""Reading rows in every form, and joining without dropping any."""

import string

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mptb_metric.tables import align, group_rows, read_columns

ROWS = [{"key": "a", "at_s": 1.5, "extra": 1}, {"key": "b", "at_s": None, "extra": 2}]
TABLE = datasets.Dataset.from_list(ROWS)

FORMS = {
    "rows": ROWS,
    "tuple": tuple(ROWS),
    "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "Dataset": TABLE,
    "Dataset with a transform that fails": TABLE.with_transform(lambda batch: 1 / 0),
    "Dataset as arrow": TABLE.with_format("arrow"),
    "selected Dataset": TABLE.select([1, 0]).select([1, 0]),
    "stream": TABLE.to_iterable_dataset(),
    "pandas": pd.DataFrame(ROWS),
    "pyarrow": pa.Table.from_pylist(ROWS),
    "Column": {name: TABLE[name] for name in TABLE.column_names},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same(form):
    found = read_columns(FORMS[form], ["key", "at_s"], optional=["style"], name="rows")
    assert found == {"key": ["a", "b"], "at_s": [1.5, None]}


def test_columns_that_were_not_asked_for_are_not_decoded():
    table = datasets.Dataset.from_list([{"key": "a", "audio": {"bytes": b"not audio", "path": None}}])
    table = table.cast_column("audio", datasets.Audio())
    assert read_columns(table, ["key"], name="rows") == {"key": ["a"]}
    assert read_columns(table.to_iterable_dataset(), ["key"], name="rows") == {"key": ["a"]}


def test_an_optional_column_of_some_rows_is_none_in_the_others():
    found = read_columns([{"key": "a", "style": "x"}, {"key": "b"}], ["key"], optional=["style"], name="rows")
    assert found["style"] == ["x", None]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "rows: expected rows"),
        (None, "rows: expected rows"),
        ("abc", "rows: expected rows"),
        ([1, 2], "rows: expected rows"),
        ([{"key": "a"}, 3], "rows: row 1: expected a dict, got 3"),
        ({"key": []}, "rows: no rows"),
        ({"key": "abc"}, "rows: column 'key': expected a list"),
        ({"key": ["a"], "style": ["x", "y"]}, "rows: columns differ in length"),
        ({"style": ["x"]}, "rows: no column 'key' .*'style'"),
    ],
)
def test_what_is_no_table_is_told(table, message):
    with pytest.raises(ValueError, match=message):
        read_columns(table, ["key"], optional=["style"], name="rows")


def test_all_missing_and_unknown_ids_are_told_at_once():
    predictions = [{"key": "b", "score": 1}, {"key": "x", "score": 1}]
    with pytest.raises(ValueError, match="2 missing key: 'a', 'c'; 1 unknown key: 'x'"):
        align(predictions, ["a", "b", "c"], key="key", fields=["score"], n_rows=3)


def test_long_lists_of_ids_are_cut():
    with pytest.raises(ValueError, match=r"26 missing key: .*'j' and 16 more"):
        align(
            [{"key": "?", "score": 1}], list(string.ascii_lowercase), key="key", fields=["score"], n_rows=26
        )


def test_groups_are_in_the_order_of_their_labels():
    assert list(group_rows([10, 9, 2, 10], name="rows", column="n")) == ["2", "9", "10"]
    assert list(group_rows(["b", "a"], name="rows", column="n")) == ["a", "b"]
    assert group_rows([10, 9, 10], name="rows", column="n")["10"].tolist() == [0, 2]


@pytest.mark.parametrize("label", [None, float("nan"), [1], {"a": 1}])
def test_a_row_without_a_group_is_named(label):
    with pytest.raises(ValueError, match="rows: row 1: expected a style to group by"):
        group_rows(["x", label], name="rows", column="style")


def test_float32_scores_keep_their_value():
    values, column = align(np.array([0.1], dtype=np.float32), None, key="key", fields=["score"], n_rows=1)
    assert values == [float(np.float32(0.1))]
    assert column is None
