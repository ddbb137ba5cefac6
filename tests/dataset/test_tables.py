"""The MPTB tables, value by value, against the annotation files read without the package."""

import json

import pytest

CONVERSATIONS = [("dev", f"dev_{k:05d}") for k in range(1, 7)] + [
    ("test", f"test_{k:05d}") for k in range(1, 9)
]
EVENT_FIELDS = (
    "id",
    "speaker",
    "label",
    "sublabel",
    "onset",
    "offset",
    "current_holder",
    "floor_outcome",
    "next_holder",
    "resolved_as",
    "floor_transfer_time",
)


@pytest.fixture(scope="module")
def tables(annotations, tmp_path_factory):
    import mptb_dataset

    cache = str(tmp_path_factory.mktemp("cache"))
    return {
        name: mptb_dataset.load_dataset(
            name, data_dir=annotations, audio="none", cache_dir=cache, include_excluded=True
        )
        for name in ("conversations", "channels", "decision_points")
    }


def row_of(table, conversation_id, speaker=None):
    rows = [
        row
        for row in table
        if row["conversation_id"] == conversation_id and speaker in (None, row.get("speaker"))
    ]
    (row,) = rows
    return row


def test_every_conversation_of_the_manifest_has_one_row_in_its_order(tables, annotations):
    for split in ("dev", "test"):
        lines = [
            json.loads(line) for line in (annotations / split / "manifest.jsonl").read_text().splitlines()
        ]
        assert tables["conversations"][split]["conversation_id"][:] == [
            line["conversation_id"] for line in lines
        ]


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_a_conversation_has_the_metadata_of_its_log(tables, annotations, raw, split, conversation_id):
    row = row_of(tables["conversations"][split], conversation_id)
    log = raw(annotations, split, conversation_id, "events")
    for field in ("conversation_type", "num_speakers", "speakers", "duration_s"):
        assert row[field] == log[field]
    assert row["domain"] == log["metadata"]["domain"]
    assert row["tone"] == log["metadata"]["tone"]
    assert json.loads(row["metadata_json"]) == log["metadata"]
    assert row["voices"] == [
        {"speaker": s, "voice": log["metadata"]["voices"][s], "style": log["metadata"]["voice_styles"][s]}
        for s in log["speakers"]
    ]


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_events_are_the_log_s_records_in_its_order_with_nulls_for_absent_fields(
    tables, annotations, raw, split, conversation_id
):
    row = row_of(tables["conversations"][split], conversation_id)
    log = raw(annotations, split, conversation_id, "events")
    assert row["events"] == [{name: event.get(name) for name in EVENT_FIELDS} for event in log["events"]]


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_anchors_of_a_conversation_are_those_of_its_anchors_file(
    tables, annotations, raw, split, conversation_id
):
    row = row_of(tables["conversations"][split], conversation_id)
    anchors = raw(annotations, split, conversation_id, "anchors")["anchors"]
    expected = [
        {
            "speaker": speaker,
            "track": track,
            "positives": anchors[speaker][track.upper()]["positives"],
            "negative_spans": pairs(anchors[speaker][track.upper()]["negative_spans"]),
            "excluded_spans": pairs(anchors[speaker][track.upper()]["excluded_spans"]),
        }
        for speaker in row["speakers"]
        for track in ("eot", "int")
    ]
    assert row["anchors"] == expected


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_an_utterance_is_a_clip_with_the_text_of_its_script(tables, annotations, raw, split, conversation_id):
    row = row_of(tables["conversations"][split], conversation_id)
    script = raw(annotations, split, conversation_id, "script")["utterances"]
    render = raw(annotations, split, conversation_id, "render")
    expected = []
    for clip in render["clips"]:
        utterance = script[clip["src_index"]]
        expected.append(
            {
                **{
                    k: clip[k]
                    for k in ("src_index", "speaker", "start_s", "end_s", "kind", "overlaps", "truncated")
                },
                **{k: utterance.get(k) for k in ("text", "event_type", "timing_hint", "target")},
                **{k: utterance.get(k) for k in ("resolved_hint", "sublabel")},
            }
        )
    assert row["utterances"] == expected
    assert json.loads(row["noise_json"]) == render["noise"]


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_channels_have_a_row_per_speaker_with_the_anchors_of_both_tracks(
    tables, annotations, raw, split, conversation_id
):
    log = raw(annotations, split, conversation_id, "events")
    anchors = raw(annotations, split, conversation_id, "anchors")["anchors"]
    rows = [row for row in tables["channels"][split] if row["conversation_id"] == conversation_id]
    assert [row["speaker"] for row in rows] == log["speakers"]
    for row in rows:
        for track in ("eot", "int"):
            shipped = anchors[row["speaker"]][track.upper()]
            assert row[track] == {
                "positives": shipped["positives"],
                "negative_spans": pairs(shipped["negative_spans"]),
                "excluded_spans": pairs(shipped["excluded_spans"]),
            }


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_decision_points_are_the_events_of_the_log_one_by_one(
    tables, annotations, raw, split, conversation_id
):
    """Event by event, from the card's table (4.1): kind, label, times, holders."""
    log = raw(annotations, split, conversation_id, "events")
    rows = {
        row["event_id"]: row
        for row in tables["decision_points"][split]
        if row["conversation_id"] == conversation_id
    }
    assert len(rows) == len(log["events"])
    for event in log["events"]:
        row = rows[event["id"]]
        on, off = event["onset"], event["offset"]
        later = [
            e["onset"]
            for e in log["events"]
            if e["label"] == "TURN" and e["speaker"] == event["speaker"] and e["onset"] >= off
        ]
        kind, track, label, start, end = {
            "yield": ("yield", "eot", 1, off, off),
            "hold": ("hold", "eot", 0, off, min(later, default=None)),
            "interrupted": ("interrupted", "eot", -1, round(off - 0.25, 6), round(off + 0.25, 6)),
            "INTERRUPTION": ("interruption", "int", 1, on, on),
            "NON_FLOOR_TAKING_INTERRUPTION": ("failed_claim", "int", -1, on, off),
            "BACKCHANNEL": ("backchannel", "int", 0, on, off),
            "LAUGHTER": ("laughter", "int", 0, on, off),
        }[event.get("floor_outcome") or event.get("resolved_as") or event.get("sublabel")]
        assert (row["kind"], row["track"], row["label"]) == (kind, track, label)
        assert (row["start_s"], row["end_s"], row["at_s"]) == (start, end, start)
        assert row["speaker"] == event["speaker"]
        assert row["current_holder"] == event.get("current_holder")
        assert row["next_holder"] == event.get("next_holder")
        assert row["key"] == f"{conversation_id}/{event['speaker']}/{track}/{event['id']}"
        for field in ("conversation_type", "num_speakers", "speakers", "duration_s"):
            assert row[field] == log[field]
        assert row["domain"] == log["metadata"]["domain"]


def test_excluded_events_make_no_decision_points_unless_asked_for(load, annotations):
    points = load("decision_points", data_dir=annotations, audio="none", split="dev+test")
    everything = load(
        "decision_points", data_dir=annotations, audio="none", split="dev+test", include_excluded=True
    )
    assert set(points["label"]) == {0, 1}
    assert set(everything["label"]) == {-1, 0, 1}
    assert points.to_list() == [row for row in everything.to_list() if row["label"] >= 0]


def test_columns_are_those_of_the_design(tables):
    metadata = [
        "conversation_id",
        "conversation_type",
        "num_speakers",
        "speakers",
        "duration_s",
        "domain",
        "tone",
    ]
    assert set(tables["conversations"]["dev"].column_names) == {
        *metadata,
        *("voices", "events", "anchors", "utterances", "metadata_json", "noise_json"),
    }
    assert set(tables["channels"]["dev"].column_names) == {*metadata, "speaker", "eot", "int"}
    assert set(tables["decision_points"]["dev"].column_names) == {
        *metadata,
        *("key", "speaker", "track", "kind", "label", "start_s", "end_s", "at_s"),
        *("event_id", "current_holder", "next_holder"),
    }


def test_a_list_of_events_reads_as_a_list_of_records_not_as_a_record_of_lists(tables):
    events = tables["conversations"]["dev"][0]["events"]
    assert isinstance(events, list)
    assert events[0]["label"] == "TURN"


def test_times_are_64_bit_floats(tables):
    features = tables["channels"]["dev"].features
    assert features["duration_s"].dtype == "float64"
    assert features["eot"]["positives"].feature.dtype == "float64"
    assert features["int"]["negative_spans"].feature["start"].dtype == "float64"


def pairs(spans):
    return [{"start": start, "end": end} for start, end in spans]
