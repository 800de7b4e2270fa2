"""What the floors of the bulk paths share: git with bytes in and out, and a fast-import stream."""

import os
import re
import subprocess
import time

INBOX, DONE = "threads/inbox", "threads/inbox/done"
OUTBOX, SENT = "threads/mail/outbox", "threads/mail/sent"
US = "sigma <sigma@cn.invalid>"
DAY = time.strftime("%Y%m%d", time.gmtime())


def git(*words: str, stdin: bytes = b"", fails: bool = False) -> bytes:
    """Run git in the current folder; its standard output."""
    done = subprocess.run(["git", *words], input=stdin, stdout=subprocess.PIPE, check=False)
    if done.returncode and not fails:
        raise SystemExit(f"git {' '.join(words[:3])} ended with {done.returncode}")
    return done.stdout


def together(commands: list[list[str]]) -> None:
    """Run git commands at the same time (one per remote)."""
    running = [subprocess.Popen(["git", *words], stdout=subprocess.DEVNULL) for words in commands]
    for words, process in zip(commands, running, strict=True):
        if process.wait():
            raise SystemExit(f"git {' '.join(words[:3])} ended with {process.returncode}")


def contents(names: list[str]) -> list[bytes]:
    """The bytes of many objects, in one process."""
    out = git("cat-file", "--batch", "--buffer", stdin="".join(f"{name}\n" for name in names).encode())
    found, at = [], 0
    for _ in names:
        end = out.index(b"\n", at)
        size = int(out[at:end].rsplit(b" ", 1)[1])
        found.append(out[end + 1 : end + 1 + size])
        at = end + size + 2
    return found


def entries(folder: str) -> dict[str, str]:
    """The files of a folder of main: name → blob."""
    rows = git("ls-tree", "-z", f"main:{folder}").decode().split("\0")
    pairs = (row.split("\t", 1) for row in rows if " blob " in row and row.endswith(".md"))
    return {name: meta.split(" ")[2] for meta, name in pairs}


def changes(heads: list[str]) -> dict[str, tuple[str, list[tuple[str, str, str]]]]:
    """Per head: message and changed (mode, blob, path), with one ``log`` over single-commit branches."""
    words = ("log", "--stdin", "--no-walk", "--raw", "-z", "--no-renames", "--no-abbrev", "--format=%x01%H%n%B%x02")
    out = git(*words, stdin="".join(f"{head}\n" for head in heads).encode()).decode()
    found = {}
    for part in out.split("\x01")[1:]:
        text, _, raw = part.partition("\x02")
        head, _, message = text.partition("\n")
        fields = raw.strip("\0\n").split("\0")
        paths = []
        for meta, path in zip(fields[::2], fields[1::2], strict=True):
            words_of = meta.lstrip("\n:").split(" ")
            paths.append((words_of[1], words_of[3], path))
        found[head] = message, paths
    return found


class Stream:
    """Commits for one ``git fast-import``."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.marks = 0
        self.now = f"{int(time.time())} +0000"

    def commit(self, ref: str, message: str, parents: list[str], who: str = US, when: str = "") -> None:
        """Begin a commit; its changes follow."""
        self.marks += 1
        text = message.encode()
        when = when or self.now
        self.parts.append(
            f"commit {ref}\nmark :{self.marks}\nauthor {who} {when}\ncommitter {who} {when}\n".encode()
            + b"data %d\n%b\n" % (len(text), text)
        )
        for word, parent in zip(("from", "merge"), parents, strict=False):
            self.parts.append(f"{word} {parent}\n".encode())

    def change(self, line: str) -> None:
        """``M mode blob path``, ``D path`` or ``R old new``."""
        self.parts.append(line.encode() + b"\n")

    def file(self, path: str, data: bytes) -> None:
        """A file with its bytes."""
        self.parts.append(f"M 100644 inline {path}\n".encode() + b"data %d\n%b\n" % (len(data), data))

    def run(self) -> None:
        """Import it into the current repository."""
        words = ("fast-import", "--quiet", "--date-format=raw", "--done")
        git(*words, stdin=b"".join([*self.parts, b"done\n"]))


def message(text: bytes) -> dict[str, str]:
    """The head of an outbox entry: ``key: "JSON string"`` lines."""
    import json

    lines = text.partition(b"\n---\n")[0].decode().split("\n")[2:]
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def decision(text: str) -> str:
    """What a thread's Triage says."""
    found = re.findall(r"^decision: (.*)$", text, re.M)
    return found[-1] if found else ""


def field(text: str, name: str) -> str:
    """A bold field of a thread's head."""
    found = re.search(rf"^\*\*{name}:\*\* (.*)$", text, re.M)
    return found[1] if found else ""


def peers() -> list[str]:
    """The repositories of the peers, beside the hub."""
    return sorted(os.listdir("../peers"))


def deliver(below: str = "") -> None:
    """Push ``refs/floor/<peer>/`` to each peer, below ``refs/heads/<below>``, all at once.

    By one pattern: git compares refs that are named one by one with all the others.
    """
    pushes = []
    for peer in peers():
        spec = f"refs/floor/{peer.removesuffix('.git')}/*:refs/heads/{below}*"
        pushes.append(["push", "--quiet", "--atomic", f"../peers/{peer}", spec])
    together(pushes)
