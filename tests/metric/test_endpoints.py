"""Endpoints: early, missed and late by hand, where early fires fell, and published arms on the same turns."""

import json
import math
import warnings

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from mptb_dataset import sample_dir
from mptb_metric.endpoints import PLACE_RATES, RATES, compute_endpoints, endpoint_counts
from mptb_metric.intervals import BootstrapWarning
from mptb_metric.paired import paired_bootstrap
from mptb_metric.sums import Ratio

# |---- Yes. ----|  pause  |---- I was ----|  pause  |---- at home. ----|  tail |
# 0             1.0                       3.0                          5.0     5.2
TURN = {
    "turn_key": "a",
    "audio_duration_s": 5.2,
    "chunks": ["Yes.", "I was", "at home."],
    "chunk_ends_s": [1.0, 3.0, 5.0],
}


def turn(key, duration_s=2.0, **columns):
    return {"turn_key": key, "audio_duration_s": duration_s, **columns}


def place_of(fire_s, turn=TURN, **options):
    found = compute_endpoints([fire_s], [turn], **options)
    places = ("sentence_end", "mid_sentence", "inside_chunk", "unclassified")
    return [place for place in places if found[f"n_cut_early_{place}"]]


def simulated(n_turns=120, *, seed=0, delay_s=0.6):
    rng = np.random.default_rng(seed)
    turns, fires = [], []
    for index in range(n_turns):
        duration_s = round(rng.uniform(2, 8), 3)
        early = rng.random() < 0.2
        fire = duration_s * rng.random() if early else duration_s + delay_s + rng.exponential(0.3)
        turns.append(turn(f"t{index}", duration_s, style="ab"[index % 2], domain=f"d{index % 3}"))
        fires.append(None if rng.random() < 0.1 else round(float(fire), 3))
    return turns, fires


def arm_rows(arm, turns, fires):
    return [
        {
            "turn_key": t["turn_key"],
            "arm": arm,
            "first_endpoint_s": fire,
            "audio_duration_s": t["audio_duration_s"],
            "cut_early": fire is not None and fire < t["audio_duration_s"],
        }
        for t, fire in zip(turns, fires, strict=True)
    ]


def test_early_missed_and_late_by_hand():
    # early by a second; exactly at the end; 0.3 s and 0.5 s after it; never
    turns = [turn(key) for key in "abcde"]
    found = compute_endpoints([1.0, 2.0, 2.3, 2.5, None], turns)
    assert [found[name] for name in ("n", "n_fired", "n_cut_early", "n_missed")] == [5, 4, 1, 1]
    assert (found["cut_early"], found["missed"]) == (0.2, 0.2)
    assert found["latency_p50_s"] == pytest.approx(0.3)
    assert found["latency_p10_s"] == pytest.approx(np.percentile([0.0, 0.3, 0.5], 10))
    assert found["latency_p90_s"] == pytest.approx(np.percentile([0.0, 0.3, 0.5], 90))


@pytest.mark.parametrize(
    ("fire_s", "early"),
    [(2.0, 0), (2.0 - 1e-6, 1), (2.0 - 1e-7, 0), (2.0 + 1e-6, 0), (0.1 + 0.2 + 1.7, 0), (1.999, 1)],
)
def test_a_fire_at_the_very_end_is_not_early_to_the_microsecond(fire_s, early):
    assert compute_endpoints([fire_s], [turn("a")])["n_cut_early"] == early


def test_a_turn_without_a_fire_is_neither_early_nor_late():
    found = compute_endpoints([None, None], [turn("a"), turn("b")])
    assert (found["missed"], found["cut_early"], found["n_fired"]) == (1.0, 0.0, 0)
    assert math.isnan(found["latency_p50_s"])


@pytest.mark.parametrize(
    ("fire_s", "place"),
    [
        (0.0, "inside_chunk"),
        (0.999999, "inside_chunk"),
        (1.0, "sentence_end"),
        (1.4, "sentence_end"),
        (1.4 + 1e-6, "inside_chunk"),
        (2.9, "inside_chunk"),
        (3.0, "mid_sentence"),
        (3.4, "mid_sentence"),
        (3.5, "inside_chunk"),
        (5.0, "sentence_end"),
        (5.15, "sentence_end"),
    ],
)
def test_an_early_fire_belongs_to_the_last_chunk_that_ended(fire_s, place):
    assert place_of(fire_s, late_report_s=0.4) == [place]


def test_without_allowance_only_the_end_itself_is_a_pause():
    assert place_of(1.0, late_report_s=0) == ["sentence_end"]
    assert place_of(1.000001, late_report_s=0) == ["inside_chunk"]


def test_a_wide_allowance_does_not_reach_past_the_next_end():
    assert place_of(3.2, late_report_s=100) == ["mid_sentence"]


def test_a_fire_after_the_last_chunk_is_finished_however_long_the_tail():
    assert place_of(9.0, {**TURN, "audio_duration_s": 10.0}, late_report_s=0.1) == ["sentence_end"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Yes.", "sentence_end"),
        ("Really?", "sentence_end"),
        ("No! ", "sentence_end"),
        ('He said "no."', "sentence_end"),
        ("(I think.)", "sentence_end"),
        ("555-0164.", "sentence_end"),
        ("and then", "mid_sentence"),
        ("But if,", "mid_sentence"),
        ("Well...", "mid_sentence"),
        ("Well\u2026", "mid_sentence"),
        ("so \u2014", "mid_sentence"),
        ("", "mid_sentence"),
    ],
)
def test_a_sentence_ends_with_a_full_stop_a_question_or_an_exclamation_mark(text, place):
    assert place_of(1.1, {**TURN, "chunks": [text, "I was", "at home."]}) == [place]


def test_every_published_arm_of_the_sample_scores_what_its_own_columns_say():
    folder = sample_dir("turn_end")
    turns = pq.read_table(next((folder / "turns").glob("turns-test-*.parquet")))
    endpoints = pq.read_table(next((folder / "endpoints").glob("*.parquet")))
    rows = endpoints.to_pandas()
    found = compute_endpoints([None] * len(turns), turns, published=endpoints)["published"]
    assert sorted(found) == sorted(set(rows["arm"]))
    for arm, own in rows.groupby("arm"):
        late = (own["first_endpoint_s"] - own["audio_duration_s"])[~own["cut_early"]].dropna()
        assert found[arm]["cut_early"] == pytest.approx(own["cut_early"].mean())
        assert found[arm]["n_missed"] == own["first_endpoint_s"].isna().sum()
        if len(late):
            assert found[arm]["latency_p50_s"] == pytest.approx(late.median(), abs=1e-6)
        assert found[arm]["n_cut_early_unclassified"] == 0


def test_places_add_up_to_the_early_fires():
    turns = [{**TURN, "turn_key": str(i)} for i in range(50)]
    fires = np.random.default_rng(0).uniform(0, 7, 50).round(2).tolist()
    found = compute_endpoints(fires, turns)
    parts = ("sentence_end", "mid_sentence", "inside_chunk")
    assert sum(found[f"cut_early_{part}"] for part in parts) == pytest.approx(found["cut_early"])
    assert found["n_cut_early"] > 30


def test_turns_without_chunks_of_their_own_are_unclassified():
    for nothing in (None, []):
        assert place_of(1.1, {**TURN, "chunks": nothing, "chunk_ends_s": nothing}) == ["unclassified"]


def test_without_chunks_in_the_table_nothing_is_said_about_places():
    assert not [key for key in compute_endpoints([1.0], [turn("a")]) if "sentence" in key or "chunk" in key]


def test_fires_are_joined_by_turn_key_in_any_order():
    turns, fires = simulated()
    rows = [
        {"turn_key": t["turn_key"], "first_endpoint_s": fire} for t, fire in zip(turns, fires, strict=True)
    ]
    expected = str(compute_endpoints(fires, turns, by="style"))
    assert str(compute_endpoints(rows[::-1], turns, by="style")) == expected
    assert str(compute_endpoints(datasets.Dataset.from_list(rows), turns, by="style")) == expected
    assert str(compute_endpoints(datasets.Dataset.from_list(rows).to_pandas(), turns, by="style")) == expected
    assert str(compute_endpoints(fires, datasets.Dataset.from_list(turns), by="style")) == expected


def test_row_order_does_not_change_anything():
    turns, fires = simulated()
    order = np.random.default_rng(0).permutation(len(turns))
    a = compute_endpoints(fires, turns, n_resamples=200)
    b = compute_endpoints([fires[i] for i in order], [turns[i] for i in order], n_resamples=200)
    assert str(a) == str(b)


def test_audio_is_not_decoded():
    table = datasets.Dataset.from_list([{**TURN, "audio": {"bytes": b"not audio", "path": None}}])
    table = table.cast_column("audio", datasets.Audio(sampling_rate=16_000))
    assert compute_endpoints([1.1], table)["n_cut_early"] == 1


def test_endpoint_rows_serve_as_references_and_each_turn_counts_once():
    turns, fires = simulated()
    published = arm_rows("x", turns, fires) + arm_rows("y", turns, fires[::-1])
    found = compute_endpoints(arm_rows("mine", turns, fires), published)
    expected = compute_endpoints(fires, turns)
    assert found == expected
    with pytest.raises(ValueError, match="give rows with 'turn_key'"):
        compute_endpoints(fires, published)


def test_groups_add_up_to_all_turns():
    turns, fires = simulated()
    found = compute_endpoints(fires, turns, by=["style", "domain"])
    for groups in found["by"].values():
        for count in ("n", "n_cut_early", "n_missed", "n_fired"):
            assert sum(group[count] for group in groups.values()) == found[count]


def test_an_arm_that_is_the_system_itself_differs_by_exactly_nothing():
    turns, fires = simulated()
    found = compute_endpoints(fires, turns, published=arm_rows("self", turns, fires), n_resamples=200)
    arm = found["published"]["self"]
    for figure in ("cut_early", "missed", "latency_p10_s", "latency_p50_s", "latency_p90_s"):
        assert arm[figure] == found[figure]
        assert [arm[f"{figure}_difference{end}"] for end in ("", "_low", "_high")] == [0, 0, 0]
        assert arm[f"{figure}_p_value"] == 1


def test_arms_are_compared_on_the_same_draws_of_turns():
    turns, fires = simulated(seed=0)
    _, others = simulated(seed=0, delay_s=0.9)
    others = [None if i % 7 == 0 else other for i, other in enumerate(others)]
    found = compute_endpoints(
        fires, turns, published=arm_rows("late", turns, others), n_resamples=300, seed=5
    )
    missed = [np.array([[fire is None, 1] for fire in system]).astype(int) for system in (fires, others)]
    expected = paired_bootstrap(*missed, Ratio((0,), (1,)), n_resamples=300, seed=5)
    arm = found["published"]["late"]
    assert arm["missed_difference"] == pytest.approx(expected.difference)
    assert (arm["missed_difference_low"], arm["missed_difference_high"]) == (expected.low, expected.high)
    assert arm["missed_p_value"] == expected.p_value
    assert arm["latency_p50_s_difference"] == pytest.approx(-0.3, abs=0.1)
    assert arm["latency_p50_s_p_value"] < 0.05


def test_differences_need_no_intervals():
    turns, fires = simulated()
    arm = compute_endpoints(fires, turns, published=arm_rows("x", turns, fires[::-1]))["published"]["x"]
    assert "missed_difference" in arm
    assert "missed_p_value" not in arm


def test_results_are_plain_python():
    turns, fires = simulated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = compute_endpoints(
            fires, turns, published=arm_rows("x", turns, fires), by="style", n_resamples=50
        )
    assert json.loads(json.dumps(found, allow_nan=False))["n"] == 120


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, "1.0", True, [1.0], 1e300])
def test_a_time_that_is_none_is_never_but_anything_else_is_named_by_row_and_turn(value):
    with pytest.raises(ValueError, match=r"predictions: row 1 \(turn_key 'b'\): expected first_endpoint_s"):
        compute_endpoints([None, value], [turn("a"), turn("b")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turn_key": "b"}, "turn_key repeated: 'b'"),
        ({"turn_key": None}, "row 0: expected a turn_key"),
        ({"audio_duration_s": None}, "row 0 .*: expected audio_duration_s"),
        ({"audio_duration_s": math.nan}, "row 0 .*: expected audio_duration_s"),
        ({"chunk_ends_s": [1.0]}, "turn_key 'a': 3 chunks, but 1 chunk_ends_s"),
        ({"chunk_ends_s": None}, "turn_key 'a': 3 chunks, but 0 chunk_ends_s"),
        ({"chunk_ends_s": [1.0, 0.5, 5.0]}, "turn_key 'a': chunk_ends_s must not fall"),
        ({"chunk_ends_s": [1.0, math.nan, 5.0]}, "turn_key 'a'.*expected chunk_ends_s"),
        ({"chunks": ["a", None, "b"]}, "turn_key 'a': expected a chunk's text, got None"),
    ],
)
def test_faulty_turns_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        compute_endpoints([None, None], [{**TURN, **change}, {**TURN, "turn_key": "b"}])


@pytest.mark.parametrize(
    ("published", "message"),
    [
        (arm_rows("x", [turn("a")], [1.0]), "arm 'x': 1 missing turn_key: 'b'"),
        (arm_rows("x", [turn(key) for key in "abc"], [1.0] * 3), "arm 'x': 1 unknown turn_key: 'c'"),
        (arm_rows("x", [turn(key) for key in "aab"], [1.0] * 3), "arm 'x': turn_key repeated: 'a'"),
        (
            arm_rows("x", [turn("a", 3.0), turn("b")], [1.0] * 2),
            "arm 'x': turn_key 'a': audio_duration_s 3.0",
        ),
        (
            [{**row, "cut_early": False} for row in arm_rows("x", [turn("a"), turn("b")], [1.0, None])],
            "arm 'x': turn_key 'a': cut_early is False, but first_endpoint_s is 1.0",
        ),
        (
            [{**row, "cut_early": True} for row in arm_rows("x", [turn("a"), turn("b")], [1.0, None])],
            "arm 'x': turn_key 'b': cut_early is True",
        ),
        ([{"turn_key": "a", "first_endpoint_s": 1.0}], "no column 'arm'"),
    ],
)
def test_faulty_arms_are_named(published, message):
    with pytest.raises(ValueError, match=message):
        compute_endpoints([None, None], [turn("a"), turn("b")], published=published)


@pytest.mark.parametrize("late_report_s", [-0.1, math.nan, math.inf, "1", True, None])
def test_a_faulty_allowance_is_refused(late_report_s):
    with pytest.raises(ValueError, match="late_report_s"):
        compute_endpoints([None], [TURN], late_report_s=late_report_s)


def test_counts_for_comparison_give_the_same_rates():
    turns = [{**TURN, "turn_key": str(i)} for i in range(50)]
    fires = np.random.default_rng(0).uniform(0, 7, 50).round(2).tolist()
    found, units = compute_endpoints(fires, turns), endpoint_counts(fires, turns)
    for name, ratio in (RATES | PLACE_RATES).items():
        assert ratio(units.counts.sum(axis=0)) == pytest.approx(found[name])
    latencies = [delay for unit in units.latencies_s["latency"] for delay in unit]
    assert np.percentile(latencies, 50) == pytest.approx(found["latency_p50_s"])
