"""The transform inside DataLoader workers: every row once per epoch, the right prefix in each."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from turn_end_prefix import PrefixTransform, TurnBatchSampler, collate_prefixes, n_samples

RATE = 16000
N_TURNS = 12


@pytest.fixture(scope="module")
def data():
    return pytest.importorskip("torch.utils.data")


@pytest.fixture
def waves(noise):
    return {f"t{turn}": noise(RATE // 2 + 101 * turn, turn) for turn in range(N_TURNS)}


@pytest.fixture
def turns(table, encode, waves, tmp_path):
    import datasets

    table(
        [encode(wave, RATE) for wave in waves.values()], declared_rate=RATE, turn_key=list(waves)
    ).save_to_disk(tmp_path / "turns")
    return datasets.load_from_disk(tmp_path / "turns")


@pytest.fixture
def observations(table):
    counts = {f"t{turn}": 1 + turn % 3 for turn in range(N_TURNS)}
    keys = [key for key, count in counts.items() for _ in range(count)]
    moments = np.random.default_rng(0).uniform(0, 0.5, len(keys))
    return table(key=[f"r{row}" for row in range(len(keys))], turn_key=keys, at_s=moments)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_three_epochs_of_two_workers_give_each_row_once_per_epoch(
    data, observations, turns, waves, as_float, start
):
    heard = observations.with_transform(PrefixTransform(turns))
    assert len(heard[0]["audio"]["array"])  # the parent has a file open when its workers start
    sampler = TurnBatchSampler(observations, 4)
    loader = data.DataLoader(
        heard,
        batch_sampler=sampler,
        num_workers=2,
        collate_fn=collate_prefixes,
        multiprocessing_context=start,
        persistent_workers=True,
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        seen = Counter()
        for batch in loader:
            for row, key in enumerate(batch["key"]):
                stop = n_samples(float(batch["at_s"][row]), RATE)
                wave = waves[batch["turn_key"][row]][:stop]
                assert batch["lengths"][row] == stop == batch["attention_mask"][row].sum()
                assert batch["attention_mask"][row, :stop].all() and not batch["audio"][row, stop:].any()
                np.testing.assert_array_equal(batch["audio"][row, :stop].numpy(), as_float(wave))
                seen[key] += 1
        assert seen == Counter(observations["key"][:])


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
@pytest.mark.parametrize("n_workers", [0, 1, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_stream_is_shared_among_workers_without_loss_or_repeat(
    data, observations, turns, waves, as_float, n_workers, shuffled
):
    stream = observations.to_iterable_dataset(num_shards=3)
    if shuffled:
        stream = stream.shuffle(seed=0, buffer_size=5)
    stream = stream.map(PrefixTransform(turns), batched=True, batch_size=3)
    loader = data.DataLoader(stream, num_workers=n_workers, batch_size=2, collate_fn=collate_prefixes)
    seen = Counter()
    for batch in loader:
        for row, key in enumerate(batch["key"]):
            stop = int(batch["lengths"][row])
            wave = waves[batch["turn_key"][row]][:stop]
            np.testing.assert_array_equal(batch["audio"][row, :stop].numpy(), as_float(wave))
            seen[key] += 1
    assert seen == Counter(observations["key"][:])


def test_forked_workers_do_not_move_the_parents_place_in_a_file(
    data, table, encode, noise, as_float, tmp_path
):
    wave = noise(4 * RATE)
    (tmp_path / "channel.flac").write_bytes(encode(wave, RATE))
    moments = np.linspace(0.1, 4.0, 60)
    points = table([tmp_path / "channel.flac"] * 60, at_s=moments, row=list(range(60)))
    heard = points.with_transform(PrefixTransform())
    loader = data.DataLoader(
        heard, batch_size=2, num_workers=2, collate_fn=collate_prefixes, multiprocessing_context="fork"
    )
    heard[3]
    for index, batch in enumerate(loader):
        for row, point in enumerate(batch["row"].tolist()):
            stop = n_samples(moments[point], RATE)
            np.testing.assert_array_equal(batch["audio"][row, :stop].numpy(), as_float(wave[:stop]))
        mine = heard[index]["audio"]["array"]
        np.testing.assert_array_equal(mine, as_float(wave[: n_samples(moments[index], RATE)]))


def test_an_error_in_a_worker_still_names_the_row(data, observations, turns):
    bad = observations.map(lambda row: {"at_s": 99.0 if row["key"] == "r5" else row["at_s"]})
    loader = data.DataLoader(
        bad.with_transform(PrefixTransform(turns)), batch_size=3, num_workers=1, collate_fn=collate_prefixes
    )
    with pytest.raises(
        ValueError, match=r"key 'r5', turn_key 't2', at_s 99\.0: at_s 99\.0 lies past the end"
    ):
        list(loader)
