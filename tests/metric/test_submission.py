"""Submissions: the forms that are read, and every fault with its place."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptb_metric.predictions import SubmissionError
from mptb_metric.submission import load_submission, read_submission, write_submission

CHANNELS = [
    {"conversation_id": "dev_00001", "speaker": "speaker_1", "duration_s": 10.0, "audio": object()},
    {"conversation_id": "dev_00001", "speaker": "speaker_2", "duration_s": 10.0, "audio": object()},
    {"conversation_id": "dev_00002", "speaker": "speaker_1", "duration_s": 20.0, "audio": object()},
]


def speaker(eot=(), interruptions=()):
    return {"eot": list(eot), "int": list(interruptions)}


def content(**changes):
    """A valid submission of CHANNELS, with the first conversation's entry or the top changed."""
    first = {"conversation_id": "dev_00001", "speaker_1": speaker([1.0, 2.5]), "speaker_2": speaker()}
    second = {"conversation_id": "dev_00002", "speaker_1": speaker((), [3.0])}
    return {"schema_version": 1, "predictions": [first, second], **changes}


@pytest.fixture
def load(tmp_path):
    def load(value, channels=CHANNELS):
        path = tmp_path / "submission.json"
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return load_submission(path, channels)

    return load


@pytest.fixture
def faults_of(load):
    def faults_of(value, channels=CHANNELS):
        with pytest.raises(SubmissionError) as caught:
            load(value, channels)
        return list(caught.value.faults)

    return faults_of


def with_times(times, track="eot"):
    value = content()
    value["predictions"][0]["speaker_1"][track] = times
    return value


def at(index, what, track="eot"):
    return f"conversation 'dev_00001', speaker 'speaker_1', track '{track}': index {index}: {what}"


def test_the_written_form_becomes_a_row_per_channel(load):
    assert load(content(), None) == [
        {"conversation_id": "dev_00001", "speaker": "speaker_1", "eot": [1.0, 2.5], "int": []},
        {"conversation_id": "dev_00001", "speaker": "speaker_2", "eot": [], "int": []},
        {"conversation_id": "dev_00002", "speaker": "speaker_1", "eot": [], "int": [3.0]},
    ]


def test_rows_come_in_the_order_of_the_channels(load):
    rows = load(content(), CHANNELS[::-1])
    assert [(r["conversation_id"], r["speaker"]) for r in rows] == [
        (c["conversation_id"], c["speaker"]) for c in CHANNELS[::-1]
    ]


def test_the_mapping_form_and_other_names_of_the_tracks_mean_the_same(load):
    mapping = {
        "dev_00001": {
            "speaker_1": {"EOT": [1.0, 2.5], "INT": []},
            "speaker_2": {"Eot": [], "Interruption": []},
        },
        "dev_00002": {"speaker_1": {"eot": [], "interruption": [3]}},
    }
    assert load(mapping) == load(content())


def test_detector_and_audit_are_kept_and_change_no_row(tmp_path, load):
    records = {"detector": "energy", "audit": {"ok": True, "probes": 8}}
    assert load(content(**records)) == load(content())
    found = read_submission(tmp_path / "submission.json")
    assert load(content(**records)) == found.rows
    found = read_submission(tmp_path / "submission.json")
    assert {"detector": found.detector, "audit": found.audit} == records


def test_a_byte_order_mark_is_no_fault(load):
    assert load(b"\xef\xbb\xbf" + json.dumps(content()).encode()) == load(content())


def test_a_speaker_who_never_fires_is_no_fault(load):
    assert load(with_times([]))[0]["eot"] == []


def test_times_may_lie_up_to_three_seconds_past_the_end(load, faults_of):
    assert load(with_times([13.0]))[0]["eot"] == [13.0]
    assert faults_of(with_times([13.001])) == [at(0, "13.001 is past the end of a conversation of 10 s")]


@pytest.mark.parametrize(
    ("times", "index", "what"),
    [
        ([1.0, "2.0"], 1, "expected a number of seconds, got '2.0'"),
        ([1.0, None], 1, "expected a number of seconds, got None"),
        ([1.0, True], 1, "expected a number of seconds, got True"),
        ([1.0, [2.0]], 1, "expected a number of seconds, got a list of 1"),
        ([float("nan")], 0, "nan is not finite"),
        ([float("inf")], 0, "inf is not finite"),
        ([-float("inf")], 0, "-inf is not finite"),
        ([-0.001], 0, "-0.001 is negative"),
        ([1.0, 3.0, 2.0], 2, "2.0 is not later than the one before, 3.0"),
        ([1.0, 1.0], 1, "1.0 is not later than the one before, 1.0"),
        ([1e300], 0, "1e+300 is past the end of a conversation of 10 s"),
        ([10**400], 0, "inf is not finite"),
    ],
)
@pytest.mark.parametrize("track", ["eot", "int"])
def test_a_bad_time_is_told_with_conversation_speaker_track_and_index(faults_of, times, index, what, track):
    # json writes NaN and Infinity, which are not JSON, and the reader still says where they are
    assert faults_of(with_times(times, track)) == [at(index, what, track)]


def test_a_number_too_large_for_a_float_is_not_finite(faults_of):
    text = json.dumps(with_times([0.5])).replace("0.5", "1e999")
    assert faults_of(text.encode()) == [at(0, "inf is not finite")]


def test_times_that_are_no_list_are_a_fault(faults_of):
    for times, got in (({}, "an object of 0"), ("1.0", "'1.0'"), (1.0, "1.0"), (None, "None")):
        assert faults_of(with_times(times)) == [
            "conversation 'dev_00001', speaker 'speaker_1', track 'eot': "
            f"expected a list of times in seconds, got {got}"
        ]


def test_missing_and_unknown_conversations_are_named_once_each(faults_of):
    value = content()
    value["predictions"][0]["conversation_id"] = "dev_00009"
    assert faults_of(value) == [
        "conversation 'dev_00001': is missing",
        "conversation 'dev_00009': is unknown",
    ]


def test_missing_and_unknown_speakers_are_named(faults_of):
    value = content()
    value["predictions"][0]["speaker_7"] = value["predictions"][0].pop("speaker_2")
    assert faults_of(value) == [
        "conversation 'dev_00001', speaker 'speaker_2': is missing",
        "conversation 'dev_00001', speaker 'speaker_7': is unknown",
    ]


def test_a_conversation_that_is_there_twice_is_named(faults_of):
    value = content()
    value["predictions"].append(value["predictions"][0])
    assert faults_of(value) == ["conversation 'dev_00001': is there twice"]


def test_a_key_that_is_there_twice_is_named_at_every_level(faults_of):
    text = (
        '{"schema_version": 1, "schema_version": 1, "predictions": [{"conversation_id": "dev_00001", '
        '"speaker_1": {"eot": [], "int": []}, "speaker_1": {"eot": [], "int": [], "eot": []}}]}'
    )
    assert faults_of(text.encode(), None) == [
        "key 'schema_version' is there twice",
        "conversation 'dev_00001', speaker 'speaker_1': is there twice",
        "conversation 'dev_00001', speaker 'speaker_1', track 'eot': is there twice",
    ]
    mapping = b'{"dev_00001": {"speaker_1": {"eot": [], "int": []}}, "dev_00001": {}}'
    assert faults_of(mapping, None)[0] == "key 'dev_00001' is there twice"


def test_a_track_under_two_names_is_named(faults_of):
    value = content()
    value["predictions"][0]["speaker_1"]["interruption"] = []
    assert faults_of(value) == [
        "conversation 'dev_00001', speaker 'speaker_1', track 'int': is there twice, as 'interruption' too"
    ]


def test_unknown_and_missing_tracks_are_named(faults_of):
    value = content()
    value["predictions"][0]["speaker_1"] = {"eot": [], "vad": []}
    assert faults_of(value) == [
        "conversation 'dev_00001', speaker 'speaker_1', track 'vad': unknown track",
        "conversation 'dev_00001', speaker 'speaker_1', track 'int': "
        "is missing; give [] where there is no decision",
    ]


@pytest.mark.parametrize("version", [0, 2, "1", 1.0, True, None])
def test_another_schema_version_is_a_fault(faults_of, version):
    (fault,) = faults_of(content(schema_version=version))
    assert fault.startswith("schema_version: expected 1, got")


def test_no_schema_version_is_a_fault(faults_of):
    value = content()
    del value["schema_version"]
    assert faults_of(value) == ["schema_version: expected 1, got None"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"system": "x"}, "unknown key 'system' at the top"),
        ({"detector": 3}, "detector: expected text, got 3"),
        ({"audit": "yes"}, "audit: expected an object, got 'yes'"),
    ],
)
def test_the_top_holds_known_keys_of_the_right_kind(faults_of, change, fault):
    assert faults_of(content(**change)) == [fault]


def test_an_entry_without_a_conversation_is_named_by_its_place(faults_of):
    value = content()
    value["predictions"] += [{"conversation_id": 3}, "dev_00003", {}]
    assert [fault.partition(":")[0] for fault in faults_of(value)] == [f"predictions[{i}]" for i in (2, 3, 4)]


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b'{"schema_version": 1,\n  "predictions": [,]}', "invalid JSON: line 2, column 19"),
        (b"", "invalid JSON: line 1, column 1"),
        (b'{"a": "\xff"}', "not UTF-8: invalid start byte at byte 7"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "invalid JSON: nested too deeply"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
        (b"[]", "expected an object at the top, got a list of 0"),
        (b"null", "expected an object at the top, got None"),
    ],
)
def test_what_is_no_json_object_is_one_fault_that_says_where(faults_of, raw, fault):
    (found,) = faults_of(raw)
    assert found.startswith(fault)


def test_all_faults_are_told_at_once_and_the_message_shows_the_first_twenty(load):
    value = with_times(["x"] * 30, "int")
    value["schema_version"] = 2
    value["predictions"].pop()
    with pytest.raises(SubmissionError, match=r"submission.json: 32 faults") as caught:
        load(value)
    assert len(caught.value.faults) == 32
    message = str(caught.value).splitlines()
    assert len(message) == 22
    assert message[-1] == "- and 12 more"


def test_a_file_of_many_faults_keeps_ten_thousand_and_counts_the_rest(faults_of):
    found = faults_of(with_times([-1.0] * 12_345))
    assert len(found) == 10_001
    assert found[-1] == "and 2345 more faults"


def test_the_error_is_a_value_error_and_survives_pickling(load):
    with pytest.raises(ValueError, match="1 fault\n") as caught:
        load(with_times([-1.0]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_submission(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ([CHANNELS[0], CHANNELS[0]], "dev_00001 speaker_1 is there twice"),
        ([{"speaker": "speaker_1"}], "no column 'conversation_id'"),
        ([{**CHANNELS[0], "duration_s": "10"}], "duration_s: expected seconds"),
        ([{**CHANNELS[0], "duration_s": -1.0}], "duration_s: expected seconds"),
    ],
)
def test_bad_channels_are_refused(load, channels, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(content(), channels)
    assert not isinstance(caught.value, SubmissionError)


def test_without_a_duration_any_reasonable_time_is_accepted(load, faults_of):
    channels = [{**c, "duration_s": None} for c in CHANNELS]
    assert load(with_times([5000.0]), channels)[0]["eot"] == [5000.0]
    assert faults_of(with_times([1e10]), channels) == [at(0, "10000000000.0 is past the end")]


ids = st.text(min_size=1, max_size=5)
times = st.lists(st.floats(0, 1e5), max_size=5, unique=True).map(sorted)


@given(rows=st.dictionaries(st.tuples(ids, ids), st.tuples(times, times), min_size=1, max_size=6))
def test_what_is_written_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("round") / "s.json"
    listed = [
        {"conversation_id": c, "speaker": s, "eot": eot, "int": interruptions}
        for (c, s), (eot, interruptions) in rows.items()
        if s != "conversation_id"
    ]
    if not listed:
        return
    write_submission(path, listed)
    read = load_submission(path)
    assert sorted(read, key=lambda r: (r["conversation_id"], r["speaker"])) == sorted(
        listed, key=lambda r: (r["conversation_id"], r["speaker"])
    )


def test_the_same_rows_in_any_order_and_kind_are_the_same_bytes(tmp_path, load):
    rows = load(content())
    write_submission(tmp_path / "a.json", rows, detector="energy", audit={"ok": True})
    arrays = [{**row, "eot": np.array(row["eot"]), "int": tuple(row["int"])} for row in rows[::-1]]
    write_submission(tmp_path / "b.json", arrays, detector="energy", audit={"ok": True})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read_submission(tmp_path / "a.json").detector == "energy"


def test_rows_that_would_be_refused_are_not_written(tmp_path, load):
    path = tmp_path / "kept.json"
    path.write_text("before")
    rows = load(content())
    rows[0]["eot"] = [2.0, 1.0]
    with pytest.raises(SubmissionError, match=r"index 1: 1\.0 is not later"):
        write_submission(path, rows)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_submission(path, load(content()), audit={"level": float("nan")})
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir() if "kept" in p.name] == ["kept.json"]
