"""Charts, addresses and filters, as values; and that no template lets a text through unescaped."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from cn.llm.request import Usage
from cn.llm.usage import Call
from cn.values.names import Name
from cn.views.done import DoneRow
from cn.web.charts import HEIGHT, Chart, Series, beside, line, stacked
from cn.web.links import FileLinks, Links, file_of
from cn.web.page import Page, Part
from cn.web.pages.agent import by_day
from cn.web.pages.log import read_asked
from cn.web.pages.threads import ROWS, read_filters, threads_page
from cn.web.render import FOLDER, Frame, Renderer

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"'><script>&\u202e"
values = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=60)


def draw(kind: str, given: list[float | None]) -> Markup:
    chart = Chart("c", f"Title {HOSTILE}", "A text", [f"{HOSTILE}{at}" for at in range(len(given))])
    series = Series(f"s{HOSTILE}", "one", given)
    return {"stacked": stacked, "beside": beside}[kind](chart, (series,)) if kind != "line" else line(chart, series)


@given(st.sampled_from(["stacked", "beside", "line"]), values)
def test_a_chart_is_well_formed_within_its_frame_and_says_itself_in_words(kind: str, given: list[float | None]) -> None:
    root = ElementTree.fromstring(draw(kind, given))
    assert root.attrib["role"] == "img"
    named = root.attrib["aria-labelledby"].split()
    assert [element.attrib["id"] for element in root[:2]] == named
    assert root[1].text == "A text"
    shapes = [element for element in root.iter() if element.tag in ("rect", "circle")]
    drawn = [value for value in given if value is not None and (value > 0 or kind == "line")]
    assert len(shapes) == len(drawn)
    for shape in shapes:
        get = shape.attrib
        assert 0 <= float(get.get("y", get.get("cy", ""))) <= HEIGHT
        assert shape[0].tag == "title"
    assert all(
        element.tag in ("svg", "title", "desc", "line", "text", "rect", "circle", "path") for element in root.iter()
    )


def test_no_template_says_safe_and_markup_is_made_in_two_places() -> None:
    for path in sorted((FOLDER / "templates").glob("*.html")):
        text = path.read_text("utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup|<script(?! src)|\sstyle=|\son[a-z]+=", text), path.name
        assert not re.search(r"=\{\{|=[^\"'\s>]*\{\{", text), f"{path.name}: an attribute without quotes"
    makers = {path.name for path in FOLDER.rglob("*.py") if "Markup(" in path.read_text("utf-8")}
    assert makers == {"render.py", "charts.py"}


def test_the_engine_escapes_shows_what_is_hidden_and_takes_out_credentials() -> None:
    page = Page(f"{HOSTILE} https://me:secret@x.example", "now", (Part("text", "plain-text", {"text": HOSTILE}),))
    html = Renderer().draw(page, Frame("<hub>", NOW, Links())).html
    assert HOSTILE not in html
    assert "&#34;&#39;&gt;&lt;script&gt;&amp;&lt;U+202E&gt;" in html
    assert "&lt;hub&gt;" in html
    assert "secret" not in html


@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip("/")))
def test_an_address_holds_a_name_and_leads_nowhere_else(name: str) -> None:
    name = name.encode("utf-8", "replace").decode()
    parts = urlsplit(Links().thread(name))
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
    assert unquote(parts.path).startswith("/thread/")
    file = file_of(f"thread/{name}")
    assert re.fullmatch(r"thread/[A-Za-z0-9][A-Za-z0-9._-]*\.html", file), file
    assert ".." not in file.split("/")


def test_files_name_each_other_from_where_they_are() -> None:
    asked: list[str] = []

    def ask(page: str) -> bool:
        asked.append(page)
        return page != "why/b"

    deep = FileLinks("thread/a", ask)
    assert (deep.static, deep.section("now"), deep.section("log", page="2")) == (
        "../static/",
        "../index.html",
        "../log-2.html",
    )
    assert (deep.thread("20260205-pi-x.md"), deep.why("b")) == ("../thread/20260205-pi-x.html", "")
    assert asked == ["now", "log?page=2", "thread/20260205-pi-x", "why/b"]
    assert FileLinks("now").thread("pi/x") != FileLinks("now").thread("pi-x")


@given(
    st.dictionaries(st.sampled_from(["peer", "state", "age", "text", "page", "thread", "since"]), st.text(max_size=30))
)
def test_a_query_of_any_words_is_read(query: dict[str, str]) -> None:
    assert read_filters(query).page >= 1
    assert read_asked(query).page >= 1


def done(number: int) -> DoneRow:
    at = NOW - timedelta(hours=number)
    peer = Name("pi" if number % 2 else "omega")
    return DoneRow(
        f"t{number}.md", peer, f"t{number}", "proposal", f"Number {number}", "merged", "do:merge", "sigma", at, at
    )


@pytest.mark.parametrize(
    ("query", "count", "first"),
    [
        ({"state": "done"}, 250, "Number 0"),
        ({"state": "done", "page": "3"}, 250, "Number 200"),
        ({"state": "done", "peer": "pi"}, 125, "Number 1"),
        ({"state": "done", "age": "1d"}, 25, "Number 0"),
        ({"state": "all", "text": "number 24"}, 11, "Number 24"),
        ({"state": "waiting"}, 0, ""),
        ({"state": "done", "page": "99"}, 250, ""),
    ],
)
def test_filters_leave_what_is_asked_for(query: dict[str, str], count: int, first: str) -> None:
    page = threads_page((), (), [done(number) for number in range(250)], ["pi"], read_filters(query), NOW)
    given = page.parts[1].given
    assert given["count"] == count
    assert len(given["rows"]) <= ROWS
    assert [row.title for row in given["rows"]][:1] == ([first] if first else [])


def call(at: datetime) -> Call:
    return Call(at, "id", "pi/x", "pi", "model", Usage(), 0.5, 1.0, "end_turn")


def test_days_without_a_call_stand_in_the_charts_too() -> None:
    days = by_day([call(NOW - timedelta(days=ago)) for ago in (90, 4, 1, 1)])
    assert (len(days), days[-1].key, days[0].key) == (30, "2026-11-23", "2026-10-25")
    assert [(day.key[5:], day.calls, day.cost) for day in days[-5:]] == [
        ("11-19", 0, None), ("11-20", 1, 0.5), ("11-21", 0, None), ("11-22", 0, None), ("11-23", 2, 1.0)
    ]  # fmt: skip
    assert by_day([]) == ()


def test_times_are_shown_as_pages_say_them() -> None:
    engine = Renderer()._engine
    shown = engine.from_string("{{ text|times }}").render(text="until 2026-12-11T08:27Z, at 2026-11-23T16:57:40+00:00")
    assert shown == "until 2026-12-11 08:27, at 2026-11-23 16:57"
