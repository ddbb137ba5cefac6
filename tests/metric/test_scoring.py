"""Scoring a split: rows joined by id, pooled figures, groups, intervals, budgets, plain results."""

import json
import math
import warnings

import numpy as np
import pytest

from mptb_metric import bootstrap, decide, score_floor, to_json
from mptb_metric.intervals import BootstrapWarning
from mptb_metric.percentiles import bootstrap_percentiles
from mptb_metric.predictions import SubmissionError
from mptb_metric.scoring import floor_counts
from mptb_metric.sums import Ratio


def gold(positives=(), negatives=(), excluded=()):
    return {
        "positives": list(positives),
        "negative_spans": [{"start": start, "end": end} for start, end in negatives],
        "excluded_spans": [{"start": start, "end": end} for start, end in excluded],
    }


def reference(conversation, speaker, eot=None, interruptions=None, **columns):
    return {
        "conversation_id": conversation,
        "speaker": speaker,
        "duration_s": 60.0,
        "num_speakers": 2,
        "conversation_type": "casual",
        "eot": eot or gold(),
        "int": interruptions or gold(),
        **columns,
    }


def prediction(conversation, speaker, eot=(), interruptions=()):
    return {"conversation_id": conversation, "speaker": speaker, "eot": list(eot), "int": list(interruptions)}


@pytest.fixture
def corpus():
    """Two conversations: 3 of 4 EOT positives found, 1 of 2 negatives fired at; one without INT positives."""
    references = [
        reference("c1", "s1", gold([2.0, 10.0], [(20.0, 21.0)]), gold([], [(5.0, 6.0)])),
        reference("c1", "s2", gold([30.0])),
        reference("c2", "s1", gold([4.0], [(8.0, 9.0)]), gold([7.0]), num_speakers=3),
    ]
    predictions = [
        prediction("c1", "s1", [2.1, 20.5]),
        prediction("c1", "s2", [30.4]),
        prediction("c2", "s1", [4.9], [7.5]),
    ]
    return predictions, references


def test_figures_are_pooled_over_all_channels(corpus):
    result = score_floor(*corpus)
    assert {key: result[f"eot_{key}"] for key in ("tp", "fn", "fp", "tn")} == {
        "tp": 3,
        "fn": 1,
        "fp": 1,
        "tn": 1,
    }
    assert (result["eot_recall"], result["eot_fpr"]) == (0.75, 0.5)
    assert [result[f"eot_latency_p{p}_s"] for p in (10, 50, 90)] == np.percentile(
        [0.1, 0.4, 0.9], [10, 50, 90]
    ).tolist()
    assert (result["int_tp"], result["int_recall"], result["int_fpr"]) == (1, 1.0, 0.0)
    assert (result["n_conversations"], result["n_channels"]) == (2, 3)


def test_rows_are_joined_by_id_not_by_position(corpus):
    predictions, references = corpus
    assert score_floor(predictions[::-1], references) == score_floor(*corpus)


def test_intervals_do_not_depend_on_the_order_of_the_rows(corpus):
    predictions, references = corpus
    options = {"by": "num_speakers", "n_resamples": 99}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        assert to_json(score_floor(predictions, references[::-1], **options)) == to_json(
            score_floor(predictions, references, **options)
        )


def test_the_protocol_and_its_constants_are_in_the_result(corpus):
    result = score_floor(*corpus, protocol="turnbench")
    assert (result["protocol"], result["early_s"], result["late_s"], result["budget"]) == (
        "turnbench",
        0.25,
        3.0,
        0.15,
    )


def test_the_protocol_changes_the_counts():
    references = [reference("c1", "s1", gold([2.0, 3.0]))]
    predictions = [prediction("c1", "s1", [3.1, 3.7])]
    assert score_floor(predictions, references)["eot_tp"] == 2
    assert score_floor(predictions, references, protocol="turnbench")["eot_tp"] == 1


def test_gold_as_predictions_is_perfect_and_silence_finds_nothing(corpus):
    _, references = corpus
    perfect = [
        prediction(r["conversation_id"], r["speaker"], r["eot"]["positives"], r["int"]["positives"])
        for r in references
    ]
    result = score_floor(perfect, references)
    assert [result[f"{t}_{m}"] for t in ("eot", "int") for m in ("recall", "fpr", "latency_p90_s")] == [
        1.0,
        0.0,
        0.0,
    ] * 2
    silent = score_floor([prediction(r["conversation_id"], r["speaker"]) for r in references], references)
    assert (silent["eot_recall"], silent["eot_fn"], silent["eot_fpr"]) == (0.0, 4, 0.0)
    assert math.isnan(silent["eot_latency_p50_s"])


def test_an_undefined_rate_is_nan_and_never_within_budget():
    result = score_floor([prediction("c1", "s1", [1.0])], [reference("c1", "s1")])
    assert math.isnan(result["eot_recall"])
    assert math.isnan(result["eot_fpr"])
    assert result["eot_within_budget"] is False
    assert [result[f"eot_{key}"] for key in ("tp", "fn", "fp", "tn")] == [0, 0, 0, 0]


def fired_at(n, of):
    """One channel with `of` negative spans, `n` of them fired at."""
    spans = [(3.0 * i, 3.0 * i + 1) for i in range(of)]
    return [prediction("c1", "s1", [start for start, _ in spans[:n]])], [
        reference("c1", "s1", gold([], spans))
    ]


def test_the_budget_is_closed_and_that_of_test_by_default():
    assert score_floor(*fired_at(3, 20))["eot_within_budget"] is True  # 0.15
    assert score_floor(*fired_at(2, 13))["eot_within_budget"] is False  # 0.154


def test_dev_s_budget_can_be_asked_for():
    assert score_floor(*fired_at(2, 20), budget=0.10)["eot_within_budget"] is True
    assert score_floor(*fired_at(3, 20), budget=0.10)["eot_within_budget"] is False


def test_groups_hold_what_scoring_their_rows_alone_gives(corpus):
    predictions, references = corpus
    result = score_floor(predictions, references, by=["num_speakers", "conversation_type"])
    assert list(result["by"]) == ["num_speakers", "conversation_type"]
    assert list(result["by"]["num_speakers"]) == ["2", "3"]
    alone = score_floor(predictions[:2], references[:2])
    group = result["by"]["num_speakers"]["2"]
    assert to_json(group) == to_json({key: alone[key] for key in group})
    assert math.isnan(group["int_recall"])  # a group without positives
    whole = result["by"]["conversation_type"]["casual"]
    assert whole == {key: result[key] for key in whole}


def test_groups_come_in_the_order_of_their_values_not_of_their_text():
    ids = [f"c{n}" for n in (10, 9, 2)]
    references = [reference(c, "s1", num_speakers=int(c[1:])) for c in ids]
    result = score_floor([prediction(c, "s1") for c in ids], references, by="num_speakers")
    assert list(result["by"]["num_speakers"]) == ["2", "9", "10"]


def test_a_row_without_a_group_is_refused(corpus):
    predictions, references = corpus
    references[1]["num_speakers"] = None
    with pytest.raises(ValueError, match="row 1: expected a num_speakers to group by, got None"):
        score_floor(predictions, references, by=["num_speakers"])
    with pytest.raises(ValueError, match="no column 'mood'"):
        score_floor(predictions, references, by=["mood"])


@pytest.fixture
def larger():
    """Twelve conversations of two channels with some of everything."""
    rng = np.random.default_rng(5)
    references, predictions = [], []
    for c in range(12):
        for s in range(2):
            times = rng.uniform(0, 50, 6).round(3).tolist()
            spans = [(start, start + 1) for start in rng.uniform(0, 50, 3).round(3).tolist()]
            ids = (f"c{c}", f"s{s}")
            references.append(reference(*ids, gold(times, spans), gold(times, spans), num_speakers=2 + c % 2))
            decisions = sorted({round(t, 3) for t in rng.uniform(0, 50, 12).tolist()})
            predictions.append(prediction(*ids, decisions, decisions[::2]))
    return predictions, references


def test_intervals_are_those_of_the_bootstrap_over_conversations(larger):
    predictions, references = larger
    options = {"n_resamples": 4999, "confidence_level": 0.9, "seed": 7}
    result = score_floor(*larger, **options)
    units = [score_floor(predictions[i : i + 2], references[i : i + 2]) for i in range(0, 24, 2)]
    counts = [[unit[f"eot_{key}"] for key in ("tp", "fn", "fp", "tn")] for unit in units]
    for measure, ratio in (("recall", Ratio((0,), (0, 1))), ("fpr", Ratio((2,), (2, 3)))):
        expected = bootstrap(counts, ratio, **options)
        assert result[f"eot_{measure}_low"] == pytest.approx(expected.low, abs=0.02)  # other draws
        assert result[f"eot_{measure}_high"] == pytest.approx(expected.high, abs=0.02)
    latencies = bootstrap_percentiles(floor_counts(*larger)["eot"].latencies_s["latency"], **options)
    assert [result[f"eot_latency_p{p}_s_low"] for p in (10, 50, 90)] == latencies.low.tolist()
    assert {key: result[key] for key in options} == options


def test_channels_of_a_conversation_are_one_unit():
    # in half of 40 conversations all 5 channels are found, in the others none: the standard error of recall
    # is that of 40 observations (0.079), not of 200 (0.035)
    references = [reference(f"c{c}", f"s{s}", gold([5.0])) for c in range(40) for s in range(5)]
    predictions = [
        prediction(r["conversation_id"], r["speaker"], [5.0] * (int(r["conversation_id"][1:]) % 2))
        for r in references
    ]
    result = score_floor(predictions, references, n_resamples=1999)
    assert result["eot_recall_high"] - result["eot_recall_low"] == pytest.approx(2 * 1.96 * 0.079, rel=0.1)


def test_intervals_per_group_and_within_strata_are_given(larger):
    result = score_floor(*larger, by="num_speakers", n_resamples=99)
    group = result["by"]["num_speakers"]["3"]
    assert group["eot_recall_low"] <= group["eot_recall"] <= group["eot_recall_high"]
    plain, stratified = (score_floor(*larger, n_resamples=999, strata=s) for s in (None, "num_speakers"))
    assert plain["eot_recall"] == stratified["eot_recall"]
    assert plain["eot_recall_low"] != stratified["eot_recall_low"]


def test_a_stratum_belongs_to_a_conversation(larger):
    predictions, references = larger
    references[1]["num_speakers"] = 9
    with pytest.raises(ValueError, match="c0 has two values of num_speakers"):
        score_floor(predictions, references, n_resamples=99, strata="num_speakers")


def test_an_interval_that_does_not_exist_is_said_not_silent():
    only = ([prediction("c1", "s1", [2.0])], [reference("c1", "s1", gold([2.0]))])
    with pytest.warns(BootstrapWarning, match="eot_recall: no interval"):
        result = score_floor(*only, n_resamples=99)
    assert math.isnan(result["eot_recall_low"])
    assert any("eot_recall" in note for note in result["notes"])


def leaves(value):
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def test_every_leaf_is_a_plain_python_value_and_strict_json(larger):
    empty = ([prediction("c1", "s1")], [reference("c1", "s1")])
    for rows, options in ((larger, {"n_resamples": 99}), (empty, {})):
        result = score_floor(*rows, by=["num_speakers"], **options)
        assert {type(leaf) for leaf in leaves(result)} <= {int, float, str, bool}
        parsed = json.loads(json.dumps(to_json(result), allow_nan=False))
        assert parsed["eot_tp"] == result["eot_tp"]
    assert parsed["eot_recall"] is None


def test_numpy_values_and_pairs_score_as_lists_and_mappings(corpus):
    predictions, references = corpus
    rows = [{**row, "eot": np.array(row["eot"]), "int": np.array(row["int"])} for row in predictions]
    pairs = [
        {
            **row,
            **{
                track: {
                    "positives": np.array(row[track]["positives"]),
                    "negative_spans": [tuple(span.values()) for span in row[track]["negative_spans"]],
                    "excluded_spans": np.empty((0, 2)),
                }
                for track in ("eot", "int")
            },
        }
        for row in references
    ]
    assert score_floor(rows, pairs) == score_floor(*corpus)


def test_extra_columns_and_missing_durations_are_no_matter(corpus):
    predictions, references = corpus
    bare = [{key: row[key] for key in ("conversation_id", "speaker", "eot", "int")} for row in references]
    assert score_floor([{**row, "note": object()} for row in predictions], bare) == score_floor(*corpus)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(0), "conversation 'c1', speaker 's1': is missing"),
        (lambda rows: rows.pop(2), "conversation 'c2': is missing"),
        (lambda rows: rows.append(prediction("c9", "s1")), "conversation 'c9': is unknown"),
        (lambda rows: rows.append(prediction("c1", "s9")), "conversation 'c1', speaker 's9': is unknown"),
        (lambda rows: rows.append(rows[0]), "conversation 'c1', speaker 's1': is there 2 times"),
        (lambda rows: rows[0].update(speaker=3), "row 0: expected conversation_id and speaker as text"),
    ],
)
def test_channels_must_be_covered_exactly(corpus, change, message):
    predictions, references = corpus
    change(predictions)
    with pytest.raises(SubmissionError, match=message):
        score_floor(predictions, references)


@pytest.mark.parametrize(
    "bad", [None, "1.5", math.nan, math.inf, -0.1, 63.1, True, pytest.param(1.0, id="repeated")]
)
def test_a_bad_time_is_refused_by_conversation_speaker_track_and_index(corpus, bad):
    predictions, references = corpus
    predictions[1]["int"] = [1.0, bad]
    with pytest.raises(ValueError, match=r"conversation 'c1', speaker 's2', track 'int': index 1: "):
        score_floor(predictions, references)


def test_no_list_of_times_is_refused(corpus):
    predictions, references = corpus
    predictions[1]["int"] = None
    with pytest.raises(ValueError, match="track 'int': expected a list of times in seconds, got None"):
        score_floor(predictions, references)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "c1 s2 eot: expected positives, negative_spans, excluded_spans, got None"),
        ({"positives": []}, "c1 s2 eot: expected positives, negative_spans, excluded_spans"),
        (gold([math.nan]), r"c1 s2 eot: positives\[0\]: expected a finite time"),
        (gold([], [(2.0, 1.0)]), r"c1 s2 eot: negative_spans\[0\]: ends before it starts"),
    ],
)
def test_bad_gold_is_refused_by_channel_and_track(corpus, bad, message):
    predictions, references = corpus
    references[1]["eot"] = bad
    with pytest.raises(ValueError, match=message):
        score_floor(predictions, references)


def test_a_channel_twice_in_the_references_is_refused(corpus):
    predictions, references = corpus
    with pytest.raises(ValueError, match=r"references\[3\]: c1 s1 is there twice"):
        score_floor(predictions, [*references, references[0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "x"}, "protocol 'x' is unknown"),
        ({"budget": 1.5}, "budget: expected a share"),
        ({"budget": "0.1"}, "budget: expected a share"),
        ({"n_resamples": 1}, "n_resamples: expected an integer >= 2"),
        ({"n_resamples": 99, "confidence_level": 95}, "confidence_level"),
    ],
)
def test_bad_options_are_refused(corpus, options, message):
    with pytest.raises(ValueError, match=message):
        score_floor(*corpus, **options)


def traces(corpus):
    """Scores whose decisions at 0.5 are one at 2.1 s per channel, EOT, and at 0.9 none."""
    scores = np.zeros(600, np.float32)
    scores[20] = 0.7
    return [
        {
            "conversation_id": row["conversation_id"],
            "speaker": row["speaker"],
            "eot_scores": scores,
            "int_scores": np.zeros(600),
            "frame_rate": 10.0,
        }
        for row in corpus[0]
    ]


FROZEN = {
    "schema_version": 1,
    "protocol": "mptb",
    "tracks": {"eot": {"theta": 0.5, "fpr": 0.05}, "int": None},
}


def test_scores_are_decided_at_frozen_thresholds(corpus, tmp_path):
    _, references = corpus
    path = tmp_path / "thresholds.json"
    path.write_text(json.dumps(FROZEN))
    decided = [
        prediction(row["conversation_id"], row["speaker"], decide(row["eot_scores"], 10.0, 0.5))
        for row in traces(corpus)
    ]
    plain = score_floor(decided, references)
    for thresholds in (FROZEN, path, str(path)):
        result = score_floor(traces(corpus), references, thresholds=thresholds)
        assert {key: result[key] for key in plain if key.startswith("eot")} == {
            key: value for key, value in plain.items() if key.startswith("eot")
        }
        assert (result["eot_theta"], result["refractory_s"]) == (0.5, 2.0)


def test_lookahead_delays_the_decisions_that_scores_give(corpus):
    rows = [{**row, "lookahead_s": 0.3} for row in traces(corpus)]
    late = score_floor(rows, corpus[1], thresholds={"eot": 0.5, "int": 0.5})
    soon = score_floor(traces(corpus), corpus[1], thresholds={"eot": 0.5, "int": 0.5})
    assert late["eot_latency_p50_s"] == pytest.approx(soon["eot_latency_p50_s"] + 0.3)


def test_a_track_without_an_operating_point_is_not_decided_and_not_within_budget(corpus):
    rows = [{**row, "int_scores": row["eot_scores"]} for row in traces(corpus)]
    references = [{**row, "int": gold([2.0], [(5.0, 6.0)])} for row in corpus[1]]
    result = score_floor(rows, references, thresholds=FROZEN)
    assert math.isnan(result["int_theta"])
    assert (result["int_tp"], result["int_fpr"], result["int_within_budget"]) == (0, 0.0, False)


def test_within_budget_takes_both_dev_and_test(corpus):
    def verdict(dev_fpr):
        frozen = {"tracks": {"eot": {"theta": 0.9, "fpr": dev_fpr}, "int": None}}
        return score_floor(traces(corpus), corpus[1], thresholds=frozen)["eot_within_budget"]

    assert verdict(0.10) is True
    assert verdict(0.11) is False


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"eot": 0.5}, "expected a threshold for each of eot, int"),
        ({"eot": 0.5, "int": 0.5, "vad": 0.5}, "expected a threshold for each of eot, int"),
        ({"eot": "0.5", "int": 0.5}, "eot: theta: expected a number, got '0.5'"),
        ({"eot": {"theta": math.nan}, "int": 0.5}, "eot: theta: expected a number, got nan"),
        ({"tracks": {"eot": {}, "int": None}}, "eot: theta: expected a number, got None"),
        ({**FROZEN, "protocol": "turnbench"}, "chosen by protocol 'turnbench', not 'mptb'"),
    ],
)
def test_bad_thresholds_are_refused(corpus, thresholds, message):
    with pytest.raises(ValueError, match=message):
        score_floor(traces(corpus), corpus[1], thresholds=thresholds)


def test_a_thresholds_file_that_is_no_json_is_refused_by_name(corpus, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json: invalid JSON"):
        score_floor(traces(corpus), corpus[1], thresholds=path)


def test_a_score_that_is_not_finite_is_refused_by_channel_track_and_frame(corpus):
    rows = traces(corpus)
    rows[1]["int_scores"][7] = math.nan
    with pytest.raises(ValueError, match="predictions: c1 s2 int: scores: frame 7"):
        score_floor(rows, corpus[1], thresholds={"eot": 0.5, "int": 0.5})


@pytest.mark.parametrize("bad", [None, 0.0, "25"])
def test_a_bad_frame_rate_is_refused_by_channel(corpus, bad):
    rows = traces(corpus)
    rows[1]["frame_rate"] = bad
    with pytest.raises(ValueError, match="predictions: c1 s2 eot: frame_rate: expected frames per second"):
        score_floor(rows, corpus[1], thresholds=FROZEN)


def test_decisions_do_not_pass_for_scores(corpus):
    with pytest.raises(ValueError, match="no column 'eot_scores'"):
        score_floor(*corpus, thresholds=FROZEN)


def test_json_safety_covers_numpy_and_refuses_what_it_does_not_know():
    value = {1: np.float64(math.nan), "a": [np.int64(3), (math.inf, True, None)], "b": np.arange(2)}
    assert to_json(value) == {"1": None, "a": [3, [None, True, None]], "b": [0, 1]}
    with pytest.raises(ValueError, match="cannot be written as JSON: object"):
        to_json({"x": object()})


@pytest.mark.parametrize("form", ["numpy", "torch"])
def test_rows_of_a_formatted_dataset_are_references(form):
    if form == "torch":
        pytest.importorskip("torch")
    from mptb_dataset import load_dataset, sample_dir

    gold = load_dataset("channels", split="test", data_dir=sample_dir("mptb"), audio="none")
    rows = [
        {
            "conversation_id": r["conversation_id"],
            "speaker": r["speaker"],
            "eot": r["eot"]["positives"],
            "int": [],
        }
        for r in gold
    ]
    expected = score_floor(rows, gold, by="num_speakers")
    found = score_floor(rows, list(gold.with_format(form)), by="num_speakers")
    for name in ("eot_tp", "eot_fp", "eot_tn", "int_fn", "int_tn"):
        assert found[name] == expected[name]
    assert list(found["by"]["num_speakers"]) == ["2", "3", "5"]


def test_a_number_that_fits_no_float_is_a_fault_and_no_crash():
    gold = {"positives": [1.0], "negative_spans": [], "excluded_spans": []}
    references = [{"conversation_id": "a", "speaker": "s", "eot": gold, "int": gold}]
    predictions = [{"conversation_id": "a", "speaker": "s", "eot": [10**400], "int": []}]
    with pytest.raises(ValueError, match=r"'a'.*'s'.*'eot'.*not finite"):
        score_floor(predictions, references)


@pytest.mark.parametrize("by", [3, [3], [None]])
def test_a_breakdown_by_anything_but_names_is_refused(by):
    gold = {"positives": [1.0], "negative_spans": [], "excluded_spans": []}
    references = [{"conversation_id": "a", "speaker": "s", "eot": gold, "int": gold}]
    with pytest.raises(ValueError, match="by: expected names of columns"):
        score_floor([{"conversation_id": "a", "speaker": "s", "eot": [], "int": []}], references, by=by)
