"""One command decides several threads: after a look and a question, in one commit, each on its own."""

from __future__ import annotations

import pytest

from tests.support.hubs import git
from tests.support.terminal import Terminal
from tests.support.world import Node, World


@pytest.fixture
def many(world: World, sigma: Node, pi: Node) -> Node:
    """A hub in which two proposals of pi's wait, and a message of omega's."""
    omega = world.hub("omega")
    world.link(sigma, omega)
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic, message=f"Add {topic}")
    omega.cn("send", "sigma", "hello")
    sigma.sync()
    return sigma


def subjects(node: Node) -> list[str]:
    return git(node.root, "log", "--format=%s", "-3", "main").splitlines()


def waiting(node: Node) -> set[str]:
    return {name.split("-", 1)[1].removesuffix(".md") for name in node.threads()}


def test_without_a_terminal_they_are_shown_and_nothing_is_done(many: Node) -> None:
    before = many.main
    for words in (
        ("delete", "pi/one", "pi/two"),
        ("done", "--peer", "pi"),
        ("defer", "--all"),
        ("done", "--all", "--json"),
    ):
        done = many.cn(*words, check=2)
        shown = done.stderr if "--json" in words else done.stdout
        assert "pi-one" in shown
        assert "Add two" in shown
        assert "there is no terminal to ask" in done.stderr
        assert "'--yes' does it" in done.stderr
    assert "would: pi/one: " in many.cn("delete", "--all", "--dry-run").stdout
    assert many.main == before


def test_a_dry_run_lists_what_would_be_decided_and_counts_what_is_there(many: Node) -> None:
    planned = many.cn("delete", "--all", "--dry-run").stdout
    assert all(
        one in planned.partition("would delete these 3 threads (final")[0] for one in ("pi-one", "Add two", "hello")
    )
    asked = many.cn("done", "pi/one", "nosuch/x", check=2)
    assert "nosuch/x: there is no such thread" in asked.stdout
    assert "whether to complete this thread (final" in asked.stderr
    assert "would defer this thread" in many.cn("defer", "pi/one", "nosuch/x", "--dry-run", check=None).stdout


@pytest.mark.parametrize("words", [(), ("--yes",), ("--dry-run",)])
@pytest.mark.parametrize("name", ["delete", "defer"])
def test_words_behind_a_thread_are_no_thread_and_the_option_for_them_is_named(
    many: Node, name: str, words: tuple[str, ...]
) -> None:
    before = many.main
    refused = many.cn(name, "pi/one", "not now", *words, check=2)
    assert "there is no thread 'not now': nothing was done" in refused.stderr
    assert f"if that is the reason, 'cn {name} pi/one --reason not\\ now' says so" in refused.stderr
    assert many.main == before


def test_all_of_one_peer_are_decided_in_one_commit(many: Node) -> None:
    many.cn("delete", "--peer", "pi", "--reason", "not now", "--yes")
    assert waiting(many) == {"omega-hello"}
    assert subjects(many)[:2] == ["cn: delivered", "cn: delete for 2 threads by sigma"]
    assert [row for row in many.rows("pi/one") if row[1] == "delete:not now"] == [
        ("pi/one", "delete:not now", "✓ discarded")
    ]
    assert "nothing pending from pi" in many.cn("done", "--peer", "pi").stdout


def test_one_that_a_rule_refuses_is_named_and_takes_no_other_with_it(many: Node) -> None:
    done = many.cn("delegate", "--all", "omega", "--yes", check=1)
    assert "refused: omega/hello: known-peer: omega sent it" in done.stderr
    assert "✓ pi/one: delegate by sigma" in done.stdout
    assert waiting(many) == {"omega-hello"}
    many.cn("adhoc", "buy a rack")
    (own,) = (f"adhoc/{path.stem}" for path in (many.root / "threads/adhoc").glob("*.md"))
    done = many.cn("done", "omega/hello", "pi/one", own, "omega/hello", "--yes", check=1)
    assert "no pending thread 'pi/one'" in done.stderr
    assert [line.partition(";")[0] for line in done.stdout.splitlines() if "done by sigma" in line] == [
        "✓ omega/hello: done by sigma",
        f"✓ {own}: done by sigma",
    ]
    assert waiting(many) == set()


def test_words_that_could_mean_two_things_are_refused(many: Node) -> None:
    wrong = {
        ("delegate", "pi/one"): "'pi/one' alone says only one",
        ("delegate", "pi/one", "omega", "pi/two"): "'pi/two' is neither peer nor reviewer",
        ("delegate", "--all", "pi/two"): "'pi/two' is neither peer nor reviewer",
        ("delete", "pi/one", "--peer", "pi"): "exclude each other",
        ("delete", "--all", "--peer", "pi"): "exclude each other",
        ("delete",): "it takes a THREAD, --peer or --all",
    }
    for words, why in wrong.items():
        assert why in many.cn(*words, check=2).stderr


def test_on_a_terminal_it_asks_and_decides_what_was_shown(world: World, many: Node, pi: Node) -> None:
    at = Terminal(many.root, "delete", "--peer", "pi")
    at.answer("delete these 2 threads (final: each of them ends", "n\r")
    at.expect("nothing was done")
    assert at.end() == 1
    at = Terminal(many.root, "defer", "--peer", "pi", "--reason", "later")
    at.expect("defer these 2 threads? [y/N]")
    world.propose(pi, many, "two", {"docs/two.md": "another\n"}, force=True)
    world.propose(pi, many, "three")
    many.sync()
    at.type("y\r")
    at.expect("pi/one: defer by sigma")
    assert at.end() == 1
    assert "pi/two has moved to" in at.text
    states = {one.split()[0].split("-", 1)[1]: one.split()[-1] for one in many.cn("inbox").stdout.splitlines()[1:]}
    assert states["pi-two"] == states["pi-three"] == "pending"


def test_what_somebody_has_decided_already_is_named_and_left_out_unless_it_is_named(many: Node) -> None:
    many.triage("pi/one", "do:merge")
    told = "pi/one is left out, decided: do:merge by sigma; named, it is decided otherwise\n"
    assert told in many.cn("delete", "--peer", "pi", check=2).stdout
    done = many.cn("delete", "--peer", "pi", "--reason", "not now", "--yes").stdout
    assert told in done
    assert "✓ pi/two: delete by sigma" in done
    assert waiting(many) == {"pi-one", "omega-hello"}
    assert f"{told}nothing pending but that from pi" in many.cn("done", "--peer", "pi", "--yes").stdout
    asked = many.cn("defer", "pi/one", "omega/hello", check=2).stdout
    assert "decided: do:merge by sigma" in asked
    assert "left out" not in asked
    many.process()
    assert ("pi/one", "do:merge", "✓ merged SHA") in many.rows("pi/one")


def test_what_somebody_decides_while_it_asks_is_left_and_said(world: World, many: Node) -> None:
    """Written into the file, or executed in another clone; what the one who answers had seen goes as it was said."""
    other = world.second(many)
    many.triage("omega/hello", "delete:spam")
    at = Terminal(many.root, "delete", "pi/one", "pi/two", "omega/hello", "--reason", "not now")
    at.expect("delete these 3 threads")
    many.triage("pi/one", "do:merge")
    other.cn("defer", "pi/two", "--reason", "the release")
    at.type("y\r")
    at.expect("omega/hello: delete by sigma")
    assert at.end() == 1
    told = " ".join(at.text.split())
    assert "pi/one is left as it is, decided since it was shown: do:merge by sigma" in told
    assert "pi/two: valid-triage: void: it was deferred or assigned meanwhile, which the thread did not show" in told
    assert waiting(many) == {"pi-one", "pi-two"}
    many.process()
    assert ("pi/one", "do:merge", "✓ merged SHA") in many.rows("pi/one")
