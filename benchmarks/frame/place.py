"""Where a case lives: a hub, its origin, its peers; all made with plain git.

Object ids, dates and contents are the same in every run. cn's own files (threads, ledger,
outbox) are written with the formatters of ``cn.protocol``, so that they stay what cn writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

from cn.protocol.layout import done_path, inbox_path
from cn.protocol.ledger import IN, Event, fold_history, format_event, format_open, month_path, open_path
from cn.protocol.thread_file import Header, Triage, append_section, format_thread, format_triage, parse_decision
from cn.values.names import Branch, Name, Oid, ThreadName, topic_of

ROOT = Path(__file__).resolve().parents[2]
US = Name("sigma")
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_RENAMED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes"}
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_CONFIG = """\
[user]
	name = Bench
	email = bench@example.org
[init]
	defaultBranch = main
[gc]
	auto = 0
[maintenance]
	auto = false
[receive]
	autogc = false
	advertisePushOptions = false
[advice]
	detachedHead = false
"""


@dataclass(frozen=True)
class Place:
    """A folder with ``hub`` (the work tree), ``origin.git`` (bare) and ``peers/`` (bare)."""

    root: Path

    @property
    def hub(self) -> Path:
        """cn's hub."""
        return self.root / "hub"

    @property
    def origin(self) -> Path:
        """Its origin, in which peers leave their branches."""
        return self.root / "origin.git"

    def peer(self, name: str) -> Path:
        """The repository that a peer's hub is."""
        return self.root / "peers" / f"{name}.git"

    @property
    def env(self) -> dict[str, str]:
        """The environment of every process: nobody's home, no system configuration, this checkout."""
        home = self.root.parent / "home"
        if not home.is_dir():
            home.mkdir()
            (home / "gitconfig").write_text(_CONFIG)
        return {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "HOME": str(home),
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": str(ROOT),
        }

    def git(self, *words: str | Path, at: Path | None = None, stdin: bytes = b"") -> str:
        """Plain git in the hub, or at another repository."""
        command = ["git", "-C", str(at or self.hub), *(str(w) for w in words)]
        done = subprocess.run(command, env=self.env, input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:6])}: {done.stderr.decode('utf-8', 'replace')[-2000:]}")
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def refs(self, at: Path, *prefixes: str) -> dict[str, str]:
        """All refs of a repository."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)", *prefixes, at=at).split("\n")
        return dict(line.split(" ", 1) for line in lines if line)

    def files(self, at: Path, folder: str, ref: str = "main") -> dict[str, str]:
        """The files below a folder of main: path → blob."""
        rows = self.git("ls-tree", "-r", "-z", ref, "--", folder, at=at).split("\0")
        pairs = (row.split("\t", 1) for row in rows if row)
        return {path: meta.split(" ")[2] for meta, path in pairs}

    def contents(self, at: Path, oids: Iterable[str]) -> list[bytes]:
        """The bytes of many blobs."""
        names = "".join(f"{oid}\n" for oid in oids).encode()
        command = ["git", "-C", str(at), "cat-file", "--batch", "--buffer"]
        out = subprocess.run(command, env=self.env, input=names, capture_output=True, check=True).stdout
        found, start = [], 0
        while start < len(out):
            end = out.index(b"\n", start)
            size = int(out[start:end].rsplit(b" ", 1)[1])
            found.append(out[end + 1 : end + 1 + size])
            start = end + size + 2
        return found


def cn(*words: str) -> list[str]:
    """The installed command."""
    return [str(Path(sys.executable).with_name("cn")), *words]


class Stream:
    """A fast-import stream (git-fast-import(1)): commits by mark, run at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._marks = 0

    def commit(
        self,
        ref: str,
        files: Mapping[str, bytes | str | None],
        parent: int | str | None = None,
        message: str = "bench",
        author: str = "Bench <bench@example.org>",
        renames: Mapping[str, str] | None = None,
    ) -> int:
        """Add a commit; its mark. ``parent`` is a mark or an id; a file that is None goes."""
        self._marks += 1
        when = f"{int(START.timestamp()) + self._marks} +0000"
        text = message.encode()
        head = f"commit {ref}\nmark :{self._marks}\nauthor {author} {when}\ncommitter {author} {when}\n"
        self._parts += [head.encode(), b"data %d\n%b\n" % (len(text), text)]
        if parent is not None:
            self._parts.append(f"from {f':{parent}' if isinstance(parent, int) else parent}\n".encode())
        for old, new in (renames or {}).items():
            self._parts.append(f"R {old} {new}\n".encode())
        for path, data in files.items():
            if data is None:
                self._parts.append(f"D {path}\n".encode())
                continue
            data = data.encode() if isinstance(data, str) else data
            self._parts += [f"M 100644 inline {path}\n".encode(), b"data %d\n%b\n" % (len(data), data)]
        return self._marks

    def run(self, place: Place, at: Path) -> dict[int, str]:
        """Import it; mark → id."""
        with tempfile.NamedTemporaryFile(prefix="cn-bench-marks-") as marks:
            words = ("fast-import", "--quiet", "--date-format=raw", "--done", f"--export-marks={marks.name}")
            place.git(*words, at=at, stdin=b"".join([*self._parts, b"done\n"]))
            lines = Path(marks.name).read_text().splitlines()
        return {int(mark[1:]): oid for mark, oid in (line.split(" ") for line in lines)}


def bare(place: Place, path: Path) -> Path:
    """An empty bare repository."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "--bare", str(path)], env=place.env, check=True)
    return path


def hub_files(peers: Mapping[str, str], config: str = "", route: str = "mailbox") -> dict[str, bytes]:
    """What ``cn init`` and ``cn peer add --deliver ROUTE`` would have written. ``peers``: name → URL."""
    template = ROOT / "hub-template"
    found = {}
    for file in sorted(p for p in template.rglob("*") if p.is_file()):
        path = file.relative_to(template)
        path = path.with_name(_RENAMED.get(path.name, path.name))
        found[str(path)] = file.read_text("utf-8").replace("{{name}}", US).encode()
    found[".cn/hub.yaml"] += config.encode()
    listed = "".join(f'- name: {name}\n  hub: "{url}"\n  deliver: {route}\n' for name, url in peers.items())
    head, _, tail = found["state/peers.md"].rpartition(b"```")
    found["state/peers.md"] = head + listed.encode() + b"```" + tail
    found["docs/start.md"] = b"start\n"
    return found


@dataclass
class Records:
    """cn's folders in main, as a history of threads would have left them."""

    files: dict[str, bytes | str | None] = field(default_factory=dict)
    events: dict[Name, list[Event]] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    triages: dict[str, str] = field(default_factory=dict)

    def record(self, peer: Name, event: Event) -> None:
        """An event of the ledger."""
        self.events.setdefault(peer, []).append(event)

    def thread(
        self,
        branch: str,
        head: str,
        at: datetime,
        *,
        decision: str = "",
        done: bool = False,
        kind: str = "proposal",
        content: str = "Add a doc\n\nA docs/new.md (+3)\n\n+one\n+two\n+three\n",
        body: str = "",
        base: str = "none",
    ) -> str:
        """A pending thread, with ``decision`` one that its working copy decides, or one that is done.

        ``base`` is the commit against which it shows the branch (docs/protocol/ledger.md).
        """
        peer, topic = Name(branch.partition("/")[0]), topic_of(Branch(branch))
        name = ThreadName(f"{at:%Y%m%d}-{peer}-{topic}.md")
        oid = Oid(head)
        text = format_thread(Header(peer, topic, Branch(branch), at, oid, "unverified"), content)
        fields = {"branch": branch, "thread": name, "signature": "unverified", "kind": kind, "hops": "0", "base": base}
        self.record(peer, Event(at, IN, "received", topic, oid, fields))
        if not done:
            self.files[inbox_path(name)] = text
            if decision:
                triage = Triage(parse_decision(decision), US, at, body=body)
                self.triages[inbox_path(name)] = f"{text}\n---\n\n{format_triage(triage)}"
            return name
        later = at + timedelta(hours=1)
        self.files[done_path(name)] = append_section(text, "Executed", [f"- {later:%Y-%m-%dT%H:%M}Z ✓ discarded"])
        told = {"status": "discarded", "actor": US, "decision": "delete:old", "thread": name}
        self.record(peer, Event(later, IN, "decided", topic, oid, told))
        self.record(peer, Event(later, IN, "gone", topic, oid))
        return name

    def write(self) -> dict[str, bytes | str | None]:
        """All files, the ledger folded."""
        found = dict(self.files)
        for peer, events in self.events.items():
            months: dict[str, list[str]] = {}
            for event in events:
                months.setdefault(month_path(peer, event.at), []).append(format_event(event) + "\n")
            found |= {path: "".join(lines) for path, lines in months.items()}
            found[open_path(peer)] = format_open(fold_history(events))
        return found


def fake_id(text: str) -> str:
    """An object id that stands for a commit long gone."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def build_hub(
    place: Place,
    peers: Mapping[str, str],
    *,
    config: str = "",
    route: str = "mailbox",
    files: Mapping[str, bytes | str] | None = None,
) -> str:
    """Origin with the hub's first commit on main; its id."""
    bare(place, place.origin)
    stream = Stream()
    there = {**hub_files(peers, config, route), **(files or {})}
    mark = stream.commit("refs/heads/main", there, message="Hub of sigma")
    return stream.run(place, place.origin)[mark]


def add_records(place: Place, records: Records) -> None:
    """Commit cn's folders on origin's main."""
    stream = Stream()
    stream.commit("refs/heads/main", records.write(), "refs/heads/main^0", "cn: sync", f"{US} <{US}@cn.invalid>")
    stream.run(place, place.origin)


def clone_hub(place: Place, records: Records | None = None) -> None:
    """The hub's work tree as a run of cn would have left it: pins, trust, decisions written.

    Packed by git itself: fast-import makes each file a delta of the one before it, so that a small
    file could not be read without a large one (0.8 MB for the open items of a peer).
    """
    place.git("repack", "-a", "-d", "-f", "-q", at=place.origin)
    command = ["git", "clone", "-q", str(place.origin), str(place.hub)]
    subprocess.run(command, env=place.env, check=True)
    place.git("config", "user.name", US)
    place.git("config", "user.email", f"{US}@cn.invalid")
    refs = place.refs(place.origin, "refs/heads/")
    lines = [f"update refs/cn/{name} {refs['refs/heads/main']}\n" for name in ("origin/main", "trusted")]
    events = records.events if records else {}
    known = {f"{peer}/{event.topic}" for peer in events for event in events[peer] if event.side == IN}
    for ref, oid in refs.items():
        peer, _, topic = ref.removeprefix("refs/heads/").partition("/")
        if f"{peer}/{topic}" in known:
            lines.append(f"update refs/cn/pins/{peer}/in/{topic} {oid}\n")
    place.git("update-ref", "--stdin", stdin="".join(lines).encode())
    place.git("pack-refs", "--all")
    place.git("pack-refs", "--all", at=place.origin)
    for path, text in (records.triages if records else {}).items():
        (place.hub / path).write_text(text, "utf-8")
