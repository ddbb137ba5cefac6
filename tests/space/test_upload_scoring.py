"""A stranger's file: bounded, read as JSON only, and scored as everywhere else."""

import html
import json
import math
import pickle
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptb_dataset.eval_results import eval_results_yaml
from mptb_metric import SubmissionError, load_submission, score_floor
from mptb_metric.space import tables
from mptb_metric.space.marks import marks_of, tally
from mptb_metric.space.scoring import compare_two, record, score, split_meant
from mptb_metric.space.text import short

pytestmark = pytest.mark.filterwarnings("ignore::mptb_metric.intervals.BootstrapWarning")

LEAVES = {int, float, str, bool, type(None), list, dict}


class Exploit:
    def __reduce__(self):
        return (exec, ("raise SystemExit('it was unpickled')",))


HOSTILE = {
    "empty": (b"", "invalid JSON: line 1, column 1"),
    "zeros": (b"\0" * 1000, "invalid JSON: line 1, column 1"),
    "latin-1": ('{"caf\u00e9": 1}'.encode("latin-1"), "not UTF-8: .* at byte 5"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "a pickle": (pickle.dumps(Exploit()), "not UTF-8"),
    "deeply nested lists": (b"[" * 90_000, "nested too deeply"),
    "deeply nested objects": (b'{"a":' * 90_000, "nested too deeply"),
    "nested deeper still": (b"[" * 4_000_000, "opens 4,000,000 objects and lists; at most 100,000"),
    "objects": (b"[" + b"{}," * 1_000_000 + b"{}]", "opens 1,000,002 objects and lists; at most 100,000"),
    "a million times": (b"[" + b"1," * 1_000_000 + b"1]", "lists 1,000,000 values; at most 500,000"),
    "ten million times": (b"[" + b"1.25," * 10_000_000 + b"1]", "50,000,003 bytes; at most 5,242,880"),
    "a list": (b"[1, 2]", "expected an object at the top"),
    "a number of a million digits": (b"9" * 1_000_000, "expected an object at the top"),
}


def is_same(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@pytest.fixture
def scored(gold, submission, saved):
    def run(content=None, *, split="test", protocol="mptb", letter=""):
        path = saved(content or submission(split), f"{letter or 'mine'}.json")
        return score(
            path, gold.splits[split], protocol=protocol, name=f"{letter or 'mine'}.json", letter=letter
        )

    return run


@pytest.mark.parametrize("protocol", ["mptb", "turnbench"])
@pytest.mark.parametrize(("split", "budget"), [("dev", 0.10), ("test", 0.15)])
def test_the_figures_are_those_of_the_metric(gold, scored, saved, submission, split, budget, protocol):
    references = gold.splits[split].references
    expected = score_floor(
        load_submission(saved(submission(split)), references),
        references,
        protocol=protocol,
        budget=budget,
        by=["num_speakers", "conversation_type"],
        n_resamples=9999,
    )
    result = scored(split=split, protocol=protocol).result
    assert set(result) == set(expected)
    assert [key for key in expected if not is_same(result[key], expected[key]) and key != "by"] == []
    assert json.dumps(result["by"]) == json.dumps(expected["by"])


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_in_words(gold, saved, case):
    content, expected = HOSTILE[case]
    with pytest.raises(SubmissionError) as refused:
        score(saved(content), gold.splits["test"], protocol="mptb", name="mine.json")
    assert len(refused.value.faults) == 1
    assert re.search(expected, refused.value.faults[0])
    assert len(refused.value.faults[0]) < 300


@pytest.mark.parametrize("case", ["nested deeper still", "objects", "a million times", "ten million times"])
def test_refusing_takes_no_more_memory_than_the_largest_file(gold, saved, case):
    path = saved(HOSTILE[case][0])
    tracemalloc.start()
    with pytest.raises(SubmissionError):
        score(path, gold.splits["test"], protocol="mptb", name="mine.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000


def test_not_a_number_is_a_fault_with_its_place(gold, saved, submission):
    content = submission()
    content["predictions"][1]["speaker_2"]["eot"] = [1.0, float("nan")]
    with pytest.raises(SubmissionError) as refused:
        score(saved(content), gold.splits["test"], protocol="mptb", name="mine.json")
    where = "conversation 'test_00002', speaker 'speaker_2', track 'eot': index 1"
    assert refused.value.faults == (f"{where}: nan is not finite",)


@pytest.mark.parametrize(("content_of", "meant"), [("dev", "dev"), ("test", "test"), (None, None)])
def test_the_split_that_a_file_is_for_is_found_by_its_conversations(
    gold, saved, submission, content_of, meant
):
    content = submission(content_of) if content_of else {"x": {"speaker_1": {"eot": [], "int": []}}}
    assert split_meant(saved(content), gold) == meant


def test_the_saved_result_is_strict_json_of_plain_values(gold, scored):
    def leaves(value):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        yield type(value)
        for one in inner:
            yield from leaves(one)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    one = scored()
    content = json.loads(record([one], gold.splits["test"], gold, None), parse_constant=refuse)
    assert set(leaves(content)) <= LEAVES
    assert content["by"]["num_speakers"]["2"]["eot_recall_low"] is None, "one conversation has no interval"
    expected = json.loads(json.dumps(one.result).replace("NaN", "null"))
    assert {name: content[name] for name in expected} == expected
    assert (content["split"], content["submission"], content["detector"]) == ("test", "mine.json", "made up")


def test_the_saved_result_can_be_published_on_a_model_card(gold, scored):
    content = json.loads(record([scored()], gold.splits["test"], gold, None))
    assert f"value: {content['eot_recall']}" in eval_results_yaml(content)


def test_two_submissions_are_compared_on_the_same_conversations(gold, scored, submission):
    early, late = scored(submission(), letter="A"), scored(submission(delay_s=0.7), letter="B")
    differences = compare_two(early, late)
    assert differences["eot"]["latency_p50_s_difference"] == pytest.approx(-0.3)
    assert differences["eot"]["recall_difference"] == 0
    assert differences["eot"]["recall_p_value"] == 1
    content = json.loads(record([early, late], gold.splits["test"], gold, differences))
    assert content["b"]["eot_latency_p50_s"] == pytest.approx(0.7)
    assert content["a_minus_b"]["eot"]["latency_p50_s_difference"] == pytest.approx(-0.3)


def test_an_undefined_cell_says_so_and_the_others_stay(gold, scored, submission, tables_in):
    silent = submission()
    for entry in silent["predictions"]:
        for speaker in entry.keys() - {"conversation_id"}:
            entry[speaker] = {"eot": [], "int": []}
    figures = tables_in(tables.scores([scored(silent)], None))["End of turn (EOT)"]
    rows = {row[0]: row[1:] for row in figures}
    assert rows["Recall"] == ["0.0 %", "0.0 to 0.0"]
    assert rows["Latency, median"] == ["n/a", "n/a"]
    groups = tables_in(tables.groups([scored(silent)]))["Interruption (INT)"]
    assert [row[6] for row in groups[1:]] == ["n/a"] * 3


def test_a_table_of_groups_has_the_figures_of_every_group(scored, tables_in):
    one = scored()
    found = tables_in(tables.groups([one]))["End of turn (EOT)"]
    expected = [
        [kind, f"{100 * entries['eot_recall']:.1f} %", str(entries["eot_tp"]), str(entries["eot_tn"])]
        for kind, entries in one.result["by"]["conversation_type"].items()
    ]
    assert [[row[0], row[2], row[7], row[10]] for row in found[1:]] == expected


def test_faults_beyond_a_screenful_are_counted_and_can_be_saved():
    text = tables.faults([f"fault {n}" for n in range(60)], name="x.json")
    assert text.count("<li>") == 50
    assert "60 faults" in text
    assert "and 10 more" in text
    assert 'download="faults.txt"' in text


@given(st.text())
def test_a_strangers_words_are_shown_as_they_are_and_are_no_markup(text):
    shown = tables.faults([text], name=text[:60])
    assert f"<li>{html.escape(text)}</li>" in shown
    assert f"<strong>{html.escape(text[:60])} cannot be scored" in shown


def test_a_long_name_is_cut_in_its_middle():
    assert short("a" * 500 + ".json").endswith("a.json")
    assert len(short("a" * 500)) == 61


def test_the_marks_of_all_conversations_add_up_to_the_counts(gold, scored):
    one = scored(protocol="turnbench")
    for track in ("eot", "int"):
        numbers = dict.fromkeys(("hit", "miss", "false positive"), 0)
        for row in gold.splits["test"].conversations.values():
            for (_, of), marks in marks_of(row, one).items():
                for name in numbers:
                    numbers[name] += len(marks[name]) * (of == track)
        names = {"hit": "tp", "miss": "fn", "false positive": "fp"}
        assert numbers == {name: one.result[f"{track}_{count}"] for name, count in names.items()}


def test_every_decision_has_one_mark(gold, scored, submission):
    content = submission(every_trap=1)
    content["predictions"][0]["speaker_1"]["eot"] = [0.5, 1.0, 5.0, 5.1]
    one = scored(content)
    for row in gold.splits["test"].conversations.values():
        for (speaker, track), marks in marks_of(row, one).items():
            decided = marks["hit"] + marks["false positive"] + marks["elsewhere"]
            assert sorted(decided) == one.decisions[row["conversation_id"], speaker][track].tolist()


def test_a_conversations_tally_is_its_misses_and_false_positives(gold, scored):
    one = scored()
    tallies = [tally(name, one) for name in gold.splits["test"].conversations]
    wrong = one.result
    assert sum(misses for misses, _ in tallies) == wrong["eot_fn"] + wrong["int_fn"]
    assert sum(alarms for _, alarms in tallies) == wrong["eot_fp"] + wrong["int_fp"]
