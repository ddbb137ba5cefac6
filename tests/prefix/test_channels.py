"""`other_channels=True`: every channel of a decision point's conversation, cut at the same sample."""

from __future__ import annotations

import numpy as np
import pytest

from turn_end_prefix import DecodeError, JoinError, PrefixTransform, n_samples

RATE = 24000
SPEAKERS = ["speaker_1", "speaker_2", "speaker_3"]


@pytest.fixture
def waves(noise):
    """A conversation of three and one of two: int16 by conversation and speaker."""
    return {("dev_00001", speaker): noise(3 * RATE, seed) for seed, speaker in enumerate(SPEAKERS)} | {
        ("dev_00002", speaker): noise(2 * RATE, seed) for seed, speaker in enumerate(SPEAKERS[:2], 9)
    }


@pytest.fixture
def folder(tmp_path, encode, waves):
    for (conversation, speaker), wave in waves.items():
        (tmp_path / f"{conversation}_{speaker}.flac").write_bytes(encode(wave, RATE))
    return tmp_path


@pytest.fixture
def points(table, folder):
    """Moments of both conversations, with their speakers and their own channel's file."""
    asked = [
        ("dev_00001", "speaker_2", 2.5),
        ("dev_00002", "speaker_1", 1.0),
        ("dev_00001", "speaker_3", 0.7),
    ]
    return table(
        [folder / f"{conversation}_{speaker}.flac" for conversation, speaker, _ in asked],
        declared_rate=RATE,
        key=[f"{conversation}/{speaker}" for conversation, speaker, _ in asked],
        conversation_id=[conversation for conversation, _, _ in asked],
        speaker=[speaker for _, speaker, _ in asked],
        speakers=[SPEAKERS, SPEAKERS[:2], SPEAKERS],
        at_s=[at_s for _, _, at_s in asked],
    )


@pytest.fixture
def channels(table, encode, waves):
    return table(
        [encode(wave, RATE) for wave in waves.values()],
        declared_rate=RATE,
        conversation_id=[conversation for conversation, _ in waves],
        speaker=[speaker for _, speaker in waves],
        duration_s=[len(wave) / RATE for wave in waves.values()],
    )


def assert_channels(rows, waves, as_float, window=None):
    for row in rows:
        stop = n_samples(row["at_s"], RATE)
        start = 0 if window is None else max(0, stop - window)
        there = [speaker for conversation, speaker in waves if conversation == row["conversation_id"]]
        assert list(row["channels"]) == there
        for speaker in there:
            wave = waves[row["conversation_id"], speaker]
            np.testing.assert_array_equal(row["channels"][speaker], as_float(wave[start:stop]))
        np.testing.assert_array_equal(row["audio"]["array"], row["channels"][row["speaker"]])
        assert row["audio"]["sampling_rate"] == RATE


@pytest.mark.parametrize("window_s", [None, 0.5])
def test_the_files_beside_a_rows_own_are_its_other_channels(points, waves, as_float, window_s, backend):
    transform = PrefixTransform(other_channels=True, window_s=window_s, backend=backend)
    window = None if window_s is None else 12000
    assert_channels(list(points.with_transform(transform)), waves, as_float, window)
    assert_channels(points.with_transform(transform).__getitems__([0, 1, 2]), waves, as_float, window)


def test_a_table_of_channels_gives_the_same(points, channels, waves, as_float):
    transform = PrefixTransform(channels.select([3, 4, 0, 1, 2]), other_channels=True)
    assert_channels(
        list(points.remove_columns(["audio", "speakers"]).with_transform(transform)), waves, as_float
    )
    stream = points.to_iterable_dataset().map(transform, batched=True, batch_size=2)
    assert_channels(list(stream), waves, as_float)


def test_speakers_are_not_mixed(table, encode, backend):
    rows = table(
        [encode(np.full(RATE, level), RATE) for level in (0.125, 0.25, 0.5)],
        conversation_id=["x"] * 3,
        speaker=SPEAKERS,
    )
    point = table(conversation_id=["x"], speaker=["speaker_1"], at_s=[0.5])
    row = point.with_transform(PrefixTransform(rows, other_channels=True, backend=backend))[0]
    for speaker, level in zip(SPEAKERS, (0.125, 0.25, 0.5), strict=True):
        np.testing.assert_array_equal(row["channels"][speaker], np.full(12000, level, np.float32))


def test_a_batch_decodes_each_channel_once(points, frames_read):
    points.with_transform(PrefixTransform(other_channels=True))[:]
    assert sorted(frames_read) == sorted([n_samples(2.5, RATE)] * 3 + [RATE] * 2)


def test_a_missing_channel_is_an_error_and_never_a_row_with_fewer_speakers(points, folder):
    (folder / "dev_00001_speaker_1.flac").unlink()
    heard = points.with_transform(PrefixTransform(other_channels=True))
    with pytest.raises(
        DecodeError, match=r"key 'dev_00001/speaker_2'.*dev_00001_speaker_1\.flac: no such audio"
    ):
        heard[0]


def test_channels_that_end_at_different_moments_are_not_aligned(points, folder, encode, waves):
    shorter = waves["dev_00002", "speaker_2"][: RATE - 100]
    (folder / "dev_00002_speaker_2.flac").write_bytes(encode(shorter, RATE))
    message = "key 'dev_00002/speaker_1'.*not aligned: {'speaker_1': 24000, 'speaker_2': 23900} samples"
    with pytest.raises(ValueError, match=message):
        points.with_transform(PrefixTransform(other_channels=True))[1]


def test_channels_at_different_rates_are_not_aligned(points, folder, encode, waves):
    (folder / "dev_00002_speaker_2.flac").write_bytes(encode(waves["dev_00002", "speaker_2"], 16000))
    with pytest.raises(ValueError, match=r"key 'dev_00002/speaker_1'.*not aligned.*\[16000, 24000\] Hz"):
        points.with_transform(PrefixTransform(other_channels=True))[1]


def test_audio_inside_the_table_needs_the_table_of_channels(points, table, folder):
    data = (folder / "dev_00001_speaker_2.flac").read_bytes()
    cell = {"bytes": data, "path": "dev_00001_speaker_2.flac"}
    inside = table([cell], **points.remove_columns("audio").select([0])[:])
    with pytest.raises(
        ValueError, match=r"key 'dev_00001/speaker_2'.*PrefixTransform\(channels, other_channels"
    ):
        inside.with_transform(PrefixTransform(other_channels=True))[0]


def test_a_conversation_or_speaker_that_the_table_lacks_is_named(points, channels):
    for lacking in (channels.select([0, 2]), channels.select([3])):
        heard = points.with_transform(PrefixTransform(lacking, other_channels=True))
        with pytest.raises(
            JoinError, match="conversation_id 'dev_00001', speaker 'speaker_2' is not in the table"
        ):
            heard[0]


def test_a_speaker_of_the_row_that_the_table_lacks_is_named_too(points, channels):
    heard = points.with_transform(PrefixTransform(channels.select([0, 1]), other_channels=True))
    with pytest.raises(
        JoinError, match=r"key 'dev_00001/speaker_2'.*speaker 'speaker_3' is not in the table"
    ):
        heard[0]


def test_rows_that_do_not_say_whose_they_are_are_refused(points, channels):
    with pytest.raises(ValueError, match="rows have no column 'speaker', only"):
        points.remove_columns("speaker").with_transform(PrefixTransform(channels, other_channels=True))[0]
    with pytest.raises(ValueError, match="rows have no column 'speakers', only"):
        points.remove_columns("speakers").with_transform(PrefixTransform(other_channels=True))[0]
