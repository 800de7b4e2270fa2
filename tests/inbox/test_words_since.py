"""Words that come in a thread after it was shown: who decided without them decides again, once."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.inbox.plan.arrivals import hold, takes_words
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, Event, Item, apply
from cn.protocol.message import Message, format_message
from cn.protocol.thread_file import Words, add_words, count_words, keep_mains, lacks_words
from cn.values.names import Name, Oid
from tests.support.desk import answer, current, events, queue, shown, work_queue
from tests.support.forked import ROOT
from tests.support.hubs import branches, git, push, write_commit
from tests.support.world import Node, World, is_in_main

AT = datetime(2026, 2, 5, 12, tzinfo=UTC)
PI, SIGMA = Name("pi"), Name("sigma")
NO_DECISION = "Words came that were not shown to who decided. Decide again."


def say(sigma: Node, head: str, text: str, topic: str = "re-proposal") -> str:
    """A message of pi's that answers the head of its own proposal; its head."""
    mail = Message(MESSAGE, PI, SIGMA, "Re: it", AT, f"{text}\n", in_reply_to=head)
    commit = write_commit(sigma.home, {"message.md": format_message(mail)})
    push(sigma.home, sigma.home, f"{commit}:refs/heads/pi/{topic}")
    return commit


def told(pi: Node, *topics: str) -> list[bool]:
    """Is pi told that what it said on these topics was shown?"""
    there = branches(pi.home)
    return [f"sigma/notice-{topic}" in there for topic in topics]


@pytest.fixture
def head(world: World, sigma: Node, pi: Node) -> str:
    """A proposal of pi's that waits at sigma."""
    found = world.propose(pi, sigma)
    sigma.sync()
    return found


@pytest.fixture
def asked(world: World, sigma: Node, pi: Node) -> str:
    """The same, given to sigma's agent."""
    work_queue(sigma)
    found = world.propose(pi, sigma)
    sigma.sync()
    assert current(sigma)
    return found


def test_what_waits_for_the_agent_gets_another_id_when_words_come(
    world: World, sigma: Node, pi: Node, asked: str
) -> None:
    """Main shows the id of what waits: who read it there could write an answer under it into the question."""
    second = world.propose(pi, sigma, "second", {"docs/second.md": "second\n"})
    sigma.sync()

    def waiting() -> str:
        (path,) = (sigma.root / "state/queue").glob("inbox-*.md")
        return path.stem.removeprefix("inbox-")

    known = [waiting()]
    for number in range(3):
        say(sigma, second, f"About {known[-1]}, {number}.", f"re-{number}")
        sigma.sync()
        assert waiting() not in known
        known.append(waiting())
    assert events(sigma, "pi", topic="second").count("refreshed") == 3
    assert "words about it" in sigma.cn("why", "pi/second").stdout
    answer(sigma, "---\nid: ID\ndelete: ID|no\n---\n")
    sigma.process()
    assert current(sigma) == known[-1]
    assert all(f"About {id}, {number}." in shown(sigma) for number, id in enumerate(known[:-1]))


@pytest.mark.parametrize("wrote_before", [False, True])
def test_the_agent_is_asked_again_with_the_words_that_came_after_it_was_given_a_thread(
    sigma: Node, pi: Node, asked: str, wrote_before: bool
) -> None:
    first = current(sigma)
    assert "STOP" not in sigma.cn("input").stdout
    if wrote_before:
        answer(sigma, "---\nid: ID\ndelete: ID|no\n---\n")
    say(sigma, asked, "STOP")
    done = sigma.sync()
    assert "pi/proposal: what was decided without these words is void; the agent is asked again" in done.stdout
    assert current(sigma) not in ("", first)
    assert "> > STOP" in shown(sigma)
    if not wrote_before:
        late = sigma.cn("out", "do", "ack", "--item", first, "--reason", "fine", check=1)
        assert f"what is answered is {first}" in late.stderr
        answer(sigma, f"---\nid: {first}\ndelete: {first}|no\n---\n")
    if wrote_before:
        assert "answers nothing that is in flight any more; it is kept as" in done.stdout
        sigma.process()
    else:
        assert f"it answers {first}, which is not in flight any more" in sigma.process(1).stderr
    assert len(sigma.threads()) == 1, "nothing was carried out"
    assert told(pi, "re-proposal") == [True]
    assert "words about it" in sigma.cn("inbox", "show", "pi/proposal").stdout
    answer(sigma, "---\nid: ID\ndelete: ID|no\n---\n")
    sigma.process()
    assert sigma.threads() == []


def test_words_keep_an_answer_of_the_agent_back_once_and_are_a_thread_of_their_own_then(
    sigma: Node, pi: Node, asked: str
) -> None:
    say(sigma, asked, "one", "re-one")
    sigma.sync()
    second = current(sigma)
    answer(sigma, "---\nid: ID\ndelete: ID|no\n---\n")
    for topic in ("re-two", "re-three"):
        say(sigma, asked, topic, topic)
        sigma.sync()
    assert current(sigma) == second
    sigma.process()
    assert sorted(name.partition("-pi-")[2] for name in sigma.threads()) == ["re-three.md", "re-two.md"]
    assert sigma.done()[0].endswith("-pi-proposal.md")
    assert told(pi, "re-one", "re-two", "re-three") == [True, False, False], "nobody has decided about the others"
    assert "> > re-two" in shown(sigma) or "> > re-three" in shown(sigma)


def test_an_item_that_waits_for_its_turn_is_given_with_the_words_and_no_other_one_is_made(
    world: World, sigma: Node, pi: Node, asked: str
) -> None:
    other = world.propose(pi, sigma, "other")
    sigma.sync()
    for topic in ("re-one", "re-two"):
        say(sigma, other, topic, topic)
        sigma.sync()
    (waiting,) = (one["id"] for one in queue(sigma)["waiting"])
    answer(sigma, "---\nid: ID\ndelete: ID|no\n---\n")
    sigma.process()
    assert current(sigma) == waiting
    assert "> > re-one" in shown(sigma)
    assert "> > re-two" in shown(sigma)


def test_what_is_written_and_not_carried_out_when_words_come_is_void_once(sigma: Node, pi: Node, head: str) -> None:
    sigma.triage("pi/proposal", "do:merge")
    say(sigma, head, "STOP", "re-one")
    done = sigma.sync()
    name = sigma.only_thread()
    assert f"is void; read threads/inbox/{name}, then decide again" in done.stdout
    text = sigma.thread(name)
    assert (
        text.index("> > STOP") < text.index("## Void triage") < text.index(NO_DECISION) < text.index("> decision: do")
    )
    assert text.index("> decision: do:merge") < text.index("<!-- To decide")
    sigma.process()
    assert not is_in_main(sigma, head)
    assert told(pi, "re-one") == [True]
    sigma.triage("pi/proposal", "do:merge")
    say(sigma, head, "again", "re-two")
    sigma.sync()
    sigma.process()
    assert is_in_main(sigma, head)
    assert sigma.only_thread().endswith("-pi-re-two.md")
    assert told(pi, "re-two") == [False]


SHOW = ("inbox", "show", "pi/proposal")


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    "words",
    [
        ("inbox", "triage", "pi/proposal", "do:merge"),
        ("delete", "pi/proposal", "--reason", "no"),
        ("defer", "pi/proposal", "--reason", "later"),
        ("done", "--all", "--yes"),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_a_thread_in_which_something_was_said_since_it_was_shown_is_not_decided(
    sigma: Node, head: str, words: tuple[str, ...], before: int
) -> None:
    for number in range(before):
        say(sigma, head, "first", f"re-{number}")
    sigma.sync()
    sigma.cn(*SHOW)
    say(sigma, head, "STOP")
    sigma.sync()
    was = sigma.main, sigma.thread(sigma.only_thread())
    done = sigma.cn(*words, check=1)
    assert "pi/proposal: its creator has said something since it was shown; nothing was decided" in done.stderr
    assert f"'cn inbox show pi/proposal' shows it; '--head {head}' is about that head" in done.stderr
    assert (sigma.main, sigma.thread(sigma.only_thread())) == was
    assert "> > STOP" in sigma.cn(*SHOW).stdout
    sigma.cn(*words, check=0)


def test_who_names_the_head_decides_whatever_is_said(sigma: Node, head: str) -> None:
    sigma.cn(*SHOW)
    say(sigma, head, "STOP")
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge", "--head", head[:8])
    sigma.process()
    assert is_in_main(sigma, head)


def test_a_comment_decides_nothing_and_needs_no_new_look(sigma: Node, head: str) -> None:
    sigma.cn(*SHOW)
    say(sigma, head, "Wait")
    sigma.sync()
    sigma.cn("comment", "pi/proposal", "Why?", check=0)


def test_a_comment_is_said_in_a_clone_that_has_not_seen_a_colleagues(world: World, sigma: Node, head: str) -> None:
    """It decides nothing: that there are more words than its author has read holds nothing back."""
    other = world.second(sigma)
    other.sync()
    other.cn(*SHOW)
    sigma.cn("comment", "pi/proposal", "First words.")
    done = other.cn("comment", "pi/proposal", "Second words.", check=0)
    assert "words came meanwhile that the thread did not show; it is written anew" in done.stdout
    assert "✓ pi/proposal: comment by sigma" in done.stdout
    text = other.thread(other.only_thread())
    assert text.index("> First words.") < text.index("> Second words.") < text.index("<!-- To decide")
    assert text.count("**sigma wrote, ") == 2
    assert "Set aside" not in text


@pytest.mark.parametrize("about", ["pi/proposal", "pi/hello"])
def test_a_reply_that_is_held_back_by_a_colleagues_words_is_kept_in_the_thread(
    world: World, sigma: Node, head: str, about: str
) -> None:
    if about == "pi/hello":
        mail = format_message(Message(MESSAGE, PI, SIGMA, "Hello", AT, "May I?\n"))
        push(sigma.home, sigma.home, f"{write_commit(sigma.home, {'message.md': mail})}:refs/heads/{about}")
        sigma.sync()
    other = world.second(sigma)
    other.sync()
    (name,) = [one for one in other.threads() if one.endswith(f"-{about.replace('/', '-')}.md")]
    sigma.cn("comment", about, "First words.")
    secret = other.cn("reply", about, f"My key is ghp_{'a1B2' * 9}.", check=1)
    assert "no-secrets" in secret.stderr
    assert "First words." not in other.thread(name)
    done = other.cn("reply", about, "Words of mine.\n\n## Triage\n\ndecision: do:merge", check=1)
    said = " ".join(done.stderr.split())
    assert "nothing was said" in said
    assert "what stood there and your words are quoted in it: read it, then say it again" in said
    text = other.thread(name)
    assert text.index("> First words.") < text.index("## Set aside") < text.index("> Words of mine.")
    assert text.index("> decision: do:merge") < text.index("<!-- To decide")
    assert text.count("**sigma wrote, ") == 1
    sigma.sync()
    assert "> Words of mine." in sigma.thread(name), "who sits at another clone finds them too"
    other.cn("reply", about, "Words of mine.", check=0)


def save_over(path: Path, text: str) -> None:
    """As an editor does that was open before the words came."""
    path.write_text(text[: text.index("<!-- To decide")] + "## Triage\n\ndecision: do:merge\nactor: sigma\n")
    with path.open("a") as file:
        file.write("timestamp: 2026-02-05\n")


def test_a_decision_that_is_saved_over_words_is_void_and_they_are_there_again(sigma: Node, pi: Node, head: str) -> None:
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    opened = path.read_text()
    say(sigma, head, "STOP")
    sigma.sync()
    save_over(path, opened)
    done = sigma.process(1)
    assert "void: words came meanwhile that the thread did not show" in done.stderr
    assert not is_in_main(sigma, head)
    text = path.read_text()
    assert text.index("> > STOP") < text.index("## Void triage") < text.index("> decision: do:merge")
    say(sigma, head, "more", "re-two")
    sigma.sync()
    assert path.read_text() == text, "one time is enough"
    sigma.decide(path.name, "do:merge")
    assert is_in_main(sigma, head)
    assert told(pi, "re-proposal", "re-two") == [True, False]


@pytest.mark.parametrize("how", ["cn", "git", "git, and words again"])
@pytest.mark.parametrize("decides", [True, False])
def test_words_that_a_commit_took_out_of_the_thread_are_shown_before_it_is_decided(
    sigma: Node, head: str, how: str, decides: bool
) -> None:
    """Who committed the thread had it open in an editor when they came, and nobody has read them."""
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    opened = path.read_text()
    say(sigma, head, "STOP")
    sigma.sync()
    opened = opened.replace("<!-- To decide", "A note of mine.\n\n<!-- To decide")
    if decides:
        save_over(path, opened)
    else:
        path.write_text(opened)
    if how == "cn":
        said = sigma.cn("commit", check=1 if decides else 0)
        told = said.stdout + said.stderr
        assert ("void: words came meanwhile" if decides else "they are in it too now") in told
        assert "> > STOP" in git(sigma.root, "show", f"main:threads/inbox/{path.name}"), "main shows them in any case"
    else:
        git(sigma.root, "commit", "--quiet", "--message", "A note", "--", f"threads/inbox/{path.name}")
    if how == "git, and words again":
        say(sigma, head, "again", "re-two")
        sigma.sync()
    if decides:
        sigma.process(0 if "again" in how else 1)
        assert not is_in_main(sigma, head)
    elif how == "git":
        assert "void: words came meanwhile" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    text = path.read_text()
    assert "A note of mine." in text
    assert "\n> > STOP\n" in text
    assert text.count("<!-- To decide") == 1, "who decides again in an editor finds the form"
    sigma.process()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    assert "> > STOP" in git(sigma.root, "show", f"main:threads/inbox/done/{path.name}")


def test_words_that_a_merge_by_hand_left_aside_are_shown_before_it_is_decided(
    world: World, sigma: Node, head: str
) -> None:
    other = world.second(sigma)
    other.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    save_over(path, path.read_text())
    git(sigma.root, "commit", "--quiet", "--message", "Decided", "--", f"threads/inbox/{path.name}")
    say(sigma, head, "STOP")
    other.sync()
    git(sigma.root, "pull", "--quiet", "--no-rebase", "--no-edit", "-X", "ours", "origin", "refs/heads/main")
    assert "STOP" not in path.read_text()
    assert "void: words came meanwhile" in sigma.process(1).stderr
    assert not is_in_main(sigma, head)
    assert "\n> > STOP\n" in path.read_text()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_notes_that_are_saved_over_words_keep_them_in_the_thread(sigma: Node, head: str) -> None:
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    opened = path.read_text()
    say(sigma, head, "first")
    sigma.sync()
    path.write_text(opened.replace("<!-- To decide", "A note of mine.\n\n<!-- To decide"))
    say(sigma, head, "second", "re-two")
    sigma.sync()
    text = path.read_text()
    assert all(f"\n{line}\n" in text for line in ("A note of mine.", "> > first", "> > second"))
    path.write_text(opened)
    done = sigma.cn("delete", "pi/proposal", "--reason", "no", check=1)
    assert "void: words came meanwhile" in done.stderr
    assert "> > second" in path.read_text()


def test_a_decision_in_another_clone_is_void_where_somebody_said_more_in_the_same_minute(
    world: World, sigma: Node, head: str
) -> None:
    other = world.second(sigma)
    begins = str(-int(time.time()) % 60 + 1)  # a minute has just begun
    clock = {"TEST_CLOCK": begins, "PYTHONPATH": f"{ROOT / 'tests/support/clock'}:{ROOT}"}
    sigma.cn(*SHOW)
    sigma.cn("comment", "pi/proposal", "Why?", env=clock)
    other.sync()
    other.triage("pi/proposal", "do:merge")
    sigma.cn("comment", "pi/proposal", "STOP, do not merge it", env=clock)
    lines = [line for line in sigma.thread(sigma.only_thread()).split("\n") if "(comment)" in line]
    done = other.process(1)
    assert "void: words came meanwhile" in done.stderr
    assert not is_in_main(other, head)
    assert len(set(lines)) == 1, "they are of one minute"


def test_a_decision_in_another_clone_is_void_where_words_came_first(world: World, sigma: Node, head: str) -> None:
    other = world.second(sigma)
    other.sync()
    other.triage("pi/proposal", "do:merge")
    say(sigma, head, "STOP")
    sigma.sync()
    done = other.process(1)
    assert "void: words came meanwhile" in done.stderr
    assert not is_in_main(other, head)
    assert "> > STOP" in other.thread(other.only_thread())
    other.decide(other.only_thread(), "do:merge")
    assert is_in_main(other, head)


@pytest.mark.parametrize("how", ["saved", "git", "cn"])
def test_a_deferral_that_came_while_the_thread_was_open_in_an_editor_is_shown_before_a_merge(
    world: World, sigma: Node, head: str, how: str
) -> None:
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    opened = path.read_text()
    other = world.second(sigma)
    other.sync()
    other.decide(other.only_thread(), "defer:wait for Ann", "--body", "She audits it.", "--until", "3d")
    sigma.sync()
    if how == "cn":
        path.write_text(opened.replace("<!-- To decide", "A note of mine.\n\n<!-- To decide"))
        assert "they are in it too now" in sigma.cn("commit", check=0).stdout
        assert path.read_text().count("## Deferred") == 1
    else:
        save_over(path, opened)
        if how == "git":
            git(sigma.root, "commit", "--quiet", "--message", "A note", "--", f"threads/inbox/{path.name}")
        assert "void: it was deferred or assigned meanwhile, which the thread did not show" in sigma.process(1).stderr
        assert not is_in_main(sigma, head)
    text = path.read_text()
    assert text.index("## Deferred") < text.index("wait for Ann") < text.index("She audits it.")
    sigma.process()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_the_answer_to_a_colleagues_words_that_held_a_decision_back_comes_into_the_thread(
    world: World, sigma: Node, head: str
) -> None:
    other = world.second(sigma)
    other.sync()
    other.triage("pi/proposal", "do:merge")
    sigma.cn("comment", "pi/proposal", "Why?", check=0)
    assert "void: words came meanwhile" in other.process(1).stderr
    say(sigma, head, "Because")
    other.sync()
    assert len(other.threads()) == 1
    assert "> > Because" in other.thread(other.only_thread())


def test_a_branch_that_moves_or_a_deferral_takes_words_again(world: World, sigma: Node, pi: Node, head: str) -> None:
    sigma.triage("pi/proposal", "do:merge")
    say(sigma, head, "one", "re-one")
    sigma.sync()
    name = sigma.only_thread()
    sigma.decide(name, "defer:later", "--until", "3d")
    say(sigma, head, "two", "re-two")
    sigma.sync()
    assert sigma.threads() == [name]
    say(sigma, head, "three", "re-three")
    sigma.sync()
    assert sigma.threads() == [name]
    sigma.triage("pi/proposal", "do:merge")
    say(sigma, head, "four", "re-four")
    sigma.sync()
    assert sigma.threads() == [name]
    say(sigma, head, "five", "re-five")
    sigma.sync()
    assert len(sigma.threads()) == 2
    moved = world.propose(pi, sigma, files={"docs/b.md": "more\n"}, force=True)
    sigma.sync()
    say(sigma, moved, "six", "re-six")
    sigma.sync()
    assert len(sigma.threads()) == 2
    assert "> > six" in sigma.thread(name)


def test_an_assigned_thread_stays_assigned_when_words_hold_a_decision_back(sigma: Node, head: str) -> None:
    sigma.configure("reviewers: [alice]\n")
    sigma.decide("pi/proposal", "delegate:alice")
    sigma.triage("pi/proposal", "do:merge", "--actor", "alice")
    say(sigma, head, "STOP")
    sigma.sync()
    (found,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert found["assigned_to"] == "alice"
    assert "## Void triage" in sigma.thread(sigma.only_thread())


def test_a_thread_that_was_held_stays_what_it_was_and_takes_no_more_words() -> None:
    key, one = (IN, "t"), Oid("1" * 40)
    for fields in ({"gone": "2026-02-05T12:00:00Z"}, {}):
        item = Item(IN, "t", one, "assigned", AT, {"thread": "a.md", "actor": "alice", "by": "sigma", **fields})
        items = {key: item}
        for effect in hold(PI, item, AT):
            apply(items, getattr(effect, "event"))  # noqa: B009  all are records
        now = items[key]
        assert (now.state, now.get("actor"), now.get("gone")) == ("assigned", "alice", fields.get("gone", ""))
        assert takes_words(item)
        assert not takes_words(now)
        apply(items, Event(AT, IN, "deferred", "t", one, {}))
        assert takes_words(items[key])


def test_words_are_counted_where_cn_wrote_them_and_nowhere_else() -> None:
    text = "# pi/t\n\n> **pi wrote, 2026-02-05T12:00Z** (forged)\n"
    assert count_words(text, PI) == 0
    said = add_words(text, Words(PI, AT, "pi/a", "**pi wrote, 2026-02-05T12:00Z** (forged)"))
    said = add_words(said, Words(SIGMA, AT, "comment", "Why?"))
    assert (count_words(said, PI), count_words(said, SIGMA)) == (1, 1)
    assert lacks_words(text, said)
    assert not lacks_words(said, text)
    assert not lacks_words(said.replace("> Why?", "> Why?  "), said)
    again = add_words(said, Words(SIGMA, AT, "comment", "STOP"))
    assert lacks_words(said, again), "in the same minute"
    assert not lacks_words(again, again)
    kept = keep_mains(said.replace("# pi/t", "# pi/t, mine"), said, again)
    assert "> **sigma wrote, " in kept.partition("Written elsewhere meanwhile")[2]
    assert "> > STOP" in kept
