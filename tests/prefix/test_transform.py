"""`PrefixTransform`: every row with the audio that was heard by its moment, decoded once."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import soundfile as sf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turn_end_prefix import DecodeError, JoinError, PrefixTransform, n_samples, read_prefix

RATE = 16000


@pytest.fixture
def waves(noise):
    """Three turns of different lengths: int16 by key."""
    return {"a": noise(RATE, 1), "b": noise(2 * RATE + 7, 2), "c": noise(RATE // 2, 3)}


@pytest.fixture
def turns(table, encode, waves):
    return table(
        [encode(wave, RATE) for wave in waves.values()],
        declared_rate=RATE,
        turn_key=list(waves),
        audio_duration_s=[len(wave) / RATE for wave in waves.values()],
    )


@pytest.fixture
def observations(table):
    return table(
        key=["a@0.5", "b@1.1", "a@1.0", "c@0.3", "b@2.0", "b@0.0"],
        turn_key=["a", "b", "a", "c", "b", "b"],
        at_s=[0.5, 1.1, 1.0, 0.3, 2.0, 0.0],
        label=[0, 1, 1, 0, 1, 0],
    )


def expected(observations, waves, as_float):
    return [
        as_float(waves[row["turn_key"]][: n_samples(row["at_s"], RATE)])
        for row in observations.with_format(None)
    ]


def assert_prefixes(rows, arrays, rate=RATE):
    assert len(rows) == len(arrays)
    for row, array in zip(rows, arrays, strict=True):
        assert row["audio"]["sampling_rate"] == rate
        assert row["audio"]["array"].dtype == np.float32
        np.testing.assert_array_equal(row["audio"]["array"], array)


def test_every_row_gets_its_prefix_and_keeps_its_columns(backend, observations, turns, waves, as_float):
    heard = observations.with_transform(PrefixTransform(turns, backend=backend))
    assert_prefixes(list(heard), expected(observations, waves, as_float))
    assert_prefixes(heard.__getitems__([4, 0]), [expected(observations, waves, as_float)[i] for i in (4, 0)])
    assert {name: heard[2][name] for name in observations.column_names} == observations[2]


@pytest.mark.parametrize("batched", [True, False])
def test_mapping_a_stream_gives_the_same_prefixes(observations, turns, waves, as_float, batched):
    stream = observations.to_iterable_dataset().map(PrefixTransform(turns), batched=batched, batch_size=4)
    assert_prefixes(list(stream), expected(observations, waves, as_float))


def test_turns_whose_audio_decodes_itself_are_read_as_stored(observations, turns, waves, as_float):
    import datasets

    decoding = turns.cast_column("audio", datasets.Audio(sampling_rate=RATE, decode=True))
    heard = observations.with_transform(PrefixTransform(decoding))
    assert_prefixes(list(heard), expected(observations, waves, as_float))


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2, 1][:3]])
def test_turns_in_another_order_are_joined_by_key(observations, turns, waves, as_float, order):
    for table in (turns.select(order), turns.select(order).flatten_indices(), turns.shuffle(seed=3)):
        heard = observations.with_transform(PrefixTransform(table))
        assert_prefixes(list(heard), expected(observations, waves, as_float))


def test_turns_from_several_files_with_other_columns_and_a_transform_of_their_own(
    observations, turns, waves, as_float
):
    import datasets

    several = datasets.concatenate_datasets([turns.select([0]), turns.select([1, 2])])
    several = several.add_column("style", ["x"] * 3).with_transform(lambda batch: {"nothing": [0] * 3})
    heard = observations.with_transform(PrefixTransform(several))
    assert_prefixes(list(heard), expected(observations, waves, as_float))


def test_turns_kept_as_files_are_read_from_there(observations, table, encode, waves, as_float, tmp_path):
    paths = [tmp_path / f"{key}.flac" for key in waves]
    for path, wave in zip(paths, waves.values(), strict=True):
        path.write_bytes(encode(wave, RATE))
    heard = observations.with_transform(PrefixTransform(table(paths, turn_key=list(waves))))
    assert_prefixes(list(heard), expected(observations, waves, as_float))


def test_a_batch_decodes_a_turn_once_up_to_its_last_moment(observations, turns, frames_read, files_opened):
    observations.with_transform(PrefixTransform(turns))[:]
    assert sorted(frames_read) == sorted([RATE, 2 * RATE, n_samples(0.3, RATE)])
    assert len(files_opened) == 3


def test_nothing_is_decoded_before_a_prefix_is_asked_for(observations, turns, files_opened):
    heard = observations.with_transform(PrefixTransform(turns))
    assert heard.select_columns(["turn_key"])[:] == {"turn_key": observations["turn_key"][:]}
    assert heard.select_columns(["key", "label"])[:] == observations.select_columns(["key", "label"])[:]
    assert not files_opened


def test_neighbouring_batches_decode_a_turn_once_between_them(turns, table, waves, as_float, frames_read):
    moments = np.linspace(0.01, 2.0, 50)
    rows = table(turn_key=["b"] * 50, at_s=moments, label=[0] * 50)
    heard = rows.with_transform(PrefixTransform(turns))
    assert_prefixes(list(heard), [as_float(waves["b"][: n_samples(at_s, RATE)]) for at_s in moments])
    assert sum(frames_read) == 2 * RATE


def test_a_cache_that_proves_too_small_grows(turns, table, files_opened):
    rows = table(turn_key=["a", "b", "c"] * 10, at_s=[0.1] * 30, label=[0] * 30)
    list(rows.with_transform(PrefixTransform(turns)))
    assert len(files_opened) <= 6


def test_batches_that_come_back_to_many_turns_find_them_again(table, encode, noise, files_opened):
    turns = table([encode(noise(1600, i), RATE) for i in range(8)], turn_key=list("abcdefgh"))
    rows = table(turn_key=list("abcdefgh") * 6, at_s=[0.1] * 48, label=[0] * 48)
    for _ in rows.with_transform(PrefixTransform(turns)).iter(8):
        pass
    assert len(files_opened) < 8 * 5


def test_without_a_cache_the_prefixes_are_the_same(observations, turns, waves, as_float):
    heard = observations.with_transform(PrefixTransform(turns, cache_bytes=0))
    assert_prefixes(list(heard), expected(observations, waves, as_float))
    assert_prefixes(heard.__getitems__(range(6)), expected(observations, waves, as_float))


@pytest.mark.parametrize("batch_size", [1, 3, 6])
def test_writing_into_a_prefix_changes_no_other(observations, turns, waves, as_float, batch_size):
    heard = observations.with_transform(PrefixTransform(turns))
    for _ in range(2):
        for start in range(0, 6, batch_size):
            rows = heard.__getitems__(list(range(start, start + batch_size)))
            assert_prefixes(rows, expected(observations, waves, as_float)[start : start + batch_size])
            for row in rows:
                row["audio"]["array"][:] = 9.0


def test_a_window_keeps_the_end_of_each_prefix(observations, turns, waves, as_float, backend):
    heard = observations.with_transform(PrefixTransform(turns, window_s=0.25, backend=backend))
    assert_prefixes(list(heard), [array[-4000:] for array in expected(observations, waves, as_float)])
    assert_prefixes(
        heard.__getitems__(range(6)), [array[-4000:] for array in expected(observations, waves, as_float)]
    )


def test_resampling_comes_after_the_cut(observations, turns, encode, waves):
    heard = observations.with_transform(PrefixTransform(turns, sampling_rate=8000, window_s=0.4))
    arrays = [
        read_prefix(encode(waves[row["turn_key"]], RATE), row["at_s"], window_s=0.4, sampling_rate=8000)[0]
        for row in observations
    ]
    assert_prefixes(list(heard), arrays, rate=8000)


def test_other_names_of_key_and_moment(turns, table, waves, as_float):
    rows = table(turn=["a", "b"], cut_s=[0.5, 1.0])
    heard = rows.with_transform(
        PrefixTransform(turns.rename_column("turn_key", "turn"), key="turn", at="cut_s")
    )
    assert_prefixes(list(heard), [as_float(waves["a"][:8000]), as_float(waves["b"][:16000])])


def test_an_empty_batch_stays_empty(observations, turns):
    assert observations.with_transform(PrefixTransform(turns))[:0]["audio"] == []


def test_a_thousand_moments_of_one_channel_decode_it_once(
    table, encode, noise, as_float, frames_read, tmp_path
):
    rate = 8000
    wave = noise(200 * rate)
    (tmp_path / "channel.flac").write_bytes(encode(wave, rate))
    moments = np.random.default_rng(0).uniform(0, 200, 1000)
    points = table([tmp_path / "channel.flac"] * 1000, at_s=moments, label=[0] * 1000)
    heard = points.with_transform(PrefixTransform(window_s=2.0))
    batch = heard[:]["audio"]
    assert sum(frames_read) <= len(wave)
    for at_s, audio in zip(moments, batch, strict=True):
        stop = n_samples(at_s, rate)
        np.testing.assert_array_equal(audio["array"], as_float(wave[max(0, stop - 2 * rate) : stop]))


def test_moments_in_any_order_one_by_one_decode_each_sample_once(table, encode, noise, as_float, frames_read):
    rate = 8000
    wave = noise(60 * rate)
    moments = np.random.default_rng(1).uniform(0, 60, 200)
    points = table([encode(wave, rate)] * 200, at_s=moments, label=[0] * 200)
    for at_s, row in zip(moments, points.with_transform(PrefixTransform()), strict=True):
        np.testing.assert_array_equal(row["audio"]["array"], as_float(wave[: n_samples(at_s, rate)]))
    assert sum(frames_read) == n_samples(moments.max(), rate)


@pytest.mark.parametrize("form", ["bytes", "paths", "decoders of bytes", "decoders of paths"])
def test_decision_points_have_their_own_channel(request, table, encode, noise, as_float, tmp_path, form):
    if form.startswith("decoders"):
        request.getfixturevalue("torchcodec")
    rate = 24000
    waves = {name: noise(3 * rate, seed) for seed, name in enumerate(("speaker_1", "speaker_2"))}
    speakers = ["speaker_1", "speaker_2", "speaker_1"]
    audio = [encode(waves[speaker], rate) for speaker in speakers]
    if form.endswith("paths"):
        for speaker, data in zip(speakers, audio, strict=True):
            (tmp_path / f"{speaker}.flac").write_bytes(data)
        audio = [tmp_path / f"{speaker}.flac" for speaker in speakers]
    points = table(
        audio, declared_rate=rate, decode=form.startswith("decoders"), speaker=speakers, at_s=[2.9, 1.0, 0.5]
    )
    arrays = [
        as_float(waves[s][: n_samples(at_s, rate)]) for s, at_s in zip(speakers, [2.9, 1.0, 0.5], strict=True)
    ]
    assert_prefixes(points.with_transform(PrefixTransform()).__getitems__([0, 1, 2]), arrays, rate)
    stream = points.to_iterable_dataset().map(PrefixTransform(window_s=0.7), batched=True, batch_size=2)
    assert_prefixes(list(stream), [array[-16800:] for array in arrays], rate)


def test_audio_that_shares_a_header_is_told_apart(table, encode, noise, as_float):
    # Equal length and first bytes: a WAV header says nothing of what follows.
    waves = [noise(RATE, 1), noise(RATE, 1)]
    waves[1][8000:] = noise(8000, 2)
    points = table([encode(w, RATE, container="WAV") for w in waves], at_s=[1.0, 1.0], label=[0, 1])
    heard = points.with_transform(PrefixTransform())
    for rows in (heard.__getitems__([0, 1]), [heard[0], heard[1]]):
        assert_prefixes(rows, [as_float(wave) for wave in waves])


def test_a_file_that_is_written_anew_is_read_anew(table, encode, noise, as_float, tmp_path):
    path = tmp_path / "channel.flac"
    heard = table([path], at_s=[0.5], label=[0]).with_transform(PrefixTransform())
    for seed in (1, 2):
        path.write_bytes(encode(noise(RATE + seed, seed), RATE))
        assert_prefixes([heard[0]], [as_float(noise(RATE + seed, seed)[:8000])])


def test_a_pickled_transform_works_and_leaves_its_open_files_behind(observations, turns, waves, as_float):
    transform = PrefixTransform(turns, window_s=0.5)
    fresh = len(pickle.dumps(transform))
    arrays = [array[-8000:] for array in expected(observations, waves, as_float)]
    assert_prefixes(list(observations.with_transform(transform)), arrays)
    assert len(pickle.dumps(transform)) == fresh
    for twin in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):
        assert_prefixes(list(observations.with_transform(twin)), arrays)


def test_threads_may_share_a_transform(observations, turns, waves, as_float):
    heard = observations.with_transform(PrefixTransform(turns))
    arrays = expected(observations, waves, as_float)
    failures = []

    def work(seed):
        try:
            for index in np.random.default_rng(seed).integers(0, 6, 60).tolist():
                assert_prefixes([heard[index]], [arrays[index]])
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_without_torchcodec_undecoded_tables_work(observations, turns, table, encode, waves, monkeypatch):
    monkeypatch.setattr("datasets.config.TORCHCODEC_AVAILABLE", False)
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    assert len(observations.with_transform(PrefixTransform(turns))[0]["audio"]["array"]) == 8000
    points = table([encode(waves["a"], RATE)], at_s=[0.5], label=[1])
    assert len(points.with_transform(PrefixTransform())[0]["audio"]["array"]) == 8000


def test_the_cards_recipe_and_ours_agree_where_it_loses_no_sample(observations, turns):
    by_key = {row["turn_key"]: row for row in turns}
    for row in observations.with_transform(PrefixTransform(turns)):
        samples, rate = sf.read(io.BytesIO(by_key[row["turn_key"]]["audio"]["bytes"]), dtype="float32")
        by_hand = samples[: int(row["at_s"] * rate)]
        np.testing.assert_array_equal(row["audio"]["array"][: len(by_hand)], by_hand)
        assert len(row["audio"]["array"]) - len(by_hand) in (0, 1)


def test_an_unknown_turn_is_a_key_error_that_names_row_and_turn(turns, table):
    rows = table(key=["z@1"], turn_key=["z"], at_s=[1.0])
    message = r"^key 'z@1', turn_key 'z', at_s 1\.0: turn_key 'z' is not in the table of 3 recordings"
    with pytest.raises(JoinError, match=message) as caught:
        rows.with_transform(PrefixTransform(turns))[0]
    assert isinstance(caught.value, KeyError)


def test_a_turn_that_is_there_twice_is_an_error_at_once(turns):
    import datasets

    with pytest.raises(
        ValueError, match=r"turn_key 'b' is in the table of recordings more than once \(2 rows"
    ):
        PrefixTransform(datasets.concatenate_datasets([turns, turns.select([1, 2])]))


def test_turns_without_the_key_or_the_audio_are_an_error_at_once(turns):
    with pytest.raises(ValueError, match="has no column 'turn_key', only audio"):
        PrefixTransform(turns.select_columns(["audio"]))
    with pytest.raises(ValueError, match="has no column 'audio', only turn_key"):
        PrefixTransform(turns.select_columns(["turn_key"]))


def test_streamed_turns_and_dicts_of_splits_are_a_type_error(turns):
    import datasets

    for wrong in (turns.to_iterable_dataset(), datasets.DatasetDict({"test": turns}), [{"turn_key": "a"}]):
        with pytest.raises(TypeError, match="choose one split, and load it without streaming"):
            PrefixTransform(wrong)


def test_a_missing_column_is_named(turns, observations):
    for transform, name in (
        (PrefixTransform(turns.rename_column("turn_key", "turn"), key="turn"), "turn"),
        (PrefixTransform(), "audio"),
    ):
        with pytest.raises(
            ValueError, match=f"rows have no column '{name}', only key, turn_key, at_s, label"
        ):
            observations.with_transform(transform)[0]


@pytest.mark.parametrize("at_s", [None, float("nan"), float("inf"), -0.001, 1.06])
def test_a_moment_outside_the_turn_names_the_row(turns, table, at_s):
    rows = table(key=["a@?"], turn_key=["a"], at_s=[at_s])
    with pytest.raises(ValueError, match=r"^key 'a@\?', turn_key 'a', at_s .*: .*at_s"):
        rows.with_transform(PrefixTransform(turns))[0]


def broken_turns(encode, wave):
    """What may be wrong with a file, and what is said of it."""
    whole = encode(wave, RATE)
    return {
        "cut in the middle": (whole[: len(whole) // 2], "damaged or cut short"),
        "empty": (b"", "is empty"),
        "no audio": (b"not a FLAC file", "is not FLAC or WAV audio"),
        "null": (None, "its audio is null"),
        "gone": ("/no/such/turn.flac", "no such audio file"),
        "mp3": (encode(wave, RATE, container="MP3", subtype="MPEG_LAYER_III"), "noisy FLAC channels"),
        "written at another rate": (encode(wave, 2 * RATE), "header says 32000 Hz, the table 16000 Hz"),
    }


@pytest.mark.parametrize(
    "fault", ["cut in the middle", "empty", "no audio", "null", "gone", "mp3", "written at another rate"]
)
def test_audio_that_cannot_be_read_names_the_row(table, encode, noise, fault):
    audio, message = broken_turns(encode, noise(RATE))[fault]
    good = encode(noise(RATE), RATE)
    turns = table([good, audio], declared_rate=RATE, turn_key=["a", "b"])
    rows = table(key=["a@1", "b@0.99"], turn_key=["a", "b"], at_s=[1.0, 0.99]).with_transform(
        PrefixTransform(turns)
    )
    assert len(rows[0]["audio"]["array"]) == RATE
    for _ in range(2):  # a fault is not remembered as anything else
        with pytest.raises(DecodeError, match=rf"^key 'b@0\.99', turn_key 'b', at_s 0\.99: .*{message}"):
            rows[1]
        with pytest.raises(DecodeError, match=r"^key 'b@0\.99'"):
            rows[:]
    assert len(rows[0]["audio"]["array"]) == RATE


def test_a_header_whose_rate_does_not_fit_the_tables_duration_names_the_row(table, encode, noise):
    for wrong in (8000, 32000):
        turns = table([encode(noise(4 * RATE), wrong)], turn_key=["a"], audio_duration_s=[4.0])
        rows = table(key=["a@1"], turn_key=["a"], at_s=[1.0]).with_transform(PrefixTransform(turns))
        message = (
            rf"^key 'a@1'.*header says {wrong} Hz, but its 64000 samples last the table's 4\.0 s at 16000 Hz"
        )
        with pytest.raises(DecodeError, match=message):
            rows[0]
        points = table([encode(noise(4 * RATE), wrong)], key=["p"], at_s=[1.0], duration_s=[4.0])
        with pytest.raises(DecodeError, match=f"^key 'p'.*header says {wrong} Hz"):
            points.with_transform(PrefixTransform())[0]


def test_a_duration_that_fits_no_rate_is_left_to_the_verification(table, encode, noise):
    turns = table([encode(noise(RATE), RATE)], turn_key=["a"], audio_duration_s=[17.3])
    rows = table(turn_key=["a"], at_s=[1.0]).with_transform(PrefixTransform(turns))
    assert len(rows[0]["audio"]["array"]) == RATE


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"window_s": 0}, ValueError),
        ({"window_s": -1.0}, ValueError),
        ({"sampling_rate": 0}, ValueError),
        ({"sampling_rate": "16000"}, TypeError),
        ({"backend": "sox"}, ValueError),
    ],
)
def test_an_option_that_means_nothing_is_an_error_at_once(options, error):
    with pytest.raises(error, match="expected"):
        PrefixTransform(**options)


def test_a_process_that_ends_with_recordings_open_ends_quietly(table, encode, noise, tmp_path):
    (tmp_path / "channel.flac").write_bytes(encode(noise(RATE), RATE))
    script = (
        "import numpy as np\n"
        "from turn_end_prefix import PrefixTransform\n"
        f"row = {{'audio': {{'bytes': None, 'path': {str(tmp_path / 'channel.flac')!r}}}, 'at_s': 0.5}}\n"
        "transform = PrefixTransform()\n"
        "assert len(transform(row)['audio']['array']) == 8000\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # by the formatter of datasets
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_stream_of_formatted_rows_is_cut_at_the_number_that_it_holds(
    observations, turns, waves, as_float, kind
):
    pytest.importorskip(kind)
    stream = observations.to_iterable_dataset().with_format(kind).map(PrefixTransform(turns), batched=True)
    for row, plain in zip(stream, observations, strict=True):
        array = np.asarray(row["audio"]["array"])
        np.testing.assert_array_equal(array, as_float(waves[plain["turn_key"]][: len(array)]))
        assert n_samples(plain["at_s"], RATE) - len(array) in (0, 1)  # these formats round to float32


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=1, max_size=8), max_size=8
    ),
    window_s=st.one_of(st.none(), st.floats(0.001, 1.5)),
    cache_bytes=st.sampled_from([0, 40_000, 1 << 30]),
)
def test_batches_in_any_order_with_any_cache_are_cut_like_single_rows(
    turns, waves, as_float, batches, window_s, cache_bytes
):
    transform = PrefixTransform(turns, window_s=window_s, cache_bytes=cache_bytes)
    for batch in batches:
        moments = [share * len(waves[key]) / RATE for key, share in batch]
        heard = transform({"turn_key": [key for key, _ in batch], "at_s": moments})["audio"]
        for (key, _), at_s, audio in zip(batch, moments, heard, strict=True):
            stop = n_samples(at_s, RATE)
            start = 0 if window_s is None else max(0, stop - n_samples(window_s, RATE))
            np.testing.assert_array_equal(audio["array"], as_float(waves[key][start:stop]))
            audio["array"][:] = 5.0
