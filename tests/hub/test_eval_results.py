"""Results in the Hub's `.eval_results` format, and as `model-index`."""

import json
import os

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCardData, parse_eval_result_entries
from hypothesis import given, settings
from hypothesis import strategies as st

from mptb_dataset.card import eval_yaml
from mptb_dataset.eval_results import Source, eval_results_yaml, model_card_data
from mptb_dataset.publish import publish, read_result

RESULT = {
    "split": "test",
    "protocol": "mptb",
    "corpus": "5f" * 32,
    "corpus_revision": "ab" * 20,
    "date": "2026-01-15",
    "eot_recall": 0.912,
    "eot_fpr": 0.0825,
    "eot_latency_p50_s": 0.41,
    "eot_within_budget": True,
    "int_recall": 0.5,
    "int_fpr": 0.25,
    "int_within_budget": False,
    "by": {"num_speakers": {}},
}


def leaves(value):
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]


def entries(result=None, **options):
    return yaml.safe_load(eval_results_yaml({**RESULT, **(result or {})}, **options))


def test_each_track_is_an_entry_of_the_published_format():
    first, second = entries()
    assert first == {
        "dataset": {"id": "puneetUMD/MultiPartyTurnBench", "task_id": "eot", "revision": "ab" * 20},
        "value": 0.912,
        "date": "2026-01-15",
        "notes": "FPR 0.0825; within budget; median latency 0.410 s; protocol mptb; corpus 5f5f5f5f5f5f5f5f",
    }
    assert second["dataset"]["task_id"] == "int"
    assert second["notes"] == "FPR 0.2500; out of budget; protocol mptb; corpus 5f5f5f5f5f5f5f5f"


def test_the_file_reads_back_through_huggingface_hub():
    source = Source("https://example.org/logs", name="Logs", user="me")
    text = eval_results_yaml(RESULT, source=source, notes="no tools: 100% ours\nsecond line")
    first, second = parse_eval_result_entries(yaml.safe_load(text))
    assert (first.dataset_id, first.task_id, first.value) == ("puneetUMD/MultiPartyTurnBench", "eot", 0.912)
    assert (first.source_url, first.source_name, first.source_user) == (source.url, "Logs", "me")
    assert (second.task_id, second.value, second.date) == ("int", 0.5, "2026-01-15")
    assert first.notes.endswith("no tools: 100% ours\nsecond line")


def test_tasks_are_those_of_eval_yaml():
    tasks = {task["id"] for task in yaml.safe_load(eval_yaml("channels"))["tasks"]}
    assert {entry["dataset"]["task_id"] for entry in entries()} == tasks


@pytest.mark.parametrize("date", ["2026-01-15", "2026-01-15T10:30:00Z", "2026-01-15T10:30:00+02:00"])
def test_a_date_loads_as_text(date):
    assert entries(date=date)[0]["date"] == date


@pytest.mark.parametrize("revision", ["1234567", "12345e7", "0" * 40])
def test_a_revision_that_looks_like_a_number_loads_as_text(revision):
    assert entries(revision=revision)[0]["dataset"]["revision"] == revision


def test_numpy_scalars_become_plain_values():
    values = {
        "eot_recall": np.float64(0.912),
        "eot_fpr": np.float32(0.5),
        "eot_within_budget": np.bool_(True),
        "int_recall": np.int64(1),
    }
    found = entries(values)
    assert {type(leaf) for leaf in leaves(found)} == {str, float}
    assert found[0]["value"] == 0.912 and found[1]["value"] == 1.0


@settings(max_examples=30, deadline=None)
@given(notes=st.text(min_size=1), recall=st.floats(0, 1))
def test_any_note_and_any_rate_read_back_as_they_were(notes, recall):
    first = parse_eval_result_entries(entries({"eot_recall": recall}, notes=notes))[0]
    assert first.notes.endswith(f"; {notes}")
    assert first.value == recall


def test_without_a_source_there_is_no_source_key():
    assert all("source" not in entry for entry in entries())


def test_without_a_date_or_a_revision_there_are_no_such_keys():
    found = entries({"date": None, "corpus_revision": None})
    assert all("date" not in entry and "revision" not in entry["dataset"] for entry in found)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "0.9", True, -0.1, 1.5, 91.2])
def test_a_recall_that_is_no_rate_is_not_published(value):
    with pytest.raises(ValueError, match="int_recall"):
        entries({"int_recall": value})


def test_a_track_with_an_undefined_recall_can_be_left_out():
    assert [entry["dataset"]["task_id"] for entry in entries({"int_recall": None}, tracks=["eot"])] == ["eot"]


def test_an_undefined_fpr_is_told():
    assert entries({"eot_fpr": None})[0]["notes"].startswith("FPR undefined; ")


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        ({"split": "dev"}, {}, "split"),
        ({}, {"tracks": []}, "tracks"),
        ({}, {"tracks": ["EOT"]}, "EOT"),
        ({}, {"date": "yesterday"}, "date"),
        ({}, {"date": "2026-13"}, "date"),
        ({"date": 20260115}, {}, "date"),
        ({}, {"revision": "main"}, "revision"),
    ],
)
def test_what_the_hub_would_not_understand_is_refused(changes, options, named):
    with pytest.raises(ValueError, match=named):
        entries(changes, **options)


@pytest.mark.parametrize("url", ["", "logs.txt", "javascript:alert(1)"])
def test_a_source_is_a_web_address(url):
    with pytest.raises(ValueError, match="source url"):
        Source(url, name="Logs")


def test_a_result_of_something_else_is_refused():
    with pytest.raises(ValueError, match="eot_recall or int_recall"):
        eval_results_yaml({"accuracy": 0.9})


def test_the_model_index_holds_recall_fpr_and_latency_of_each_track():
    data = model_card_data({**RESULT, "int_fpr": float("nan")}, "detector", source=Source("https://x.org"))
    index = yaml.safe_load(data.to_yaml())["model-index"]
    again = ModelCardData(**{"model-index": index}).eval_results
    assert {(one.metric_args["track"], one.metric_type): one.metric_value for one in again} == {
        ("eot", "recall"): 0.912,
        ("eot", "fpr"): 0.0825,
        ("eot", "latency_p50_s"): 0.41,
        ("int", "recall"): 0.5,
    }
    assert {one.dataset_type for one in again} == {"puneetUMD/MultiPartyTurnBench"}
    assert {one.source_url for one in again} == {"https://x.org"}


@pytest.fixture
def result_file(tmp_path):
    def make(content):
        path = tmp_path / "result.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path

    return make


def test_a_file_without_a_date_was_made_when_it_was_written(tmp_path, result_file):
    done = publish(result_file({**RESULT, "date": None}), "org/model", folder=tmp_path / "model")
    assert done.path == tmp_path / "model/.eval_results/mptb.yaml"
    assert done.path.read_text() == done.text
    assert yaml.safe_load(done.text)[0]["date"] == "2023-11-14"


def test_a_dry_run_writes_nothing(tmp_path, result_file):
    done = publish(result_file(RESULT), "org/model", folder=tmp_path / "model", dry_run=True, push=True)
    assert "eot" in done.text and done.path is None and done.pull_request is None
    assert not (tmp_path / "model").exists()


def test_an_undefined_value_writes_no_file(tmp_path, result_file):
    with pytest.raises(ValueError, match="eot_recall"):
        publish(result_file({**RESULT, "eot_recall": None}), "org/model", folder=tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", ["", "[1, 2]", "{", '{"eot_recall": NaN}', "\x00"])
def test_a_file_that_is_no_result_is_refused(tmp_path, result_file, content):
    with pytest.raises(ValueError):
        publish(result_file(content), "org/model", folder=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_no_json_is_named(result_file):
    with pytest.raises(ValueError, match=r"result\.json: expected a result as JSON"):
        read_result(result_file("not json"))


PUSH = """
from mptb_dataset.publish import publish
done = publish({path!r}, "org/model", folder={folder!r}, push=True, model_index={index}, token="hf_reader")
answer = done.pull_request
"""


def test_a_pushed_result_is_a_pull_request_that_anybody_may_open(empty_hub, client, tmp_path, result_file):
    before = empty_hub.add("org/model", {"README.md": "# A detector\n"}, repo_type="model")
    code = PUSH.format(path=str(result_file(RESULT)), folder=str(tmp_path), index=False)
    assert client(code) == f"{empty_hub.url}/org/model/discussions/1"
    repo = empty_hub.repo("org/model", "model")
    assert repo.refs["main"] == before
    (request,) = repo.pull_requests
    assert list(request.added) == [".eval_results/mptb.yaml"]
    assert request.added[".eval_results/mptb.yaml"].read().decode() == eval_results_yaml(RESULT)


CARD = """\
---
license: mit
model-index:
- name: their-name
  results:
  - task:
      type: audio-classification
    dataset:
      name: Other
      type: org/other
    metrics:
    - type: wer
      value: 12.5
---
# A detector
"""


def test_the_model_index_of_a_card_keeps_what_it_has_and_takes_new_values(
    empty_hub, client, tmp_path, result_file
):
    empty_hub.add("org/model", {"README.md": CARD}, repo_type="model")
    repo = empty_hub.repo("org/model", "model")
    for recall in (0.8, 0.9):
        path = result_file({**RESULT, "eot_recall": recall})
        client(PUSH.format(path=str(path), folder=str(tmp_path), index=True))
        card = repo.pull_requests[-1].added["README.md"].read().decode()
        empty_hub.add("org/model", {"README.md": card}, repo_type="model")
    header, body = card.split("---\n")[1:]
    data = ModelCardData(**yaml.safe_load(header))
    found = {
        (one.dataset_type, one.metric_name or one.metric_type): one.metric_value for one in data.eval_results
    }
    assert found["org/other", "wer"] == 12.5
    assert found["puneetUMD/MultiPartyTurnBench", "EOT recall"] == 0.9
    assert len(data.eval_results) == 6
    assert (data.model_name, data.license, body.strip()) == ("their-name", "mit", "# A detector")
