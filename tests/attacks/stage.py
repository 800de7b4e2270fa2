"""The stage on which attacks are tried: real hubs, real git, the real ``cn`` process."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cn.protocol.thread_file import without_form
from cn.views.conversation import read_conversation
from tests.attacks.attack import Attack
from tests.support.desk import answer, current, work_queue
from tests.support.hubs import (
    Content,
    add_header,
    blob,
    branches,
    clone,
    commit_tree,
    git,
    identify,
    make_ssh_key,
    push,
    raw_tree,
    sign_with,
    tip,
    write_commit,
)
from tests.support.servers import stalled_server
from tests.support.world import MAIN_FILE, Node, World

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b]")
_HONEST = "honest"
_LIMIT = 120.0


@dataclass(eq=False)
class Stage:
    """One hub ``sigma`` with its peers, and what was seen while it was attacked."""

    world: World
    scene: str
    sigma: Node
    pi: Node
    omega: Node | None = None
    heads: dict[str, str] = field(default_factory=dict)
    said: str = ""
    problems: list[str] = field(default_factory=list)
    rules: dict[str, set[str]] = field(default_factory=dict)
    open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def build(cls, world: World, scene: str, *, third: bool = False) -> Stage:
        """``pair``: pi is the only peer; ``shared``: omega writes the same mailbox; ``pinned``: with keys.

        ``third``: omega is a peer in any scene.
        """
        sigma, pi = world.hub("sigma"), world.hub("pi")
        omega = world.hub("omega") if scene in ("shared", "pinned") or third else None
        keys = {"pi": "", "omega": ""}
        if scene == "pinned":
            keys = {name: make_ssh_key(world.folder / "keys" / name)[1] for name in keys}
            sign_with(pi.root, world.folder / "keys" / "pi")
        world.link(sigma, pi, b_key=keys["pi"])
        if omega:
            world.link(sigma, omega, b_key=keys["omega"])
        if scene == "queue":
            work_queue(sigma)
        stage = cls(world, scene, sigma, pi, omega)
        stage.act({"do": "push", "branch": f"pi/{_HONEST}", "signed": scene == "pinned",
                   "files": [{"path": "docs/honest.md", "text": "honest\n"}]})  # fmt: skip
        return stage

    def perform(self, attacks: list[Attack]) -> None:
        """Three phases, with runs between them, and a last one in which nothing may be told again."""
        for phase in (1, 2, 3):
            for attack in attacks:
                for act in attack.acts:
                    if act.get("phase", 1) == phase:
                        self.act(act)
            alone = attacks[0].expect if self.scene == "alone" else {}
            # A person decides about the honest branch whatever else is going on.
            if phase == 2 and self.scene in ("pair", "pinned"):
                self.act({"do": "decide", "thread": f"pi/{_HONEST}", "decision": "do:merge"})
            if phase in (1, 3):
                self.run("sync", code=alone.get("sync") if phase == 1 else None)
            if phase == 2 or (phase == 3 and self.scene != "alone"):
                self.run("inbox", "process", code=alone.get("process") if phase == 2 else None)
                for source, row in self.threads().items():
                    self.rules.setdefault(source, set()).add(row["rule"] or "")
        before = self.sigma.refs()
        again = self.sigma.cn("sync", check=None, env={"CN_DEBUG": "1"})
        if again.stderr and not (self.scene == "alone" and attacks[0].expect.get("quiet") is False):
            self.problems.append(f"told twice: {again.stderr}")
        changed = sorted(before.items() ^ self.sigma.refs().items())
        if changed:
            self.problems.append(f"a run without news changed refs: {changed}; it said {again.stdout!r}")

    def run(self, *words: str, code: int | None = None) -> None:
        """One run of cn; whatever happens, no traceback and no control character."""
        done = self.sigma.cn(*words, check=None)
        self.said += done.stdout + done.stderr
        if code is not None and done.returncode != code:
            self.problems.append(f"cn {' '.join(words)} ended with {done.returncode}, not {code}: {done.stderr}")
        if "internal error" in done.stderr or "Traceback" in done.stderr or _CONTROL.search(done.stderr):
            self.problems.append(f"cn {' '.join(words)}: {done.stderr!r}")

    # Acts.

    def act(self, act: dict[str, Any]) -> None:
        """Do one thing."""
        getattr(self, f"_{act['do']}")(act)

    def _push(self, act: dict[str, Any]) -> None:
        node = getattr(self, act.get("as", "pi"))
        person = self.world.person(node, self.sigma)
        home = getattr(self, act.get("to", "sigma")).home
        start = act.get("start", "origin/main")
        if "commit" in act:
            head = self.fill(act["commit"])
            self._bring(self.world.person(self.pi, self.sigma), person, head)
        elif "tree" in act:
            tree = self._tree(person, act["tree"])
            head = commit_tree(person, tree, "tree", [tip(person, "origin/main")])
        else:
            files: dict[str, Content] = {}
            modes: dict[str, str] = {}
            for one in act.get("files", []):
                path = one["path"].encode().decode("unicode_escape") if one.get("escaped") else one["path"]
                files[path] = self._content(one)
                if "link" in one:
                    modes[path] = "120000"
                elif "module" in one:
                    modes[path], files[path] = "160000", "1" * 40
                elif "mode" in one:
                    modes[path] = one["mode"]
            parents = [] if start == "" else [tip(person, start)]
            if "merge" in act:  # of a branch of ours, by somebody else
                parents.append(self.heads[act["merge"]])
                self._bring(self.world.person(self.sigma, self.pi), person, parents[-1])
            head = write_commit(
                person, files, self.fill(act.get("message", "a change")) * int(act.get("times", 1)), parents,
                self._author(act, node), modes=modes,
            )  # fmt: skip
        if act.get("signed"):
            head = self._sign(person, head, node.name)
        if "header" in act:
            head = add_header(person, head, act["header"])
        self.heads[act["branch"]] = head
        plus = "+" if act.get("force") else ""
        push(person, home, f"{plus}{head}:refs/heads/{act['branch']}")

    def _bring(self, made: Path, person: Path, head: str) -> None:
        git(made, "config", "uploadpack.allowAnySHA1InWant", "true")
        git(person, "fetch", "--quiet", str(made), head)

    def _author(self, act: dict[str, Any], node: Node) -> str:
        return str(act.get("author") or f"{node.name.title()} <{node.name}@people.example>")

    def _sign(self, person: Any, head: str, name: str) -> str:
        raw = git(person, "cat-file", "commit", head) + "\n"
        key = self.world.folder / "keys" / name
        done = subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", str(key)],
            input=raw.encode(), capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        top, _, rest = raw.partition("\n\n")
        signature = done.stdout.decode().rstrip("\n").replace("\n", "\n ")
        text = f"{top}\ngpgsig {signature}\n\n{rest}"
        return git(person, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)

    def _content(self, one: dict[str, Any]) -> Content:
        if "hex" in one:
            return bytes.fromhex(one["hex"])
        if "link" in one:
            return str(one["link"])
        if "random" in one:  # what no compression makes smaller
            return random.Random(one["path"]).randbytes(int(one["random"]))
        return self.fill(one.get("text", "")) * int(one.get("times", 1))

    def _tree(self, person: Any, tree: dict[str, Any]) -> str:
        if "bomb" in tree:  # each level holds the one below so often
            oid = blob(person, "x" * int(tree.get("bytes", 1)))
            level = raw_tree(person, [("100644", b"f%02d" % i, oid) for i in range(int(tree["wide"]))])
            for _ in range(int(tree["bomb"])):
                level = raw_tree(person, [("40000", b"d%02d" % i, level) for i in range(int(tree["wide"]))])
            start = git(person, "rev-parse", "origin/main^{tree}")
            rows = [line.split(None, 3) for line in git(person, "ls-tree", start).splitlines()]
            entries = [(mode.lstrip("0"), name.encode(), oid) for mode, _, oid, name in rows]
            return raw_tree(person, sorted([*entries, ("40000", b"zz", level)], key=lambda e: e[1]))
        oid = blob(person, "x\n")
        return raw_tree(person, [("100644", self.fill(n).encode(), oid) for n in tree["names"]])

    def _message(self, act: dict[str, Any]) -> None:
        node = getattr(self, act.get("as", "pi"))
        self._push({**act, "files": [{"path": "message.md", "text": act["text"]}], "start": "",
                    "author": act.get("author", f"{node.name} <{node.name}@cn.invalid>")})  # fmt: skip

    def _delete(self, act: dict[str, Any]) -> None:
        push(self.world.person(self.pi, self.sigma), self.sigma.home, f":refs/heads/{act['branch']}")

    def _ours(self, act: dict[str, Any]) -> None:
        self.heads[f"sigma/{act['topic']}"] = self.world.propose(self.sigma, self.pi, act["topic"])

    def _decide(self, act: dict[str, Any]) -> None:
        self.sigma.write_refused_triage(act["thread"], act["decision"], *act.get("args", ()))

    def _write(self, act: dict[str, Any]) -> None:
        path = self.sigma.root / self.fill(act["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        if "link" in act:
            path.unlink(missing_ok=True)
            path.symlink_to(act["link"])
        elif act.get("append"):
            path.write_text(path.read_text("utf-8") + self.fill(act["text"]), "utf-8")
        else:
            path.write_text(self.fill(act["text"]), "utf-8")

    def _origin(self, act: dict[str, Any]) -> None:
        path = self.world.folder / "pusher"
        if not path.is_dir():
            clone(self.sigma.url, path)
            identify(path, "mallory")
        git(path, "fetch", "-q", "origin")
        git(path, "reset", "-q", "--hard", "origin/main")
        if act.get("rewind"):
            git(path, "reset", "-q", "--hard", f"HEAD~{act['rewind']}")
        for one in act.get("files", []):
            target = path / self.fill(one["path"])
            if one.get("remove"):
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if one.get("file"):
                shutil.rmtree(target, ignore_errors=True)
            if "link" in one:
                target.symlink_to(one["link"])
                continue
            old = target.read_text("utf-8") if target.is_file() else ""
            text = self.fill(one.get("text", ""))
            if "replace" in one:
                text = old.replace(self.fill(one["replace"]), text)
            target.write_text(old + text if one.get("append") else text, "utf-8")
        git(path, "add", "-A", "-f")
        git(path, "commit", "-q", "--allow-empty", "-m", act.get("message", "harmless"))
        push(path, self.sigma.url, "+main" if act.get("rewind") else "main")

    def _output(self, act: dict[str, Any]) -> None:
        answer(self.sigma, self.fill(act["text"]))

    def _config(self, act: dict[str, Any]) -> None:
        path, more = self.sigma.root / ".cn/hub.yaml", self.fill(act["text"])
        old = re.sub(rf"(?m)^{more.partition(':')[0]}:.*\n", "", path.read_text())
        self.sigma.write({".cn/hub.yaml": old + more}, "configure")

    def _git(self, act: dict[str, Any]) -> None:
        """The user's own settings, or whatever else the user does with git."""
        git(self.sigma.root, *(self.fill(word) for word in act["args"]))

    def _peers(self, act: dict[str, Any]) -> None:
        old = (self.sigma.root / "state/peers.md").read_text()
        new = old.replace(self.fill(act["old"]), self.fill(act["new"]))
        assert new != old, act
        self.sigma.write({"state/peers.md": new}, "change peers")

    def _cn(self, act: dict[str, Any]) -> None:
        done = self.sigma.cn(*(self.fill(word) for word in act["args"]), check=None)
        self.said += done.stdout + done.stderr
        if done.returncode != act.get("exit", done.returncode):
            self.problems.append(f"cn {act['args']} ended with {done.returncode}: {done.stderr}")
        for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
            if self.fill(act.get(stream, "")) not in text:
                self.problems.append(f"cn {act['args']}: {act[stream]!r} is not in {text!r}")

        for text, times in act.get("count", []):
            if done.stdout.count(text) != times:
                self.problems.append(f"cn {act['args']}: {text!r} is there {done.stdout.count(text)} times")

    def _host(self, act: dict[str, Any]) -> None:
        """Whoever runs the git host writes into the repository itself."""
        home, name = self.sigma.home, act["branch"]
        if "object" in act:  # a branch that is no commit, or nothing at all
            made = git(home, "rev-parse", act["object"]) if "^" in act["object"] else act["object"]
            path = home / "refs/heads" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{made}\n")
        else:  # an object of the branch is damaged
            oid = git(home, "rev-parse", f"{name}:{act['spoil']}")
            path = home / "objects" / oid[:2] / oid[2:]
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:10] + bytes(30))

    def fill(self, text: str) -> str:
        """``${head:pi/x}``, ``${thread:pi/x}``, ``${main}``, ``${pi}`` (its URL), ``${silent}``, …"""

        def value(match: re.Match[str]) -> str:
            kind, _, name = match[1].partition(":")
            match kind:
                case "head":
                    return self.heads[name]
                case "tip":
                    return branches(self.pi.home)[name]
                case "main":
                    return tip(self.sigma.root, "main")
                case "pi":
                    return self.pi.url
                case "silent":  # a server that takes connections and never says a word
                    port, _ = self.open.enter_context(stalled_server())
                    return f"git://127.0.0.1:{port}/pi.git"
                case "folder":
                    return str(self.world.folder)
                case "thread":
                    return str(self.threads()[name]["thread"])
                case "id":
                    return current(self.sigma)
                case "month":
                    folder = self.sigma.root / "state/ledger/pi"
                    return next(p.name for p in folder.iterdir() if p.name.isdigit())
                case "IFS":  # for a shell that reads the name
                    return match[0]
            raise ValueError(match[0])

        return re.sub(r"\$\{([^}]+)\}", value, text)

    # What came of it.

    def threads(self) -> dict[str, dict[str, Any]]:
        """Every thread by ``peer/topic``; the latest of each."""
        done = self.sigma.cn("inbox", "list", "--all", "--json", check=None)
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        return {f"{r['peer']}/{r['branch'].partition('/')[2]}": r for r in rows}

    @cache  # noqa: B019  a stage lives as long as its test
    def seen(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """Threads and commits of main at the end."""
        return self.threads(), self.merged()

    @cache  # noqa: B019
    def status(self) -> str:
        """What the status says at the end."""
        return self.sigma.cn("status", "--json", check=0).stdout

    def check_scene(self) -> list[str]:
        """What must hold whatever was tried: the honest branch got in, nothing else is harmed."""
        wrong = list(self.problems)
        root = self.sigma.root
        if self.scene in ("pair", "pinned") and self.heads[f"pi/{_HONEST}"] not in self.merged():
            wrong.append("the honest branch was not merged")
        if (root / MAIN_FILE).read_text() != "start\n":
            wrong.append("a file of the user changed")
        wrong += [f"something foreign was executed: {path} is there" for path in self.marks()]
        fsck = subprocess.run(
            ["git", "-C", str(root), "fsck", "--strict", "--no-dangling"],
            capture_output=True, text=True, timeout=_LIMIT, check=False,
        )  # fmt: skip
        if fsck.returncode:
            wrong.append(fsck.stderr)
        self.sigma.rows()  # every row of the log can be read
        files = [path for path in (root / "threads/inbox").rglob("*.md") if not path.is_symlink()]
        if len({unicodedata.normalize("NFC", str(path)).casefold() for path in files}) < len(files):
            wrong.append(f"threads are one file where case or form does not count: {files}")
        wrong += [f"{path.name} is too long" for path in files if len(path.name.encode()) > 120]
        for path in (root / "threads").rglob("*.md"):
            if path.is_file() and not path.is_symlink() and _CONTROL.search(path.read_text("utf-8")):
                wrong.append(f"{path.name} holds control characters")
        return wrong

    def marks(self) -> list[Path]:
        """Files named ``mark``, which no attack writes but what it wants to be executed does.

        Looked for wherever a process of the run may work: the folder from which cn is started, the hubs,
        their git directories, and the repositories of peers.
        """
        return [path for place in (Path.cwd(), self.world.folder) for path in place.rglob("mark")]

    def merged(self) -> set[str]:
        """Every commit of main."""
        return set(git(self.sigma.root, "rev-list", "main").split())

    def check(self, attack: Attack) -> list[str]:
        """What differs from what the attack's file expects."""
        want, wrong = attack.expect, list[str]()
        threads, main = self.seen()

        def need(good: bool, text: str) -> None:
            if not good:
                wrong.append(text)

        made = [a for a in attack.acts if a["do"] in ("push", "message") and "commit" not in a]
        mine = {a["branch"] for a in made}
        for name in mine:
            need((self.heads[name] in main) == (name in want.get("merged", [])), f"{name}: merged?")
        for name in want.get("received", []):
            need(name in threads, f"{name} was not received")
        for name in want.get("absent", []):
            need(name not in threads, f"{name} was received")
        for name, rule in want.get("rule", {}).items():
            need(rule in self.rules.get(name, ()), f"{name}: {self.rules.get(name)}, not {rule}")
        for name in want.get("received", []) if want.get("quoted", True) else []:
            text = without_form(self.sigma.thread(threads[name]["thread"]))
            rest = text.partition("\n---\n")[2].partition("\n## ")[0]
            lines = [line for line in rest.split("\n") if line not in ("", "---")]
            need(all(line.startswith(">") for line in lines), f"{name}: {lines}")
            for part in want.get("has", []):
                need(self.fill(part) in text, f"{name} lacks {part!r}:\n{text[:2000]}")
            for part in want.get("lacks", []):
                need(self.fill(part) not in text, f"{name} has {part!r}")
            if "listed" in want:
                pages = read_conversation(text, threads[name]["kind"]).proposed
                need(pages is not None, f"{name} is shown as one text")
                need(list(pages.listed if pages else ()) == want["listed"], f"{name}: {pages}")
                need([file.path for file in (pages.files if pages else ())] == want["files"], f"{name}: {pages}")
        for part in want.get("told", []):
            need(self.fill(part) in self.said, f"{part!r} was not told:\n{self.said}")
        for part in want.get("untold", []):
            need(part not in self.said, f"{part!r} was told:\n{self.said}")
        status = self.status() if want.get("status") else ""
        for part in want.get("status", []):
            need(self.fill(part) in status, f"{part!r} is not in the status: {status}")
        there = {**branches(self.sigma.home), **branches(self.pi.home)}
        for name in want.get("stays", []):
            need(name in there, f"{name} is gone")
        for name in want.get("gone", []):
            need(name not in there, f"{name} is there")
        rows = self.sigma.rows() if want.get("log") else []
        for source, decision, executed in want.get("log", []):
            found = any(r[0] == source and r[1] == decision and executed in r[2] for r in rows)
            need(found, f"no row {source} {decision} {executed}: {[r for r in rows if r[0] == source]}")
        names = set(git(self.sigma.root, "ls-tree", "-r", "-z", "--name-only", "main").split("\0"))
        for path in want.get("main_has", []):
            need(self.fill(path) in names, f"main lacks {path}")
        for path in want.get("main_lacks", []):
            need(self.fill(path) not in names, f"main has {path}")
        if "outbox" in want:
            need(len(self.sigma.outbox()) == want["outbox"], f"outbox: {self.sigma.outbox()}")
        return wrong
