"""`verify` on a turn-end-detection tree: every planted fault, with its number and the first of them."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mptb_dataset import verify


@pytest.fixture
def tree(turn_sample, tmp_path):
    return shutil.copytree(turn_sample, tmp_path / "tree")


@pytest.fixture
def plant(tree):
    """Change rows of a shard: plant("observations", "test", {3: {"label": 1}}), or by a function of them."""

    def change(config, split, changes):
        (path,) = (tree / config).glob(f"{config}-{split}-*.parquet")
        table = pq.read_table(path)
        rows = table.to_pylist()
        if callable(changes):
            rows = changes(rows) or rows
        else:
            for index, values in changes.items():
                rows[index].update(values)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
        return rows

    return change


@pytest.fixture
def rows(tree):
    def read(config, split):
        (path,) = (tree / config).glob(f"{config}-{split}-*.parquet")
        return pq.read_table(path).to_pylist()

    return read


def only(tree):
    (problem,) = verify(tree).problems
    return problem


def test_rows_of_every_table_are_counted(tree):
    assert verify(tree).checked == {"observations": 70, "turns": 32, "endpoints": 96}


def test_progress_reaches_its_end(tree):
    steps = []
    verify(tree, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(k + 1, 7) for k in range(7)]


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("payload_cut", 0),
        ("trailing_frag", 0),
        ("mid_thought_cut", 0),
        ("word_cut", 0),
        ("chunk_cut", 1),
        ("complete", 1),
    ],
)
def test_a_label_that_is_not_the_one_of_its_kind_is_found(tree, plant, kind, label):
    def flip(rows):
        for row in rows[:5]:
            row.update(kind=kind, label=1 - label)

    rows = plant("observations", "test", flip)
    problem = only(tree)
    assert (problem.file, problem.count) == ("observations, test", 5)
    assert problem.examples == tuple(f"{row['key']} is {kind} with label {1 - label}" for row in rows[:3])
    assert str(problem).startswith(
        "observations, test: field 'label' is not the one of its 'kind' (5 in all, first: "
    )


def test_a_label_that_is_null_is_found(tree, plant):
    plant("observations", "test", {0: {"label": None}})
    assert "field 'label' is not the one of its 'kind'" in str(only(tree))


@pytest.mark.parametrize("kind", ["cut", None])
def test_a_kind_that_the_card_does_not_know_is_found(tree, plant, kind):
    rows = plant("observations", "train", {2: {"kind": kind}})
    problem = only(tree)
    assert problem.message.startswith("field 'kind': expected one of payload_cut")
    assert problem.examples == (f"{rows[2]['key']} is {kind!r}",)


def test_a_key_that_stands_twice_is_found(tree, plant, rows):
    plant("observations", "validation", {1: {"key": rows("observations", "validation")[0]["key"]}})
    assert "observations, validation: field 'key' stands more than once (1 in all" in str(only(tree))


@pytest.mark.parametrize("turn_key", ["nobody", None])
def test_observations_without_a_turn_are_found(tree, plant, turn_key):
    rows = plant("observations", "test", {k: {"turn_key": turn_key} for k in (0, 4, 5, 9)})
    problem = only(tree)
    assert (problem.message, problem.count) == ("field 'turn_key': no such turn", 4)
    assert problem.examples == tuple(rows[k]["key"] for k in (0, 4, 5))


def test_a_turn_of_another_split_is_no_turn_of_this_one(tree, plant, rows):
    plant("observations", "test", {0: {"turn_key": rows("turns", "validation")[0]["turn_key"]}})
    assert only(tree).message == "field 'turn_key': no such turn"


@pytest.mark.parametrize("at_s", [1000.0, -0.01, float("nan"), float("inf"), None])
def test_a_moment_outside_the_audio_is_found(tree, plant, at_s):
    rows = plant("observations", "test", {6: {"at_s": at_s}})
    problem = only(tree)
    assert problem.message == "field 'at_s' lies outside the turn's audio"
    assert problem.examples[0].startswith(f"{rows[6]['key']} at {at_s} s of ")


@pytest.mark.parametrize(("past_s", "problems"), [(0.049, 0), (0.051, 1)])
def test_a_moment_may_lie_fifty_milliseconds_past_the_audio(tree, plant, rows, past_s, problems):
    import io

    import soundfile

    observation = rows("observations", "test")[0]
    (audio,) = [t["audio"] for t in rows("turns", "test") if t["turn_key"] == observation["turn_key"]]
    info = soundfile.info(io.BytesIO(audio["bytes"]))
    plant("observations", "test", {0: {"at_s": info.frames / info.samplerate + past_s}})
    assert len(verify(tree).problems) == problems


def test_a_turn_that_is_in_two_splits_is_found(tree, plant, rows):
    stray = rows("turns", "test")[0]
    plant("turns", "validation", lambda rows: [*rows, stray])
    problem = only(tree)
    assert (problem.message, problem.examples) == (
        "field 'turn_key' stands in more than one split",
        (stray["turn_key"],),
    )


def test_a_turn_that_stands_twice_is_found(tree, plant, rows):
    plant("turns", "validation", lambda rows: [*rows, rows[0]])
    key = rows("turns", "validation")[0]["turn_key"]
    assert (
        str(only(tree))
        == f"turns, validation: field 'turn_key' stands more than once (1 in all, first: {key})"
    )


@pytest.mark.parametrize("duration_s", [0.5, None, float("nan")])
def test_a_duration_that_is_not_the_audio_s_is_found(tree, plant, duration_s):
    rows = plant("turns", "validation", {1: {"audio_duration_s": duration_s}})
    problem = only(tree)
    assert problem.message == "field 'audio_duration_s' is not the audio's length"
    assert problem.examples[0].startswith(f"{rows[1]['turn_key']} has {duration_s}, the audio ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {"bytes": data[:-200], "path": None}, "cut short|decoded to its end"),
        (lambda data: {"bytes": data[: len(data) // 2], "path": None}, "cut short|decoded to its end"),
        (lambda data: {"bytes": b"", "path": None}, "no audio"),
        (lambda data: {"bytes": b"no flac", "path": None}, "expected a FLAC file"),
        (lambda data: {"bytes": None, "path": "gone.flac"}, "expected a FLAC file"),
        (lambda data: None, "no audio"),
    ],
)
def test_audio_that_cannot_be_used_is_found(tree, plant, rows, change, message):
    data = rows("turns", "validation")[2]["audio"]["bytes"]
    changed = plant("turns", "validation", {2: {"audio": change(data)}})
    problem = only(tree)
    assert problem.message == "field 'audio' cannot be used"
    assert problem.examples[0].startswith(f"{changed[2]['turn_key']}: ")
    assert any(part in problem.examples[0] for part in message.split("|"))


def test_audio_at_another_rate_is_found(tree, plant, make_flac):
    plant("turns", "validation", {2: {"audio": {"bytes": make_flac(seconds=3.0), "path": None}}})
    assert "24000 Hz with 1 channel: expected 16000 Hz mono" in only(tree).examples[0]


@pytest.mark.parametrize(
    ("fired_s", "duration_s", "cut_early", "fine"),
    [
        (1.0, 2.0, True, True),
        (1.0, 2.0, False, False),
        (2.0, 2.0, False, True),
        (2.0, 2.0, True, False),
        (3.0, 2.0, True, False),
        (None, 2.0, False, True),
        (None, 2.0, None, True),
        (None, 2.0, True, False),
        (1.0, 2.0, None, False),
        (float("nan"), 2.0, False, True),
    ],
)
def test_cut_early_must_say_whether_the_endpoint_came_before_the_end(
    tree, plant, rows, fired_s, duration_s, cut_early, fine
):
    shutil.rmtree(tree / "turns")
    changes = {"first_endpoint_s": fired_s, "audio_duration_s": duration_s, "cut_early": cut_early}
    plant("endpoints", "test", {7: changes})
    problems = [p for p in verify(tree).problems if p.file == "endpoints, test"]
    assert [p.message for p in problems] == (
        [] if fine else ["field 'cut_early' is not first_endpoint_s < audio_duration_s"]
    )


def test_an_endpoint_without_a_duration_is_found(tree, plant):
    plant("endpoints", "test", {7: {"audio_duration_s": None, "first_endpoint_s": 1.0, "cut_early": False}})
    assert "field 'audio_duration_s' is null" in str(only(tree))


def test_an_endpoint_without_a_turn_is_found(tree, plant):
    rows = plant("endpoints", "test", {7: {"turn_key": "nobody"}})
    assert only(tree).examples == (f"nobody, {rows[7]['arm']}",)


def test_an_arm_that_stands_twice_for_one_turn_is_found(tree, plant):
    plant("endpoints", "test", lambda rows: [*rows, rows[3]])
    assert only(tree).message == "field 'turn_key, arm' stands more than once"


def test_an_endpoint_s_duration_that_is_not_its_turn_s_is_found(tree, plant, rows):
    duration_s = rows("endpoints", "test")[7]["audio_duration_s"]
    plant(
        "endpoints",
        "test",
        {7: {"audio_duration_s": duration_s + 1, "first_endpoint_s": None, "cut_early": False}},
    )
    assert only(tree).message == "field 'audio_duration_s' is not the turn's"


def test_a_missing_table_is_found_and_the_others_are_looked_at(tree, plant):
    shutil.rmtree(tree / "endpoints")
    plant("observations", "test", {0: {"label": 7}})
    first, second = verify(tree).problems
    assert "no table 'endpoints'" in first.message
    assert second.message == "field 'label' is not the one of its 'kind'"


def test_a_table_without_a_known_column_is_found(tree):
    (path,) = (tree / "observations").glob("*test*")
    pq.write_table(pq.read_table(path).drop_columns("kind"), path)
    assert "no column 'kind'" in only(tree).message


def test_a_column_of_another_type_is_found(tree):
    (path,) = (tree / "observations").glob("*test*")
    table = pq.read_table(path)
    place = table.column_names.index("at_s")
    pq.write_table(table.set_column(place, "at_s", pa.array(["soon"] * len(table))), path)
    assert "soon" in only(tree).message


def test_a_shard_that_is_not_parquet_is_found_and_the_rest_is_looked_at(tree, plant):
    (path,) = (tree / "turns").glob("*train*")
    path.write_bytes(b"x")
    plant("observations", "test", {0: {"label": 7}})
    found = {problem.file: problem.message for problem in verify(tree).problems}
    assert set(found) == {"observations, test", "turns, train"}
    assert "expected a Parquet file" in found["turns, train"]


def test_nothing_but_nulls_is_no_crash(tree, plant):
    for config, splits in {
        "observations": ("train", "test"),
        "turns": ("test",),
        "endpoints": ("test",),
    }.items():
        for split in splits:
            plant(config, split, lambda rows: [dict.fromkeys(row) for row in rows])
    assert not verify(tree).ok
