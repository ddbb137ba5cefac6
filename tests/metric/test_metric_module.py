"""The `evaluate` module and the package's front door: how they load, what they take, what they give."""

import ast
import inspect
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest
from evaluate.loading import get_imports

import mptb_metric
from mptb_metric import score_floor, to_json
from mptb_metric.endpoints import compute_endpoints
from mptb_metric.mptb_metric import MptbMetric
from mptb_metric.predictions import SubmissionError
from mptb_metric.turn_end import compute_turn_end

PACKAGE = Path(mptb_metric.__file__).parent
CHECKOUT = PACKAGE.parent

SPANS = [{"start": datasets.Value("float64"), "end": datasets.Value("float64")}]
GOLD = {
    "positives": datasets.List(datasets.Value("float64")),
    "negative_spans": SPANS,
    "excluded_spans": SPANS,
}
FEATURES = datasets.Features(
    {
        "conversation_id": datasets.Value("string"),
        "speaker": datasets.Value("string"),
        "num_speakers": datasets.Value("int32"),
        "duration_s": datasets.Value("float64"),
        "audio": datasets.Audio(sampling_rate=24000),
        "eot": GOLD,
        "int": GOLD,
    }
)


def gold(positives=(), negatives=()):
    return {
        "positives": list(positives),
        "negative_spans": [{"start": start, "end": end} for start, end in negatives],
        "excluded_spans": [],
    }


@pytest.fixture
def references():
    return [
        {
            "conversation_id": f"c{c}",
            "speaker": f"s{s}",
            "num_speakers": 2 + c,
            "duration_s": 60.0,
            "eot": gold([10.0 * (s + 1)], [(40.0, 41.0)]),
            "int": gold([], [(5.0, 6.0)]),
        }
        for c in range(3)
        for s in range(2)
    ]


@pytest.fixture
def predictions(references):
    return [
        {
            "conversation_id": row["conversation_id"],
            "speaker": row["speaker"],
            "eot": [10.5 + i / 10],
            "int": [5.5] * (i % 2),
        }
        for i, row in enumerate(references)
    ]


@pytest.fixture
def channels(references):
    """The references as a Dataset whose audio nobody could decode."""
    audio = {"bytes": b"no audio", "path": None}
    rows = pa.Table.from_pylist([{**row, "audio": audio} for row in references])
    return datasets.Dataset(rows).cast(FEATURES)


@pytest.fixture
def metric(tmp_path):
    return lambda config=None, **options: MptbMetric(config_name=config, cache_dir=str(tmp_path), **options)


OFFLINE = """
import json, socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("opened a socket")
socket.socket.connect = socket.create_connection = refuse
GOLD = {"positives": [2.0], "negative_spans": [{"start": 5.0, "end": 6.0}], "excluded_spans": []}
ID = {"conversation_id": "c1", "speaker": "s1"}
def score(metric):
    rows = [{**ID, "eot": [2.5], "int": []}]
    return metric.compute(predictions=rows, references=[{**ID, "eot": GOLD, "int": GOLD}])
"""


@pytest.fixture
def run(tmp_path):
    """Run a script in a process of its own, with a fresh Hugging Face cache and no network."""

    def run(script, cwd, *flags, home=None):
        environment = {
            **os.environ,
            "HF_HOME": str(home or tmp_path / "hf"),
            "HF_HUB_OFFLINE": "1",
            "HF_EVALUATE_OFFLINE": "1",
        }
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, *flags, "-c", OFFLINE + script],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    return run


def siblings_of(path):
    """Modules that a file imports from its own folder."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1}


def test_the_module_names_every_sibling_that_is_needed_at_all():
    needed, new = set(), siblings_of(PACKAGE / "mptb_metric.py")
    while new:
        needed |= new
        new = set().union(*(siblings_of(PACKAGE / f"{name}.py") for name in new)) - needed
    found = {name for kind, name, *_ in get_imports(str(PACKAGE / "mptb_metric.py")) if kind == "internal"}
    assert found == needed
    assert found == siblings_of(PACKAGE / "mptb_metric.py")


def test_the_module_needs_nothing_but_evaluate_datasets_and_the_standard_library():
    found = {name for kind, name, *_ in get_imports(str(PACKAGE / "mptb_metric.py")) if kind == "library"}
    assert found - set(sys.stdlib_module_names) == {"datasets", "evaluate"}
    assert not [name for kind, name, *_ in get_imports(str(PACKAGE / "mptb_metric.py")) if kind == "external"]


def test_siblings_know_each_other_only_relatively():
    for path in set(PACKAGE.glob("*.py")) - {PACKAGE / "app.py"}:  # which runs as a program, not as a sibling
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [name for name in names if name.split(".")[0] == "mptb_metric"], path.name


def test_compute_takes_no_option_that_it_does_not_know():
    kinds = {p.kind for p in inspect.signature(MptbMetric._compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_every_option_of_a_configuration_reaches_it():
    taken = set(inspect.signature(MptbMetric._compute).parameters)
    for function in (score_floor, compute_turn_end, compute_endpoints):
        assert set(inspect.signature(function).parameters) <= taken


def test_a_checkout_loads_by_name_offline(run):
    script = 'import evaluate; print(score(evaluate.load("mptb_metric"))["eot_latency_p50_s"])'
    assert run(script, CHECKOUT) == "0.5"


def test_a_folder_copied_alone_loads_by_name_and_by_path(run, tmp_path):
    (tmp_path / "space").mkdir()
    shutil.copytree(PACKAGE, tmp_path / "space" / "mptb_metric", ignore=shutil.ignore_patterns("__pycache__"))
    script = """
import evaluate
ours = sorted(name for name in sys.modules if name.split(".")[0] in ("mptb_metric", "mptb_dataset"))
print(score(evaluate.load({}))["eot_tp"], ours)"""
    for path in ('"mptb_metric"', repr(str(tmp_path / "space" / "mptb_metric"))):
        # -P keeps the working folder off the path: only what evaluate copies can be imported
        flags = ("-P",) if sys.version_info >= (3, 11) else ()
        assert run(script.format(path), tmp_path / "space", *flags) == "1 []"


def test_load_works_from_anywhere_for_every_configuration(run, tmp_path):
    script = """
import mptb_metric
names = [mptb_metric.load(config).config_name for config in (None, "floor", "turn_end", "endpoints")]
print(score(mptb_metric.load())["eot_tp"], *names)"""
    assert run(script, tmp_path) == "1 floor floor turn_end endpoints"


def test_load_works_without_a_cache_that_can_be_written(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    script = 'import mptb_metric; print(score(mptb_metric.load())["eot_tp"])'
    assert run(script, tmp_path, home=tmp_path / "file" / "hf") == "1"


def test_the_example_in_the_usage_text_is_true(run):
    script = """
import doctest, evaluate
text = evaluate.load("mptb_metric").inputs_description
test = doctest.DocTestParser().get_doctest(text, {"evaluate": evaluate}, "usage", None, 0)
print(doctest.DocTestRunner().run(test))"""
    result = run(script, CHECKOUT)
    assert "failed=0" in result
    assert "attempted=0" not in result


def test_importing_the_package_loads_numpy_and_nothing_heavier(run, tmp_path):
    script = """
import mptb_metric
heavy = {"evaluate", "datasets", "torch", "pandas", "pyarrow", "scipy", "soundfile"}
print(sorted(heavy & set(sys.modules)), "numpy" in sys.modules)"""
    assert run(script, tmp_path) == "[] True"


def test_functions_stay_functions_after_their_modules_are_imported(run, tmp_path):
    script = """
import mptb_metric
import mptb_metric.sweep, mptb_metric.bootstrap, mptb_metric.matching
print(callable(mptb_metric.sweep), callable(mptb_metric.bootstrap), callable(mptb_metric.match))"""
    assert run(script, tmp_path) == "True True True"


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(mptb_metric, name) is not None for name in mptb_metric.__all__)
    assert dir(mptb_metric) == sorted(mptb_metric.__all__)
    with pytest.raises(AttributeError, match="no attribute 'recall'"):
        _ = mptb_metric.recall


def test_an_unknown_configuration_is_refused_with_those_that_exist(metric):
    with pytest.raises(ValueError, match="'eot' is unknown; expected one of floor, turn_end, endpoints"):
        metric("eot")


@pytest.mark.parametrize("keep_in_memory", [False, True])
def test_compute_gives_what_the_function_gives(metric, predictions, references, keep_in_memory):
    options = {"protocol": "turnbench", "by": ["num_speakers"], "budget": 0.1}
    found = metric(keep_in_memory=keep_in_memory).compute(
        predictions=predictions, references=references, **options
    )
    assert to_json(found) == to_json(score_floor(predictions, references, **options))


def test_every_kind_of_table_gives_the_same(metric, predictions, references, channels):
    expected = to_json(score_floor(predictions, references))
    numpy_rows = [{**row, "eot": np.array(row["eot"]), "int": np.array(row["int"])} for row in predictions]
    pairs = [
        {
            **row,
            "eot": {
                key: [tuple(s.values()) for s in spans] if key != "positives" else spans
                for key, spans in row["eot"].items()
            },
        }
        for row in references
    ]
    tables = [channels, channels.with_format("numpy", columns=["num_speakers"]), channels.data.table, pairs]
    for rows in (predictions, datasets.Dataset.from_list(predictions), numpy_rows):
        for table in tables:
            assert to_json(metric().compute(predictions=rows, references=table)) == expected


def test_a_pandas_frame_gives_the_same(metric, predictions, references):
    pandas = pytest.importorskip("pandas")
    found = metric().compute(
        predictions=pandas.DataFrame(predictions), references=pandas.DataFrame(references)
    )
    assert to_json(found) == to_json(score_floor(predictions, references))


def test_audio_is_never_decoded(metric, predictions, channels):
    with pytest.raises(Exception):  # noqa: B017  # whatever the decoder makes of it
        _ = channels[0]["audio"]["array"]
    assert metric().compute(predictions=predictions, references=channels)["n_channels"] == 6


@pytest.mark.parametrize("size", [1, 2, 5])
def test_any_split_into_batches_gives_the_same(metric, predictions, references, channels, size):
    expected = to_json(score_floor(predictions, references, by="num_speakers"))
    ours = metric()
    plain = channels.remove_columns("audio")
    for start in range(0, 6, size):
        # a slice of a Dataset is a dict of columns
        ours.add_batch(predictions=predictions[start : start + size], references=plain[start : start + size])
    assert len(ours) == 6
    assert to_json(ours.compute(by="num_speakers")) == expected


def test_rows_may_be_added_one_by_one_and_in_different_orders(metric, predictions, references):
    ours = metric()
    for row, reference in zip(predictions, references[::-1], strict=True):
        ours.add(prediction=row, reference=reference)
    assert to_json(ours.compute()) == to_json(score_floor(predictions, references))


def test_a_metric_can_be_used_again(metric, predictions, references):
    ours = metric()
    first = ours.compute(predictions=predictions, references=references)
    second = ours.compute(predictions=predictions[:2], references=references[:2])
    assert (first["n_channels"], second["n_channels"]) == (6, 2)


@pytest.mark.parametrize("equally_long", [True, False])
def test_missing_and_unknown_channels_are_named(metric, predictions, references, equally_long):
    other = [{**predictions[0], "speaker": "s9"}] if equally_long else []
    with pytest.raises(SubmissionError, match="conversation 'c0', speaker 's0': is missing"):
        metric().compute(predictions=[*other, *predictions[1:]], references=references)


def test_a_channel_twice_is_named_even_over_batches(metric, predictions, references):
    ours = metric()
    ours.add_batch(predictions=predictions, references=references)
    ours.add_batch(predictions=predictions[:1], references=references[:1])
    with pytest.raises(ValueError, match="c0 s0 is there twice"):
        ours.compute()


@pytest.mark.parametrize("bad", [None, "1.5", math.nan, math.inf, -1.0, 63.5, True])
def test_a_bad_time_is_refused_before_arrow_can_bend_it(metric, predictions, references, bad):
    predictions[3]["eot"] = [1.0, bad]
    with pytest.raises(ValueError, match=r"conversation 'c1', speaker 's1', track 'eot': index 1: "):
        metric().compute(predictions=predictions, references=references)


@pytest.mark.parametrize("bad", [None, "1.5", math.nan, -1.0])
def test_bad_gold_is_refused_before_arrow_can_bend_it(metric, predictions, references, bad):
    references[3]["eot"] = gold([bad])
    with pytest.raises(ValueError, match=r"references: c1 s1 eot: positives\[0\]: expected a finite time"):
        metric().compute(predictions=predictions, references=references)


def test_a_refused_batch_is_not_added(metric, predictions, references):
    ours = metric()
    ours.add_batch(predictions=predictions[:5], references=references[:5])
    with pytest.raises(SubmissionError):
        ours.add_batch(predictions=[{**predictions[5], "eot": [-1.0]}], references=references[5:])
    ours.add_batch(predictions=predictions[5:], references=references[5:])
    assert to_json(ours.compute()) == to_json(score_floor(predictions, references))


def test_rows_refused_by_compute_leave_those_that_were_added(metric, predictions, references):
    ours = metric()
    ours.add_batch(predictions=predictions[:5], references=references[:5])
    with pytest.raises(SubmissionError):
        ours.compute(predictions=[{**predictions[5], "eot": [-1.0]}], references=references[5:])
    found = ours.compute(predictions=predictions[5:], references=references[5:])
    assert to_json(found) == to_json(score_floor(predictions, references))


def test_after_an_error_nothing_is_left_behind_and_the_metric_works(
    metric, predictions, references, tmp_path
):
    ours = metric()
    with pytest.raises(ValueError, match="protocol 'x' is unknown"):
        ours.compute(predictions=predictions, references=references, protocol="x")
    assert not list(tmp_path.rglob("*.arrow"))
    assert ours.compute(predictions=predictions, references=references)["n_channels"] == 6
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize(
    ("config", "option"),
    [(None, "protocl"), ("floor", "theta"), ("turn_end", "protocol"), ("endpoints", "theta")],
)
def test_an_option_that_a_configuration_does_not_know_is_refused(
    metric, predictions, references, config, option
):
    with pytest.raises(TypeError, match=f"configuration .*: unknown option {option}; expected any of"):
        metric(config).compute(predictions=predictions, references=references, **{option: 1})


@pytest.mark.parametrize("given", [{"predictions": []}, {"references": []}])
def test_predictions_without_references_are_refused(metric, given):
    with pytest.raises(ValueError, match="expected predictions and references"):
        metric().add_batch(**given)


def test_results_are_plain_and_strict_json_after_arrow_too(metric, predictions, references):
    result = metric().compute(predictions=predictions, references=references, by="num_speakers")
    assert json.loads(json.dumps(to_json(result), allow_nan=False))["int_recall"] is None
    assert {type(value) for value in result.values()} <= {int, float, str, bool, dict}


def test_scores_are_decided_at_frozen_thresholds(metric, references):
    scores = np.zeros(600, np.float32)
    scores[104] = 0.9
    rows = [
        {
            "conversation_id": row["conversation_id"],
            "speaker": row["speaker"],
            "eot_scores": scores,
            "int_scores": scores,
            "frame_rate": 10.0,
        }
        for row in references
    ]
    found = metric().compute(predictions=rows, references=references, thresholds={"eot": 0.5, "int": 0.95})
    assert to_json(found) == to_json(score_floor(rows, references, thresholds={"eot": 0.5, "int": 0.95}))
    assert (found["eot_tp"], found["eot_latency_p50_s"], found["int_fp"]) == (3, 0.5, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frame_rate": "10"}, "predictions: c0 s0: frame_rate: expected frames per second"),
        ({"int_scores": ["0.5"]}, "predictions: c0 s0: int_scores: expected numbers"),
        ({"eot_scores": [0.1, math.nan]}, "predictions: c0 s0: eot_scores: frame 1: expected a finite score"),
    ],
)
def test_bad_scores_are_refused_before_arrow_can_bend_them(metric, references, change, message):
    ids = {name: references[0][name] for name in ("conversation_id", "speaker")}
    row = {**ids, "eot_scores": [0.1], "int_scores": [0.1], "frame_rate": 10.0, **change}
    with pytest.raises(ValueError, match=message):
        metric().compute(predictions=[row], references=references[:1], thresholds={"eot": 0.5, "int": 0.5})


@pytest.fixture
def observations():
    kinds = ["word_cut", "payload_cut", "chunk_cut", "complete"]
    return [
        {
            "key": f"t{i // 2}@{i}",
            "turn_key": f"t{i // 2}",
            "label": int(i % 4 > 1),
            "kind": kinds[i % 4],
            "domain": "bank",
            "style": "calm",
            "text": "…",
        }
        for i in range(12)
    ]


@pytest.mark.parametrize("make", [list, np.array, lambda labels: [bool(label) for label in labels]])
def test_turn_end_labels_give_what_the_function_gives(metric, observations, make):
    labels = [row["label"] ^ (i == 3) for i, row in enumerate(observations)]
    found = metric("turn_end").compute(
        predictions=make(labels), references=observations, by=["kind", "domain"]
    )
    assert to_json(found) == to_json(compute_turn_end(labels, observations, by=["kind", "domain"]))
    assert found["fn"] == 1


def test_turn_end_scores_are_joined_by_key(metric, observations):
    rows = [{"key": row["key"], "score": i / 12} for i, row in enumerate(observations)]
    options = {"theta": 0.5, "by": "domain"}
    expected = to_json(compute_turn_end(rows, observations, **options))
    table = datasets.Dataset.from_list(observations)
    assert (
        to_json(metric("turn_end").compute(predictions=rows[::-1], references=table, **options)) == expected
    )


def test_turn_end_scores_in_batches_give_the_same_as_at_once(metric, observations):
    ours = metric("turn_end")
    for i, row in enumerate(observations):
        ours.add(prediction=i / 12, reference=row)
    expected = compute_turn_end([i / 12 for i in range(12)], observations, theta="select")
    assert to_json(ours.compute(theta="select")) == to_json(expected)


@pytest.mark.parametrize("bad", [None, "1", math.nan])
def test_a_bad_turn_end_prediction_is_refused_before_arrow_can_bend_it(metric, observations, bad):
    with pytest.raises(ValueError, match="predictions: row 5"):
        metric("turn_end").compute(predictions=[0] * 5 + [bad] + [0] * 6, references=observations)


def test_a_missing_turn_end_key_is_named(metric, observations):
    rows = [{"key": row["key"], "prediction": 1} for row in observations]
    with pytest.raises(ValueError, match="missing key: 't0@0'"):
        metric("turn_end").compute(predictions=rows[1:], references=observations)


@pytest.fixture
def turns():
    return [
        {
            "turn_key": f"t{i}",
            "audio_duration_s": 3.0,
            "chunks": ["Hello.", "I need", "help."],
            "chunk_ends_s": [1.0, 2.0, 2.8],
            "style": "calm",
            "domain": "bank",
        }
        for i in range(5)
    ]


def test_endpoints_give_what_the_function_gives(metric, turns):
    fires = [None, 3.0, 3.5, 1.2, 2.1]
    published = [
        {"turn_key": row["turn_key"], "arm": "other", "first_endpoint_s": 3.2, "audio_duration_s": 3.0}
        for row in turns
    ]
    options = {"published": published, "by": "style", "late_report_s": 0.5}
    expected = to_json(compute_endpoints(fires, turns, **options))
    rows = [
        {"turn_key": row["turn_key"], "first_endpoint_s": fire}
        for row, fire in zip(turns, fires, strict=True)
    ]
    assert to_json(metric("endpoints").compute(predictions=fires, references=turns, **options)) == expected
    table = datasets.Dataset.from_list(turns)
    assert (
        to_json(metric("endpoints").compute(predictions=rows[::-1], references=table, **options)) == expected
    )


def test_a_system_that_never_fires_is_scored(metric, turns):
    found = metric("endpoints").compute(predictions=[None] * 5, references=turns)
    assert (found["n_missed"], found["missed"]) == (5, 1.0)


def test_rows_of_endpoints_as_references_count_each_turn_once(metric, turns):
    rows = [
        {"turn_key": row["turn_key"], "arm": arm, "audio_duration_s": 3.0, "first_endpoint_s": 3.1}
        for row in turns
        for arm in ("a", "b")
    ]
    fires = [{"turn_key": row["turn_key"], "first_endpoint_s": 3.3} for row in turns]
    assert metric("endpoints").compute(predictions=fires, references=rows)["n"] == 5
    with pytest.raises(ValueError, match="several rows per turn"):
        metric("endpoints").compute(predictions=[3.3] * 5, references=rows)


@pytest.mark.parametrize("bad", ["3.0", math.nan, True])
def test_a_bad_fire_is_refused(metric, turns, bad):
    with pytest.raises(ValueError, match="predictions: row 1: expected seconds, or None for never"):
        metric("endpoints").compute(predictions=[3.0, bad, 3.0, 3.0, 3.0], references=turns)


def test_the_space_pins_what_it_needs_and_its_card_agrees():
    lines = (PACKAGE / "requirements.txt").read_text().split()
    pins = dict(line.split("==") for line in lines)
    assert {"evaluate", "datasets", "numpy", "gradio"} <= set(pins)
    _, header, _ = (PACKAGE / "README.md").read_text().split("---\n", 2)
    card = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    assert (card["title"], card["sdk"], card["app_file"]) == ("mptb_metric", "gradio", "app.py")
    assert card["sdk_version"] == pins["gradio"]


def test_the_card_names_every_figure_and_option(predictions, references):
    card = (PACKAGE / "README.md").read_text()
    result = score_floor(predictions, references, n_resamples=9)
    figures = {key.removeprefix("eot_").removeprefix("latency") for key in result if key.startswith("eot_")}
    plain = {key for key in figures if not key.endswith(("_low", "_high"))}
    assert [key for key in plain if f"_{key.lstrip('_')}`" not in card] == []
    for option in list(inspect.signature(score_floor).parameters)[2:]:
        assert f"`{option}`" in card, option
