"""Event logs, scripts and renders: what is accepted, and how each fault is named."""

import math

import pytest

from mptb_dataset import CorpusError, derive_anchors
from mptb_dataset.anchors import log_anchors
from mptb_dataset.annotations import join_utterances, load_json, parse_event_log


def log_with(**changes):
    log = {
        "conversation_id": "c1",
        "conversation_type": "casual",
        "num_speakers": 2,
        "speakers": ["a", "b"],
        "duration_s": 10.0,
        "metadata": {},
        "events": [],
    }
    log.update(changes)
    return log


def event_with(**changes):
    event = {
        "id": "e1",
        "speaker": "a",
        "label": "TURN",
        "onset": 1.0,
        "offset": 2.0,
        "floor_outcome": "yield",
    }
    event.update(changes)
    return {key: value for key, value in event.items() if value != "absent"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conversation_id": 3}, r"log\.json: field 'conversation_id': expected a text, got 3"),
        ({"speakers": []}, r"field 'speakers': expected a non-empty list of names"),
        ({"speakers": "ab"}, r"field 'speakers': expected a non-empty list of names"),
        ({"speakers": ["a", 2]}, r"field 'speakers': expected a non-empty list of names"),
        ({"speakers": ["a", "a"]}, r"field 'speakers': a name stands twice"),
        ({"num_speakers": 3}, r"field 'num_speakers': 3 but 2 speakers are listed"),
        ({"duration_s": None}, r"field 'duration_s': expected a time in seconds"),
        ({"duration_s": "10"}, r"field 'duration_s': expected a time in seconds .*'10'"),
        ({"conversation_type": 1}, r"field 'conversation_type': expected text, got 1"),
        ({"events": None}, r"field 'events': expected a list, got NoneType"),
        ({"events": {}}, r"field 'events': expected a list, got dict"),
        ({"metadata": [1]}, r"field 'metadata': expected an object, got list"),
    ],
)
def test_a_fault_of_the_log_s_head_names_the_file_and_the_field(changes, message):
    with pytest.raises(CorpusError, match=message):
        parse_event_log(log_with(**changes), "log.json")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (7, r"log\.json: events\[0\]: an event: expected an object, got int"),
        (event_with(id=None), r"events\[0\] \(id None\): field 'id'"),
        (event_with(id=["x"]), r"events\[0\].*field 'id'"),
        (event_with(speaker="c"), r"events\[0\] \(id 'e1'\): field 'speaker': 'c' is not one of a, b"),
        (event_with(speaker=["a"]), r"field 'speaker': \['a'\] is not one of a, b"),
        (
            event_with(label="SPEECH"),
            r"field 'label': 'SPEECH' is not one of TURN, CLAIM_FLOOR, VOCALIZE_NO_CLAIM",
        ),
        (event_with(label={}), r"field 'label': \{\} is not one of TURN"),
        (event_with(label="absent"), r"field 'label': None is not one of TURN"),
        (
            event_with(floor_outcome="keep"),
            r"a TURN: field 'floor_outcome': 'keep' is not one of yield, hold",
        ),
        (event_with(floor_outcome="absent"), r"a TURN: field 'floor_outcome': None is not one of yield"),
        (event_with(floor_outcome=[]), r"a TURN: field 'floor_outcome': \[\] is not one of yield"),
        (
            event_with(label="CLAIM_FLOOR"),
            r"a CLAIM_FLOOR: field 'resolved_as': None is not one of INTERRUPTION",
        ),
        (
            event_with(label="VOCALIZE_NO_CLAIM", sublabel="COUGH"),
            r"a VOCALIZE_NO_CLAIM: field 'sublabel': 'COUGH' is not one of BACKCHANNEL, LAUGHTER",
        ),
        (event_with(onset="absent"), r"field 'onset': expected a time in seconds .*None"),
        (event_with(onset="1.0"), r"field 'onset': expected a time in seconds .*'1\.0'"),
        (event_with(onset=-0.1), r"field 'onset': expected a time in seconds .*-0\.1"),
        (event_with(offset=math.nan), r"field 'offset': expected a time in seconds .*nan"),
        (event_with(offset=math.inf), r"field 'offset': expected a time in seconds .*inf"),
        (event_with(offset=True), r"field 'offset': expected a time in seconds .*True"),
        (event_with(offset=10**400), r"field 'offset': expected a time in seconds"),
        (event_with(offset=1e300), r"field 'offset': expected a time in seconds"),
        (event_with(offset=0.5), r"field 'offset': ends at 0\.5 s before its onset at 1\.0 s"),
        (event_with(next_holder="z"), r"field 'next_holder': 'z' is not one of a, b"),
        (event_with(current_holder=4), r"field 'current_holder': 4 is not one of a, b"),
        (event_with(floor_transfer_time="x"), r"field 'floor_transfer_time': expected a time"),
        (event_with(floor_transfer_time=True), r"field 'floor_transfer_time': expected a time"),
    ],
)
def test_a_fault_of_an_event_names_its_place_its_id_and_the_field(event, message):
    with pytest.raises(CorpusError, match=message):
        log_anchors([event], ["a", "b"], source="log.json")


@pytest.mark.parametrize("onset", ["soon", "3.0", None, [], {}, True, -1.0])
def test_a_fault_of_the_turn_that_resumes_a_hold_is_named_as_any_other(onset):
    events = [event_with(floor_outcome="hold"), event_with(id="e2", onset=onset, offset=4.0)]
    with pytest.raises(CorpusError, match=r"events\[1\] \(id 'e2'\): field 'onset'"):
        log_anchors(events, ["a", "b"])


def test_two_events_with_one_id_are_an_error():
    with pytest.raises(
        CorpusError, match=r"events\[1\] \(id 'e1'\): field 'id': expected a text that no other"
    ):
        log_anchors([event_with(), event_with()], ["a", "b"])


@pytest.mark.parametrize("holder", [None, "", "none", "absent"])
def test_nobody_may_hold_the_floor_next(holder):
    assert derive_anchors([event_with(next_holder=holder)], ["a", "b"])["a"]["eot"]["positives"] == [2.0]


def test_fields_that_the_card_does_not_name_are_ignored():
    log = parse_event_log(log_with(extra=1, events=[event_with(note={"x": [1]})]), "log.json")
    assert derive_anchors(log.events, log.speakers)["a"]["eot"]["positives"] == [2.0]


def test_metadata_and_conversation_type_may_be_left_out():
    log = log_with()
    del log["metadata"], log["conversation_type"], log["num_speakers"]
    parsed = parse_event_log(log, "log.json")
    assert (parsed.metadata, parsed.conversation_type) == ({}, None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"x\.json: not valid JSON at line 1"),
        (b'{"a": 1', r"x\.json: not valid JSON at line 1"),
        (b'{"a": NaN}', r"x\.json: not valid JSON at line 1, column 7"),
        (b'{"a":\n Infinity}', r"x\.json: not valid JSON at line 2"),
        (b'{"a": "\xff"}', r"x\.json: not valid JSON.*UTF-8"),
        ('{"a": 1}'.encode("utf-16"), r"x\.json: not valid JSON"),
        (b"[" * 100_000, r"x\.json: not valid JSON.*depth"),
        (b'{"a": 1' + b"0" * 400 + b"}", r"x\.json: not valid JSON.*infinity"),
    ],
)
def test_what_is_not_json_is_named_with_line_and_column(data, message):
    with pytest.raises(CorpusError, match=message):
        load_json(data, "x.json")


def test_a_byte_order_mark_does_no_harm():
    assert load_json(b"\xef\xbb\xbf[1]", "x.json") == [1]


CLIP = {"speaker": "a", "start_s": 0.0, "end_s": 1.0, "kind": "holder", "src_index": 0}


def join(clips, utterances=({"text": "one"}, {"text": "two"}), render=None, script=None):
    return join_utterances(
        {"utterances": list(utterances)} if script is None else script,
        {"clips": clips} if render is None else render,
        speakers=["a", "b"],
        script_source="script.json",
        render_source="render.json",
    )


def test_a_clip_speaks_the_utterance_at_its_index():
    rows = join([{**CLIP, "src_index": 1}, CLIP])
    assert [row["text"] for row in rows] == ["two", "one"]


def test_an_index_field_of_the_script_goes_before_the_position():
    rows = join([{**CLIP, "src_index": 5}], [{"text": "one", "index": 5}, {"text": "two", "index": 4}])
    assert rows[0]["text"] == "one"


def test_the_position_counts_where_the_index_fields_are_not_what_clips_refer_to():
    rows = join([CLIP], [{"text": "one", "index": 1}, {"text": "two", "index": 2}])
    assert rows[0]["text"] == "one"


def test_lists_may_have_other_names_or_stand_alone():
    by_name = join(
        [], render={"noise": {}, "placed": [CLIP]}, script={"tone": "x", "dialogue": [{"text": "one"}]}
    )
    alone = join([], render=[CLIP], script=[{"text": "one"}])
    assert [row["text"] for row in by_name + alone] == ["one", "one"]


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (5, r"render\.json: clips\[0\]: a clip: expected an object, got int"),
        (
            {**CLIP, "src_index": 2},
            r"clips\[0\]: field 'src_index': 2 is none of the 2 utterances of script\.json",
        ),
        ({**CLIP, "src_index": None}, r"clips\[0\]: field 'src_index': None is none of"),
        ({**CLIP, "src_index": [0]}, r"clips\[0\]: field 'src_index': \[0\] is none of"),
        ({**CLIP, "speaker": "z"}, r"clips\[0\]: field 'speaker': 'z' is not one of a, b"),
        ({**CLIP, "start_s": "0"}, r"clips\[0\]: field 'start_s': expected a time"),
        ({**CLIP, "end_s": -1}, r"clips\[0\]: field 'end_s': expected a time"),
        ({**CLIP, "start_s": 2.0}, r"clips\[0\]: field 'end_s': ends at 1\.0 s before its start at 2\.0 s"),
    ],
)
def test_a_fault_of_a_clip_names_the_file_its_place_and_the_field(clip, message):
    with pytest.raises(CorpusError, match=message):
        join([clip])


@pytest.mark.parametrize("index", [[], {}, None])
def test_an_index_that_cannot_be_one_is_not_taken_for_one(index):
    assert join([CLIP], [{"text": "one", "index": index}])[0]["text"] == "one"


def test_a_script_without_utterances_is_named():
    with pytest.raises(
        CorpusError, match=r"script\.json: field 'utterances': expected a list of objects with 'text'"
    ):
        join([CLIP], script={"tone": "warm"})


def test_a_log_of_hundred_thousand_holds_is_no_trouble():
    """Looking through all turns for every hold would take hours."""
    count = 100_000
    events = [
        event_with(id=f"e{k}", onset=k * 1.0, offset=k + 0.5, floor_outcome="hold") for k in range(count)
    ] + [event_with(id="last", onset=count * 1.0, offset=count + 1.0)]
    spans = derive_anchors(events, ["a"])["a"]["eot"]["negative_spans"]
    assert spans == [[k + 0.5, k + 1.0] for k in range(count)]
