"""Write the pages as files: the same templates, links relative, no script, for any static host.

Every page that one names is written too, from the pages of the navigation on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from cn.protocol.layout import PROPOSAL
from cn.protocol.thread_life import Life, read_lives
from cn.run.view import View, read_events
from cn.system.files import blocked_parent, drop, read_regular, write_file
from cn.system.owners import refuse_anothers
from cn.values.errors import CnError, Refused, UsageError
from cn.values.names import Name
from cn.values.report import Report
from cn.values.text import one_line
from cn.views.thread_page import show_document
from cn.web import public_reader
from cn.web.links import SECTIONS, FileLinks, file_of
from cn.web.page import Page
from cn.web.pages.rest import nothing_page
from cn.web.public import Named
from cn.web.public_reader import PublicReader
from cn.web.reader import Reader
from cn.web.render import STATIC, Frame, Renderer

Lives = Mapping[str, tuple[Name, Life]]
NOTE = "cn-export.json"
"""Names the files of an export, so that the next one into the same folder can replace them."""
_STATIC = ("page.css", "icon.svg")
_MOST_WHY = 500
"""Explanations that are written: each asks git for the commits of its thread."""


def export(
    view: View,
    folder: Path,
    *,
    public: bool = False,
    peers: tuple[str, ...] = (),
    threads: tuple[str, ...] = (),
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Write the pages into ``folder``, which is new, empty, or holds an earlier export.

    ``public``: only what ``peers`` and ``threads`` name, and no text of messages (:mod:`cn.web.public`). Raises
    :class:`UsageError` for a folder that holds something else, and for a name that means nothing.
    """
    reader = Reader(view.hub, "")
    lives, sections = _lives(view), SECTIONS
    if public:
        reader = PublicReader(view.hub, _named(view, lives, peers, threads))
        sections = public_reader.SECTIONS
    reader.lives = lives
    before = _check(folder, view.hub.root)
    if not folder.exists():  # what nobody made public is its user's alone
        folder.mkdir(mode=0o777 if public else 0o700, parents=True)
    written = _Crawl(view, reader, sections, folder, progress).run()
    drop(*(path for path in (folder / name for name in before - written) if blocked_parent(folder, path) is None))
    write_file(folder / NOTE, json.dumps(sorted(written), indent=0).encode())
    report = Report()
    report.done(f"{len(written)} files in {folder}; index.html is the first page")
    return report


def _named(view: View, lives: Lives, peers: tuple[str, ...], threads: tuple[str, ...]) -> Named:
    for name in peers:
        if name not in view.settings.peers:
            raise UsageError(f"{one_line(name, 60)!r} is no peer", "'cn peer list' lists them")
    if not (peers or threads):
        raise UsageError("nothing is named that is public", "name peers with --peer, threads with --thread")
    found = {show_document(view, name).thread.source for name in threads}
    kinds = [(peer, item.topic, item.get("kind")) for peer, item in view.snapshot.pending()]
    kinds += [(peer, life.received.topic, life.received.fields.get("kind", "")) for peer, life in lives.values()]
    found |= {f"{peer}/{topic}" for peer, topic, kind in kinds if peer in peers and kind in ("", PROPOSAL)}
    return Named(frozenset(peers), frozenset(found), view.settings)


def _lives(view: View) -> Lives:
    found: dict[str, tuple[Name, Life]] = {}
    for peer in view.snapshot.open_items:
        try:
            lives = read_lives(read_events(view, peer))
        except Refused:
            continue  # the page says that its ledger is damaged
        found |= {life.thread: (peer, life) for life in lives if life.decided is not None}
    return found


def _check(folder: Path, root: Path) -> set[str]:
    """The files of an earlier export in the folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is no folder", "name a new one")
    here = folder.resolve()
    if here == root or ".git" in here.parts:
        raise UsageError(f"{folder} is the hub itself", "name a folder of its own")
    refuse_anothers(folder, "the pages")
    if not folder.exists() or not any(folder.iterdir()):
        return set()
    try:
        names = json.loads(read_regular(folder / NOTE, 64 << 20) or b"")
    except ValueError:
        raise UsageError(f"{folder} holds other files", "name a new folder, or one with an earlier export") from None
    return {name for name in names if isinstance(name, str) and _is_below(name)} if isinstance(names, list) else set()


def _is_below(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


class _Crawl:
    """An export that is being written: ``asked`` are the pages that some page names."""

    def __init__(
        self,
        view: View,
        reader: Reader,
        sections: tuple[str, ...],
        folder: Path,
        progress: Callable[[str], None] | None,
    ) -> None:
        self._view = view
        self._reader = reader
        self._sections = sections
        self._folder = folder
        self._progress = progress
        self._renderer = Renderer()
        self._asked = dict.fromkeys(sections)
        self._whys = 0

    def run(self) -> set[str]:
        """Write page after page; the files, as paths below the folder."""
        written = set()
        todo = list(self._asked)
        while todo:
            name = todo.pop()
            self._write(file_of(name), self._draw(name).encode())
            written.add(file_of(name))
            if self._progress is not None:
                self._progress(name)
            todo = todo or [one for one in self._asked if file_of(one) not in written]
        for name in _STATIC:
            self._write(f"static/{name}", (STATIC / name).read_bytes())
        return written | {f"static/{name}" for name in _STATIC}

    def _write(self, name: str, data: bytes) -> None:
        write_file(self._folder / name, data, root=self._folder)

    def _ask(self, page: str) -> bool:
        """Will the page be there? Then it is asked for."""
        kind, slash, _ = page.partition("?")[0].partition("/")
        if page in self._asked:
            return True
        if kind not in self._reader.makers() or (kind == "why" and self._whys >= _MOST_WHY):
            return False
        self._whys += kind == "why"
        if slash or kind in self._sections:
            self._asked[page] = None
            return True
        return False

    def _draw(self, name: str) -> str:
        frame = Frame(self._view.settings.us, self._view.now, FileLinks(name, self._ask), sections=self._sections)
        return self._renderer.draw(self._page(name), frame).html

    def _page(self, name: str) -> Page:
        page, _, number = name.partition("?page=")
        query = {"page": number or "1", **({"state": "all"} if page == "threads" else {})}
        try:
            return self._reader.page_of(self._view, page, query)
        except CnError as refused:
            return nothing_page(f"{refused.text}.", refused.hint)
