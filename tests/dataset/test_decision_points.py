"""Decision points: when a detector is asked, and with which answer."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mptb_dataset import Corpus, CorpusError
from mptb_dataset.decision_points import decision_points


@pytest.fixture
def points(load, tree):
    def load_points(**options):
        return load("decision_points", data_dir=tree, split="dev", audio="none", **options).to_list()

    return load_points


def by_key(rows):
    return {row["key"]: row for row in rows}


@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.55, 0.65, 3.0, 100.0])
def test_a_detector_is_asked_delay_s_later_but_not_past_a_resume_nor_the_end(points, delay_s):
    rows = points(delay_s=delay_s, include_excluded=True)
    assert len(rows) == 18
    for row in rows:
        last_s = 2.6 if row["kind"] == "hold" else 12.0
        assert row["at_s"] == min(row["start_s"] + delay_s, last_s)


def test_rows_come_by_conversation_speaker_track_and_time(points):
    rows = [
        (r["conversation_id"], r["speaker"], r["track"], r["start_s"]) for r in points(include_excluded=True)
    ]
    assert rows == sorted(rows)


def test_keys_are_unique_and_stay_the_same_whatever_is_asked_for(points):
    everything = by_key(points(include_excluded=True))
    some = by_key(points(delay_s=0.5))
    assert len(everything) == 18
    assert set(some) == {key for key, row in everything.items() if row["label"] >= 0}


def test_labels_count_as_the_anchors_do(points, load, tree):
    rows = points(include_excluded=True)
    for channel in load("channels", data_dir=tree, split="dev", audio="none"):
        for track in ("eot", "int"):
            for name, label in (("positives", 1), ("negative_spans", 0), ("excluded_spans", -1)):
                found = [
                    row
                    for row in rows
                    if row["conversation_id"] == channel["conversation_id"]
                    and row["speaker"] == channel["speaker"]
                    and row["track"] == track
                    and row["label"] == label
                ]
                assert len(found) == len(channel[track][name])


def test_without_anchor_files_the_rows_are_the_same(points, tree):
    before = points(include_excluded=True)
    for path in (tree / "dev" / "annotations" / "anchors").iterdir():
        path.unlink()
    (tree / "dev" / "manifest.jsonl").unlink()
    assert points(include_excluded=True) == before


def test_anchors_in_another_shape_find_their_events(points, tree, edit):
    before = points()

    def by_track(file):
        return {
            track: {speaker: tracks[track] for speaker, tracks in file["anchors"].items()}
            for track in ("EOT", "INT")
        }

    edit(tree, "anchors", by_track)
    assert points() == before


def test_an_anchor_within_half_a_microsecond_finds_its_event_and_keeps_its_own_time(points, tree, edit):
    edit(tree, "anchors", lambda f: f["anchors"]["speaker_1"]["EOT"].update(positives=[4.0000002, 8.0]))
    row = by_key(points())["dev_00001/speaker_1/eot/e1"]
    assert row["start_s"] == 4.0000002
    assert row["next_holder"] == "speaker_2"


def test_an_anchor_that_the_log_does_not_know_has_no_event_and_its_place_as_key(points, tree, edit):
    def shift(file):
        file["anchors"]["speaker_1"]["EOT"]["positives"] = [4.0, 7.9]
        file["anchors"]["speaker_1"]["INT"]["negative_spans"] = [[10.1, 10.5]]

    edit(tree, "anchors", shift)
    rows = by_key(points())
    positive = rows["dev_00001/speaker_1/eot/positives[1]"]
    assert (positive["kind"], positive["label"], positive["start_s"]) == ("yield", 1, 7.9)
    assert (positive["event_id"], positive["current_holder"], positive["next_holder"]) == (None, None, None)
    assert rows["dev_00001/speaker_1/int/negative_spans[0]"]["kind"] is None


def test_two_events_with_the_same_anchor_keep_a_row_and_a_key_each(points, tree, edit):
    def twice(log):
        log["events"].append({**log["events"][8], "id": "e9", "sublabel": "BACKCHANNEL"})

    def also_shipped(file):
        file["anchors"]["speaker_1"]["INT"]["negative_spans"].append([10.0, 10.5])
        return file["anchors"]  # a shape of its own, so that events have to be found

    edit(tree, "events", twice)
    edit(tree, "anchors", also_shipped)
    rows = {row["event_id"]: row for row in points() if row["conversation_id"] == "dev_00001"}
    assert rows["e8"]["kind"] == "laughter"
    assert rows["e9"]["kind"] == "backchannel"
    assert rows["e8"]["key"] != rows["e9"]["key"]


def test_an_anchor_that_is_shipped_twice_has_two_keys(points, tree, edit):
    edit(tree, "anchors", lambda f: f["anchors"]["speaker_1"]["EOT"].update(positives=[4.0, 4.0]))
    keys = [row["key"] for row in points() if row["start_s"] == 4.0 and row["conversation_id"] == "dev_00001"]
    assert keys == ["dev_00001/speaker_1/eot/e1", "dev_00001/speaker_1/eot/positives[1]"]


def test_a_conversation_without_events_has_no_rows(points, tree, edit):
    empty = {"EOT": {"positives": []}, "INT": {"positives": []}}
    for name in ("dev_00001", "dev_00002"):
        edit(tree, "events", lambda log: log.update(events=[]), conversation_id=name)
        edit(tree, "anchors", lambda f: {"anchors": dict.fromkeys(f["anchors"], empty)}, conversation_id=name)
    assert points() == []


@pytest.mark.parametrize("delay_s", [-0.1, float("nan"), float("inf"), "0.2", True])
def test_a_delay_that_is_no_time_is_refused(points, delay_s):
    with pytest.raises(ValueError, match=r"delay_s: .*expected a"):
        points(delay_s=delay_s)


def test_a_hold_that_is_never_resumed_is_named(points, tree, edit):
    edit(tree, "events", lambda log: log.update(events=log["events"][:1]))
    with pytest.raises(
        CorpusError, match=r"events/dev_00001\.json: event 'e0': field 'floor_outcome': a hold"
    ):
        points()


@given(delay_s=st.floats(0, 200), conversation=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_no_detector_is_asked_before_its_moment_or_after_the_end(annotations, delay_s, conversation):
    corpus = Corpus(annotations)
    one = corpus.conversation(corpus.entries("dev")[conversation])
    columns = decision_points(one, delay_s=delay_s, include_excluded=True)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    assert len({row["key"] for row in rows}) == len(rows) == len(one.events)
    for row in rows:
        assert row["at_s"] <= one.duration_s
        assert row["at_s"] <= row["start_s"] + delay_s
        assert row["at_s"] >= min(row["start_s"], one.duration_s)
        assert row["kind"] != "hold" or row["at_s"] <= row["end_s"]
