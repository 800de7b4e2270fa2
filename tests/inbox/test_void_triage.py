"""A decision that must not count leaves its thread written anew, and deciding again works at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cn.protocol.thread_file import holds_section
from tests.support.hubs import git
from tests.support.world import Node, World, is_in_main

FIELDS = "decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
SECTION = f"\n---\n\n## Triage\n\n{FIELDS}\nMy own words.\n"
NOTE = "\nMy note.\n"
OTHER = "1" * 40


class Case:
    """A thread, its text as cn wrote it, and the file that people edit."""

    def __init__(self, world: World, sigma: Node, pi: Node) -> None:
        self.world, self.sigma, self.pi = world, sigma, pi
        self.head = world.propose(pi, sigma)
        sigma.sync()
        self.name = sigma.only_thread()
        self.path = sigma.root / "threads/inbox" / self.name
        self.old = self.path.read_text()
        self.told = ["void", self.head[:8]]

    def save(self, text: str | bytes) -> None:
        """An editor saves."""
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def move(self) -> None:
        """The branch moves, and the thread with it."""
        self.head = self.world.propose(self.pi, self.sigma, files={"docs/proposal.md": "second\n"}, force=True)
        self.told = ["void", self.head[:8]]


def head_edited(case: Case) -> None:
    case.save(case.old.replace(case.head, OTHER) + NOTE + SECTION)


def head_gone(case: Case) -> None:
    case.save(case.old.replace(f"**Head:** {case.head}\n", "") + NOTE + SECTION)


def header_gone(case: Case) -> None:
    case.save(case.old[case.old.index("> ") :] + NOTE + SECTION)


def header_joined(case: Case) -> None:
    top, rest = case.old.split("\n---\n", 1)
    case.save(" ".join(top.split()) + "\n\n---\n" + rest + NOTE + SECTION)


def old_copy(case: Case) -> None:
    case.move()
    case.sigma.sync()
    case.save(case.old + NOTE + SECTION)


def old_copy_after_a_void_one(case: Case) -> None:
    case.save(case.old + "\nAn earlier note.\n" + SECTION.replace("My own", "Earlier"))
    old_copy(case)


def old_copy_committed(case: Case) -> None:
    old_copy(case)
    case.sigma.cn("commit")


def old_copy_pushed(case: Case) -> None:
    old_copy(case)
    git(case.sigma.root, "commit", "-q", "-m", "by hand", "--", str(case.path))
    git(case.sigma.root, "push", "-q", "origin", "main")


def another_threads_file(case: Case) -> None:
    case.world.propose(case.pi, case.sigma, "other")
    case.sigma.sync()
    other = next(p for p in case.path.parent.glob("*-pi-other.md"))
    case.save(other.read_text() + NOTE + SECTION)


def old_copy_with_line_ends_and_mark_of_windows(case: Case) -> None:
    old_copy(case)
    case.save(b"\xef\xbb\xbf" + case.path.read_bytes().replace(b"\n", b"\r\n"))


def old_copy_with_a_note_above(case: Case) -> None:
    old_copy(case)
    case.save(f"My title.\n{case.path.read_text()}")


def old_copy_with_the_section_first(case: Case) -> None:
    case.move()
    case.sigma.sync()
    case.save(f"{NOTE}{SECTION}\n{case.old}")


def old_copy_with_two_sections(case: Case) -> None:
    old_copy(case)
    case.save(case.path.read_text() + SECTION)


def old_copy_of_old_macs(case: Case) -> None:
    old_copy(case)
    case.save(case.path.read_bytes().replace(b"\n", b"\r"))
    case.told = ["has lost its Head line", "written anew"]


def utf_16(case: Case) -> None:
    case.save((case.old + NOTE + SECTION).encode("utf-16"))
    case.told = ["has lost its Head line", "written anew"]


def head_edited_without_a_decision(case: Case) -> None:
    case.save(case.old.replace(case.head, OTHER) + NOTE + "My own words.\n")
    case.told = ["shows the head 11111111", "written anew"]


WAYS = [
    head_edited,
    head_gone,
    header_gone,
    header_joined,
    old_copy,
    old_copy_after_a_void_one,
    old_copy_committed,
    old_copy_pushed,
    another_threads_file,
    old_copy_with_line_ends_and_mark_of_windows,
    old_copy_with_a_note_above,
    old_copy_with_the_section_first,
    old_copy_with_two_sections,
    old_copy_of_old_macs,
    utf_16,
    head_edited_without_a_decision,
]


def renewed(case: Case) -> str:
    """The thread after it was written anew: with its own head and text, and what a person wrote."""
    text = case.sigma.thread(case.name)
    assert text.startswith("# pi/proposal\n")
    assert f"\n**Head:** {case.head}\n" in text
    plain = text.replace("<U+0000>", "")
    assert "My own words." in plain
    assert "My note." in plain
    assert "> decision: do:merge" in text or "decision: do:merge" in plain or case.told[0].startswith("shows")
    assert not holds_section(text)
    return text


def by_editing(case: Case) -> None:
    case.save(case.sigma.thread(case.name) + SECTION)


def by_command(case: Case) -> None:
    case.sigma.triage("pi/proposal", "do:merge")


@pytest.mark.sliced(21)
@pytest.mark.parametrize("again", [by_editing, by_command])
@pytest.mark.parametrize("way", WAYS)
def test_a_void_decision_is_told_and_decided_again(
    world: World, sigma: Node, pi: Node, way: Callable[[Case], None], again: Callable[[Case], None]
) -> None:
    case = Case(world, sigma, pi)
    way(case)
    decided = way not in (old_copy_of_old_macs, head_edited_without_a_decision)
    before = case.path.read_bytes()
    dry = sigma.cn("inbox", "process", "--dry-run", check=None)
    assert case.path.read_bytes() == before
    assert "void" in dry.stdout + dry.stderr
    done = sigma.process(check=1 if decided else 0)
    assert all(word in done.stdout + done.stderr for word in case.told), done
    assert not is_in_main(sigma, case.head)
    renewed(case)
    assert not git(sigma.root, "status", "--porcelain")
    sigma.idle()
    assert sigma.cn("status").returncode == 0
    again(case)
    sigma.process()
    assert is_in_main(sigma, case.head)
    assert "My own words." in sigma.thread(case.name).replace("<U+0000>", "")
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    sigma.idle()


@pytest.mark.sliced(15)
@pytest.mark.parametrize("way", WAYS)
def test_no_command_decides_what_was_read_for_another_head(
    world: World, sigma: Node, pi: Node, way: Callable[[Case], None]
) -> None:
    case = Case(world, sigma, pi)
    way(case)
    before = case.path.read_bytes()
    dry = sigma.triage("pi/proposal", "do:merge", "--dry-run", check=1)
    assert "would be written anew" in dry.stderr
    assert case.path.read_bytes() == before
    done = sigma.triage("pi/proposal", "do:merge", check=1)
    assert "void: the thread" in done.stderr
    assert "read it, then decide again" in done.stderr
    text = renewed(case)
    sigma.process()
    assert sigma.thread(case.name) == text, "nothing was decided"
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, case.head)


@pytest.mark.sliced(8)
@pytest.mark.parametrize("words", [("delete",), ("defer", "--reason", "x"), ("done",), ("reply", "Thanks.")])
def test_a_verb_on_such_a_thread_writes_it_anew_and_the_next_one_counts(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    case = Case(world, sigma, pi)
    old_copy(case)
    verb, *more = words
    done = sigma.cn(verb, "pi/proposal", *more, check=1)
    assert "void: the thread shows the head" in done.stderr
    assert "read it, then decide again" in done.stderr
    renewed(case)
    sigma.cn(verb, "pi/proposal", *more)
    assert "My own words." in sigma.thread(case.name)
    world.settle(pi, sigma)
    sigma.idle()


@pytest.mark.parametrize("verb", ["comment", "reply"])
def test_what_is_said_on_such_a_thread_is_told_to_be_not_said(world: World, sigma: Node, pi: Node, verb: str) -> None:
    case = Case(world, sigma, pi)
    old_copy(case)
    done = sigma.cn(verb, "pi/proposal", "Some words.", check=1)
    assert "void: the thread shows the head" in done.stderr
    assert "nothing was said" in done.stderr
    assert "your words are quoted in it: read it, then say it again" in " ".join(done.stderr.split())
    assert "> Some words." in renewed(case).partition("## Set aside")[2]
    sigma.cn(verb, "pi/proposal", "Some words.")
    world.settle(pi, sigma)
    told = sigma.cn("thread", "show", "pi/proposal").stdout.partition("## Set aside")[2]
    assert told.count("Some words.") == 2, "set aside once, and said once"


@pytest.mark.parametrize("names_head", [True, False])
def test_a_comment_is_said_over_an_older_copy_where_it_names_the_head(
    world: World, sigma: Node, pi: Node, names_head: bool
) -> None:
    case = Case(world, sigma, pi)
    case.move()
    sigma.sync()
    case.save(case.old + NOTE)
    about = ("--head", case.head[:9]) if names_head else ()
    done = sigma.cn("comment", "pi/proposal", "Some words.", *about, check=0 if names_head else 1)
    text = sigma.thread(case.name)
    assert "My note." in text
    assert f"\n**Head:** {case.head}\n" in text
    assert ("nothing was said" in done.stderr) != names_head
    assert ("## Set aside" in text) != names_head
    assert text.count("**sigma wrote, ") == names_head


@pytest.mark.parametrize("dry", [True, False])
def test_the_text_of_a_decision_that_writes_the_thread_anew_is_kept_in_it(
    world: World, sigma: Node, pi: Node, dry: bool
) -> None:
    case = Case(world, sigma, pi)
    old_copy(case)
    before = case.path.read_text()
    words = ("do:reply:re-it", "--body", "Some words.", *(("--dry-run",) if dry else ()))
    told = " ".join(sigma.triage("pi/proposal", *words, check=1).stderr.split())
    kept = "would be written anew" if dry else "is written anew"
    assert f"{kept}, what stood there and your words are quoted in it: read it, then decide again" in told
    if dry:
        assert case.path.read_text() == before
    else:
        assert "> Some words." in renewed(case).partition("## Set aside")[2]


@pytest.mark.parametrize("verb", ["comment", "reply"])
def test_what_waited_is_said_once_such_a_thread_is_written_anew(world: World, sigma: Node, pi: Node, verb: str) -> None:
    case = Case(world, sigma, pi)
    case.move()
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn(verb, "pi/proposal", "Some words.")
    case.save(case.old + NOTE + SECTION)
    git(sigma.root, "config", "remote.origin.url", sigma.url)
    told = " ".join(sigma.process(1).stderr.split())
    assert "is not said: pi/proposal: valid-triage: void" in told
    assert "'cn inbox process' writes it anew, and the run after it says this" in told
    renewed(case)
    sigma.process()
    world.settle(pi, sigma)
    assert sigma.cn("outbox").stdout.startswith("nothing waits")
    assert sigma.cn("thread", "show", "pi/proposal").stdout.count("Some words.") == 1


def test_the_same_mistake_is_told_each_time(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    old_copy(case)
    copy = case.path.read_bytes()
    for _ in range(2):
        case.save(copy)
        assert "void" in sigma.cn("inbox", "process", "-q", check=1).stderr
        renewed(case)
        sigma.idle()
    assert len([row for row in sigma.rows("pi/proposal") if "void" in row[2]]) == 2


def test_what_another_clone_wrote_meanwhile_stays(world: World, sigma: Node, pi: Node) -> None:
    """A decision waits here while another clone brings the move, with a note of its own."""
    case = Case(world, sigma, pi)
    other = world.second(sigma)
    case.save(case.old + NOTE + SECTION)
    case.move()
    other.sync()
    there = other.root / "threads/inbox" / case.name
    there.write_text(there.read_text() + "\nTheir note.\n")
    other.cn("save")
    done = sigma.process(check=1)
    assert "void" in done.stderr
    assert "Their note." in renewed(case)
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, case.head)
    sigma.idle()


def test_a_section_before_the_quotation_is_replaced_by_the_command(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    case.save(f"{NOTE}{SECTION}\n{case.old}")
    assert "move it to the end" in sigma.process(check=1).stderr
    case.save(case.old.replace("\n---\n", f"{NOTE}{SECTION}\n---\n", 1))
    assert "move it to the end" in sigma.process(check=1).stderr, "it was written again"
    assert sigma.process().stderr == "", "told once"
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    assert is_in_main(sigma, case.head)
    assert "My own words." in sigma.thread(case.name)


def test_two_sections_are_replaced_by_the_command(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    case.save(case.old + SECTION + SECTION)
    assert "two ## Triage sections" in sigma.process(check=1).stderr
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, case.head)


def test_a_file_that_is_removed_while_a_decision_waits_comes_back_undecided(
    world: World, sigma: Node, pi: Node
) -> None:
    case = Case(world, sigma, pi)
    case.save(case.old + SECTION)
    case.path.unlink()
    assert "was missing; restored" in sigma.process().stdout
    assert case.path.read_text() == case.old
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, case.head)


def test_other_lines_of_the_header_decide_nothing(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    text = case.old.replace("**From:** pi", "**From:** omega").replace("**Branch:** pi/", "**Branch:** omega/")
    case.save(b"\xef\xbb\xbf" + (text + SECTION).replace("\n", "\r\n").encode())
    sigma.process()
    assert is_in_main(sigma, case.head)
    assert ("pi/proposal", "do:merge", "✓ merged SHA") in sigma.rows()


def test_a_thread_whose_history_is_rewritten_is_made_of_the_ledger(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma", origin=False), world.hub("pi")
    world.link(sigma, pi)
    case = Case(world, sigma, pi)
    case.save(case.old.replace(case.head, OTHER) + NOTE + SECTION)
    git(sigma.root, "commit", "-q", "-m", "by hand", "--", str(case.path))
    tree = git(sigma.root, "rev-parse", "HEAD^{tree}")
    git(sigma.root, "reset", "-q", "--soft", git(sigma.root, "commit-tree", "-m", "all", tree))
    sigma.process(check=1)
    assert "is lost here" in renewed(case)


def test_an_old_copy_defers_no_second_time(world: World, sigma: Node, pi: Node) -> None:
    """It shows the branch as it is; that its Triage was carried out stands in main."""
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    sigma.write_triage(name, "defer:asked legal")
    old = path.read_text("utf-8")
    sigma.process()
    path.write_text(old, "utf-8")
    assert "void: it was carried out before" in sigma.process(check=1).stderr
    text = sigma.thread(name)
    assert "\n## Deferred\n" in text
    assert "> decision: defer:asked legal" in text
    assert [row[2] for row in sigma.rows("pi/proposal")].count("✓ deferred") == 1
    path.write_text(old, "utf-8")
    told = sigma.triage("pi/proposal", "delete:no", check=1).stderr
    assert "void: it was carried out before" in told
    sigma.decide("pi/proposal", "delete:no")
    assert "\n## Deferred\n" in sigma.thread(f"done/{name}")


def test_a_thread_that_main_holds_with_its_section_decides(world: World, sigma: Node, pi: Node) -> None:
    """A person committed it: it is no old copy."""
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.write_triage(name, "defer:asked legal")
    git(sigma.root, "commit", "-qam", "decided")
    sigma.process()
    assert "\n## Deferred\n" in sigma.thread(name)


@pytest.mark.parametrize(
    ("tail", "why", "remedy"),
    [
        (b"\n\xff latin\n", "the file is not UTF-8 text", "save it as UTF-8"),
        (b"\n## Triage\n\ndecision: do:merge\n", "there are two ## Triage sections", "keep one"),
    ],
)
def test_a_decision_that_cannot_be_read_is_refused_and_not_decided(
    world: World, sigma: Node, pi: Node, tail: bytes, why: str, remedy: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    path.write_bytes(path.read_bytes() + tail)
    before = sigma.cn("status", check=None).stdout
    assert "decided" not in before
    assert f"valid-triage: {why}" in before
    assert remedy in before
    assert "refused: valid-triage" in sigma.cn("inbox").stdout
    sigma.process(check=1)
    assert sigma.cn("status").stdout.split("refused\n")[1] == before.split("refused\n")[1]


def test_a_void_decision_is_refused_before_a_run_has_met_it(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    text = path.read_text("utf-8")
    path.write_text(text.replace("**Head:** ", "**Head:** 0"), "utf-8")
    shown = sigma.cn("status").stdout
    assert "decided;" not in shown
    assert "valid-triage: void: " in shown
    assert "'cn inbox process' writes it anew" in shown
