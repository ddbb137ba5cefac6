"""turn-end-detection at the command line: running, scoring, comparing, with every row accounted for."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from mptb_dataset import sample_dir
from mptb_metric import to_json
from mptb_metric.turn_end import compute_turn_end


@pytest.fixture(scope="module")
def root():
    return sample_dir("turn_end")


def read_table(root, name, split="test", columns=None):
    return pq.read_table(root / name / f"{name}-{split}-00000-of-00001.parquet", columns=columns).to_pylist()


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_run_scores_every_observation_once_by_its_own_prefix(mptb, tmp_path, root):
    (tmp_path / "loud.py").write_text(
        "def length(samples, rate):\n    return len(samples) / rate\n"
        "from turn_end_prefix.detectors.prefix import prefix_detector\n"
        "detector = prefix_detector(length)\n"
    )
    done = mptb(
        "run", "--detector", "loud:detector", "--root", root, "--split", "validation", "--out", "o.json"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "o.json").read_text())["predictions"]
    observations = {row["key"]: row for row in read_table(root, "observations", "validation")}
    assert sorted(row["key"] for row in rows) == sorted(observations)
    for row in rows:
        at_s = observations[row["key"]]["at_s"]
        assert row["score"] == np.floor(at_s * 16_000 + 1e-6) / 16_000


def test_a_run_over_turns_gives_a_first_endpoint_per_turn_and_goes_on_after_a_break(mptb, tmp_path, root):
    arguments = (
        "run",
        "--detector",
        "energy",
        "--root",
        root,
        "--split",
        "test",
        "--theta",
        0.5,
        "--jobs",
        1,
    )
    assert mptb(*arguments, "--out", "a.json").returncode == 0
    assert mptb(*arguments, "--out", "b.json").returncode == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    rows = json.loads((tmp_path / "a.json").read_text())["predictions"]
    assert [row["turn_key"] for row in rows] == [row["turn_key"] for row in read_table(root, "turns")]
    assert all(row["first_endpoint_s"] is None or row["first_endpoint_s"] > 0 for row in rows)


def perfect(root):
    return [{"key": row["key"], "score": float(row["label"])} for row in read_table(root, "observations")]


def test_score_prints_and_writes_what_the_metric_says(mptb, tmp_path, root):
    path = write(tmp_path / "p.json", perfect(root)[::-1])
    done = mptb(
        "score", "--root", root, "--split", "test", "--submission", path, "--theta", 0.5, "--out", "r.json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["recall"], result["fpr"], result["roc_auc"]) == (1.0, 0.0, 1.0)
    expected = compute_turn_end(perfect(root), read_table(root, "observations"), theta=0.5)
    assert result["by"] == to_json(expected["by"])
    assert "indicative" in done.stdout


def test_scores_without_a_threshold_are_refused(mptb, tmp_path, root):
    path = write(tmp_path / "p.json", perfect(root))
    done = mptb("score", "--root", root, "--submission", path)
    assert done.returncode == 2
    assert "theta" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[1:],
        lambda rows: [*rows, rows[0]],
        lambda rows: [*rows[1:], {"key": "nobody@1.0", "score": 1.0}],
    ],
)
def test_a_missing_repeated_or_unknown_observation_is_named(mptb, tmp_path, root, change):
    rows = perfect(root)
    path = write(tmp_path / "p.json", change(rows))
    done = mptb("score", "--root", root, "--submission", path, "--theta", 0.5)
    assert done.returncode == 2
    assert rows[0]["key"] in done.stderr or "nobody@1.0" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.json", "{", ["p.json"]),
        ("p.json", "[]", ["p.json", "predictions"]),
        ("p.json", '[{"score": 1.0}]', ["p.json", "row 0", "key"]),
        ("p.json", '[{"key": "a", "value": 1.0}]', ["p.json", "row 0", "score"]),
        ("p.parquet", "no parquet", ["p.parquet"]),
    ],
)
def test_a_prediction_file_that_is_none_is_refused(mptb, tmp_path, root, name, content, words):
    (tmp_path / name).write_text(content)
    done = mptb("score", "--root", root, "--submission", name, "--theta", 0.5)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_endpoints_stand_beside_every_published_arm(mptb, tmp_path, root):
    arm = "deepgram"
    published = read_table(root, "endpoints")
    rows = [
        {"turn_key": row["turn_key"], "first_endpoint_s": row["first_endpoint_s"]}
        for row in published
        if row["arm"] == arm
    ]
    path = write(tmp_path / "e.json", rows)
    done = mptb("score", "--root", root, "--submission", path, "--out", "r.json")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert set(result["published"]) == {row["arm"] for row in published}
    assert result["published"][arm]["cut_early"] == result["cut_early"]
    assert result["published"][arm]["cut_early_difference"] == 0.0
    early = [row["cut_early"] for row in published if row["arm"] == arm]
    assert result["cut_early"] == sum(early) / len(early)


def test_compare_gives_a_pair_per_two_systems_and_equal_ones_do_not_differ(mptb, tmp_path, root):
    good = perfect(root)
    write(tmp_path / "good.json", good)
    write(tmp_path / "same.json", good[::-1])
    write(tmp_path / "silent.json", [{"key": row["key"], "score": 0.0} for row in good])
    done = mptb(
        "compare",
        "--root",
        root,
        "good.json",
        "same.json",
        "silent.json",
        "--theta",
        0.5,
        "--n-resamples",
        499,
        "--out",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    pairs = {(p["a"], p["b"]): p for p in json.loads((tmp_path / "r.json").read_text())["pairs"]}
    assert set(pairs) == {("good", "same"), ("good", "silent"), ("same", "silent")}
    assert pairs["good", "same"]["recall_difference"] == 0.0
    assert pairs["good", "same"]["recall_p_value_holm"] == 1.0
    assert pairs["good", "silent"]["recall_difference"] == 1.0
    assert pairs["good", "silent"]["recall_p_value_holm"] == pytest.approx(3 * 2 / 500)


def test_files_about_different_things_are_not_compared(mptb, tmp_path, root):
    write(tmp_path / "a.json", perfect(root))
    write(tmp_path / "b.json", [{"turn_key": "x", "first_endpoint_s": None}])
    done = mptb("compare", "--root", root, "a.json", "b.json", "--theta", 0.5)
    assert done.returncode == 2
    assert "different" in done.stderr


def test_systems_that_cover_other_turns_are_not_compared(mptb, tmp_path, root):
    write(tmp_path / "a.json", perfect(root))
    write(tmp_path / "b.json", perfect(root)[2:])
    done = mptb("compare", "--root", root, "a.json", "b.json", "--theta", 0.5)
    assert done.returncode == 2
    assert perfect(root)[0]["key"] in done.stderr


def test_a_threshold_that_was_chosen_on_the_scored_rows_says_so(mptb, tmp_path, root):
    path = write(tmp_path / "p.json", perfect(root))
    done = mptb("score", "--root", root, "--submission", path, "--theta", "select")
    assert done.returncode == 0, done.stderr
    assert "chosen on test itself" in done.stdout


def test_several_detectors_stand_beside_the_published_services(mptb, tmp_path, root):
    published = read_table(root, "endpoints")
    arms = sorted({row["arm"] for row in published})
    for name, fired in (("never", None), ("late", 60.0)):
        rows = [{"turn_key": row["turn_key"], "first_endpoint_s": fired} for row in read_table(root, "turns")]
        write(tmp_path / f"{name}.json", rows)
    done = mptb(
        "compare",
        "--root",
        root,
        "never.json",
        "late.json",
        "--published",
        "--n-resamples",
        99,
        "--out",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    systems = json.loads((tmp_path / "r.json").read_text())["systems"]
    assert sorted(systems) == sorted(["never", "late", *arms])
    assert (systems["never"]["missed"], systems["late"]["missed"], systems["late"]["cut_early"]) == (
        1.0,
        0.0,
        0.0,
    )
    for arm in arms:
        early = [row["cut_early"] for row in published if row["arm"] == arm]
        assert systems[arm]["cut_early"] == sum(early) / len(early)
