"""Streams from a repository: they read as they go, and what they give can be heard without torchcodec."""

import io
from pathlib import Path

import numpy as np
import soundfile

from mptb_dataset import sample_dir

MPTB, TURN_END = "puneetUMD/MultiPartyTurnBench", "mazesmazes/turn-end-detection"
SAMPLE = Path(sample_dir("mptb"))

STREAM = """
import mptb_dataset
answer = list(mptb_dataset.load_dataset("channels", split="dev", decode=False, streaming=True))
"""


def test_a_stream_reads_annotations_only_until_audio_is_used(hub, client, local_rows):
    rows = client(STREAM)
    expected = local_rows("channels", "dev")
    assert [{k: v for k, v in row.items() if k != "audio"} for row in rows] == [
        {k: v for k, v in row.items() if k != "audio"} for row in expected
    ]
    assert not [name for name in hub.downloads() if name.endswith(".flac")]
    assert not [name for name in hub.downloads() if name.startswith("test/")]


def test_streamed_audio_is_read_by_address_without_torchcodec(hub, client):
    code = """
    sys.modules["torchcodec"] = None
    import mptb_dataset
    from turn_end_prefix import read_prefix
    stream = mptb_dataset.load_dataset("channels", split="dev", streaming=True)
    samples, rate = read_prefix(next(iter(stream))["audio"], 1.5)
    answer = [samples.tolist(), rate]
    """
    samples, rate = client(code)
    data = (SAMPLE / "dev/audio/noisy/dev_00001_speaker_1.flac").read_bytes()
    whole, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    assert rate == 24_000
    assert np.array_equal(np.float32(samples), whole[:36_000])


def test_a_busy_hub_does_not_look_like_an_empty_one_to_a_stream(hub, client):
    hub.refuse(f"/api/datasets/{MPTB}$", status=429, times=1)
    hub.refuse("/api/datasets/.*/revision/", status=429, times=2)
    hub.refuse("/resolve/.*/dev/annotations", status=503, times=1)
    assert len(client(STREAM)) == 6


def test_a_stream_survives_a_cut_connection(hub, client):
    hub.cut("annotations/events/dev_00003.json")
    assert len(client(STREAM)) == 6


def test_a_stream_of_turns_fetches_a_row_group_for_its_first_row(empty_hub, client, big_turns):
    empty_hub.add(TURN_END, big_turns)
    code = """
    import mptb_dataset
    stream = mptb_dataset.load_dataset("turns", split="validation", streaming=True, decode=False)
    answer = len(next(iter(stream))["audio"]["bytes"])
    """
    assert client(code) == 50_000
    assert sum(request.sent for request in empty_hub.requests) < 1_000_000
