"""An organisation full of marks: of all that is listed, drawn, logged and exported for a handler, it sees those marks
alone that the naive model lets it read.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cn.agency.agency import open_agency
from cn.agency.rows import Facts
from cn.git.repository import open_hub
from tests.support.agency_naive import Letter, Naive, Paper, Person, Right, Work
from tests.support.hubs import cn, git
from tests.support.organisation import Org

_MARK = re.compile(r"mk-[a-z]+")
HANDLERS = ("root", "boss", "left", "right", "deep", "far")


class Marked(NamedTuple):
    """``marks``: what each says something of, as a resource of the naive model, or ``own:`` and a handler.
    ``titles`` are marks that everybody may see.
    """

    org: Org
    naive: Naive
    marks: dict[str, str]
    titles: set[str]
    files: dict[str, str]
    mail: tuple[str, ...]
    grants: tuple[str, ...]

    def may(self, reader: str) -> set[str]:
        """The marks that a handler may see."""
        me = self.org.ids[reader]
        found = set(self.titles)
        for mark, about in self.marks.items():
            kind, _, whose = about.partition(":")
            if me in self.naive.line(whose) if kind == "own" else self.naive.access(me, about) != "none":
                found.add(mark)
        return found


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory, hub_template: Path) -> Marked:
    """Root, below it the boss and one far from it, below the boss left and right, below right a deep one."""
    hub = tmp_path_factory.mktemp("marked") / "cn-sigma"
    shutil.copytree(hub_template, hub, symlinks=True)
    git(hub, "config", "agency.user", "ann")
    ids: dict[str, str] = {}
    org = Org(hub, ids)
    ids["root"] = org.ask("agency", "init")["outcome"]
    marks: dict[str, str] = {}
    titles: set[str] = set()
    files: dict[str, str] = {}
    mail: list[str] = []

    def made(name: str, parent: str, by: str) -> None:
        body, title = f"mk-{name}body", f"mk-{name}title"
        words = ("--parent", f"{{{parent}}}", "--body", body, "--as", f"{{{by}}}")
        ids[name] = org.ask("outcome", "create", title, *words)["outcome"]
        marks[body] = f"outcome:{ids[name]}"
        titles.add(title)

    def delegated(name: str, by: str) -> None:
        made(name, by, by)
        org.cn("handler", "delegate", f"{{{name}}}", "--runner", "person", "--as", f"{{{by}}}")

    for name, by in (("boss", "root"), ("far", "root"), ("left", "boss"), ("right", "boss"), ("deep", "right")):
        delegated(name, by)
    for by in HANDLERS:
        me = f"{{{by}}}"
        for state in ("held", "done", "given"):
            made(f"{by}{state}", by, by)
        marks |= {f"mk-{by}reason": f"outcome:{ids[f'{by}held']}", f"mk-{by}rationale": f"outcome:{ids[f'{by}done']}"}
        marks[f"mk-{by}givenup"] = f"outcome:{ids[f'{by}given']}"
        org.cn("outcome", "block", f"{{{by}held}}", f"mk-{by}reason", "--as", me)
        org.cn("outcome", "complete", f"{{{by}done}}", "--rationale", f"mk-{by}rationale", "--as", me)
        org.cn("outcome", "close", f"{{{by}given}}", f"mk-{by}givenup", "--as", me)
        text = f"mk-{by}paper {' '.join(f'kb://{file}' for file in files.values())}"
        file = org.ask("kb", "create", "-", "--description", f"mk-{by}file", "--as", me, stdin=text)["file"]
        titles.add(f"mk-{by}file")
        marks[f"mk-{by}paper"] = f"kb:{file}"
        files[f"{by}paper"] = file
        for to in ("boss", me):
            mark = f"mk-{by}to{'boss' if to == 'boss' else 'self'}"
            sent = org.ask("mail", "send", to, f"{mark}text", "--subject", f"{mark}subject", "--as", me)
            marks |= {f"{mark}text": f"kb:{sent['file']}", f"{mark}subject": f"kb:{sent['file']}"}
            files[mark] = sent["file"]
            mail += sent["mail"] if isinstance(sent["mail"], list) else [sent["mail"]]
        later = ("--subject", f"mk-{by}latersubject", "--at", "3d", "--as", me)
        late = org.ask("mail", "send", "boss", f"mk-{by}latertext", *later)
        marks |= {f"mk-{by}latersubject": f"kb:{late['file']}", f"mk-{by}latertext": f"kb:{late['file']}"}
        files[f"{by}later"] = late["file"]
        org.cn("handler", "audit", f"mk-{by}audit", "--as", me)
        marks[f"mk-{by}audit"] = f"own:{ids[by]}"
    for holder, word in (("root", "one"), ("boss", "two"), ("left", "three"), ("right", "four")):
        org.cn("grant", "add", f"{{{holder}}}", "use", f"mcp:mk-{word}server")
        marks[f"mk-{word}server"] = f"own:{ids[holder]}"
    org.cn("grant", "add", "{boss}", "read", f"kb:{files['mk-fartoboss']}")
    org.cn("grant", "add", "{left}", "read", f"kb:{files['bosspaper']}", "--as", "{boss}")
    agency = open_agency(open_hub(org.hub))
    with agency.store.reading() as facts:
        naive = simply(facts)
        grants = tuple(right for right in naive.rights)
    agency.store.close()
    return Marked(org, naive, marks, titles, files, tuple(mail), grants)


def simply(facts: Facts) -> Naive:
    """What the naive model has to know, as the records have it."""
    naive = Naive(root=head.root if (head := facts.head()) else "")
    for file in facts.files():  # type: ignore[attr-defined]
        outcome = facts.outcome(file.id)
        if outcome is None:
            naive.papers[file.id] = Paper((file.owner, file.owner_tenure), file.kind)
        else:
            party = (outcome.responsible, getattr(facts.handler(outcome.responsible), "tenure", 0))
            naive.works[file.id] = Work(party, set(facts.parents(file.id)), outcome.is_open, outcome.inbox)
        for one in facts.mail_with(file.id):
            naive.letters[one.id] = Letter(file.id, (one.to, one.to_tenure), one.pending)
    for id in naive.works:
        if row := facts.handler(id):  # type: ignore[arg-type]
            naive.people[id] = Person(row.tenure, row.parent, row.boss, row.active)
            for right in facts.grants_of(row.id, row.tenure):
                holder, grantor = (right.holder, right.holder_tenure), (right.grantor, right.grantor_tenure)
                what = (str(right.resource), right.level, right.scope)
                naive.rights[right.id] = Right(right.seq, holder, grantor, *what)
    return naive


def looks(marked: Marked) -> Iterator[tuple[str, ...]]:
    """Every command that only looks, about everything."""
    ids, short = marked.org.ids, {name: id[:13] for name, id in marked.org.ids.items()}
    yield from ((*words,) for words in (("outcome", "list", "--all"), ("outcome", "list", "--search", "mk")))
    yield from ((*words,) for words in (("kb", "list"), ("kb", "browse", "mk"), ("mail",), ("mail", "waiting")))
    yield from ((*words,) for words in (("handler", "list"), ("grant", "list"), ("agency", "log", "-n", "9999")))
    for name in ids:
        yield from (("outcome", verb, short[name]) for verb in ("show", "tree", "why"))
        yield ("kb", "links", short[name])
        yield ("agency", "log", "--about", short[name])
    for name in HANDLERS:
        yield from (("handler", "show", short[name]), ("grant", "list", short[name]))
        yield ("outcome", "list", "--handler", short[name])
        yield ("agency", "can", short[name], "read", f"kb:{marked.files['mk-fartoboss']}")
        yield ("agency", "can", short[name], "read", f"kb:{marked.files['bosspaper']}")
    for file in marked.files.values():
        yield from (("kb", "links", file), ("kb", "history", file), ("kb", "history", "--audit", file))
        yield ("agency", "log", "--about", file)
    yield from (("mail", "show", one) for one in marked.mail)
    yield from (("agency", "log", "--about", one) for one in marked.grants)


PARTS = 10
"""The looks of a handler are a test each tenth of them: all together take minutes."""


@pytest.mark.sliced(13)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("reader", HANDLERS)
def test_a_handler_is_shown_the_marks_alone_that_it_may_read(marked: Marked, reader: str, part: int) -> None:
    may, seen = marked.may(reader), dict[str, str]()
    for words in [*looks(marked)][part::PARTS]:
        for more in ((), ("--json",)):
            done = cn(*words, *more, "--as", marked.org.ids[reader], hub=marked.org.hub)
            assert "Traceback" not in done.stderr
            seen |= {mark: " ".join(words + more) for mark in _MARK.findall(done.stdout + done.stderr)}
    assert {mark: by for mark, by in seen.items() if mark not in may} == {}
    assert seen, "what it may read is shown"


@pytest.mark.parametrize("reader", HANDLERS)
def test_an_export_has_the_marks_alone_that_its_reader_may_read(marked: Marked, reader: str, tmp_path: Path) -> None:
    marked.org.cn("agency", "export", tmp_path / "export", "--as", f"{{{reader}}}")
    seen = {mark: path for path in (tmp_path / "export").rglob("*.*") for mark in _MARK.findall(path.read_text())}
    assert {mark: path for mark, path in seen.items() if mark not in marked.may(reader)} == {}
    words = ("reason", "rationale", "givenup", "toselfsubject", "latersubject", "audit")
    assert {f"mk-{reader}{word}" for word in words} <= {*seen}


SAYS = [
    (("kb", "links", "{paper}"), "mk-bosstobosssubject"),
    (("outcome", "tree", "{boss}"), "mk-rightreason"),
    (("agency", "log", "-n", "9999", "--type", "granted"), "mk-twoserver"),
    (("agency", "log", "-n", "9999", "--type", "audit_submitted"), "mk-bossaudit"),
    (("outcome", "show", "{boss}", "--json"), "mk-bossreason"),
]


@pytest.mark.parametrize(("words", "mark"), SAYS, ids=[" ".join(words[:2]) for words, _ in SAYS])
def test_what_is_shown_to_a_user_is_not_to_a_handler_beside(marked: Marked, words: tuple[str, ...], mark: str) -> None:
    org = Org(marked.org.hub, {**marked.org.ids, "paper": marked.files["leftpaper"]})
    assert mark in org.cn(*words).stdout
    assert mark not in org.cn(*words, "--as", "{left}").stdout


def test_the_marks_are_nobodys_and_somebodys(marked: Marked) -> None:
    hidden = {mark for mark in marked.marks if mark not in marked.may("left")}
    assert {"mk-rightreason", "mk-righttobosssubject", "mk-twoserver", "mk-bossaudit"} <= hidden
    assert "mk-bossbody" in marked.may("left")
    assert "mk-rightaudit" in marked.may("boss")
