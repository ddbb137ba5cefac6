"""In a process of its own: what is registered, opened, connected to, and what happens without torchcodec."""

import os
import shutil

import pytest

ABSENT = """
    import sys
    sys.modules["torchcodec"] = None  # as if it were not installed
"""


def test_datasets_does_not_know_mptb_before_the_package_is_imported(run_python, tree):
    out = run_python(
        f"""
        import datasets
        try:
            datasets.load_dataset("mptb", "channels", data_dir={str(tree)!r}, split="dev")
        except Exception as error:
            print(type(error).__name__)
        """
    )
    assert out.strip()


def test_datasets_knows_mptb_once_the_package_is_imported(run_python, tree):
    out = run_python(
        f"""
        import datasets, mptb_metric, turn_end_prefix
        import mptb_dataset
        for config in ("conversations", "channels", None):
            print(len(datasets.load_dataset("mptb", config, data_dir={str(tree)!r}, split="dev")))
        """
    )
    assert out.split() == ["2", "5", "2"]


def test_a_datasets_without_its_table_of_modules_leaves_our_own_way_in(run_python, tree):
    out = run_python(
        f"""
        import datasets.packaged_modules
        del datasets.packaged_modules._PACKAGED_DATASETS_MODULES
        import mptb_dataset
        print(mptb_dataset.loading.register())
        print(len(mptb_dataset.load_dataset("channels", data_dir={str(tree)!r}, split="dev", decode=False)))
        """
    )
    assert out.split() == ["False", "5"]


def test_without_a_folder_datasets_does_not_take_what_lies_around(run_python, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    (here / "test.csv").write_text("a,b\n1,2\n")
    out = run_python(
        """
        import datasets
        import mptb_dataset
        try:
            datasets.load_dataset("mptb", "channels")
        except mptb_dataset.CorpusError as error:
            print(error)
        """,
        cwd=here,
    )
    assert out.startswith("data_dir is missing")


def test_a_local_corpus_is_loaded_without_opening_a_socket(run_python, tree, turn_sample):
    out = run_python(
        f"""
        import socket

        def refuse(*arguments):
            raise AssertionError("a socket was opened")

        socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
        import mptb_dataset
        for name in ("conversations", "channels", "decision_points"):
            for streaming in (False, True):
                tables = mptb_dataset.load_dataset(
                    name, data_dir={str(tree)!r}, decode=False, streaming=streaming
                )
                next(iter(tables["dev"]))
        for name in ("observations", "turns", "endpoints"):
            mptb_dataset.load_dataset(name, data_dir={str(turn_sample)!r}, decode=False)
        import datasets
        datasets.load_dataset("mptb", "channels", data_dir={str(tree)!r})
        print(mptb_dataset.verify({str(tree)!r}).ok)
        """,
        HF_HUB_OFFLINE="0",
    )
    assert out.strip() == "True"


def test_loading_dev_opens_no_file_of_test_and_no_audio(run_python, tree):
    out = run_python(
        f"""
        import os, sys
        opened = []

        def spy(event, arguments):
            if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
                opened.append(os.path.abspath(os.fsdecode(arguments[0])))

        sys.addaudithook(spy)
        import mptb_dataset
        root = {str(tree)!r}
        for name in ("conversations", "channels", "decision_points"):
            mptb_dataset.load_dataset(name, data_dir=root, split="dev", audio="both", decode=False)
            for row in mptb_dataset.load_dataset(
                name, data_dir=root, split="dev", audio="both", decode=False, streaming=True
            ):
                pass
        inside = [path for path in opened if path.startswith(root)]
        print(any("/dev/annotations/events/" in path for path in inside))
        print([path for path in inside if "/test/" in path or "/audio/" in path])
        """
    )
    assert out.split() == ["True", "[]"]


def test_preparing_a_table_reads_no_audio_whatever_library_would_do_it(load, tree):
    """The system's own record of reading, where it keeps one: C libraries open files behind Python's back."""
    files = sorted(tree.rglob("*.flac"))
    long_ago = 1_000_000_000
    for path in files:
        os.utime(path, (long_ago, path.stat().st_mtime))
    control = tree / "control"
    control.write_bytes(b"x")
    os.utime(control, (long_ago, control.stat().st_mtime))
    control.read_bytes()
    if control.stat().st_atime == long_ago:
        pytest.skip("this file system does not record when files are read")
    for name in ("conversations", "channels", "decision_points"):
        load(name, data_dir=tree, audio="both", decode=True)
    assert {path.stat().st_atime for path in files} == {long_ago}


def test_building_needs_no_torch(run_python, tree, turn_sample):
    out = run_python(
        f"""
        import sys
        import mptb_dataset
        for name in ("conversations", "channels", "decision_points"):
            mptb_dataset.load_dataset(name, data_dir={str(tree)!r}, split="dev", decode=True)
        mptb_dataset.load_dataset("turns", data_dir={str(turn_sample)!r}, split="validation", decode=True)
        print("torch" in sys.modules, "soundfile" in sys.modules)
        """
    )
    assert out.split()[0] == "False"


def test_without_torchcodec_audio_comes_undecoded_and_without_a_warning(run_python, tree, turn_sample):
    out = run_python(
        ABSENT
        + f"""
    import warnings
    warnings.simplefilter("error")
    import mptb_dataset
    row = mptb_dataset.load_dataset("channels", data_dir={str(tree)!r}, split="dev")[0]
    print(sorted(row["audio"]), row["audio"]["bytes"], row["audio"]["path"][-24:])
    row = mptb_dataset.load_dataset("conversations", data_dir={str(tree)!r}, split="dev")[0]
    print([sorted(audio) for audio in row["audio_noisy"]])
    row = mptb_dataset.load_dataset("turns", data_dir={str(turn_sample)!r}, split="validation")[0]
    print(row["audio"]["bytes"][:4])
    """
    )
    assert out.splitlines() == [
        "['bytes', 'path'] None dev_00001_speaker_1.flac",
        "[['bytes', 'path'], ['bytes', 'path']]",
        "b'fLaC'",
    ]


def test_a_broken_torchcodec_gives_undecoded_audio_and_one_warning_that_names_the_cause(
    run_python, tree, tmp_path
):
    stub = tmp_path / "stub" / "torchcodec"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text('raise RuntimeError("Could not load libtorchcodec")\n')
    out = run_python(
        f"""
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import mptb_dataset
            row = mptb_dataset.load_dataset("channels", data_dir={str(tree)!r}, split="dev")[0]
        print(sorted(row["audio"]))
        print([str(w.message) for w in caught if "torchcodec" in str(w.message)])
        """,
        path=[stub.parent],
    )
    rows, warning = out.splitlines()
    assert rows == "['bytes', 'path']"
    assert warning.count("torchcodec is installed but cannot be imported (RuntimeError)") == 1


def test_decoded_audio_can_be_refused_although_torchcodec_works(load, tree):
    row = load("channels", data_dir=tree, split="dev", decode=False)[0]
    assert set(row["audio"]) == {"bytes", "path"}


def test_a_read_only_corpus_loads(load, tree):
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert len(load("channels", data_dir=tree, split="dev")) == 5
    finally:
        for path in [tree, *tree.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(tree)
