"""Observations with their prefixes as `data=` of `evaluate.evaluator`."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import mptb_metric
from mptb_dataset import load_dataset, sample_dir
from turn_end_prefix import PrefixTransform
from turn_end_prefix.readers import DecodeError


@pytest.fixture(scope="module")
def observations():
    load = {"split": "validation", "data_dir": sample_dir("turn_end")}
    return PrefixTransform(load_dataset("turns", **load)).attach(load_dataset("observations", **load))


def test_the_prefix_is_among_the_columns_and_in_every_row(observations):
    assert "audio" in observations.column_names
    for row in observations:
        assert len(row["audio"]["array"]) == np.floor(row["at_s"] * 16_000 + 1e-6)


def test_an_evaluator_scores_a_pipeline_on_prefixes(observations):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "TFPreTrainedModel"):
        pytest.skip("this release of evaluate needs transformers<5")
    import evaluate

    class Pipeline:
        task = "audio-classification"

        def __call__(self, inputs, **_):
            return [
                [{"label": "done", "score": float(len(x["array"]) > 80_000)}, {"label": "no", "score": 0.5}]
                for x in inputs
            ]

    result = evaluate.evaluator("audio-classification").compute(
        model_or_pipeline=Pipeline(),
        data=observations,
        metric=mptb_metric.load("turn_end"),
        input_column="audio",
        label_column="label",
        label_mapping={"done": 1, "no": 0},
    )
    expected = [(row["at_s"] * 16_000 > 80_000) == row["label"] for row in observations]
    assert result["accuracy"] == sum(expected) / len(expected)


def test_a_damaged_channel_of_a_decision_point_is_named_by_its_row(tmp_path):
    shutil.copytree(sample_dir("mptb"), tmp_path / "tree")
    points = load_dataset("decision_points", split="dev", data_dir=tmp_path / "tree", decode=True)
    rows = PrefixTransform(window_s=1.0).attach(points)
    assert len(rows[0]["audio"]["array"]) == 24_000
    key = points.select_columns(["key"])[0]["key"]
    for path in (tmp_path / "tree/dev/audio/noisy").iterdir():
        path.write_bytes(b"no sound")
    fresh = PrefixTransform(window_s=1.0).attach(points)
    with pytest.raises(DecodeError, match=re.escape(key)):
        fresh[0]
