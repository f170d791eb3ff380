import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from app.core.readable import visible
from app.pipeline.report.figures import AccessFigures, Figures, HygieneFigures, Question, WhatIfFigures
from app.pipeline.report.text import distinct_labels, plain_label, script_json

if TYPE_CHECKING:
    from app.pipeline.report import charts


class Outline(HTMLParser):
    """Every element that a browser would make, and all text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self._raw = False
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw = tag in {"script", "style"}
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, _: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        if self._raw and self.elements[-1][0] == "script":
            self.scripts[-1] += data
        elif not self._raw:
            self.said.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def hostile() -> str:
    from app.pipeline.report.page import page
    from tests.report_figures import HOSTILE, full

    return page(full(HOSTILE))


def test_hostile_names_make_no_element_and_no_attribute(hostile: str) -> None:
    from app.pipeline.report.page import page
    from tests.report_figures import HOSTILE, full

    plain, spoiled = Outline(page(full(tuple(f"n{at}" for at in range(len(HOSTILE)))))), Outline(hostile)
    assert [(tag, sorted(attributes)) for tag, attributes in spoiled.elements] == [
        (tag, sorted(attributes)) for tag, attributes in plain.elements
    ]
    assert len(spoiled.scripts) == 3


def test_hostile_names_are_shown_and_what_is_unseen_in_them_is_spelled_out(hostile: str) -> None:
    from tests.report_figures import HOSTILE

    said = "".join(Outline(hostile).said)
    for name in HOSTILE:
        assert visible(name) in said
    assert "\\u202e" in said
    assert "\\u2028" in said
    assert "\\u200b" in said
    assert not set("\u202e\u2028\u2029\u200b") & set(hostile.replace(get_plotlyjs(), ""))


def test_what_plotly_is_given_holds_no_tag_of_a_name(hostile: str) -> None:
    specs = json.loads(Outline(hostile).scripts[0])
    for text in _texts(specs):
        assert not re.search(r"<(?!br>|extra>|/extra>)", text), text


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key != "titles":  # set as text, not as HTML
                yield from _texts(each)


def test_the_file_asks_for_nothing_and_may_not(hostile: str) -> None:
    outline = Outline(hostile)
    policy = next(each["content"] for each in outline.named("meta") if "http-equiv" in each)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    for script in outline.scripts[1:]:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    references = [
        value for _, attributes in outline.elements for name in ("src", "href") if (value := attributes.get(name))
    ]
    assert all(each.startswith(("#", "data:,")) for each in references)
    assert not any(name.startswith("on") for _, attributes in outline.elements for name in attributes)
    own = hostile.replace(get_plotlyjs(), "")
    assert "url(" not in own
    assert "@import" not in own


def test_the_file_is_small_enough_to_be_sent_by_mail(hostile: str) -> None:
    assert len(hostile.encode()) < 6_000_000


def test_every_chart_is_one_that_plotly_takes() -> None:
    from app.pipeline.report.sections import sections_of
    from tests.report_figures import full

    for part in sections_of(full()):
        assert part.chart is not None
        for variant in part.chart.get("variants", {"": part.chart}).values():
            layout = {name: value for name, value in variant["layout"].items() if name != "meta"}
            go.Figure([_without_roles(trace) for trace in variant["data"]], layout)


def _without_roles(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _without_roles(each) for key, each in value.items() if not str(each).startswith("@")}
    return value


def test_every_chart_has_its_numbers_as_a_table_and_a_name_for_screen_readers() -> None:
    from app.pipeline.report.page import page
    from app.pipeline.report.sections import sections_of
    from tests.report_figures import full

    figures = full()
    outline = Outline(page(figures))
    assert len(outline.named("table")) >= len(sections_of(figures))
    images = [each for each in outline.named("div") if each.get("role") == "img"]
    assert len(images) == len(sections_of(figures))
    assert all(each["aria-label"] for each in images)


def test_what_is_not_there_says_which_job_brings_it() -> None:
    from app.pipeline.report.page import page
    from app.pipeline.report.sections import sections_of
    from tests.report_figures import access, head

    figures = Figures(head(), access(), asked_for={"decisions": "Nothing was ingested; run ingest."})
    text = "".join(Outline(page(figures)).said)
    for job in ("what-if", "hygiene", "export"):
        assert f"Run: klamm pipeline {job}" in text
    assert "Nothing was ingested; run ingest." in text
    assert [part.name for part in sections_of(figures) if part.chart is not None] == ["access"]


def test_without_any_resource_the_heat_map_says_where_to_get_them() -> None:
    from app.pipeline.report.page import page
    from app.pipeline.report.reach import EVERYONE
    from tests.report_figures import head

    figures = Figures(head(), AccessFigures([EVERYONE], [], {}, {}))
    assert "--resources" in "".join(Outline(page(figures)).said)


def test_nothing_found_is_good_news_and_no_empty_chart() -> None:
    from app.pipeline.report.page import page
    from tests.report_figures import access, head

    none = Figures(head(), access(), hygiene=HygieneFigures({}, {}, []), what_if=WhatIfFigures("x", 1, 0, 0, {}, []))
    text = "".join(Outline(page(none)).said)
    assert "Hygiene found nothing to fix." in text
    assert "would flip no decision" in text


def test_what_the_log_is_too_short_for_is_said_beside_what_was_found() -> None:
    from app.pipeline.report.page import page
    from tests.report_figures import access, full, head

    why = "UNUSED is left out: the log covers 1 hour"
    for hygiene in (HygieneFigures({}, {}, [], why), replace(hygiene_of(full()), left_out=why)):
        figures = Figures(head(), access(), hygiene=hygiene)
        assert f"{why}." in "".join(Outline(page(figures)).said)


def hygiene_of(figures: Figures) -> HygieneFigures:
    assert figures.hygiene is not None
    return figures.hygiene


def test_what_has_no_room_is_said_to_be_summed_up() -> None:
    from app.pipeline.report.page import page
    from tests.report_figures import full

    text = "".join(Outline(page(full())).said)
    assert "others (4 teams)" in text
    assert "summed up as others" in text


def test_growth_counts_from_what_was_there_before() -> None:
    from app.pipeline.report.sections import sections_of
    from tests.report_figures import full

    growth = next(part for part in sections_of(full()) if part.name == "growth")
    assert growth.title == "From 10 to 12 ACLs: 5 were created, 3 removed"
    assert growth.chart is not None
    assert growth.chart["data"][0]["y"] == [13, 12, 12]
    assert growth.chart["data"][2]["y"] == [-2, -1]


def test_labels_that_look_alike_once_shortened_stay_apart() -> None:
    names = ["x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100, "x" * 100 + "c" + "y" * 100]
    assert len(set(distinct_labels(names))) == 3


def test_labels_keep_names_that_look_like_html() -> None:
    assert plain_label("<b>&amp;") == "&lt;b&gt;&amp;amp;"


def test_json_can_not_end_its_script() -> None:
    text = script_json({"</script>": "<!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!--\u2028&"}


def test_however_long_the_history_its_buckets_are_few(subtests: pytest.Subtests) -> None:
    from app.pipeline.report.totals import MOST_BUCKETS, step_for

    for seconds in [0, 1, 119, 121, 3_600, 86_400, 400 * 86_400, 40_000 * 86_400]:
        with subtests.test(seconds=seconds):
            assert seconds / step_for(seconds) <= MOST_BUCKETS + 1


@pytest.mark.parametrize(("step", "words"), [(1, "second"), (300, "5 minutes"), (86_400, "day"), (604_800, "7 days")])
def test_a_bucket_is_named_in_words(step: int, words: str) -> None:
    from app.pipeline.report import charts

    assert charts.in_words(step) == words


def test_an_allow_is_left_where_some_address_escapes_every_deny(subtests: pytest.Subtests) -> None:
    from app.pipeline.report.reach import Denials

    for denied, allowed, left in [
        ([], "*", 8),
        (["*"], "10.0.0.1", 0),
        (["10.0.0.0/8"], "*", 8),
        (["10.0.0.0/8"], "10.1.0.0/16", 0),
        (["10.1.0.0/16"], "10.0.0.0/8", 8),
        (["10.0.0.0/9", "10.128.0.0/9"], "10.0.0.0/8", 0),
        (["10.0.0.0/9", "10.128.0.0/10"], "10.0.0.0/8", 8),
        (["0.0.0.0/0"], "*", 8),
        (["0.0.0.0/0", "::/0"], "*", 0),
        (["10.0.0.0", "10.0.0.1"], "10.0.0.0/31", 0),
        (["10.0.0.0"], "10.0.0.0/31", 8),
        (["10.0.0.1/32"], "10.0.0.1", 0),
        (["fe80:0:0:0:0:0:0:1"], "fe80::1/128", 8),  # the same address with a zone is left
        (["fe80::1/128"], "fe80:0:0:0:0:0:0:1%eth0", 0),
        ([], "a.host.name", 0),
        ([], "10.0.0.0/33", 0),
        (["a.host.name"], "10.0.0.1", 8),
    ]:
        with subtests.test(denied=denied, allowed=allowed, left=left):
            assert Denials((host, 8) for host in denied).surviving(allowed, 8) == left
            assert Denials((host, 8) for host in denied).surviving(allowed, 4) == (
                4 if allowed not in {"a.host.name", "10.0.0.0/33"} else 0
            )


def _heat(names: tuple[str, ...], grid: list[list[int]], *, others: int) -> "charts.Spec":
    from app.pipeline.report import charts
    from app.pipeline.report.heat import OTHERS
    from app.pipeline.report.reach import EVERYONE

    teams = [EVERYONE, *names] + ([OTHERS] if others else [])
    prefixes = [*names] + ([OTHERS] if others else [])
    question = Question("READ", "TOPIC")
    figures = AccessFigures(teams, prefixes, {"TOPIC": [10_000] * len(prefixes)}, {question: grid}, others, others)
    return charts.heat_map(figures, teams, prefixes)["variants"]["READ TOPIC|number"]  # type: ignore[no-any-return]


def test_others_stand_apart_and_have_no_part_in_the_scale() -> None:
    heat = _heat(("a", "b"), [[0, 0, 9], [1, 0, 5_000], [100, 10, 9_000], [7_000, 8_000, 9_999]], others=60)
    among, apart = heat["data"]
    assert among["zmax"] == 2  # log10 of 100
    assert among["z"] == [[None] * 4, [0.0, None, None, None], [2.0, 1.0, None, None], [None] * 4, [None] * 4]
    assert apart["text"][2:] == [["", "", "", "9,000"], [""] * 4, ["7,000", "8,000", "", "9,999"]]
    assert among["colorbar"]["ticktext"] == ["1", "10", "100"]
    # The gap before others has no label.
    assert heat["layout"]["yaxis"]["tickvals"] == [0, 1, 2, 4]
    assert heat["layout"]["xaxis"]["tickvals"] == [0, 1, 3]


def test_a_team_without_anything_in_reach_has_no_row() -> None:
    heat = _heat(("orders", "platform"), [[0, 0], [3, 0], [0, 0]], others=0)
    assert heat["layout"]["yaxis"]["ticktext"] == ["orders"]
    assert heat["layout"]["xaxis"]["ticktext"] == ["orders"]
    assert heat["data"][0]["z"] == [[0.477]]
    nobody = _heat(("orders", "platform"), [[0, 0]] * 3, others=0)
    assert nobody["data"][0]["z"] == []


def test_a_command_that_is_spelled_out_can_not_be_copied(hostile: str) -> None:
    from tests.report_figures import HOSTILE

    classes = [
        each.get("class") for each in Outline(hostile).named("div") if each.get("class") in {"command", "spelled"}
    ]
    assert classes == ["spelled" if visible(name) != name else "command" for name in HOSTILE]
