"""Read and write many git objects with few processes (git-cat-file(1) "BATCH OUTPUT")."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from cn.git.damage import refuse_broken_ref
from cn.git.process import LOCAL_SECONDS, PATIENT, PRUNED, Done, Git, GitError, kill_group, let_signals_in, tail
from cn.system import polling
from cn.values.errors import Blocked
from cn.values.names import Oid
from cn.values.text import one_line

OUTPUT_BYTES = 8 << 20
"""What cn reads at most of a git that tells of branches of peers."""
_PACKED = 100
_T = TypeVar("_T")
_R = TypeVar("_R")
_PACK_TYPES = {"commit": 1, "tree": 2, "blob": 3}


class TreeEntry(NamedTuple):
    """One entry of a tree; ``path`` is relative to the tree that was listed."""

    mode: str
    kind: str
    oid: Oid
    path: str


class Info(NamedTuple):
    """What ``cat-file --batch-check`` says of an object: id, type, size in bytes."""

    oid: Oid
    kind: str
    size: int


class Found(NamedTuple):
    """An object as ``cat-file --batch`` gives it: id, type, bytes; of a tree also its entries by name."""

    oid: Oid
    kind: str
    data: bytes
    entries: Mapping[str, TreeEntry] = MappingProxyType({})


_DERIVED = re.compile(r"[~^:]|@\{")
"""What makes a revision of a ref's name; none of it stands in one (git-check-ref-format(1))."""


def resolve(git: Git, name: str) -> Oid | None:
    """The commit a ref or name stands for, or None. A whole ref is that one: where there is none, git would take a tag
    of that name (gitrevisions(7)), which whoever may push tags gives to every clone.
    """
    if name.startswith("refs/") and not _DERIVED.search(name):
        name = list_refs(git, name).get(name, "")
    if not name:
        return None
    (info,) = read_info(git, [f"{name}^{{commit}}"])
    return info.oid if info else None


def empty_tree(git: Git) -> Oid:
    """The id of the empty tree in the repository's object format (written, so it can be used)."""
    return Oid(git.run("hash-object", "-w", "-t", "tree", "--stdin").text)


def list_refs(git: Git, *prefixes: str) -> dict[str, Oid]:
    """All refs below the prefixes, in one process. Names that are no UTF-8 hold surrogates."""
    done = git.run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    refuse_broken_ref(git.git_dir or git.root / ".git", done, "refs/cn/")
    lines = done.out.decode("utf-8", "surrogateescape").split("\n")
    return {name: Oid(oid) for oid, _, name in (line.partition(" ") for line in lines if line)}


def ask_history(git: Git, question: Sequence[str], commits: Sequence[str]) -> Done:
    """A question to git whose exit code is the answer: 0 yes, 1 no; no as well when a commit is missing.

    Anything else is no answer, and raises :class:`GitError`: a git that could not read must not be
    taken for a no.
    """
    done = git.run(*question, check=False)
    if done.code not in (0, 1) and None not in read_info(git, commits):
        raise GitError(done)
    return done


def is_ancestor(git: Git, old: Oid, new: Oid) -> bool:
    """Does ``new`` contain ``old``? A missing object is contained nowhere."""
    return old == new or ask_history(git, ("merge-base", "--is-ancestor", old, new), (old, new)).ok


_SLOW = 3
"""After so many commits that took all the time, others are not asked for alone."""


def read_in_halves(
    items: Sequence[_T],
    read: Callable[[Sequence[_T]], list[_R]],
    failed: Callable[[_T, GitError], list[_R]] = lambda _, __: [],
    given_up: Callable[[_T], bool] = lambda _: False,
) -> list[_R]:
    """``read`` of all at once; where git fails or says too much, in halves down to the bad one.

    ``failed`` is what one item stands for that git cannot answer even alone. What is ``given_up`` by then
    is not asked for once more.
    """
    if not items:
        return []
    try:
        return read(items)
    except GitError as error:
        if len(items) == 1:
            return failed(items[0], error)
    left = [item for item in items if not given_up(item)]
    half = len(left) // 2
    first = read_in_halves(left[:half], read, failed, given_up)
    return first + read_in_halves([item for item in left[half:] if not given_up(item)], read, failed, given_up)


def ensure_not_killed(error: GitError) -> None:
    """Raise what nothing in an object can cause: the next run shows it."""
    if error.done.killed and not error.done.crashed:
        raise error


def contained(git: Git, tip: Oid, commits: Sequence[Oid]) -> set[Oid]:
    """Which of ``commits`` (they may be missing) are part of the history of ``tip``.

    One that git cannot tell of within the limits is not; after some that took all the time, the others that
    git failed over are not either.
    """
    asked = list(dict.fromkeys(commits))
    infos = zip(asked, read_info(git, asked), strict=True)
    there = [commit for commit, info in infos if info is not None and info.kind == "commit"]

    def read(some: Sequence[Oid]) -> list[Oid]:
        lines = "\n".join([f"^{tip}", *some, ""]).encode()
        others = set(git.run("rev-list", "--stdin", stdin=lines, max_out=OUTPUT_BYTES).lines)
        return [commit for commit in some if commit not in others]

    slow = list[Oid]()

    def failed(commit: Oid, error: GitError) -> list[Oid]:
        if not error.done.limited:
            raise error
        slow.extend([commit] if error.done.timed_out else [])
        return []

    return set(read_in_halves(there, read, failed, lambda _: len(slow) >= _SLOW))


def merge_bases(git: Git, ours: str, head: Oid) -> list[Oid]:
    """All merge bases, none for unrelated histories."""
    done = ask_history(git, ("merge-base", "--all", "--end-of-options", ours, head), (ours, head))
    return [Oid(line) for line in done.lines] if done.ok else []


def list_tree(git: Git, treeish: str, path: str = "", *, recursive: bool = False) -> list[TreeEntry]:
    """The entries of ``treeish`` (below ``path``); no folder there is an empty list.

    A tree that git cannot read is not empty: that raises.
    """
    flags = ["-r"] if recursive else []
    target = f"{treeish}:{path}" if path else treeish
    done = git.run("ls-tree", "-z", *flags, "--end-of-options", target, check=not path)
    if not done.ok:
        ensure_absent(git, [target], "tree")
        return []
    entries = []
    for line in done.fields:
        meta, _, name = line.partition("\t")
        mode, kind, oid = meta.split()
        entries.append(TreeEntry(mode, kind, Oid(oid), name))
    return entries


def read_info(git: Git, names: Sequence[str]) -> list[Info | None]:
    """Type and size of each named object, None for what is missing."""
    if not names:
        return []
    out = _ask(git, "info", names)
    found = [_facts(line) for line in out.split(b"\n")[:-1]]
    if len(found) != len(names):
        raise GitError(Done(ARGS, 1, out, "error: it did not answer all questions"))
    return found


def read_kinds(git: Git, heads: Sequence[Oid]) -> list[str]:
    """The type of each head of a peer, empty for what is missing. What git dies over is here, and taken for the
    ``commit`` that a head is: who reads it then tells what came of it.
    """

    def read(some: Sequence[Oid]) -> list[str]:
        return [info.kind if info is not None else "" for info in read_info(git, some)]

    def died(_: Oid, error: GitError) -> list[str]:
        if not error.done.died:
            raise error
        return ["commit"]

    return read_in_halves(heads, read, died)


def find_object(git: Git, beginning: str) -> Oid | None:
    """The one object whose id begins so; of several the one commit. At least 4 hexadecimal digits."""
    infos = [info for info in read_info(git, git.run("rev-parse", f"--disambiguate={beginning}").lines) if info]
    if len(infos) > 1:
        infos = [info for info in infos if info.kind == "commit"]
    return infos[0].oid if len(infos) == 1 else None


def _facts(line: bytes) -> Info | None:
    """What git says of one object; None of a name that is none, as in ``HEAD:family tree missing``."""
    words = line.split(b" ")
    if len(words) != 3 or words[1] not in (b"commit", b"tree", b"blob", b"tag") or not words[2].isdigit():
        return None
    return Info(Oid(words[0].decode()), words[1].decode(), int(words[2]))


def parse_tree(data: bytes, id_bytes: int) -> list[TreeEntry]:
    """The entries of a tree object (gitformat-pack(5); ``git cat-file tree``). Paths may hold surrogates."""
    entries = []
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + id_bytes
        kind = {b"40000": "tree", b"160000": "commit"}.get(mode.lstrip(b"0"), "blob")
        oid = Oid(data[end + 1 : at].hex())
        entries.append(
            TreeEntry(sys.intern(mode.decode().zfill(6)), kind, oid, name.decode("utf-8", "surrogateescape"))
        )
    return entries


def read_objects(git: Git, names: Sequence[str]) -> list[bytes | None]:
    """The content of each named object; see :func:`read_all`."""
    return [None if found is None else found.data for found in read_all(git, names)]


def read_all(git: Git, names: Sequence[str]) -> list[Found | None]:
    """Each named object (an id, or ``REV:path``) with its id and type, None for what is not there.

    What the tree of ``REV`` names and git cannot read is there: that raises :class:`Blocked`.
    """
    found = read_raw(git, names)
    ensure_absent(git, [name for name, one in zip(names, found, strict=True) if one is None and ":" in name])
    return found


def read_raw(git: Git, names: Sequence[str]) -> list[Found | None]:
    """The same as git says it: "missing" (None) may also be an object that it cannot read; one question."""
    if not names:
        return []
    out = _ask(git, "contents", names)
    found: list[Found | None] = []
    at = 0
    for _ in names:
        end = out.index(b"\n", at)
        info = _facts(out[at:end])
        at = end + 1
        if info is None:
            found.append(None)
            continue
        data = out[at : at + info.size]
        at += info.size + 1
        tree = parse_tree(data, len(info.oid) // 2) if info.kind == "tree" else ()
        found.append(Found(info.oid, info.kind, data, {entry.path: entry for entry in tree}))
    return found


def read_known(git: Git, oids: Sequence[Oid]) -> list[bytes]:
    """The content of objects that a tree or commit here names; of the null id, nothing.

    One that git cannot read raises :class:`Blocked`.
    """
    contents = []
    for oid, one in zip(oids, read_raw(git, oids), strict=True):
        if one is None and oid.strip("0"):
            raise unreadable("what is recorded here", oid)
        contents.append(one.data if one else b"")
    return contents


def unreadable(what: str, oid: str) -> Blocked:
    """An object that must be here is missing or damaged: nothing may be concluded from that."""
    return Blocked(
        f"git cannot read {what}: object {oid[:12]} is missing or damaged",
        f"{PRUNED}; else 'cn doctor' tells how to bring it back",
    )


def ensure_absent(git: Git, names: Sequence[str], kind: str = "") -> None:
    """git called these names (``REV:path``) missing: raise :class:`Blocked` if a tree names one of them.

    With ``kind`` only what the tree calls that counts. One process for each level of folders.
    """
    asked = [name.partition(":") for name in names]
    walks = [(f"{rev}:{path}", f"{rev}^{{tree}}", path.split("/")) for rev, _, path in asked]
    while walks:
        roots = list(dict.fromkeys(tree for _, tree, _ in walks))
        trees = dict(zip(roots, read_raw(git, roots), strict=True))
        deeper = []
        for name, root, (part, *rest) in walks:
            rev, _, path = name.partition(":")
            tree = trees[root]
            if tree is None:
                # An id, or a ref that exists, stands for something, whatever became of its object.
                named = ("rev-parse", "--verify", "--quiet", "--end-of-options", rev)
                if root.endswith("}") and not git.run(*named, check=False).ok:
                    continue
                raise unreadable(_shown(rev, path), root.removesuffix("^{tree}"))
            entry = tree.entries.get(part)
            if entry is None:
                continue
            if rest and entry.kind == "tree":
                deeper.append((name, str(entry.oid), rest))
            elif not rest and entry.kind != "commit" and kind in ("", entry.kind):
                raise unreadable(_shown(rev, path), entry.oid)
        walks = deeper


def _shown(rev: str, path: str) -> str:
    return f"{one_line(path) or 'the tree'} of {rev if len(rev) < 40 else rev[:12]}"


def read_object(git: Git, name: str) -> bytes | None:
    """The content of one object, None when it is missing."""
    return read_objects(git, [name])[0]


ARGS = ("cat-file", "--batch-command", "--buffer")
_CHUNK = 1 << 20
_END_SECONDS = 1.0


class Reader:
    """One git process that answers all questions of a run about objects (git-cat-file(1), ``--batch-command``).

    Starting a git takes 4 ms, an answer of this one takes 1, and a run that does anything asks some twenty
    times. ``start`` starts it, for the first one, and again where it ended.

    One that ends over a question has not answered it. What it says ends with a word that nothing has: git
    looks for that among its refs, and at no object.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, lines: bytes, seconds: float) -> bytes:
        """What git says to these commands; it changes nothing. Raises :class:`GitError`, also if it ends over it."""
        if self._child is not None and self._child.poll() is not None:
            self.close()  # it ended while nobody asked: nothing is lost with it
        if self._child is None:
            self._child = self._start()
            assert self._child.stdin is not None
            os.set_blocking(self._child.stdin.fileno(), False)
        # Nothing that git reads from objects can hold this word: it is made now.
        word = f"end_{os.urandom(16).hex()}"
        try:
            return self._converse(self._child, b"%sinfo %s\nflush\n" % (lines, word.encode()), word, seconds)
        except BaseException:  # Ctrl-C too: what it has not said yet would be taken for the next answer
            self._kill()
            raise

    def _converse(self, child: subprocess.Popen[bytes], question: bytes, word: str, seconds: float) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        said, err = bytearray(), bytearray()
        last = f"{word} missing\n".encode()
        deadline = time.monotonic() + seconds
        left = memoryview(question)
        with polling.Selector() as selector:
            selector.register(child.stdin, selectors.EVENT_WRITE)
            selector.register(child.stdout, selectors.EVENT_READ, said)
            selector.register(child.stderr, selectors.EVENT_READ, err)
            while not said.endswith(last):
                ready = selector.select(max(0.0, min(PATIENT, deadline - time.monotonic())))
                if not ready and time.monotonic() < deadline:
                    let_signals_in()
                    continue
                if not ready:
                    self._kill()
                    raise GitError(Done(ARGS, child.returncode, b"", tail(bytes(err)), timed_out=True))
                for key, _ in ready:
                    if key.fileobj is child.stdin:
                        left = _write(key.fd, left)
                        if not left:
                            selector.unregister(key.fileobj)
                        continue
                    data = os.read(key.fd, _CHUNK)
                    key.data.extend(data)
                    if not data:
                        selector.unregister(key.fileobj)
                if not {child.stdout, child.stderr} & {key.fileobj for key in selector.get_map().values()}:
                    child.wait()
                    raise GitError(Done(ARGS, child.returncode, b"", tail(bytes(err))))
        del said[-len(last) :]
        return bytes(said)

    def close(self) -> None:
        """End it. Asked again it would start again."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(child)
            child.wait()

    def _kill(self) -> None:
        if self._child is not None and self._child.poll() is None:
            kill_group(self._child)
        self.close()


def _write(fd: int, data: memoryview) -> memoryview:
    """As much of it as goes; what is left. Where nobody reads any more nothing is: what it says tells why."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


@contextmanager
def reading(git: Git) -> Iterator[Git]:
    """The same git, with one process that reads its objects for all who ask in here."""
    reader = Reader(lambda: git._replace(lock_fd=None).start(*ARGS))
    try:
        yield git._replace(reader=reader)
    finally:
        reader.close()


def _ask(git: Git, word: str, names: Sequence[str]) -> bytes:
    """What git says to ``word`` for each name: its reader, or a process for this question."""
    assert not any("\n" in name for name in names), "an object name cannot hold a line feed"
    lines = "".join(f"{word} {name}\n" for name in names).encode("utf-8", "surrogateescape")
    return git.run(*ARGS, stdin=lines).out if git.reader is None else git.reader.ask(lines, LOCAL_SECONDS)


def write_objects(git: Git, objects: Sequence[tuple[str, bytes]], algorithm: str) -> None:
    """Store (type, bytes) pairs with one process: their exact bytes as a pack (gitformat-pack(5)).

    A few become loose objects, many stay a pack, like what is fetched (git-config(1),
    ``fetch.unpackLimit``): 3,000 loose ones took 2.1 s to write, the pack takes 0.1 s.
    """
    objects = list(dict.fromkeys(objects))
    if not objects:
        return
    import hashlib  # with OpenSSL 3 ms, and who only looks writes nothing
    import struct
    import zlib

    checksum = hashlib.new(algorithm, usedforsecurity=False)
    parts = [struct.pack(">4sII", b"PACK", 2, len(objects))]
    for kind, data in objects:
        size, head = len(data) >> 4, bytearray([_PACK_TYPES[kind] << 4 | len(data) & 15])
        while size:
            head[-1] |= 0x80
            head.append(size & 0x7F)
            size >>= 7
        parts += [bytes(head), zlib.compress(data)]
    for part in parts:
        checksum.update(part)
    store = ("unpack-objects", "-q") if len(objects) < _PACKED else ("index-pack", "--stdin")
    git.run(*store, stdin=b"".join([*parts, checksum.digest()]))


def update_refs(git: Git, updates: Iterable[tuple[str, Oid | None]]) -> None:
    """Set (or, with None, delete) refs under ``refs/cn/`` in one process, in order (git-update-ref(1))."""
    lines = []
    for ref, new in updates:
        assert ref.startswith(("refs/cn/", "refs/remotes/origin/")), ref
        lines.append(f"update {ref}\0{new}\0\0" if new else f"delete {ref}\0\0")
    if lines:
        git.run("update-ref", "-z", "--stdin", stdin="".join(lines).encode("utf-8", "surrogateescape"))
