"""Anchors: derived from a log, and read from files of every shape that the card leaves room for."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mptb_dataset import CorpusError, derive_anchors, read_anchors

CONVERSATIONS = [("dev", f"dev_{k:05d}") for k in range(1, 7)] + [
    ("test", f"test_{k:05d}") for k in range(1, 9)
]

TRACK = {"positives": [1.5, 4.0], "negative_spans": [[2.0, 2.5]], "excluded_spans": [[6.0, 6.5]]}
EMPTY = {"positives": [], "negative_spans": [], "excluded_spans": []}
EXPECTED = {"a": {"eot": TRACK, "int": EMPTY}, "b": {"eot": EMPTY, "int": TRACK}}


def turn(event_id, onset, offset, outcome, speaker="a"):
    return {
        "id": event_id,
        "speaker": speaker,
        "label": "TURN",
        "onset": onset,
        "offset": offset,
        "floor_outcome": outcome,
    }


@pytest.mark.parametrize(("split", "conversation_id"), CONVERSATIONS)
def test_anchors_derived_from_a_log_are_exactly_the_shipped_ones(annotations, raw, split, conversation_id):
    log = raw(annotations, split, conversation_id, "events")
    shipped = raw(annotations, split, conversation_id, "anchors")["anchors"]
    derived = derive_anchors(log["events"], log["speakers"])
    assert derived == {s: {t.lower(): lists for t, lists in tracks.items()} for s, tracks in shipped.items()}


@pytest.mark.parametrize(
    ("event", "track", "role", "expected"),
    [
        ({"label": "TURN", "floor_outcome": "yield"}, "eot", "positives", [4.0]),
        ({"label": "TURN", "floor_outcome": "interrupted"}, "eot", "excluded_spans", [[3.75, 4.25]]),
        ({"label": "CLAIM_FLOOR", "resolved_as": "INTERRUPTION"}, "int", "positives", [1.0]),
        (
            {"label": "CLAIM_FLOOR", "resolved_as": "NON_FLOOR_TAKING_INTERRUPTION"},
            "int",
            "excluded_spans",
            [[1.0, 4.0]],
        ),
        ({"label": "VOCALIZE_NO_CLAIM", "sublabel": "BACKCHANNEL"}, "int", "negative_spans", [[1.0, 4.0]]),
        ({"label": "VOCALIZE_NO_CLAIM", "sublabel": "LAUGHTER"}, "int", "negative_spans", [[1.0, 4.0]]),
    ],
)
def test_each_row_of_the_card_s_table_gives_one_anchor_on_its_own_track(event, track, role, expected):
    record = {"id": "e1", "speaker": "a", "onset": 1.0, "offset": 4.0, **event}
    anchors = derive_anchors([record], ["a", "b"])
    assert anchors["a"][track].pop(role) == expected
    rest = [lists for tracks in anchors.values() for t in tracks.values() for lists in t.values()]
    assert not any(rest)


def test_a_hold_lasts_until_the_same_speaker_s_next_turn_begins():
    # a: ====hold....   ....=====yield; b takes a turn in between
    events = [turn("e1", 0.0, 2.0, "hold"), turn("e2", 2.1, 2.4, "yield", "b"), turn("e3", 3.0, 4.0, "yield")]
    assert derive_anchors(events, ["a", "b"])["a"]["eot"]["negative_spans"] == [[2.0, 3.0]]


def test_a_hold_may_be_resumed_at_once():
    events = [turn("e1", 0.0, 2.0, "hold"), turn("e2", 2.0, 4.0, "yield")]
    assert derive_anchors(events, ["a"])["a"]["eot"]["negative_spans"] == [[2.0, 2.0]]


def test_holds_in_a_row_each_last_until_the_next_turn():
    events = [turn("e3", 5.0, 6.0, "yield"), turn("e1", 0.0, 1.0, "hold"), turn("e2", 2.0, 3.0, "hold")]
    assert derive_anchors(events, ["a"])["a"]["eot"]["negative_spans"] == [[1.0, 2.0], [3.0, 5.0]]


def test_a_hold_without_length_is_not_its_own_resume():
    events = [turn("e1", 2.0, 2.0, "hold"), turn("e2", 3.0, 4.0, "yield")]
    assert derive_anchors(events, ["a"])["a"]["eot"]["negative_spans"] == [[2.0, 3.0]]


def test_a_hold_that_is_never_resumed_is_an_error_that_names_the_event():
    events = [turn("e1", 0.0, 2.0, "hold"), turn("e2", 3.0, 4.0, "yield", "b")]
    with pytest.raises(CorpusError, match=r"event 'e1'.*hold of a at 2\.0 s that is never resumed"):
        derive_anchors(events, ["a", "b"])


def test_an_interruption_at_the_very_start_excludes_no_negative_time():
    assert derive_anchors([turn("e1", 0.0, 0.1, "interrupted")], ["a"])["a"]["eot"]["excluded_spans"] == [
        [0.0, 0.35]
    ]


def test_excluded_spans_are_rounded_to_microseconds():
    assert derive_anchors([turn("e1", 0.0, 9.6, "interrupted")], ["a"])["a"]["eot"]["excluded_spans"] == [
        [9.35, 9.85]
    ]


def test_every_speaker_has_both_tracks_even_where_nothing_happened():
    assert derive_anchors([], ["a", "b"]) == {s: {"eot": EMPTY, "int": EMPTY} for s in "ab"}


def test_onsets_may_be_whole_numbers():
    anchors = derive_anchors([turn("e1", 0, 2, "yield")], ["a"])
    assert anchors["a"]["eot"]["positives"] == [2.0]
    assert type(anchors["a"]["eot"]["positives"][0]) is float


def test_rows_of_the_conversations_table_derive_as_the_log_does(load, annotations):
    for row in load("conversations", data_dir=annotations, split="dev", audio="none"):
        derived = derive_anchors(row["events"], row["speakers"])
        for anchors in row["anchors"]:
            found = derived[anchors["speaker"]][anchors["track"]]
            assert found["positives"] == anchors["positives"]
            for name in ("negative_spans", "excluded_spans"):
                assert found[name] == [[span["start"], span["end"]] for span in anchors[name]]


@st.composite
def logs(draw):
    """A random log that obeys the card: times on a 1 ms grid, each hold resumed."""
    speakers = [f"s{k}" for k in range(draw(st.integers(1, 4)))]
    events, now = [], 0
    for index in range(draw(st.integers(0, 12))):
        onset = draw(st.integers(0, 60_000))
        offset = onset + draw(st.integers(0, 9_000))
        now = max(now, offset)
        label, field, value = draw(
            st.sampled_from(
                [
                    ("TURN", "floor_outcome", "yield"),
                    ("TURN", "floor_outcome", "hold"),
                    ("TURN", "floor_outcome", "interrupted"),
                    ("CLAIM_FLOOR", "resolved_as", "INTERRUPTION"),
                    ("CLAIM_FLOOR", "resolved_as", "NON_FLOOR_TAKING_INTERRUPTION"),
                    ("VOCALIZE_NO_CLAIM", "sublabel", "BACKCHANNEL"),
                    ("VOCALIZE_NO_CLAIM", "sublabel", "LAUGHTER"),
                ]
            )
        )
        events.append(
            {
                "id": f"e{index}",
                "speaker": draw(st.sampled_from(speakers)),
                "label": label,
                "onset": onset / 1000,
                "offset": offset / 1000,
                field: value,
            }
        )
    for number, speaker in enumerate(speakers):  # everyone says one last thing
        events.append(turn(f"last{number}", (now + 1) / 1000, (now + 2) / 1000, "yield", speaker))
    return draw(st.permutations(events)), speakers


def brute_force(events, speakers):
    """The card's table, as plainly as possible."""
    found = {
        s: {t: {"positives": [], "negative_spans": [], "excluded_spans": []} for t in ("eot", "int")}
        for s in speakers
    }
    for event in events:
        eot, int_ = found[event["speaker"]]["eot"], found[event["speaker"]]["int"]
        on, off = event["onset"], event["offset"]
        value = event.get("floor_outcome") or event.get("resolved_as") or event.get("sublabel")
        if value == "yield":
            eot["positives"].append(off)
        elif value == "hold":
            following = [
                other["onset"]
                for other in events
                if other is not event
                and other["label"] == "TURN"
                and other["speaker"] == event["speaker"]
                and other["onset"] >= off
                and other["onset"] > on
            ]
            eot["negative_spans"].append([off, min(following)])
        elif value == "interrupted":
            eot["excluded_spans"].append(
                [max(0.0, round(off * 1000 - 250) / 1000), round(off * 1000 + 250) / 1000]
            )
        elif value == "INTERRUPTION":
            int_["positives"].append(on)
        elif value == "NON_FLOOR_TAKING_INTERRUPTION":
            int_["excluded_spans"].append([on, off])
        else:
            int_["negative_spans"].append([on, off])
    return {
        s: {t: {n: sorted(v) for n, v in lists.items()} for t, lists in tracks.items()}
        for s, tracks in found.items()
    }


@given(logs())
@settings(max_examples=150, deadline=None)
def test_derived_anchors_are_those_of_a_plain_rewrite_of_the_card_s_table(log):
    events, speakers = log
    assert derive_anchors(events, speakers) == brute_force(events, speakers)


@given(logs(), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_log_does_not_matter(log, random):
    events, speakers = log
    shuffled = list(events)
    random.shuffle(shuffled)
    assert derive_anchors(shuffled, speakers) == derive_anchors(events, speakers)


def shapes():
    """The same anchors in every shape that is understood."""

    def spans(form):
        return {
            "pairs": lambda s: list(s),
            "start_end": lambda s: {"start": s[0], "end": s[1]},
            "onset_offset": lambda s: {"onset": s[0], "offset": s[1], "kind": "hold"},
        }[form]

    def positives(form):
        return {
            "number": lambda t: t,
            "time": lambda t: {"time": t, "event": "e1"},
            "t": lambda t: {"t": t},
        }[form]

    for span_form in ("pairs", "start_end", "onset_offset"):
        for positive_form in ("number", "time", "t"):
            tracks = {
                speaker: {
                    track: {
                        "positives": [positives(positive_form)(t) for t in lists["positives"]],
                        "negative_spans": [spans(span_form)(s) for s in lists["negative_spans"]],
                        "excluded_spans": [spans(span_form)(s) for s in lists["excluded_spans"]],
                    }
                    for track, lists in of_speaker.items()
                }
                for speaker, of_speaker in EXPECTED.items()
            }
            for case in (str.upper, str.lower, str.title):
                by_speaker = {s: {case(t): lists for t, lists in v.items()} for s, v in tracks.items()}
                by_track = {case(t): {s: tracks[s][t] for s in tracks} for t in ("eot", "int")}
                yield by_speaker
                yield by_track


@pytest.mark.parametrize("nested", list(shapes()))
def test_every_shape_that_the_card_leaves_room_for_reads_alike(nested):
    assert read_anchors(nested) == EXPECTED
    assert read_anchors({"conversation_id": "x", "anchors": nested}) == EXPECTED


def test_anchors_are_read_from_a_path_too(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"anchors": EXPECTED}))
    assert read_anchors(path) == read_anchors(str(path)) == EXPECTED


def test_a_track_or_a_list_that_is_left_out_is_empty():
    assert read_anchors({"a": {"EOT": {"positives": [1]}}, "b": {}}) == {
        "a": {"eot": {**EMPTY, "positives": [1.0]}, "int": EMPTY},
        "b": {"eot": EMPTY, "int": EMPTY},
    }


def test_lists_are_put_in_ascending_order():
    assert read_anchors({"a": {"EOT": {"positives": [3.0, 1.0]}}})["a"]["eot"]["positives"] == [1.0, 3.0]


def test_further_keys_beside_the_three_lists_are_ignored():
    assert read_anchors({"a": {"EOT": {**TRACK, "n_positives": 2}}})["a"]["eot"] == TRACK


def track_with(**lists):
    return {"anchors": {"speaker_2": {"INT": lists}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"anchors": {"a": {"EOF": TRACK}}}, r"a, track 'EOF': expected one of EOT, INT"),
        ({"anchors": [1]}, r"field 'anchors': expected an object of speakers or tracks"),
        ({"anchors": None}, r"field 'anchors': expected an object of speakers or tracks"),
        ({"a": 3}, r"field 'anchors': expected an object of speakers or tracks"),
        ({"a": {"EOT": [1.0]}}, r"a, track 'EOT': expected an object with positives"),
        (track_with(positive=[1.0]), r"speaker_2, track 'INT': field 'positive': expected one of positives"),
        (track_with(positives=3.0), r"speaker_2, track 'INT': field 'positives': expected a list, got float"),
        (
            track_with(positives=["1.0"]),
            r"track 'INT': field 'positives\[0\]': expected a time in seconds.*'1.0'",
        ),
        (track_with(positives=[1.0, -0.5]), r"field 'positives\[1\]': expected a time .*-0\.5"),
        (track_with(positives=[float("nan")]), r"field 'positives\[0\]': expected a time .*nan"),
        (track_with(positives=[float("inf")]), r"field 'positives\[0\]': expected a time .*inf"),
        (track_with(positives=[True]), r"field 'positives\[0\]': expected a time .*True"),
        (track_with(positives=[10**400]), r"field 'positives\[0\]': expected a time .*1000"),
        (track_with(positives=[{"at": 1.0}]), r"field 'positives\[0\]': expected a time .*None"),
        (track_with(negative_spans=[[1.0]]), r"field 'negative_spans\[0\]': expected \[start, end\]"),
        (track_with(negative_spans=[1.0]), r"field 'negative_spans\[0\]': expected \[start, end\]"),
        (
            track_with(negative_spans=[[1, 2], [3, 2.5]]),
            r"'negative_spans\[1\]': ends at 2\.5 s before its start",
        ),
        (track_with(excluded_spans=[{"start": 1.0}]), r"field 'excluded_spans\[0\]': expected a time"),
    ],
)
def test_what_cannot_be_understood_is_named(content, message):
    with pytest.raises(CorpusError, match=message):
        read_anchors(content)


def test_a_file_that_is_not_json_is_named_with_the_line(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"anchors":\n {"a": }}')
    with pytest.raises(CorpusError, match=r"broken\.json: not valid JSON at line 2"):
        read_anchors(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"absent\.json: cannot be read"):
        read_anchors(tmp_path / "absent.json")
