"""The energy detector on made-up conversations, drawn beside them, and on the sample's speech."""

import json

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import mptb_metric
from mptb_dataset import sample_dir
from turn_end_prefix import replay
from turn_end_prefix.detectors.energy import EnergyDetector

RATE = 24000
HOP_S = 0.08


def channel(duration_s, *speech_s, level=0.1, room=0.0005, seed=0):
    """Noise of a room, louder where there is speech."""
    rng = np.random.default_rng(seed)
    gain = np.full(round(duration_s * RATE), room)
    for start, end in speech_s:
        gain[round(start * RATE) : round(end * RATE)] = level
    return (gain * rng.standard_normal(len(gain))).astype(np.float32), RATE


def hear(**channels):
    return replay(channels, EnergyDetector())


def at(scores, time_s):
    """The score of the last frame that ends by `time_s`."""
    return scores[int(time_s / HOP_S + 1e-9) - 1]


def frames(scores, start_s, end_s):
    return scores[int(np.ceil(start_s / HOP_S)) : int(end_s / HOP_S)]


# a: ####......
# b: ..........
def test_eot_rises_with_the_silence_after_a_turn_and_nothing_else_does():
    scores = hear(a=channel(6, (1, 3)), b=channel(6, seed=1))
    assert frames(scores["eot"]["a"], 0, 3).max() == 0
    assert np.all(np.diff(frames(scores["eot"]["a"], 3.1, 6)) > 0)
    assert at(scores["eot"]["a"], 4.0) > 0.5
    assert not scores["eot"]["b"].any()
    assert not scores["int"]["a"].any()
    assert not scores["int"]["b"].any()


# a: ####..####
def test_eot_falls_back_when_the_speaker_resumes_after_a_pause():
    scores = hear(a=channel(6, (0.5, 2), (3, 6)), b=channel(6, seed=1))
    assert at(scores["eot"]["a"], 2.9) > 0.4
    assert frames(scores["eot"]["a"], 3.1, 6).max() == 0


# a: ####......    a: ####......
# b: .....#####    b: ..........
def test_eot_rises_faster_when_another_one_speaks_into_the_silence():
    alone = hear(a=channel(5, (0.5, 2)), b=channel(5, seed=1))
    taken = hear(a=channel(5, (0.5, 2)), b=channel(5, (2.2, 5), seed=1))
    assert at(taken["eot"]["a"], 3.0) > at(alone["eot"]["a"], 3.0) + 0.05


# a: ######....
# b: ....######
def test_int_rises_with_speech_that_began_over_the_holders_and_goes_on():
    scores = hear(a=channel(6, (0.5, 3)), b=channel(6, (2.5, 5), seed=1))
    assert frames(scores["int"]["b"], 0, 2.5).max() == 0
    assert np.all(np.diff(frames(scores["int"]["b"], 2.6, 5)) > 0)
    assert not scores["int"]["a"].any()


# a: ####......
# b: .....#####
def test_a_turn_that_begins_in_silence_is_no_interruption():
    scores = hear(a=channel(6, (0.5, 3)), b=channel(6, (3.5, 6), seed=1))
    assert not scores["int"]["b"].any()


# a: ##########
# b: ...##.....
def test_a_backchannel_scores_lower_than_an_interruption_and_leaves_the_floor():
    backchannel = hear(a=channel(6, (0.5, 6)), b=channel(6, (2, 2.5), seed=1))
    interruption = hear(a=channel(6, (0.5, 2.4)), b=channel(6, (2, 5), seed=1))
    assert backchannel["int"]["b"].max() < 0.6 < interruption["int"]["b"].max()
    assert not backchannel["eot"]["b"].any()
    assert frames(backchannel["eot"]["a"], 0, 6).max() == 0


def test_one_channel_alone_has_turns_and_no_interruptions():
    scores = hear(a=channel(4, (0.5, 2)))
    assert at(scores["eot"]["a"], 3.5) > 0.5
    assert not scores["int"]["a"].any()


@pytest.mark.parametrize("level", [0.0, 1e-30, 1.0])
def test_constant_audio_gives_finite_scores_in_range(level):
    audio = np.full(2 * RATE, level, dtype=np.float32)
    for track in hear(a=(audio, RATE), b=(audio, RATE)).values():
        for scores in track.values():
            assert np.all((scores >= 0) & (scores <= 1))


def test_speech_after_digital_silence_is_heard():
    speech = channel(6, (2, 4), room=0.0)
    assert at(hear(a=speech, b=channel(6, seed=1))["eot"]["a"], 5.5) > 0.5


def test_a_recording_that_begins_with_speech_is_heard():
    assert at(hear(a=channel(4, (0, 2)), b=channel(4, seed=1))["eot"]["a"], 3.5) > 0.5


@settings(max_examples=15, deadline=None)
@given(gain=st.floats(0.05, 8.0))
def test_loudness_as_a_whole_moves_decisions_by_a_few_frames_at_most(gain):
    turn = channel(6, (1, 3))[0]
    quiet, loud = (
        hear(a=(turn * g, RATE), b=channel(6, seed=1))["eot"]["a"] for g in (1.0, np.float32(gain))
    )
    assert abs(int(np.argmax(quiet > 0.5)) - int(np.argmax(loud > 0.5))) <= 2


@settings(max_examples=15, deadline=None)
@given(cut_s=st.floats(0.3, 5.9), seed=st.integers(0, 99))
def test_scores_of_whole_frames_before_a_cut_do_not_know_what_follows(cut_s, seed):
    n = round(cut_s * RATE)
    rows = {"a": channel(6, (0.5, 2), (3, 4)), "b": channel(6, (1.8, 3.5), seed=1)}
    future = np.random.default_rng(seed).standard_normal(6 * RATE - n).astype(np.float32)
    changed = {name: (np.concatenate([audio[:n], future]), RATE) for name, (audio, _) in rows.items()}
    before, after = hear(**rows), hear(**changed)
    whole = n // 1920
    for track in before:
        for name in rows:
            np.testing.assert_array_equal(before[track][name][:whole], after[track][name][:whole])


def test_a_detector_forgets_the_conversation_before():
    first, second = channel(5, (0, 4), level=0.5), channel(5, (1, 3))
    detector = EnergyDetector()
    replay({"a": first, "b": first}, detector)
    again = replay({"a": second}, detector)["eot"]["a"]
    np.testing.assert_array_equal(again, hear(a=second)["eot"]["a"])


def test_the_order_of_channels_does_not_matter():
    a, b, c = channel(6, (0.5, 3)), channel(6, (2.5, 5), seed=1), channel(6, (1, 1.4), seed=2)
    one, other = hear(a=a, b=b, c=c), hear(c=c, b=b, a=a)
    for track in one:
        for name in "abc":
            np.testing.assert_allclose(one[track][name], other[track][name], rtol=1e-12)


def sample_rows(split, hop_s):
    """References with the energy detector's scores, for each track, of a split of the sample."""
    root = sample_dir("mptb")
    rows = {"eot": [], "int": []}
    for line in (root / split / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        channels = {
            s: soundfile.read(root / path, dtype="float32") for s, path in entry["audio_noisy"].items()
        }
        anchors = json.loads((root / entry["anchors"]).read_text())["anchors"]
        for track, scores in replay(channels, EnergyDetector(), hop_s=hop_s).items():
            rows[track] += [{**anchors[s][track.upper()], "scores": scores[s]} for s in channels]
    return rows


@pytest.mark.parametrize("hop_s", [0.08, 0.02])
def test_on_the_samples_speech_a_threshold_of_dev_finds_most_turns_and_interruptions_of_test(hop_s):
    dev, test = sample_rows("dev", hop_s), sample_rows("test", hop_s)
    for track, least_recall in (("eot", 0.9), ("int", 0.5)):
        point = mptb_metric.sweep(dev[track], 1 / hop_s).operating_point(budget=0.10)
        assert point is not None, track
        assert point["recall"] >= least_recall, track
        frozen = mptb_metric.sweep(test[track], 1 / hop_s, thresholds=[point["theta"]])
        assert frozen.recall[0] >= least_recall, track


def test_scores_take_many_values_so_that_many_thresholds_differ():
    rows = sample_rows("dev", 0.08)
    distinct = np.unique(np.concatenate([row["scores"] for row in rows["eot"]]))
    assert len(distinct) > 300
