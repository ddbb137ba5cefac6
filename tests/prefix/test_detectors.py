"""Detectors are found by name, run causally, and the baselines are what they say."""

import functools
import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import soundfile

import mptb_metric
from mptb_dataset import read_anchors, sample_dir
from turn_end_prefix import check_causal, replay
from turn_end_prefix.detectors import MissingExtraError, available_detectors, load_detector
from turn_end_prefix.detectors.baselines import OracleDetector, RandomDetector, SilenceDetector

RATE = 24000
FRAME_RATE = 12.5
SHIPPED = {"energy", "silence", "random", "oracle", "silero", "smart-turn", "livekit"}


@pytest.fixture(scope="module")
def conversations():
    """The sample's conversations: {id: (channels, anchors)}."""
    root, found = sample_dir("mptb"), {}
    for split in ("dev", "test"):
        for line in (root / split / "manifest.jsonl").read_text().splitlines():
            entry = json.loads(line)
            channels = {
                s: soundfile.read(root / path, dtype="float32") for s, path in entry["audio_noisy"].items()
            }
            found[entry["conversation_id"]] = channels, read_anchors(root / entry["anchors"])
    return found


def best_recall(conversations, make, track, budget=0.10):
    rows = []
    for channels, anchors in conversations.values():
        scores = replay(channels, make(anchors))[track]
        rows += [{**anchors[speaker][track], "scores": scores[speaker]} for speaker in channels]
    point = mptb_metric.sweep(rows, FRAME_RATE).operating_point(budget=budget)
    return point["recall"] if point else 0.0


def noise(seconds, level=0.1, seed=0):
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def test_every_shipped_detector_is_offered_by_name():
    offered = available_detectors()
    assert set(offered) >= SHIPPED
    assert list(offered) == sorted(offered)
    assert all(":" in value for value in offered.values())


@pytest.mark.parametrize("name", ["energy", "silence", "random"])
def test_a_factory_by_name_can_be_pickled_and_gives_a_fresh_detector(name):
    factory = functools.partial(load_detector, name)
    first, second = factory(), pickle.loads(pickle.dumps(factory))()
    assert first.name == second.name == name
    assert first is not second


def test_options_reach_the_detector():
    assert load_detector("silence", hold_s=1.5).hold_s == 1.5
    with pytest.raises(TypeError, match="holds_s"):
        load_detector("silence", holds_s=1.5)


MODULE = """
class Mine:
    name, lookahead_s, sampling_rate = "mine", 0.0, None
    def __init__(self, value=0.25):
        self.value = value
    def reset(self, speakers, sampling_rate):
        self.n = len(speakers)
    def push(self, hop):
        return {"eot": [self.value] * self.n}

made = Mine(0.75)
def make(value):
    return Mine(value)
def make_nothing():
    return 3
class Space:
    inner = Mine
text = "no detector"
"""


@pytest.fixture
def my_module(tmp_path, monkeypatch):
    (tmp_path / "my_detectors.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_detectors"
    sys.modules.pop("my_detectors", None)


@pytest.mark.parametrize(
    ("path", "options", "score"),
    [
        ("Mine", {}, 0.25),
        ("Mine", {"value": 0.5}, 0.5),
        ("made", {}, 0.75),
        ("make", {"value": 0.125}, 0.125),
        ("Space.inner", {}, 0.25),
    ],
)
def test_module_and_object_reach_classes_factories_and_detectors(path, options, score, my_module):
    detector = load_detector(f"{my_module}:{path}", **options)
    assert replay({"a": (noise(0.1), RATE)}, detector)["eot"]["a"].tolist() == [score] * 2


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        (
            "nosuch",
            {},
            ValueError,
            "no detector 'nosuch': expected one of energy, .*silero.* or module:object",
        ),
        ("", {}, ValueError, "no detector ''"),
        ("my_detectors:", {}, ValueError, "no detector"),
        (":Mine", {}, ValueError, "no detector"),
        ("my_detectors:Theirs", {}, ImportError, "module 'my_detectors' has no 'Theirs'"),
        ("no_such_module:Mine", {}, ImportError, "no_such_module"),
        ("my_detectors:made", {"value": 1}, ValueError, "takes no options, got value"),
        ("my_detectors:text", {}, TypeError, "neither a detector nor a function that makes one"),
        ("my_detectors:make_nothing", {}, TypeError, "makes a int, which has no reset and no push"),
    ],
)
def test_what_is_no_detector_is_refused_by_name(name, options, error, message, my_module):
    with pytest.raises(error, match=message):
        load_detector(name, **options)


def test_an_installed_package_adds_its_detector_without_touching_ours(my_module, tmp_path):
    metadata = tmp_path / "my_detectors-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-detectors\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mptb.detectors]\nmine = my_detectors:Mine\n")
    assert available_detectors()["mine"] == "my_detectors:Mine"
    assert load_detector("mine", value=0.5).value == 0.5


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("silero", "pipecat", r"pipecat-ai: pip install 'mptb\[detectors\]'"),
        ("smart-turn", "pipecat", r"pipecat-ai: pip install 'mptb\[detectors\]'"),
        ("livekit", "livekit", r"livekit-local-inference: pip install 'mptb\[livekit\]'"),
    ],
)
def test_a_missing_package_is_answered_with_the_line_that_installs_it(name, package, extra, monkeypatch):
    for module in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"the detector '{name}' needs {extra}"):
        load_detector(name)


def test_importing_the_detectors_loads_no_model_library():
    code = """
        import sys
        from turn_end_prefix.detectors import baselines, livekit, prefix, silero, smart_turn
        heavy = {"onnxruntime", "pipecat", "livekit", "torch", "soxr", "transformers", "datasets"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_oracle_finds_everything_and_fires_nowhere_else(conversations):
    for track in ("eot", "int"):
        rows = []
        for channels, anchors in conversations.values():
            scores = replay(channels, OracleDetector(anchors))[track]
            rows += [{**anchors[s][track], "scores": scores[s]} for s in channels]
        point = mptb_metric.sweep(rows, FRAME_RATE, thresholds=[0.5])
        assert (point.recall[0], point.fpr[0]) == (1.0, 0.0), track
        assert 0 <= point.latency_p50_s[0] <= 0.08


@pytest.mark.parametrize("hop_s", [0.02, 0.0833])
def test_the_oracle_answers_close_positives_one_by_one_and_outside_excluded_spans(hop_s):
    gold = {
        "positives": [0.0, 1.0, 4.0, 9.99],
        "negative_spans": [(0.5, 0.9)],
        "excluded_spans": [(3.75, 4.25)],
    }
    channels = {"a": (noise(10), RATE)}
    scores = replay(channels, OracleDetector({"a": {"eot": gold, "int": {}}}), hop_s=hop_s)
    times = mptb_metric.decide(scores["eot"]["a"], 1 / hop_s, 0.5)
    counts = mptb_metric.match(**gold, predictions=times)
    assert (counts.tp, counts.fn, counts.fp, counts.tn) == (4, 0, 0, 1)
    assert not scores["int"]["a"].any()


def test_the_oracle_needs_anchors_of_every_speaker():
    with pytest.raises(ValueError, match="the oracle has no anchors of b"):
        replay({"a": (noise(1), RATE), "b": (noise(1), RATE)}, OracleDetector({"a": {}}))


def test_chance_gives_the_same_scores_for_a_conversation_in_any_order_and_others_for_another_seed():
    one, other = {"a": (noise(3), RATE)}, {"a": (noise(3, seed=1), RATE)}
    detector = RandomDetector()
    first, second = replay(one, detector), replay(other, detector)
    again = replay(one, RandomDetector())
    assert first["eot"]["a"].tolist() == again["eot"]["a"].tolist()
    assert first["eot"]["a"].tolist() != second["eot"]["a"].tolist()
    assert first["eot"]["a"].tolist() != replay(one, RandomDetector(seed=1))["eot"]["a"].tolist()


def test_chance_does_not_depend_on_what_is_said_and_is_uniform():
    scores = replay({"a": (noise(400), RATE)}, RandomDetector(every_s=0.08))["int"]["a"]
    assert 0 <= scores.min() < scores.max() < 1
    assert np.histogram(scores, bins=4, range=(0, 1))[0].min() > len(scores) / 4 * 0.85


def test_silence_at_one_half_is_a_fixed_hold_whoever_speaks_next():
    room = noise(6, level=0.0005)
    spoken = room.copy()
    spoken[RATE : 3 * RATE] = noise(2)
    answered = room.copy()
    answered[int(3.2 * RATE) :] = noise(2.8, seed=1)
    for hold_s in (0.4, 1.0):
        for other in (room, answered):
            scores = replay({"a": (spoken, RATE), "b": (other, RATE)}, SilenceDetector(hold_s=hold_s))
            (fired,) = mptb_metric.decide(scores["eot"]["a"], FRAME_RATE, 0.5)
            assert 3 + hold_s <= fired <= 3 + hold_s + 0.25


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("silence", {"hold_s": 0.0}, "hold_s must be finite and above 0, got 0.0"),
        ("silence", {"least_speech_s": float("nan")}, "least_speech_s must be finite and above 0, got nan"),
        ("random", {"every_s": 0.0}, "every_s must be above 0, got 0.0"),
    ],
)
def test_times_that_are_not_above_zero_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        load_detector(name, **options)


def test_silence_beats_chance_and_energy_beats_silence_at_interruptions(conversations):
    chance = best_recall(conversations, lambda anchors: RandomDetector(), "eot")
    silence = best_recall(conversations, lambda anchors: SilenceDetector(), "eot")
    assert silence > chance + 0.2
    assert best_recall(conversations, lambda anchors: load_detector("energy"), "int") > 0.5


@pytest.mark.parametrize("make", [SilenceDetector, RandomDetector], ids=lambda make: make.name)
def test_baselines_pass_the_causality_check(make, conversations):
    channels, _ = conversations["dev_00001"]
    report = check_causal(make(), channels)
    assert report.ok, str(report)


def test_the_oracle_passes_the_causality_check_since_gold_does_not_change(conversations):
    channels, anchors = conversations["dev_00001"]
    assert check_causal(OracleDetector(anchors), channels).ok
