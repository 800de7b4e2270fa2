"""Odd and hostile names and contents: a clear word, nothing lost, and the rest of the run goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.inbox import arrivals
from cn.loop.sync import sync
from cn.protocol.layout import MESSAGE
from cn.protocol.message import Message, format_message, parse_message
from cn.values.names import Name
from cn.values.timestamps import parse_stamp
from tests.support.hubs import Content, branches, git, push, raw_tree, tip, write_commit
from tests.support.servers import serve
from tests.support.world import Node, World, is_in_main

ODD = {
    "slash": "feature/deep/topic",
    "upper": "UPPER-Case",
    "unicode": "grüße-日本",
    "decomposed": unicodedata.normalize("NFD", "grüße-日本"),
    "dash": "-rf",
    "option": "--upload-pack=touch",
    "quotes": "it's-$(touch)-`id`;|&\"",
    "bidi": "abc\u202etxt",
    "zero width": "a\u200bb",
    "long": "x" * 190,
    "percent": "100%25",
    "pipe": "a|b",
    "dots": "v1.2.3",
    "lower": "upper-case",
    "md": "readme.md",
    "emoji": "🎉",
}


def test_odd_topics_live_their_whole_life(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    start = tip(person)
    heads = {}
    for number, (kind, topic) in enumerate(ODD.items()):
        head = write_commit(person, {f"docs/n{number}.md": f"{kind}\n"}, kind, [start])
        heads[topic] = head
    push(person, sigma.url, *(f"{h}:refs/heads/pi/{t}" for t, h in heads.items()))
    sigma.sync()
    names = sigma.threads()
    assert len(names) == len(ODD)
    assert len({unicodedata.normalize("NFC", n).casefold() for n in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"\d{8}-pi-[A-Za-z0-9._-]+\.md", name), name
        assert len(name.encode()) <= 120
        text = sigma.thread(name)
        assert "\u202e" not in text
        assert "\u200b" not in text
        head = text.partition("**Head:** ")[2][:40]
        assert f">     {next(k for k, t in ODD.items() if heads[t] == head)}" in text
    for name in names:
        sigma.write_triage(name, "do:merge")
    sigma.process()
    assert all(is_in_main(sigma, h) for h in heads.values())
    world.settle(pi, sigma)
    assert set(branches(sigma.home)) == {"main"}
    assert set(branches(pi.home)) == {"main"}
    sigma.idle()
    pi.idle()


def test_a_name_that_is_no_utf8_is_refused_and_delays_nobody(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    refs = sigma.home / "packed-refs"
    git(sigma.home, "pack-refs", "--all")
    head = branches(sigma.home)["pi/proposal"]
    lines = refs.read_bytes().splitlines(keepends=True)
    body = sorted([*lines[1:], f"{head} refs/heads/pi/bad-".encode() + b"\xff\xfe\n"], key=lambda s: s[41:])
    refs.write_bytes(lines[0] + b"".join(body))
    done = sigma.cn("sync", check=1)
    assert "valid-name" in done.stderr
    assert len(sigma.threads()) == 1
    again = sigma.cn("sync")
    assert (again.stdout, again.stderr) == ("", "")
    sigma.triage("pi/proposal", "do:merge")
    sigma.cn("inbox", "process", check=None)
    assert is_in_main(sigma, head)


def test_content_that_is_binary_huge_empty_or_no_text(world: World, sigma: Node, pi: Node) -> None:
    files: dict[str, Content] = {
        "docs/binary.bin": bytes(range(256)) * 10,
        "docs/huge.txt": "0123456789abcdef\n" * 20_000,
        "docs/larger.txt": "0123456789abcdef\n" * 80_000,
        "docs/empty.md": "",
        "docs/latin1.txt": "grüße\n".encode("latin-1"),
        "docs/no-newline.md": "end",
        "docs/crlf.md": "a\r\nb\r\n",
        "docs/zz-last.md": "the last\n",
    }
    head = world.propose(pi, sigma, files=files)
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    for path in files:
        assert path in text
    assert "bytes, far over the limit of a file" in text
    assert re.search(r"… cut here: [0-9]+ lines more", text)
    assert "binary" in text
    assert ">     the last" in text
    assert len(text) < 100_000
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        assert (sigma.root / path).read_bytes() == data


@pytest.mark.parametrize("url", ["ext::sh -c touch% x", "--upload-pack=touch x", "-oProxyCommand=x:y"])
def test_a_url_that_runs_something_is_refused_at_add_and_at_fetch(
    world: World, sigma: Node, pi: Node, url: str
) -> None:
    done = sigma.cn("peer", "add", "omega", "--", url, check=2)
    assert "URL" in done.stderr
    peers = (sigma.root / "state/peers.md").read_text()
    sigma.write({"state/peers.md": peers.replace(f'"{pi.url}"', f'"{url}"')})
    done = sigma.cn("sync", check=3)
    assert "state/peers.md:" in done.stderr
    assert not list(Path(sigma.root).rglob("x"))


def test_a_peers_hooks_and_config_do_not_run(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "ran"
    for repo in (pi.home, sigma.home):
        hooks = repo / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
            (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {note}\n")
            (hooks / name).chmod(0o755)
    world.propose(pi, sigma)
    note.unlink(missing_ok=True)  # the person's own, unhardened push
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    assert not note.exists(), note.read_text()


def test_an_editor_that_saves_crlf_and_a_mark_is_understood(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    text = path.read_text() + "\n---\n\n## Triage\n\nDecision : do:merge\nTimestamp: 2026-02-05 15:00\nactor:sigma"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    sigma.process()
    assert is_in_main(sigma, head)
    assert git(sigma.root, "status", "--porcelain") == ""


def test_a_pending_thread_that_is_deleted_or_replaced_comes_back(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    text = path.read_text()
    path.unlink()
    sigma.sync()
    assert path.read_text() == text
    sigma.write({str(path.relative_to(sigma.root)): None}, "the user removed it")
    sigma.sync()
    assert path.read_text() == text
    sigma.idle()
    path.unlink()
    path.symlink_to("/etc/passwd")
    sigma.cn("inbox", "process", check=None)
    assert "root:" not in git(sigma.root, "log", "-p", "--all", "--", "threads")


def test_cn_as_a_module_is_the_command(sigma: Node) -> None:
    done = subprocess.run([sys.executable, "-m", "cn", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cn, version ")


def test_a_replace_ref_that_a_peer_pushed_stops_nothing(world: World, sigma: Node, pi: Node) -> None:
    """Where it replaces an object by itself, git's receiving side would miss it in every later push."""
    head = world.propose(pi, sigma)
    git(world.person(pi, sigma), "push", "-q", "origin", f"{head}:refs/replace/{head}")
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    assert is_in_main(sigma, head)
    assert tip(sigma.home, "main") == tip(sigma.root, "main")


def test_a_replace_ref_on_a_host_is_named_with_what_mends_it(world: World, tmp_path: Path) -> None:
    with serve("git", tmp_path / "served", tmp_path / "server") as served:
        served.repo("sigma")
        sigma = world.hub("sigma", url=served.url("sigma"), home=served.path("sigma"))
        pi = world.hub("pi")
        world.link(sigma, pi)
        head = world.propose(pi, sigma)
        git(world.person(pi, sigma), "push", "-q", "origin", f"{head}:refs/replace/{head}")
        stopped = sigma.cn("sync", check=1).stderr
        assert "missing necessary objects" in stopped
        assert f"'git update-ref -d refs/replace/{head}'" in stopped.replace("\n", " ")
        shown = sigma.cn("status", check=None).stdout.replace("\n", "").replace("  ", "")
        assert f"refs/replace/{head}" in shown
        examined = sigma.cn("doctor", check=1).stdout.replace("\n", " ")
        assert f"somebody put refs/replace/{head} at origin" in examined
        assert f"git update-ref -d refs/replace/{head}" in examined
        git(sigma.home, "update-ref", "-d", f"refs/replace/{head}")
        sigma.sync()
        assert len(sigma.threads()) == 1


@pytest.mark.parametrize("kind", ["path", "git"])
@pytest.mark.parametrize("holds", ["1" * 40 + "\n", "", "\0" * 41], ids=["a lost object", "nothing", "zeros"])
def test_a_ref_at_origin_that_is_broken_is_named_with_what_mends_it(
    world: World, tmp_path: Path, holds: str, kind: str
) -> None:
    """git deletes no ref whose file holds no id, and nothing is pushed beside one."""
    with serve(kind, tmp_path / "served", tmp_path / "server") as served:
        served.repo("sigma")
        sigma = world.hub("sigma", url=served.url("sigma"), home=served.path("sigma"))
        pi = world.hub("pi")
        world.link(sigma, pi)
        world.propose(pi, sigma)
        (sigma.home / "refs/heads/pi/lost").write_text(holds)
        stopped = " ".join(sigma.cn("sync", check=1).stderr.split())
        seen = "pi/lost cannot be fetched" if holds.startswith("1") else "pi/lost is broken in the mailbox"
        assert seen in stopped
        assert "refs/heads/pi/lost is broken there, or names an object that is lost; 'rm -f -- " in stopped
        assert "refs/heads/pi/lost is broken there" in " ".join(sigma.cn("status").stdout.split())
        examined = " ".join(sigma.cn("doctor", check=1).stdout.split())
        assert "refs/heads/pi/lost is broken there" in examined
        assert "allow it there" not in examined
        hint = stopped.partition("names an object that is lost; ")[2]
        steps = re.findall(r"'((?:rm|git) [^']*)'", hint)
        assert len(steps) == 2
        for step in steps:
            subprocess.run(step, shell=True, cwd=sigma.home, check=True, timeout=60)
        sigma.sync()
        assert len(sigma.threads()) == 1


def test_a_branch_whose_file_broke_at_its_host_is_not_gone(world: World) -> None:
    """What is decided of it waits until somebody has mended the file, as after any fetch that fails."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    broken = pi.home / "refs/heads/sigma/proposal"
    broken.write_text("")
    said = ""
    for words in (("sync",), ("inbox", "process"), ("sync",)):
        done = sigma.cn(*words, check=None)
        said += done.stdout + done.stderr
    assert "is gone" not in said
    assert "is not there any more" not in said
    assert "sigma/proposal is broken in pi's hub" in said
    assert "sigma/proposal is broken in pi's hub" in " ".join(sigma.cn("status").stdout.split())
    broken.write_text(f"{head}\n")
    sigma.process()
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("megabytes", [8, pytest.param(300, marks=pytest.mark.full)])
def test_a_commit_message_of_megabytes_is_not_shown_and_keeps_nobody_out(
    world: World, sigma: Node, pi: Node, megabytes: int
) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(omega, sigma, "other", {"docs/other.md": "more\n"})
    text = "> word\r\n" * (megabytes << 17)
    tree = git(sigma.home, "rev-parse", "main^{tree}")
    head = git(sigma.home, "commit-tree", tree, "-p", "main", stdin=text)
    git(sigma.home, "update-ref", "refs/heads/pi/big", head)
    sigma.sync()
    names = sigma.threads()
    assert [name[9:] for name in names] == ["omega-other.md", "pi-big.md"]
    assert "cannot be shown within cn's limits" in sigma.thread(names[1])
    for name in names:
        sigma.write_triage(name, "do:merge")
    refused = sigma.process().stderr
    assert "pi/big: do:merge is refused" in refused
    assert (sigma.root / "docs/other.md").read_text() == "more\n"
    assert not is_in_main(sigma, head)


def test_a_message_that_lies_about_where_it_goes_is_read_once(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = parse_stamp("2026-02-05T12:00Z")
    text = format_message(Message(MESSAGE, Name("pi"), Name("omega"), "Elsewhere", created, "Words.\n"))
    git(sigma.home, "update-ref", "refs/heads/pi/elsewhere", write_commit(sigma.home, {"message.md": text}))
    was_read: list[bytes] = []

    def noting(data: bytes) -> Message:
        was_read.append(data)
        return parse_message(data)

    monkeypatch.setattr(arrivals, "parse_message", noting)

    def told(topic: str) -> list[bool]:
        """Of each report about it whether it was told before; another branch makes the run look at all of them."""
        world.propose(pi, sigma, topic)
        notes = sync(open_hub(sigma.root)).notes
        assert any(f"received pi/{topic}" in note.text for note in notes)
        return [note.told_before for note in notes if "it is addressed to omega" in note.text]

    assert (told("one"), told("two"), len(was_read)) == ([False], [True], 1)
    assert "it is addressed to omega" in sigma.cn("status").stdout
    (sigma.root / ".git/cn/local.json").unlink()
    assert (told("three"), told("four"), len(was_read)) == ([True], [True], 2), "a clone that knows nothing reads it"
    git(sigma.home, "update-ref", "-d", "refs/heads/pi/elsewhere")
    assert told("five") == []
    assert "it is addressed to omega" not in sigma.cn("status").stdout


def test_a_peer_cannot_hide_what_another_says(world: World, sigma: Node, pi: Node) -> None:
    """It shows the very commit, and before it some that nobody can read."""
    omega = world.hub("omega")
    world.link(sigma, omega)
    head = world.propose(omega, sigma, "hello")
    person = world.person(pi, sigma)
    git(person, "fetch", "-q", "origin", "refs/heads/omega/hello")
    start = tip(person)
    made, long = "", "x" * 100_000
    for k in range(3):
        made += "".join(
            f"commit refs/heads/a{k}\ncommitter O <o@x> 17700{k:02}{n:03} +0000\ndata 100000\n{long}\n"
            + (f"from {start}\n" if n == 0 else "")
            for n in range(101)
        )
    git(person, "fast-import", "--quiet", stdin=made)
    tree = raw_tree(person, [("100644", b"f", git(person, "hash-object", "-w", "--stdin", stdin="x"))])
    for _ in range(7):
        tree = raw_tree(person, [("40000", b"%02d" % n, tree) for n in range(16)])
    bomb = git(person, "commit-tree", tree, "-p", start, "-m", "too many files")
    specs = [*(f"a{k}:refs/heads/pi/a{k}" for k in range(3)), f"{bomb}:refs/heads/pi/a-bomb"]
    push(person, sigma.url, *specs, f"{head}:refs/heads/pi/zz")
    sigma.cn("sync", check=None)
    shown = {name: "cannot be shown" in sigma.thread(name) for name in sigma.threads()}
    assert [hidden for name, hidden in shown.items() if name.endswith("-omega-hello.md")] == [False]
    sigma.cn("sync", check=None)  # what the first run had no patience left for
    shown = {name: "cannot be shown" in sigma.thread(name) for name in sigma.threads()}
    assert [hidden for name, hidden in shown.items() if "-pi-a" in name] == [True] * 4
    assert [hidden for name, hidden in shown.items() if name.endswith("-omega-hello.md")] == [False]


def test_what_came_with_a_refused_message_is_not_read(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    folders = {}
    for sender in ("pi", "omega"):
        data = f"---\ncn: message/1\nkind: message\nfrom: {sender}\nto: sigma\nsubject: x\n"
        data += "created: 2026-02-05T12:00:00Z\nhops: 0\n---\n\nhi\n"
        head = write_commit(person, {"message.md": data, f"for-{sender}/a": sender})
        push(person, sigma.url, f"{head}:refs/heads/pi/{sender}")
        folders[sender] = git(person, "rev-parse", f"{head}:for-{sender}")
    tools, asked = world.folder / "tools", world.folder / "asked"
    tools.mkdir()
    (tools / "git").write_text(
        f'#!/bin/sh\nexport PATH="$REST"\necho "$*" >> \'{asked}\'\n'
        f'case "$*" in\n*--batch-command*) tee -a \'{asked}\' | git "$@" ;;\n*) exec git "$@" ;;\nesac\n'
    )
    (tools / "git").chmod(0o755)
    path = os.environ["PATH"]
    done = sigma.cn("sync", check=1, env={"PATH": f"{tools}{os.pathsep}{path}", "REST": path})
    assert "known-peer" in done.stderr
    assert "- for-pi/a" in sigma.thread(sigma.only_thread())
    assert folders["pi"] in asked.read_text()
    assert folders["omega"] not in asked.read_text()


@pytest.mark.parametrize("encoding", ["IBM037", "UTF-16LE", "utf-7", "ISO-8859-1"])
def test_a_commit_in_an_encoding_that_git_cannot_show_has_its_author_and_is_not_merged(
    world: World, sigma: Node, pi: Node, encoding: str
) -> None:
    person = world.person(pi, sigma)
    plain = write_commit(person, {"docs/new.md": "x\n"}, "Change it", [tip(person)], author="Jane <jane@x.org>")
    raw = git(person, "cat-file", "commit", plain)
    header, _, message = raw.partition("\n\n")
    name = "J\xf6" if encoding == "ISO-8859-1" else "Jane"
    data = f"{header}\nencoding {encoding}\n\n{message}\n".replace("author Jane", f"author {name}").encode("latin-1")
    done = subprocess.run(
        ["git", "-C", str(person), "hash-object", "-w", "-t", "commit", "--stdin"],
        input=data,
        capture_output=True,
        check=True,
    )
    head = done.stdout.decode().strip()
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    author = "Jö" if encoding == "ISO-8859-1" else "Jane"
    assert f"{head[:10]} {author} <jane@x.org> " in text
    assert "Change it" in text
    told = sigma.decide("pi/proposal", "do:merge").stderr
    if encoding == "ISO-8859-1":
        assert is_in_main(sigma, head)
        return
    assert f"names the encoding {encoding}, and git shows neither author nor message" in text
    assert "names an encoding in which git shows neither author nor message" in told
    assert not is_in_main(sigma, head)
