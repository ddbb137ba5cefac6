"""The page in a real browser: what visitors do, and what they then read."""

import json
import re

import pytest

from mptb_metric import load_submission, score_floor

pytestmark = pytest.mark.needs("gradio", "matplotlib", "chromium")

WORDS = "{{#each}} {{value}} ${1+1} `x` <img src=x onerror=alert(1)>"
TABS = ["Scores", "Groups", "Recall vs FPR", "Latency", "Timeline"]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


def choose(page, which, path):
    page.locator(f"#{which} input[type=file]").set_input_files(path)
    page.locator(f"#{which}").get_by_role("button", name="Clear").wait_for()


def press_score(page):
    page.get_by_role("button", name="Score").click()


def read_table(page, caption):
    table = page.get_by_role("table", name=caption, exact=True)
    table.wait_for()
    return [row.locator("th, td").all_inner_texts() for row in table.get_by_role("row").all()]


def download(page, name):
    with page.expect_download() as saving:
        page.get_by_role("link", name=name).click()
    return saving.value


@pytest.fixture
def expected(gold):
    """What the metric gives for a file."""

    def score(path, split="test", protocol="mptb"):
        references = gold.splits[split].references
        return score_floor(load_submission(path, references), references, protocol=protocol)

    return score


def test_a_visitor_reads_the_figures_of_a_file_and_saves_them(visit, saved, submission, expected):
    path = saved(submission())
    page = visit.open()
    visit.shoot(page, "before")
    choose(page, "first", path)
    press_score(page)
    figures = expected(path)
    for track, caption in (("eot", "End of turn (EOT)"), ("int", "Interruption (INT)")):
        rows = {row[0]: row[1] for row in read_table(page, caption)}
        assert rows["Recall"] == f"{100 * figures[f'{track}_recall']:.1f} %"
        assert rows["False-positive rate"] == f"{100 * figures[f'{track}_fpr']:.1f} %"
        assert rows["Latency, median"] == f"{1000 * figures[f'{track}_latency_p50_s']:.0f} ms"
        counts = [rows[name] for name in rows if re.search(r"\((TP|FN|FP|TN)\)", name)]
        assert counts == [str(figures[f"{track}_{count}"]) for count in ("tp", "fn", "fp", "tn")]
    result = json.loads(download(page, "Save the result").path().read_text())
    assert {name: result[name] for name in ("eot_recall", "int_fpr", "protocol", "split")} == {
        "eot_recall": figures["eot_recall"],
        "int_fpr": figures["int_fpr"],
        "protocol": "mptb",
        "split": "test",
    }


def test_a_visitor_looks_at_every_tab(visit, saved, submission):
    page = visit.open(viewport={"width": 1280, "height": 900})
    choose(page, "first", saved(submission()))
    press_score(page)
    seen = {
        "Scores": page.locator("#scores table"),
        "Groups": page.locator("#groups").get_by_role("heading", name="By conversation type"),
        "Recall vs FPR": page.locator("#plane img"),
        "Latency": page.locator("#latency img"),
        "Timeline": page.locator("#timeline img"),
    }
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        for other in TABS:
            seen[other].first.wait_for(state="visible" if other == tab else "hidden")
        visit.shoot(page, tab)
    for picture in page.locator("#results img").all():
        assert picture.evaluate("image => image.naturalWidth") > 0


def test_the_groups_are_those_of_the_corpus(visit, saved, submission):
    page = visit.open()
    choose(page, "first", saved(submission()))
    press_score(page)
    page.get_by_role("tab", name="Groups").click()
    tables = page.locator("#groups table")
    tables.first.wait_for()
    first_columns = [table.locator("tbody th").all_inner_texts() for table in tables.all()]
    types = ["casual", "instructional", "task-oriented"]
    assert first_columns == [["N = 2", "N = 3", "N = 5"]] * 2 + [types] * 2


def test_a_visitor_goes_through_the_conversations(visit, saved, submission):
    content = submission(every_trap=100)
    content["predictions"][1]["speaker_1"] = {"eot": [], "int": []}
    page = visit.open()
    choose(page, "first", saved(content))
    press_score(page)
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("img", name="Timeline of test_00001").wait_for()
    page.get_by_label("Conversation").click()
    page.get_by_role("option", name="test_00002").click()
    page.get_by_role("img", name="Timeline of test_00002").wait_for()
    visit.shoot(page, "second")
    rows = read_table(page, "Misses and false positives of test_00002")
    assert {tuple(row[1:]) for row in rows[1:]} >= {("speaker_1", "EOT", "miss")}


def test_a_visitor_reads_the_faults_of_a_broken_file_and_then_scores_a_good_one(visit, saved, submission):
    broken = submission()
    broken["predictions"][0]["speaker_1"]["eot"] = [
        3.0,
        float("nan"),
        WORDS,
    ]
    del broken["predictions"][1]["speaker_2"]
    page = visit.open()
    choose(page, "first", saved(broken, "broken.json"))
    press_score(page)
    told = page.get_by_role("alert")
    told.get_by_role("listitem").first.wait_for()
    assert told.get_by_role("listitem").all_inner_texts() == [
        "conversation 'test_00001', speaker 'speaker_1', track 'eot': index 1: nan is not finite",
        "conversation 'test_00001', speaker 'speaker_1', track 'eot': index 2: expected a number of seconds, "
        f"got '{WORDS}'",
        "conversation 'test_00002', speaker 'speaker_2': is missing",
    ]
    assert not page.locator("#results").is_visible()
    visit.shoot(page, "faults")
    page.locator("#first").get_by_role("button", name="Clear").click()
    choose(page, "first", saved(submission(), "good.json"))
    press_score(page)
    page.get_by_role("table", name="End of turn (EOT)", exact=True).wait_for()
    assert told.count() == 0


def test_a_file_for_another_split_says_so_and_is_scored_there(visit, saved, submission, expected):
    path = saved(submission("dev"))
    page = visit.open()
    choose(page, "first", path)
    press_score(page)
    page.get_by_text("Its conversations are those of split dev").wait_for()
    page.get_by_label("dev", exact=True).check()
    page.get_by_label("TurnBench").check()
    press_score(page)
    page.get_by_text("budget of 10 %").first.wait_for()
    rows = {row[0]: row[1] for row in read_table(page, "End of turn (EOT)")}
    figures = expected(path, "dev", "turnbench")
    assert rows["Recall"] == f"{100 * figures['eot_recall']:.1f} %"
    assert rows["Left a trap alone (TN)"] == str(figures["eot_tn"])


def test_two_files_are_compared(visit, saved, submission):
    page = visit.open(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    choose(page, "first", saved(submission(), "early.json"))
    choose(page, "second", saved(submission(delay_s=0.75), "late.json"))
    press_score(page)
    rows = {row[0]: row[1:] for row in read_table(page, "End of turn (EOT)")}
    assert [rows["Latency, median"][n] for n in (0, 2, 4)] == ["400 ms", "750 ms", "\u2212350 ms"]
    assert rows["Recall"][-1] == "1.0000"
    visit.shoot(page, "compared")
    page.get_by_role("tab", name="Recall vs FPR").click()
    page.locator("#plane img").wait_for()
    visit.shoot(page, "plane")
    page.get_by_role("tab", name="Timeline").click()
    early = page.locator("#timeline img").get_attribute("src")
    page.get_by_label("B", exact=True).check()
    page.wait_for_function("old => document.querySelector('#timeline img')?.src !== old", arg=early)
    result = json.loads(download(page, "Save the result").path().read_text())
    assert (result["a"]["submission"], result["b"]["submission"]) == ("early.json", "late.json")


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(visit, saved):
    page = visit.open()
    page.locator("#first input[type=file]").set_input_files(saved(b" " * 6_000_000, "large.json"))
    page.get_by_text(re.compile("maximum allowed size of 5")).wait_for()
    press_score(page)
    page.get_by_text("Choose a file first.").wait_for()


def test_the_page_fits_a_phone(visit, saved, submission):
    page = visit.open(**PHONE)
    visit.shoot(page, "before")
    assert page.evaluate(WIDTHS) == [390, 390]
    choose(page, "first", saved(submission(), "a_rather_long_name_of_a_file_that_somebody_gave.json"))
    choose(page, "second", saved(submission(delay_s=0.6), "b.json"))
    press_score(page)
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        page.locator("#results .scroll, #results figure").locator("visible=true").first.wait_for()
        assert page.evaluate(WIDTHS) == [390, 390]
        visit.shoot(page, tab)
    wide = page.locator("#timeline .scroll").first
    wide.evaluate("part => part.scrollBy(100, 0)")
    assert wide.evaluate("part => part.scrollLeft") == 100, "it scrolls within itself"


def test_the_faults_of_a_file_fit_a_phone(visit, saved, submission):
    broken = submission()
    broken["predictions"][0]["conversation_id"] = "x" * 110
    page = visit.open(**PHONE)
    choose(page, "first", saved(broken))
    press_score(page)
    page.get_by_role("alert").get_by_role("listitem").first.wait_for()
    visit.shoot(page, "faults")
    assert page.evaluate(WIDTHS) == [390, 390]


def test_everything_can_be_done_with_the_keyboard_alone(visit, saved, submission):
    page = visit.open()
    focused = (
        "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || '').trim()"
    )

    def tab_to(name):
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate(focused).startswith(name):
                return
        raise AssertionError(f"no way to {name!r}")

    tab_to("Submission (JSON)")
    with page.expect_file_chooser() as choosing:
        page.keyboard.press("Enter")
    choosing.value.set_files(saved(submission("dev")))
    page.get_by_role("button", name="Submission (JSON): Clear").wait_for()
    tab_to("A second one, to compare")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    split = page.get_by_role("group", name="Split")
    split.get_by_role("radio", name="dev", checked=True).wait_for()
    tab_to("Score")
    page.keyboard.press("Enter")
    page.get_by_role("table", name="End of turn (EOT)", exact=True).wait_for()
    tab_to("Save the result (JSON)")
    with page.expect_download():
        page.keyboard.press("Enter")
    tab_to("Timeline")
    page.keyboard.press("Enter")
    page.get_by_role("img", name="Timeline of dev_00001").wait_for()
    tab_to("Conversation")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("img", name="Timeline of dev_00003").wait_for()
    visit.shoot(page, "end")


def test_an_empty_submission_can_be_saved_filled_in_and_scored(visit, saved):
    page = visit.open()
    page.get_by_role("button", name="What a submission looks like").click()
    silent = download(page, "Save an empty one for test").path().read_bytes()
    choose(page, "first", saved(silent))
    press_score(page)
    rows = {row[0]: row[1] for row in read_table(page, "End of turn (EOT)")}
    assert (rows["Recall"], rows["False-positive rate"], rows["Latency, median"]) == ("0.0 %", "0.0 %", "n/a")
