"""Push to peers whose repositories are still theirs.

Where this run has listed a peer's hub, its main tells. Else the push itself says which main it expects there, and git
sends nothing where it is another. Only a main that moved is looked at, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cn.git.remote import KnownMain, Result, list_remotes, push_many
from cn.outbox.push_in_halves import Pushes, Results
from cn.peers.known_mains import judged, known_main, look
from cn.run.memory import Condition
from cn.run.run import Run
from cn.values.names import Name

_NO_ATOMIC = "does not support --atomic"
_TOGETHER = ("atomic", "transaction")
"""What git and hosts say of a ref that is refused because of another one."""


class Guard:
    """Pushes of one run. ``held``: to which URLs nothing is pushed, and why; ``unknown``: which could not be looked at.

    ``peers`` are those whose hubs are guarded, by URL.
    """

    def __init__(self, run: Run, peers: Mapping[str, Collection[Name]]) -> None:
        self._run, self._peers = run, peers
        self.held: dict[str, Condition] = {}
        self.unknown: dict[str, str] = {}
        self._expected: dict[str, KnownMain] = {}

    def begin(self, urls: Collection[str], *, force: bool) -> None:
        """Look where a main is known to have moved; elsewhere the push tells. ``force``: ask anew what is held."""
        moved = []
        for url in urls:
            if url not in self._peers or (known := known_main(self._run, url)) is None:
                continue
            heads = self._run.heads.get(url)
            if heads is not None and heads.get(known.branch) == known.tip:
                continue
            if heads is not None and heads.whole and known.branch not in heads:
                moved.append(url)  # it may have another name now
            elif not force and (
                told := judged(self._run, self._peers[url], heads.get(known.branch) if heads is not None else None)
            ):
                self.held[url] = told
            elif heads is None and known.commit:
                self._expected[url] = known
            else:
                moved.append(url)
        self._look(moved)

    def _look(self, urls: Collection[str]) -> None:
        for url, told in look(self._run, {url: self._peers[url] for url in urls}).items():
            if isinstance(told, Condition):
                self.held[url] = told
            else:
                self.unknown[url] = told

    def push(self, pushes: Pushes) -> Results:
        """:func:`push_many`, with what is expected there."""
        git, seconds = self._run.hub.git, self._run.settings.config.limits.peer_seconds
        wanted = {key: push for key, push in pushes.items() if push[0] not in self.held}
        expected = {url: self._expected.pop(url) for url, _ in wanted.values() if url in self._expected}
        told = push_many(git, wanted, seconds, expected)
        again, moved, deaf = set[str](), set[str](), set[str]()
        for key, (url, _) in wanted.items():
            if url not in expected:
                continue
            main = told[key].pop(expected[url].branch)
            if main.result is Result.DONE:
                if any(word in one.reason for one in told[key].values() for word in _TOGETHER):
                    again.add(key)
            elif _NO_ATOMIC in main.reason:
                deaf.add(url)
                again.add(key)
            elif main.result is Result.REJECTED:
                moved.add(url)
                again.add(key)
        listed = list_remotes(git, {url: url for url in deaf}, seconds, parts={u: [expected[u].branch] for u in deaf})
        for url, answer in listed.items():
            if isinstance(answer, str):
                self.unknown[url] = answer
            elif answer.get(expected[url].branch) != expected[url].tip:
                moved.add(url)
        self._look(moved)
        # That is known now: one that is refused keeps no other out.
        stopped = self.held.keys() | self.unknown.keys()
        left = {
            key: (url, [ref for ref in refs if told[key][ref.branch].result is not Result.DONE])
            for key, (url, refs) in wanted.items()
            if key in again and url not in stopped
        }
        for key, more in push_many(git, left, seconds).items() if left else ():
            told[key] |= more
        return told
