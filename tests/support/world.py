"""Hubs that talk to each other: work trees, their public repositories, and peers' people.

A :class:`World` is a folder with hubs made from one template per session. Every act of cn
is a process of its own; every act of a person is plain git in a clone of that person's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.hubs import (
    Content,
    bare,
    branches,
    checkout,
    clone,
    cn,
    commit,
    fetch,
    git,
    identify,
    parents_of,
    push,
    read,
    tip,
)

Rows = list[tuple[str, str, str]]
"""Rows of a log without their time: source, decision, executed."""

_ROW = re.compile(r"\| \d\d:\d\d \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \|")
MAIN_FILE = "docs/start.md"


@dataclass
class Node:
    """A hub: ``root`` is its work tree, ``home`` the repository that its peers see."""

    name: str
    root: Path
    home: Path
    url: str
    links: list[str] = field(default_factory=list)

    @property
    def has_origin(self) -> bool:
        """Is there a bare repository between this hub and its peers?"""
        return self.home != self.root

    def cn(
        self,
        *args: str | Path,
        check: int | None = 0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        started: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run cn on this hub."""
        return cn(*args, hub=self.root, check=check, env=env, stdin=stdin, started=started)

    def sync(self, check: int = 0) -> subprocess.CompletedProcess[str]:
        """``cn sync``."""
        return self.cn("sync", check=check)

    def process(self, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """``cn inbox process``."""
        return self.cn("inbox", "process", check=check)

    def triage(self, thread: str, decision: str, *args: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """``cn inbox triage THREAD DECISION``."""
        return self.cn("inbox", "triage", thread, decision, *args, check=check)

    def write_triage(self, name: str, decision: str, actor: str = "", until: str = "") -> None:
        """An actor writes the section with an editor."""
        path = self.root / "threads/inbox" / name
        fields = f"decision: {decision}\nactor: {actor or self.name}\ntimestamp: 2026-02-05T15:00Z\n"
        fields += f"until: {until}\n" if until else ""
        path.write_text(f"{path.read_text('utf-8')}\n---\n\n## Triage\n\n{fields}", "utf-8")

    def write_refused_triage(self, thread: str, decision: str, *args: str) -> None:
        """``cn inbox triage`` refuses what a rule forbids; an editor does not."""
        if self.triage(thread, decision, *args, check=None).returncode:
            (name,) = [name for name in self.threads() if name.endswith(f"-{thread.replace('/', '-')}.md")]
            self.write_triage(name, decision, args[args.index("--actor") + 1] if "--actor" in args else "")

    def decide(self, thread: str, decision: str, *args: str, check: int = 0) -> subprocess.CompletedProcess[str]:
        """Triage, then process."""
        self.triage(thread, decision, *args)
        return self.process(check=check)

    def idle(self) -> None:
        """Both runs of the crontab find nothing to do: no output, no commit, no ref, exit 0."""
        before = self.refs(), branches(self.home)
        for words in (("inbox", "sync"), ("inbox", "process")):
            done = self.cn(*words)
            assert (done.stdout, done.stderr) == ("", ""), (self.name, words)
        assert (self.refs(), branches(self.home)) == before

    def refs(self) -> dict[str, str]:
        """Every ref of this clone."""
        lines = git(self.root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in lines)

    def threads(self) -> list[str]:
        """Pending threads in main."""
        return self.listing("threads/inbox")

    def done(self) -> list[str]:
        """Processed threads in main."""
        return self.listing("threads/inbox/done")

    def outbox(self) -> list[str]:
        """What waits to be delivered."""
        return self.listing("threads/mail/outbox")

    def sent(self) -> list[str]:
        """What was delivered."""
        return self.listing("threads/mail/sent")

    def listing(self, folder: str) -> list[str]:
        """The files of a folder of main, and the same in the work tree."""
        text = git(self.root, "ls-tree", "-z", "main", folder + "/")
        rows = [row.split("\t", 1) for row in text.split("\0") if row]
        names = [path.rpartition("/")[2] for meta, path in rows if " blob " in meta and not path.endswith("/.gitkeep")]
        there = self.root / folder
        files = sorted(p.name for p in there.iterdir() if p.is_file()) if there.is_dir() else []
        assert sorted(names) == sorted(n for n in files if n != ".gitkeep"), folder
        return sorted(names)

    def thread(self, name: str) -> str:
        """The text of a thread, pending or done."""
        for folder in ("threads/inbox", "threads/inbox/done"):
            path = self.root / folder / name
            if path.is_file():
                return path.read_text("utf-8")
        raise AssertionError(f"no thread {name} in {self.root}")

    def only_thread(self) -> str:
        """The name of the one pending thread."""
        names = self.threads()
        assert len(names) == 1, names
        return names[0]

    def rows(self, source: str = "") -> Rows:
        """The rows of every day's log, oldest first, with ``merged`` commits masked."""
        found: Rows = []
        for path in sorted((self.root / "logs/inbox").glob("*.md")):
            lines = path.read_text("utf-8").split("\n")
            assert lines[2:4] == ["| Time | Source | Decision | Executed |", "|------|--------|----------|----------|"]
            for text in lines[4:-1]:
                match = _ROW.fullmatch(text)
                assert match, text
                found.append((match[1], match[2], re.sub(r"merged [0-9a-f]{7}\b", "merged SHA", match[3])))
        return [row for row in found if not source or row[0] == source]

    def write(self, files: Mapping[str, Content], message: str = "by hand") -> str:
        """A person commits in this hub's work tree, and pushes when there is an origin."""
        made = commit(self.root, files, message)
        if self.has_origin:
            git(self.root, "push", "--quiet", "origin", "main")
        return made

    def configure(self, text: str) -> None:
        """Append to ``hub.yaml``."""
        old = (self.root / ".cn/hub.yaml").read_text()
        new = old.replace("reviewers: []\n", "") if "reviewers:" in text else old
        self.write({".cn/hub.yaml": new + text}, "configure")

    def add_peer(self, other: Node, deliver: str = "mailbox", key: str = "", url: str = "") -> None:
        """A person adds a peer to ``state/peers.md``."""
        lines = [f"- name: {other.name}", f"  hub: {json.dumps(url or other.url)}", f"  deliver: {deliver}"]
        lines += [f'  key: "{key}"'] if key else []
        old = (self.root / "state/peers.md").read_text()
        at = old.rindex("```")
        self.write({"state/peers.md": old[:at] + "\n".join(lines) + "\n" + old[at:]}, f"peer {other.name}")
        self.links.append(deliver)

    @property
    def main(self) -> str:
        """The tip of main here; the same in ``home``."""
        here = tip(self.root, "main")
        assert branches(self.home)["main"] == here
        return here

    def notices(self) -> list[str]:
        """The messages this hub ever queued, in any state, by file name."""
        return sorted(n for n in [*self.outbox(), *self.sent()] if not n.endswith("-delete.md"))


@dataclass
class World:
    """A folder with hubs, the repositories they share, and people's clones."""

    folder: Path
    template: Path
    nodes: dict[str, Node] = field(default_factory=dict)

    def hub(self, name: str, *, origin: bool = True, config: str = "", url: str = "", home: Path | None = None) -> Node:
        """A new hub as ``cn init`` makes it, with a bare origin unless told otherwise.

        ``home`` is an origin that is there already, reached at ``url``.
        """
        root = self.folder / f"cn-{name}"
        shutil.copytree(self.template / name, root, symlinks=True)
        if home is None:
            home = bare(self.folder / "host" / f"{name}.git") if origin else root
        if origin:
            git(root, "remote", "add", "origin", url or str(home))
            git(root, "push", "--quiet", "origin", "main")
        node = Node(name, root, home, url or str(home))
        node.write({MAIN_FILE: "start\n", "docs/other.md": "other\n"}, "docs")
        if config:
            node.configure(config)
        self.nodes[name] = node
        return node

    def far_hub(self, name: str) -> Node:
        """A hub whose origin is asked as a server is: its branches are not looked up in its folder."""
        home = bare(self.folder / "host" / f"{name}.git")
        return self.hub(name, url=f"file://{home}", home=home)

    def second(self, node: Node, *, trusted: bool = True) -> Node:
        """Another clone of a hub, as on a second machine; ``trusted``: a person has accepted it there."""
        root = clone(node.url, self.folder / f"cn-{node.name}-2", trusted=trusted)
        identify(root, node.name, f"{node.name}@cn.invalid")
        return Node(node.name, root, node.home, node.url)

    def link(self, a: Node, b: Node, deliver: str = "mailbox", *, a_key: str = "", b_key: str = "") -> None:
        """Make two hubs peers of each other; ``a_key`` is the key that ``b`` pins for ``a``."""
        a.add_peer(b, deliver, b_key)
        b.add_peer(a, deliver, a_key)

    def person(self, creator: Node, receiver: Node) -> Path:
        """The clone of ``receiver``'s hub in which a person of ``creator``'s works."""
        path = self.folder / "people" / f"{creator.name}-at-{receiver.name}"
        if not path.is_dir():
            clone(receiver.url, path)
            identify(path, creator.name.title(), f"{creator.name}@people.example")
        return path

    def branch(self, creator: Node, receiver: Node, topic: str) -> tuple[str, str]:
        """Name and place (URL) of the branch that carries ``topic`` on the route of these two."""
        if self.deliver(creator, receiver) == "mailbox":
            return f"{creator.name}/{topic}", receiver.url
        return f"{receiver.name}/{topic}", creator.url

    def deliver(self, creator: Node, receiver: Node) -> str:
        """The route of a link."""
        text = (receiver.root / "state/peers.md").read_text()
        match = re.search(rf"- name: {creator.name}\n(?:  .*\n)*?  deliver: (\w+)", text)
        return match[1] if match else "mailbox"

    def propose(
        self,
        creator: Node,
        receiver: Node,
        topic: str = "proposal",
        files: Mapping[str, Content] | None = None,
        *,
        message: str = "Add a doc",
        start: str = "origin/main",
        author: str = "",
        force: bool = False,
    ) -> str:
        """A person of ``creator``'s pushes a branch for ``receiver``; its head."""
        person = self.person(creator, receiver)
        fetch(person, receiver.url, "+refs/heads/*:refs/remotes/origin/*")
        checkout(person, "proposal", start)
        head = commit(person, {f"docs/{topic}.md": f"{topic}\n"} if files is None else files, message, author)
        self.offer(creator, receiver, topic, "HEAD", force=force)
        return head

    def offer(self, creator: Node, receiver: Node, topic: str, commit_: str, *, force: bool = False) -> None:
        """Push a commit of the person's clone as a branch for ``receiver``."""
        name, url = self.branch(creator, receiver, topic)
        plus = "+" if force else ""
        push(self.person(creator, receiver), url, f"{plus}{commit_}:refs/heads/{name}")

    def withdraw(self, creator: Node, receiver: Node, topic: str = "proposal") -> None:
        """The creator deletes its branch by hand."""
        name, url = self.branch(creator, receiver, topic)
        push(self.person(creator, receiver), url, f":refs/heads/{name}")

    def has_branch(self, creator: Node, receiver: Node, topic: str = "proposal") -> bool:
        """Is the branch still there?"""
        name, _ = self.branch(creator, receiver, topic)
        place = receiver if self.deliver(creator, receiver) == "mailbox" else creator
        return name in branches(place.home)

    def settle(self, *nodes: Node, rounds: int = 4) -> None:
        """Sync everyone until nobody has anything to do; fails when that takes too long."""
        for _ in range(rounds):
            before = [branches(n.home) for n in nodes]
            for node in nodes:
                node.sync()
            if [branches(n.home) for n in nodes] == before:
                return
        raise AssertionError("the hubs did not come to rest")


def merge_commit(node: Node, head: str) -> str:
    """The merge commit of ``head`` in a hub's main."""
    lines = git(node.root, "rev-list", "--merges", "--parents", "main").splitlines()
    found = [line.split()[0] for line in lines if head in line.split()[2:]]
    assert len(found) == 1, lines
    assert len(parents_of(node.root, found[0])) == 2
    return found[0]


def is_in_main(node: Node, head: str) -> bool:
    """Did ``head`` get into main?"""
    return head in git(node.root, "rev-list", "main").split()


def content(node: Node, path: str, ref: str = "main") -> bytes | None:
    """A file of main, None when it is not there."""
    names = git(node.root, "ls-tree", "-r", "-z", "--name-only", ref).split("\0")
    return read(node.root, f"{ref}:{path}") if path in names else None


def picture(*folders: Path) -> dict[str, str]:
    """Every file below, with type, mode and hash: what a dry run must leave as it is."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in _walk(folder):
            info = path.lstat()
            mode = stat.filemode(info.st_mode)
            if path.is_symlink():
                found[str(path)] = f"{mode} {os.readlink(path)}"
            elif path.is_file():
                found[str(path)] = f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            else:
                found[str(path)] = mode
    return found


def _walk(folder: Path) -> Iterable[Path]:
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(here, name)
