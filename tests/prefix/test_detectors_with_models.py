"""Detectors with a model inside run from the installed wheels, causally and the same way twice."""

import json
import sys
import types

import numpy as np
import pytest
import soundfile

import mptb_metric
from mptb_dataset import read_anchors, sample_dir
from turn_end_prefix import check_causal, replay
from turn_end_prefix.detectors import load_detector
from turn_end_prefix.detectors.prefix import score_prefixes
from turn_end_prefix.detectors.turn_model import History, TurnModelDetector, TurnSettings

FRAME_RATE = 12.5


@pytest.fixture(scope="module")
def conversations():
    """The sample's dev conversations: {id: (channels, anchors)}."""
    root, found = sample_dir("mptb"), {}
    for line in (root / "dev" / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        channels = {
            s: soundfile.read(root / path, dtype="float32") for s, path in entry["audio_noisy"].items()
        }
        found[entry["conversation_id"]] = channels, read_anchors(root / entry["anchors"])
    return found


@pytest.fixture(scope="module")
def pipecat():
    return pytest.importorskip("pipecat", reason="needs pip install 'mptb[detectors]'")


def best_recall(conversations, detector):
    rows = []
    for channels, anchors in conversations.values():
        scores = replay(channels, detector)["eot"]
        rows += [{**anchors[speaker]["eot"], "scores": scores[speaker]} for speaker in channels]
    return mptb_metric.sweep(rows, FRAME_RATE).operating_point(budget=0.10)["recall"]


@pytest.mark.parametrize("name", ["silero", "smart-turn"])
def test_models_find_more_turn_ends_than_chance(name, conversations, pipecat):
    assert best_recall(conversations, load_detector(name)) > best_recall(
        conversations, load_detector("random")
    )


@pytest.mark.parametrize("name", ["silero", "smart-turn"])
def test_two_runs_give_identical_bytes_from_the_same_and_from_a_new_detector(name, conversations, pipecat):
    channels = {s: (x[: 8 * 24000], r) for s, (x, r) in conversations["dev_00001"][0].items()}
    detector = load_detector(name)
    one, two, other = (
        replay(channels, detector),
        replay(channels, detector),
        replay(channels, load_detector(name)),
    )
    for track in ("eot", "int"):
        for speaker in channels:
            assert one[track][speaker].tobytes() == two[track][speaker].tobytes()
            assert one[track][speaker].tobytes() == other[track][speaker].tobytes()


@pytest.mark.parametrize("name", ["silero", "smart-turn"])
def test_models_pass_the_causality_check_as_detectors_and_as_functions_of_the_recording(
    name, conversations, pipecat
):
    channels = {s: (x[: 8 * 24000], r) for s, (x, r) in conversations["dev_00001"][0].items()}
    detector = load_detector(name)
    assert check_causal(detector, channels, probes=3).ok
    assert check_causal(lambda heard: replay(heard, detector), channels, probes=1).ok


def test_loading_and_running_a_model_prints_nothing(conversations, pipecat, capfd):
    detector = load_detector("smart-turn")
    replay({"a": (np.zeros(16000, dtype=np.float32), 16000)}, detector)
    assert capfd.readouterr() == ("", "")


def test_smart_turn_scores_a_prefix_by_its_last_eight_seconds(pipecat):
    rng = np.random.default_rng(0)
    audio = (0.05 * rng.standard_normal(10 * 16000)).astype(np.float32)
    whole, last = score_prefixes(load_detector("smart-turn"), [(audio, 16000), (audio[-8 * 16000 :], 16000)])
    assert whole == last
    assert 0 <= whole <= 1


# speech: ####....  hops of 0.08 s at 1 kHz
class Scripted:
    """Voice activity that is told beforehand who speaks in which hop."""

    sampling_rate = 1000

    def __init__(self, *speaking):
        self.speaking = np.asarray(speaking, dtype=bool)

    def reset(self, n_channels, sampling_rate):
        self.hop = 0

    def hear(self, hop):
        now = self.speaking[:, self.hop]
        self.hop += 1
        return now, now.astype(float)


def ask(speaking, *, answers=0.25, settings=None):
    """Scores of a detector whose model records what it heard; audio counts samples per channel from 1."""
    heard = []

    def model(samples, rate):
        heard.append(samples)
        return answers if isinstance(answers, float) else answers[len(heard) - 1]

    n_samples = 80 * len(speaking[0])
    ramp = np.arange(1, n_samples + 1, dtype=np.float32)
    channels = {f"s{index}": (ramp + 10**6 * index, 1000) for index in range(len(speaking))}
    detector = TurnModelDetector(
        model, Scripted(*speaking), name="scripted", sampling_rate=1000, settings=settings
    )
    return replay(channels, detector), heard


def test_the_model_is_asked_once_per_silence_about_the_turn_from_before_its_speech():
    speaking = [0] * 10 + [1] * 10 + [0] * 10
    scores, heard = ask([speaking])
    assert len(heard) == 1
    # Speech begins with sample 801 and is heard from 0.5 s before; three hops after it 0.2 s have passed.
    assert (heard[0][0], heard[0][-1]) == (301, 23 * 80)
    assert scores["eot"]["s0"][:20].tolist() == [0.0] * 20
    assert scores["eot"]["s0"][20:22].max() < 0.06
    assert scores["eot"]["s0"][22:26].tolist() == [0.25] * 4


def test_a_long_silence_outweighs_an_unsure_model_and_reaches_one():
    scores, _ = ask([[1] * 10 + [0] * 50], answers=0.01)
    assert np.all(np.diff(scores["eot"]["s0"][13:45]) > 0)
    assert scores["eot"]["s0"][-1] == 1.0


def test_a_turn_that_the_model_called_unfinished_is_heard_from_its_first_word_again():
    speaking = [0] * 10 + [1] * 10 + [0] * 10 + [1] * 10 + [0] * 10
    _, unfinished = ask([speaking], answers=0.25)
    _, finished = ask([speaking], answers=0.75)
    assert (unfinished[1][0], unfinished[1][-1]) == (301, 43 * 80)
    assert (finished[1][0], finished[1][-1]) == (30 * 80 - 500 + 1, 43 * 80)


def test_the_model_may_be_asked_again_while_a_silence_lasts():
    _, heard = ask([[1] * 10 + [0] * 60], settings=TurnSettings(again_s=0.4, stop_s=2.0))
    assert [int(samples[-1]) // 80 for samples in heard] == [13, 18, 23, 28, 33]


def test_a_channel_that_never_held_the_floor_is_not_asked_about():
    holder = [1] * 40
    backchannel = [0] * 10 + [1] * 5 + [0] * 25
    scores, heard = ask([holder, backchannel])
    assert heard == []
    assert not scores["eot"]["s1"].any()
    assert scores["int"]["s1"].max() > 0


def test_no_more_than_the_window_is_heard():
    _, heard = ask([[1] * 100 + [0] * 10], settings=TurnSettings(window_s=2.0))
    assert len(heard[0]) == 2000


@pytest.mark.parametrize("size", [1, 7, 10, 23])
def test_a_history_keeps_the_last_samples_whatever_the_size_of_hops(size):
    history, audio = History(2, 10), np.arange(92, dtype=np.float32).reshape(2, 46)
    for start in range(0, 46, size):
        history.append(audio[:, start : start + size])
        end = min(start + size, 46)
        for since in {0, max(0, end - 4), end}:
            expected = audio[1, max(since, end - 10) : end]
            np.testing.assert_array_equal(history.since(1, since), expected)


class FakeVad:
    """Stands for a package that this machine need not have: loud windows are speech."""

    def predict(self, pcm):
        assert pcm.dtype == np.int16
        assert len(pcm) == 512
        return float(np.abs(pcm).mean() > 300)


class FakeEot:
    """Answers with the length that it was given."""

    def predict(self, pcm):
        assert pcm.dtype == np.int16
        assert 0 < len(pcm) <= 19200
        return len(pcm) / 19200


@pytest.fixture
def livekit(monkeypatch):
    package, module = types.ModuleType("livekit"), types.ModuleType("livekit.local_inference")
    module.VAD, module.EOT = FakeVad, FakeEot
    monkeypatch.setitem(sys.modules, "livekit", package)
    monkeypatch.setitem(sys.modules, "livekit.local_inference", module)


def test_livekit_is_called_as_its_package_declares(conversations, livekit):
    channels, _ = conversations["dev_00001"]
    scores = replay(channels, load_detector("livekit"))
    assert scores["eot"]["speaker_1"].max() == 1.0
    assert check_causal(load_detector("livekit"), channels, probes=2).ok
    short = np.zeros(1600, dtype=np.float32)
    assert score_prefixes(load_detector("livekit"), [(short, 16000)]) == [1600 / 19200]
