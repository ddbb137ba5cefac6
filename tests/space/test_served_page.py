"""What the server does for many and hostile visitors, asked over HTTP as the page asks."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("gradio", "matplotlib")

LIMIT = 5 << 20

IMPATIENT = """
from mptb_metric.space.uploads import own_folder
folder = own_folder()
from mptb_metric.space import page
from mptb_metric.space.gold import load_gold
page.KEPT_S, page.SWEPT_S = 1, 1
page.launch(page.build(load_gold(None)), folder)
"""


def upload(served, content):
    status, answer = served.upload(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert status == 200, answer
    return json.loads(answer)[0]


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_an_answer_is_strict_json_though_figures_are_undefined(served, submission):
    content = submission()
    for entry in content["predictions"]:
        for speaker in entry.keys() - {"conversation_id"}:
            entry[speaker] = {"eot": [], "int": []}
    status, *_, scores, groups = served.answer(served.ask(upload(served, content)))[:4]
    assert "recall 0.0 %" in status
    assert "n/a" in scores
    assert "n/a" in groups


def test_a_file_of_the_largest_size_is_taken_and_a_larger_one_is_not(served):
    assert served.upload(b" " * LIMIT)[0] == 200
    assert served.upload(b" " * (LIMIT + 1))[0] == 413
    status, answer = served.upload(b" " * (10 * LIMIT))
    assert (status, "too large" in answer) == (413, True)


def test_many_files_in_one_request_count_together(served):
    assert served.upload(*[b" " * 2_000_000] * 2)[0] == 200
    assert served.upload(*[b" " * 2_000_000] * 3)[0] == 413


def test_a_request_that_hides_its_size_is_cut_off(served):
    def body():
        yield b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.json"\r\n\r\n'
        for _ in range(100):
            yield b" " * 100_000
        yield b"\r\n--B--\r\n"

    status, answer = served.post(
        "upload",
        body(),
        **{"Content-Type": "multipart/form-data; boundary=B", "Transfer-Encoding": "chunked"},
    )
    assert (status, "too large" in answer) == (413, True)


def test_a_hundred_uploads_stay_below_the_cap_and_the_last_is_still_there(served, submission):
    for number in range(100):
        assert served.upload(os.urandom(2_000_000), name=f"{number}.json")[0] == 200
    path = upload(served, submission())
    assert size(served.uploads) <= 101 << 20
    assert "recall" in served.answer(served.ask(path))[0]


def test_what_is_uploaded_is_deleted_after_its_time(serve, tmp_path):
    with serve(tmp_path, "-c", IMPATIENT) as served:
        path = Path(upload(served, b"{}"))
        for _ in range(200):
            if not path.exists():
                break
            time.sleep(0.1)
        assert size(served.uploads) == 0


def test_files_of_no_size_are_limited_in_number_too(tmp_path):
    from mptb_metric.space.uploads import BLOCK_BYTES, keep_below

    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "x").touch()
        os.utime(folder / "x", (number, number))
    keep_below(tmp_path, 5 * BLOCK_BYTES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["15", "16", "17", "18", "19"]


def test_an_address_on_the_server_is_no_upload(served):
    with pytest.raises(AssertionError, match="error"):
        served.answer(served.ask("/etc/passwd"))


def test_a_second_visitor_is_served_while_the_first_ones_file_is_scored(served, submission):
    large = submission()
    large["predictions"][0]["speaker_1"]["eot"] = [round(n * 1e-4, 4) for n in range(380_000)]
    address = served.ask(upload(served, large))
    finished = []
    first = threading.Thread(target=lambda: finished.append(served.answer(address)[0]))
    first.start()
    assert "recall" in served.answer(served.ask(upload(served, submission())))[0]
    assert finished == []
    first.join()
    assert "recall" in finished[0]
