"""Pushes that reach exactly the refs they name, whatever others are at the remote.

git takes the name behind the colon of a refspec for every ref there that ends so, also below ``refs/tags/`` and
``refs/heads/`` (remote.c, ``count_refspec_match``): beside one tag ``refs/tags/refs/heads/main`` it pushes nothing at
all, since "dst refspec refs/heads/main matches more than one". What a pattern names is looked for by its full name. So
whatever is set is set by one, from a repository that holds nothing else. Two kinds are left, and go a second time where
they failed so:

- A deletion has nothing that a pattern could match. It goes by a shorter name of the same ref that nothing else there
  has. Where there is none, it alone is left out, and the ref that is in its way is named.
- Over HTTP ``git push`` makes single names of a pattern before its helper sees them. So the helper itself is asked
  (gitremote-helpers(7)).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cn.git.process import Done, Git, Job, as_lines
from cn.git.repository import read_config
from cn.values.names import Oid, is_oid

STAGED = "refs/push/"
"""Where what is to be pushed stands in the repository that holds nothing else."""
_FORCED, _PLAIN = "forced/", "plain/"
_REFS = "refs/"
_PUSH = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags")
_AMBIGUOUS = re.compile(r"^error: dst refspec (\S+) matches more than one$", re.MULTILINE)
_LISTING_BYTES = 16 << 20


class Order(NamedTuple):
    """One push to ``target``, a URL or the name of a remote: what each ref, by its full name, is to be (None: gone).

    ``leases``: what refs have to be there now (empty: absent); git overlooks those without one, which only go forward
    unless they are ``forced``. ``place`` is a folder of its own for what is staged, ``options`` more words of git push.
    """

    target: str
    refs: Mapping[str, Oid | None]
    leases: Mapping[str, str] = MappingProxyType({})
    forced: bool = False
    place: str = ""
    options: tuple[str, ...] = ()

    @property
    def staged(self) -> dict[str, Oid]:
        """What has to stand in the repository from which this is pushed."""
        return {self._place(ref) + ref.removeprefix(_REFS): new for ref, new in self.refs.items() if new is not None}

    @property
    def gone(self) -> list[str]:
        """What is to be deleted."""
        return [ref for ref, new in self.refs.items() if new is None]

    def _place(self, ref: str) -> str:
        return f"{STAGED}{self.place}{_FORCED if self.forced and ref not in self.leases else _PLAIN}"

    @property
    def patterns(self) -> list[str]:
        """The refspecs of all that is set."""
        places = dict.fromkeys(self._place(ref) for ref, new in self.refs.items() if new is not None)
        return [f"{'+' if place.endswith(_FORCED) else ''}{place}*:{_REFS}*" for place in places]


def run_orders(git: Git, orders: Sequence[Order], seconds: float, width: int) -> list[Done]:
    """Push all of them, from a repository that holds what is ``staged`` of each and no other ref."""
    answers = git.run_many([Job("", _words(one), seconds=seconds) for one in orders], width=width)
    return [
        _again(git, order, done, seconds) if _went_astray(order, done) else done
        for order, done in zip(orders, answers, strict=True)
    ]


def _words(order: Order, named: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """``named``: by which names to delete refs, where not by their full ones.

    The lease without a name is for what has to be absent: where git tracks nothing, it expects nothing.
    """
    all_leased = order.refs.keys() <= order.leases.keys()
    leases = [f"--force-with-lease={ref}:{tip}" for ref, tip in order.leases.items() if tip or not all_leased]
    bare = ["--force-with-lease"] if all_leased else []
    deletions = [f":{named.get(ref, ref)}" for ref in order.gone]
    return (*_PUSH, *order.options, *leases, *bare, "--", order.target, *order.patterns, *deletions)


def _went_astray(order: Order, done: Done) -> bool:
    """Did git find more than one ref for a name, or another one than that?"""
    if done.timed_out:
        return False
    return bool(_AMBIGUOUS.search(done.err)) or bool(_answered(done) - order.refs.keys())


def _answered(done: Done) -> set[str]:
    rows = [line.split("\t") for line in done.out.decode("utf-8", "surrogateescape").split("\n")]
    return {row[1].rpartition(":")[2] for row in rows if len(row) > 2 and len(row[0]) == 1}


def _again(git: Git, order: Order, first: Done, seconds: float) -> Done:
    """The same with names that mean one ref there; what has none is refused, each with what is in its way."""
    names, rows = _find_names(git, order, seconds) if order.gone else ({}, {})
    done = _try(git, order, {ref: name for ref, name in names.items() if ref not in rows}, rows, first, seconds)
    if _AMBIGUOUS.search(done.err):  # the listing does not show all that a push meets
        rows |= {ref: f"!\t:{ref}\t[rejected] ({_says(ref)})" for ref in order.gone if ref not in rows}
        done = _try(git, order, {}, rows, first, seconds)
    return done._replace(out=done.out + as_lines(rows.values()))


def _try(
    git: Git, order: Order, names: Mapping[str, str], without: Mapping[str, str], first: Done, seconds: float
) -> Done:
    left = order._replace(refs={ref: new for ref, new in order.refs.items() if ref not in without})
    if not left.refs:
        return first._replace(out=b"")
    url = (git.config or read_config(git)).url(order.target, push=True)
    if url.startswith(("http://", "https://")):
        return _by_helper(git, left, names, url, seconds)
    (done,) = git.run_many([Job("", _words(left, names), seconds=seconds)])
    return done


def _find_names(git: Git, order: Order, seconds: float) -> tuple[dict[str, str], dict[str, str]]:
    """For each deletion a name that means this ref alone; and what is told of those that need no push, or have none."""
    url = (git.config or read_config(git)).url(order.target, push=True)
    asked = [ref.removeprefix(_REFS).partition("/")[2] for ref in order.gone]
    job = Job("", ("ls-remote", "--refs", "--", url, *asked), seconds=seconds, max_out=_LISTING_BYTES)
    (done,) = git.run_many([job])
    lines = [line.partition("\t") for line in done.out.decode("utf-8", "surrogateescape").split("\n")]
    there = {ref: oid for oid, _, ref in lines if is_oid(oid)} if done.ok else {}
    names, told = dict[str, str](), dict[str, str]()
    for ref in order.gone:
        found = {name: [other for other in _meant_by(name, there) if other != ref] for name in _names_of(ref)}
        name = next((name for name, others in found.items() if not others), None)
        if done.ok and ref not in there:
            told[ref] = f"-\t:{ref}\t[deleted]"
        elif name is None or (name != ref and ref not in order.leases):  # a short name, and whatever is there: too bold
            obstacle = next(iter(found[ref]), "")
            told[ref] = f"!\t:{ref}\t[rejected] ({_says(ref, obstacle)})"
        else:
            names[ref] = name
    return names, told


def _names_of(ref: str) -> list[str]:
    """The names that git reads as this ref, the longest first."""
    short = ref.removeprefix(_REFS)
    return [ref, short, *([short.removeprefix("heads/")] if short.startswith("heads/") else [])]


def _meant_by(name: str, refs: Mapping[str, str]) -> list[str]:
    """Which of ``refs`` git takes a name for where it pushes (remote.c, ``count_refspec_match``)."""
    return [ref for place in ("", "refs/", "refs/tags/", "refs/heads/") if (ref := place + name) in refs]


_IN_THE_WAY = "git takes {ref} for {other} too, which is there"


def _says(ref: str, other: str = "") -> str:
    return _IN_THE_WAY.format(ref=ref, other=other) if other else f"dst refspec {ref} matches more than one"


def mistaken_for(reason: str) -> str:
    """The ref for which git takes one that could not be deleted for this reason; empty: that is not why."""
    found = re.search(_IN_THE_WAY.format(ref=r"refs/\S+", other=r"(refs/\S+)"), reason)
    return found[1].removesuffix(",") if found else ""


_DONE, _REFUSED = "ok", "error"
_UNKNOWN = "expecting report"
"""What a helper says of a ref of which the host said nothing."""
_AS_PUSH = {"non-fast forward": "non-fast-forward"}


def _by_helper(git: Git, order: Order, names: Mapping[str, str], url: str, seconds: float) -> Done:
    """The push by git's own helper for HTTP; its answers as ``git push --porcelain`` gives them."""
    scheme = url.partition(":")[0]
    asked = ["option progress false"]
    asked += ["option atomic true"] if "--atomic" in order.options else []
    asked += ["option dry-run true"] if "--dry-run" in order.options else []
    asked += ["list for-push", *(f"option cas {ref}:{tip}" for ref, tip in order.leases.items())]
    asked += [f"push {spec}" for spec in (*order.patterns, *(f":{names.get(ref, ref)}" for ref in order.gone))]
    stdin = as_lines((*asked, "", ""))
    (done,) = git.run_many([Job("", (f"remote-{scheme}", order.target, url), stdin, seconds)])
    rows = []
    for line in done.out.decode("utf-8", "surrogateescape").split("\n"):
        word, _, rest = line.partition(" ")
        ref, _, why = rest.partition(" ")
        if ref not in order.refs or word not in (_DONE, _REFUSED):
            continue
        if word == _DONE:
            rows.append(f"=\t:{ref}\t[done]")
        else:
            kind = "[remote failure]" if why == _UNKNOWN else "[rejected]"
            rows.append(f"!\t:{ref}\t{kind} ({_AS_PUSH.get(why, why)})")
    code = done.code or int(any(row.startswith("!") for row in rows))
    return done._replace(args=_PUSH, code=code, out=as_lines(rows))
