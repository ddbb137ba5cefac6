"""The pictures: whole whatever is undefined, small whatever was decided."""

import base64
import re
from xml.etree import ElementTree

import pytest

from mptb_metric.space.marks import marks_of
from mptb_metric.space.scoring import score

pytestmark = [
    pytest.mark.needs("matplotlib"),
    pytest.mark.filterwarnings("ignore::mptb_metric.intervals.BootstrapWarning"),
]


@pytest.fixture
def scored(gold, submission, saved):
    def run(content, letter=""):
        return score(saved(content), gold.splits["test"], protocol="mptb", name="mine.json", letter=letter)

    return run


@pytest.fixture
def silent(submission):
    content = submission()
    for entry in content["predictions"]:
        for speaker in entry.keys() - {"conversation_id"}:
            entry[speaker] = {"eot": [], "int": []}
    return content


@pytest.fixture
def draw(gold, scored):
    from mptb_metric.space import figures

    def draw(content, conversation_id="test_00001"):
        row = gold.splits["test"].conversations[conversation_id]
        marks = marks_of(row, scored(content))
        return figures.timeline(row, marks, title="Timeline", caption="What it shows.")

    return draw


def svg(html):
    """The picture in an image element, parsed."""
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)[1]
    return ElementTree.fromstring(base64.b64decode(data))


def test_a_silent_system_has_all_pictures(draw, scored, silent):
    from mptb_metric.space import figures

    one = scored(silent)
    assert svg(figures.plane([one], budget=0.15)).tag.endswith("svg")
    assert "EOT: no hits. INT: no hits." in figures.latencies([one])
    assert svg(draw(silent)).tag.endswith("svg")


def test_a_point_that_is_undefined_is_named_below_the_plane(gold, scored, silent):
    from mptb_metric.space import figures

    one = scored(silent)
    one.result["int_fpr"] = float("nan")
    assert "Not shown, since undefined: INT." in figures.plane([one], budget=0.15)
    assert "undefined" not in figures.plane([scored(silent)], budget=0.15)


def test_two_systems_share_a_plane(scored, submission, silent):
    from mptb_metric.space import figures

    systems = [scored(submission(), "A"), scored(silent, "B")]
    assert "EOT B: no hits." in figures.latencies(systems)
    assert svg(figures.plane(systems, budget=0.10)).tag.endswith("svg")


def test_tens_of_thousands_of_decisions_make_a_small_picture(draw, submission):
    content = submission()
    content["predictions"][0]["speaker_1"]["eot"] = [round(n * 4e-4, 4) for n in range(95_000)]
    assert len(draw(content)) < 1_000_000


@pytest.mark.parametrize(
    ("duration_s", "decided_s", "n_rows"),
    [(208.0, 1.0, 4), (60.0, 1.0, 1), (60.001, 1.0, 2), (59.0, 60.0, 1), (59.0, 61.5, 2)],
)
def test_a_conversation_has_a_row_for_every_minute_with_something_in_it(gold, duration_s, decided_s, n_rows):
    from mptb_metric.space import figures

    row = {**gold.splits["test"].conversations["test_00001"], "duration_s": duration_s}
    nothing = {"hit": [], "miss": [], "false positive": [], "elsewhere": []}
    marks = {(anchor["speaker"], anchor["track"]): dict(nothing) for anchor in row["anchors"]}
    marks["speaker_1", "eot"]["hit"] = [decided_s]
    groups = [part.get("id", "") for part in svg(figures.timeline(row, marks, title="", caption="")).iter()]
    assert len([name for name in groups if re.fullmatch(r"axes_\d+", name)]) == n_rows


def test_a_conversation_of_no_length_is_drawn(gold):
    from mptb_metric.space import figures

    row = {
        "conversation_id": "x",
        "duration_s": 0.0,
        "speakers": ["speaker_1"],
        "events": [],
        "anchors": [
            {
                "speaker": "speaker_1",
                "track": track,
                "positives": [],
                "negative_spans": [],
                "excluded_spans": [],
            }
            for track in ("eot", "int")
        ],
    }
    marks = {
        ("speaker_1", track): {"hit": [], "miss": [], "false positive": [], "elsewhere": []}
        for track in ("eot", "int")
    }
    assert svg(figures.timeline(row, marks, title="", caption="")).tag.endswith("svg")
