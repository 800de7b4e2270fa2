"""One word, one thread: what is shown is what is decided."""

from __future__ import annotations

import pytest

from cn.run.find_thread import read_call
from tests.support.hubs import add_header, commit
from tests.support.world import Node, World, content


@pytest.mark.parametrize(
    ("word", "source", "file", "means"),
    [
        ("pi/fix", "pi/fix", "20260205-pi-fix.md", True),
        ("20260205-pi-fix", "pi/fix", "20260205-pi-fix.md", True),
        ("20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", True),
        ("threads/inbox/20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", True),
        ("threads/inbox/done/20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", True),
        ("threads/inbox/done/2026/20260205-pi-fix", "pi/fix", "20260205-pi-fix.md", True),
        ("pi/typo/20260205-pi-fix", "pi/fix", "20260205-pi-fix.md", False),
        ("pi/threads/inbox/20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", False),
        ("/hub/threads/inbox/20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", True),
        ("./threads/inbox/done/20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", True),
        ("./20260205-pi-fix.md", "pi/fix", "20260205-pi-fix.md", False),
        ("", "pi/fix", "", False),
    ],
)
def test_a_word_means_a_thread(word: str, source: str, file: str, means: bool) -> None:
    assert read_call(word).means(source, file) == means


def test_a_branch_named_as_the_file_of_another_thread_is_shown_as_it_is_decided(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma, "fix")
    sigma.sync()
    (name,) = sigma.threads()
    topic = f"typo/{name.removesuffix('.md')}"
    person = world.person(pi, sigma)
    commit(person, {"docs/evil.md": "evil\n"}, "harmless")
    world.offer(pi, sigma, topic, add_header(person, "HEAD", "x-odd 1"))
    sigma.sync()
    for words in (("inbox", "show"), ("thread", "show"), ("log", "--thread")):
        shown = sigma.cn(*words, f"pi/{topic}").stdout
        assert f"pi/{topic}" in shown
        assert "docs/proposal.md" not in shown
    assert "evil" in sigma.cn("inbox", "show", f"pi/{topic}").stdout
    assert "fix" in sigma.cn("inbox", "show", name).stdout
    sigma.decide(f"pi/{topic}", "do:merge")
    assert content(sigma, "docs/evil.md") is not None
    assert sigma.threads() == [name], "the thread of that file waits still"
    assert "evil" in sigma.cn("inbox", "show", f"pi/{topic}").stdout, "when it is done, too"


def test_a_shortened_name_is_answered_with_what_it_may_mean(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "which-licence-shall-we-take")
    sigma.sync()
    for word in ("pi/which-licence", "which-licence", sigma.only_thread()[:20]):
        told = sigma.cn("delete", word, "--reason", "no", check=1).stderr
        assert "there is pi/which-licence-shall-we-take" in told
    assert "'cn inbox' lists them" in sigma.cn("delete", "pi/another", "--reason", "no", check=1).stderr
