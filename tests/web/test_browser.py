"""The pages in a real browser: drawn, changed, decided, refused; with a keyboard, in both colours, at two widths."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.support.hubs import git, write_commit
from tests.support.world import Node, is_in_main
from tests.web.browser import Noticed, Scheme, chromium, needs_chromium, open_context, overflow, serious
from tests.web.scene import PAGES, build
from tests.web.site import Site, serving

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests here; each has a context of its own."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """A hub to look at."""
    return build(tmp_path_factory.mktemp("lived"), template)


@pytest.fixture(scope="module")
def shown(lived: Node) -> Iterator[Site]:
    """Its server, for who only looks."""
    with serving(lived.root) as running:
        yield running


@pytest.fixture
def hub(lived: Node, tmp_path: Path) -> Node:
    """A copy of it, to change."""
    shutil.copytree(lived.root.parent, tmp_path / "world", symlinks=True)
    root = tmp_path / "world" / lived.root.name
    # Its peers are copies too (git-config(1), ``url.<base>.insteadOf``).
    git(root, "config", f"url.{tmp_path}/world/host/.insteadOf", f"{lived.root.parent}/host/")
    home = tmp_path / "world/host/sigma.git"
    return Node(lived.name, root, home, str(home))


def enter(browser: Browser, hub: Node, site: Site, width: int = 1280, scheme: Scheme = "light") -> tuple[Page, Noticed]:
    """A browser that came by a link."""
    noticed = Noticed(f"http://{site.host}/")
    page = open_context(browser, width, scheme).new_page()
    noticed.watch(page)
    page.goto(json.loads(hub.cn("web", "--json").stdout)["link"])
    page.wait_for_url(f"http://{site.host}/")
    return page, noticed


@pytest.mark.sliced(2)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "dark"), (360, "light")])
def test_every_page_is_drawn_without_a_fault(
    browser: Browser, lived: Node, shown: Site, width: int, scheme: Scheme
) -> None:
    page, noticed = enter(browser, lived, shown, width, scheme)
    for path in PAGES:
        answer = page.goto(f"http://{shown.host}{path}")
        assert answer is not None
        assert answer.status == 200, path
        assert page.locator("h1").count() == 1, path
        assert overflow(page) <= 0, path
        assert (width == 1280) == (scheme == "dark") or serious(page) == [], path
    assert noticed.problems == []
    page.context.close()


def test_a_page_changes_when_the_hub_does_without_being_loaded_again(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, noticed = enter(browser, hub, site)
        page.locator("#part-waiting").get_by_role("link", name="Return two").wait_for()
        page.evaluate("document.same = true; document.querySelector('#part-waiting .item').same = true")
        hub.cn("comment", "pi/code", "Please answer.")
        hub.cn("adhoc", "A thought", "--body", "About it.")
        hub.triage("pi/code", "delete:not wanted")
        page.locator("#part-waiting .pill", has_text="decided: delete:not wanted").wait_for()
        assert page.evaluate("document.same === true"), "it was not loaded again"
        hub.process()
        page.locator("#part-waiting").get_by_role("link", name="Return two").wait_for(state="detached")
        assert page.evaluate("document.same === true")
        assert noticed.problems == []


def test_what_did_not_change_stays_the_same_element(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        page.locator("details.file").first.locator("summary").click()
        assert page.locator("details.file[open]").count() == 1
        page.evaluate("document.querySelector('#part-talk details').same = true")
        hub.cn("comment", "pi/code", "Once more: why?")
        page.locator("#part-talk .said", has_text="Once more: why?").wait_for()
        assert page.evaluate("document.querySelector('#part-talk details').same === true")
        assert page.locator("details.file[open]").count() == 1, "what was folded stays folded"


def test_a_decision_goes_from_the_page_to_the_merged_branch(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, noticed = enter(browser, hub, site)
        page.locator("#part-waiting").get_by_role("link", name="Return two").click()
        page.get_by_role("radio", name="Merge it").check()
        page.get_by_role("button", name="Write the decision").click()
        page.locator(".notice.good").wait_for()
        assert page.locator("#part-facts .pill").inner_text() == "decided: do:merge by sigma"
        head = page.locator(".facts code").nth(1).inner_text()
        hub.process()
        page.locator("#part-facts .pill", has_text="done: merged").wait_for()
        page.locator("form.decide").wait_for(state="detached")
        assert is_in_main(hub, git(hub.root, "rev-parse", head))
        assert noticed.problems == []


def test_it_is_decided_with_the_keyboard_alone(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        _tab_to(page, "input[name=verb]")
        while page.evaluate("document.activeElement.value") != "delete":
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("not wanted")
        page.keyboard.press("Enter")
        page.locator("#part-facts .pill", has_text="decided: delete:not wanted by sigma").wait_for()


def _tab_to(page: Page, selector: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"no Tab leads to {selector}")


def test_every_control_is_reached_and_shows_where_the_focus_is(browser: Browser, lived: Node, shown: Site) -> None:
    page, _ = enter(browser, lived, shown)
    for path in ("/", "/thread/pi/code", "/threads"):
        page.goto(f"http://{shown.host}{path}")
        wanted = page.evaluate(_CONTROLS)
        reached = set()
        for _ in range(len(wanted) + 3):
            page.keyboard.press("Tab")
            reached.add(tuple(page.evaluate(_FOCUSED)))
        outlined = {name for name, outline in reached if outline}
        assert set(wanted) <= outlined, path


_CONTROLS = """() => {
  const first = document.querySelector('[name=verb]');  // Tab leads to one of a group, arrows to the others
  const shown = e => e.checkVisibility() && (e.type !== 'radio' || e === first);
  const all = [...document.querySelectorAll('a[href], button, select, summary, input:not([type=hidden]), textarea')];
  all.forEach((e, n) => { e.dataset.n = n; });
  return all.filter(shown).map(e => e.dataset.n);
}"""
_FOCUSED = """() => {
  const e = document.activeElement;
  return [e.dataset.n || '', getComputedStyle(e).outlineStyle !== 'none'];
}"""


def test_what_somebody_writes_is_not_taken_from_under_their_hands(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        page.get_by_role("radio", name="Discard it").check()
        page.locator("#word").fill("my words")
        hub.cn("comment", "pi/code", "Meanwhile.")
        page.locator(".stale").wait_for()
        assert page.locator("#word").input_value() == "my words"
        page.get_by_role("button", name="Write the decision").click()
        page.locator("[role=alert]", has_text="has changed since it was shown").wait_for()
        page.get_by_role("radio", name="Discard it").check()
        assert page.locator("#word").input_value() == "my words"
        page.get_by_role("button", name="Write the decision").click()
        page.locator("#part-facts .pill", has_text="decided: delete:my words").wait_for()


def test_a_branch_that_moves_while_somebody_reads_is_not_decided_as_it_was_not_read(
    browser: Browser, hub: Node
) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        read = page.locator("input[name=seen]").input_value()
        shown_head = git(hub.home, "rev-parse", "refs/heads/pi/code")
        moved = write_commit(hub.home, {"more.txt": "not read\n"}, "More", [shown_head])
        git(hub.home, "update-ref", "refs/heads/pi/code", moved)
        hub.sync()
        page.locator("#part-facts code", has_text=moved[:8]).wait_for()
        page.locator(".stale").wait_for()
        assert page.locator("input[name=seen]").input_value() == read
        page.get_by_role("radio", name="Merge it").check()
        page.get_by_role("button", name="Write the decision").click()
        page.locator("[role=alert]", has_text="has changed since it was shown").wait_for()
        hub.process()
        assert not is_in_main(hub, moved)


def test_a_form_is_not_newer_than_what_stands_above_it(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        read = page.locator("input[name=seen]").input_value()
        hub.cn("comment", "pi/code", "Meanwhile.")
        page.locator("#part-talk .said", has_text="Meanwhile.").wait_for()
        page.locator(".stale").get_by_role("link", name="open it again").click()
        page.locator("#part-talk .said", has_text="Meanwhile.").wait_for()
        assert not page.locator(".stale").is_visible()
        assert page.locator("input[name=seen]").input_value() != read


def test_a_form_never_comes_to_a_page_that_was_opened_without_one(browser: Browser, hub: Node) -> None:
    git(hub.root, "switch", "-q", "-c", "aside")
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        page.goto(f"http://{site.host}/thread/pi/code")
        page.locator("#part-decide", has_text="HEAD is not main").wait_for()
        git(hub.root, "switch", "-q", "main")
        page.locator(".stale").wait_for()
        assert page.locator("form.decide").count() == 0
        page.locator(".stale").get_by_role("link", name="open it again").click()
        page.locator("form.decide").wait_for()


def test_it_says_that_the_server_has_ended(browser: Browser, hub: Node) -> None:
    with serving(hub.root) as site:
        page, _ = enter(browser, hub, site)
        assert not page.locator("#gone").is_visible()
        site.end()
        page.locator("#gone").wait_for()


def test_another_site_decides_nothing_and_sees_nothing(browser: Browser, hub: Node, tmp_path: Path) -> None:
    with serving(hub.root) as site, _evil(site.host) as elsewhere:
        page, _ = enter(browser, hub, site)
        page.goto(elsewhere)
        page.wait_for_function("window.tried !== undefined")
        assert page.evaluate("window.tried") == ["failed", "failed", "framed nothing"]
        page.locator("button").click()
        page.wait_for_url(f"http://{site.host}/thread/pi/code")
        assert "sent from another page" in page.inner_text("body")
        page.goto(f"{elsewhere}link")
        page.locator("a").click()
        page.wait_for_url(f"http://{site.host}/")
        assert "Open the link" in page.inner_text("body"), "a strict cookie does not come along from elsewhere"
    (row,) = [row for row in json.loads(hub.cn("inbox", "--json").stdout) if row["topic"] == "code"]
    assert row["decision"] is None


_EVIL = """<!doctype html><title>elsewhere</title>
<form method="post" action="http://{host}/thread/pi/code"><input name="verb" value="do:merge"><button>Go</button></form>
<script>
(async () => {{
  const tried = [];
  for (const mode of ["cors", "no-cors"]) {{
    try {{
      const answer = await fetch("http://{host}/", {{mode, credentials: "include"}});
      tried.push(answer.ok ? "read" : "failed");
    }} catch (error) {{ tried.push("failed"); }}
  }}
  const frame = document.createElement("iframe");
  frame.src = "http://{host}/";
  frame.onload = () => {{
    let seen = "framed nothing";
    try {{ if (frame.contentDocument.title) seen = "framed"; }} catch (error) {{ }}
    window.tried = [...tried, seen];
  }};
  document.body.append(frame);
}})();
</script>"""


class _evil:
    """Another site on this machine."""

    def __init__(self, host: str) -> None:
        page, link = _EVIL.format(host=host), f'<!doctype html><a href="http://{host}/">Look</a>'

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write((link if self.path.endswith("link") else page).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://localhost:{self._server.server_port}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_an_export_is_read_from_its_files_alone(browser: Browser, lived: Node, tmp_path: Path) -> None:
    lived.cn("web", "--export", str(tmp_path / "site"))
    home = f"file://{tmp_path}/site/"
    noticed = Noticed(home)
    page = open_context(browser, java_script_enabled=False).new_page()
    noticed.watch(page)
    todo, seen = [f"{home}index.html"], set[str]()
    while todo:
        url = todo.pop()
        seen.add(url)
        page.goto(url)
        assert page.locator("h1, form, script").count() == 1
        links: list[str] = page.locator("a[href]").evaluate_all("all => all.map(e => e.href)")
        assert all(link.startswith(home) for link in links), url
        new = {link.partition("#")[0] for link in links} - seen - set(todo)
        todo += sorted(new)
    files = {f"{home}{path.relative_to(tmp_path / 'site')}" for path in (tmp_path / "site").rglob("*.html")}
    assert seen == files, "every page is reached, and every link leads to one"
    assert len(files) > 20
    assert noticed.problems == []
