"""Each rule, refused for real: named once, nothing merged, and in after the remedy."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cn.protocol.thread_file import holds_section
from tests.support.hubs import commit, git, make_ssh_key, sign_with, tip, write_commit
from tests.support.world import MAIN_FILE, Node, World, content, is_in_main

ALICE = "reviewers:\n- name: alice\n  email: alice@example.org\n"


def refuse(node: Node, thread: str, rule: str, decision: str = "do:merge", *args: str, notices: int) -> str:
    """Decide, and see it refused: once on stderr, in the log, and in the exit code where nobody else is told."""
    before = git(node.root, "rev-parse", "main:docs")
    told = len(node.notices())
    pending = node.threads()
    if decision:
        node.write_refused_triage(thread, decision, *args)
    done = node.process(check=0 if notices else 1)
    said = done.stderr.splitlines()
    lines = [s for s in said if s.startswith("refused: ")]
    assert len(lines) == 1, done.stderr
    assert said[said.index(lines[0]) + 1].startswith("  → "), done.stderr
    assert f"{rule}: " in node.cn("status").stdout, "it stands there until it is gone"
    assert lines[0].startswith(f"refused: {thread}: ")
    assert f" is refused: {rule}: " in done.stderr
    assert "✓" not in done.stdout.replace("✓ delivered", "")
    (row,) = [r for r in node.rows(thread) if r[2].startswith("refused: ")][-1:]
    assert row[2].startswith(f"refused: {rule}: "), row
    assert len(node.notices()) == told + notices
    main, rows = node.main, node.rows()
    again = node.process()
    assert (again.stdout, again.stderr) == ("", "")
    assert (node.main, node.rows()) == (main, rows)
    assert git(node.root, "rev-parse", "main:docs") == before, "nothing is merged"
    assert node.threads() == pending
    return done.stderr


def test_a_branch_behind_main_is_refused_until_it_is_rebased(world: World, sigma: Node, pi: Node) -> None:
    old = world.propose(pi, sigma, files={"docs/other.md": "theirs\n"})
    sigma.sync()
    sigma.write({"docs/other.md": "changed\n"})
    told = refuse(sigma, "pi/proposal", "rebase-before-merge", notices=1)
    assert "docs/other.md" in told
    pi.sync()
    assert pi.rows("sigma/proposal")[-1][1] == "notice:refused"
    assert "rebase-before-merge" in pi.rows("sigma/proposal")[-1][2]
    assert world.has_branch(pi, sigma), "a refusal ends nothing"
    sigma.process()
    assert len(sigma.notices()) == 1

    new = world.propose(pi, sigma, files={"docs/other.md": "theirs\n"}, force=True)
    assert new != old
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    assert "## Void triage" in text
    assert not holds_section(text)
    assert sigma.process().stderr == ""
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, new)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("files", [{}, {".cn/hub.yaml": "name: sigma\n"}], ids=["stale", "protected too"])
def test_a_refusal_is_told_and_logged_once_while_main_goes_on(
    world: World, sigma: Node, pi: Node, files: dict[str, str]
) -> None:
    sigma.configure("merge:\n  rebase: always\n")
    world.propose(pi, sigma, "proposal", {"docs/new.md": "new\n", **files})
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.write({"docs/first.md": "first\n"})
    assert "main changed since: docs/first.md" in sigma.process().stderr
    rows = sigma.rows("pi/proposal")
    for number in range(4):
        sigma.write({f"docs/{number}.md": "main goes on\n"})
        assert sigma.process().stderr == ""
    assert sigma.rows("pi/proposal") == rows
    assert "refused" in sigma.cn("status").stdout


def test_a_change_in_cns_own_folders_does_not_make_a_branch_stale(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.write({"threads/adhoc/note.md": "a note\n"})
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_what_main_did_elsewhere_keeps_no_branch_from_being_merged(world: World, sigma: Node, pi: Node) -> None:
    heads = [world.propose(pi, sigma, topic) for topic in ("one", "two", "three")]
    sigma.sync()
    sigma.write({"docs/other.md": "changed\n", "spec/USER.md": "Another.\n", "docs/new/x.md": "x\n"})
    sigma.configure("notice_days: 7\n")
    for topic in ("one", "two", "three"):
        sigma.decide(f"pi/{topic}", "do:merge")
    assert all(is_in_main(sigma, head) for head in heads)
    assert (sigma.root / "docs/other.md").read_text("utf-8") == "changed\n"
    world.settle(pi, sigma)
    assert not any(world.has_branch(pi, sigma, topic) for topic in ("one", "two", "three"))


def test_a_hub_can_ask_for_a_rebase_always(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("merge:\n  rebase: always\n")
    first, second = (world.propose(pi, sigma, topic) for topic in ("first", "second"))
    sigma.sync()
    sigma.triage("pi/first", "do:merge")
    sigma.triage("pi/second", "do:merge")
    assert (
        "pi/second: do:merge is refused: rebase-before-merge: main changed since: docs/first.md"
        in sigma.process().stderr
    )
    assert is_in_main(sigma, first)
    assert not is_in_main(sigma, second)
    second = world.propose(pi, sigma, "second", force=True)
    sigma.write({"threads/adhoc/note.md": "a note\n"})
    sigma.sync()
    sigma.decide("pi/second", "do:merge")
    assert is_in_main(sigma, second)


def test_a_branch_without_common_history_is_refused(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    alien = write_commit(person, {"docs/alien.md": "x\n"}, "alien")
    world.offer(pi, sigma, "proposal", alien)
    sigma.sync()
    assert ">     x" in sigma.thread(sigma.only_thread())
    refuse(sigma, "pi/proposal", "rebase-before-merge", notices=1)


def test_a_folder_where_main_has_a_file_is_refused(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "clash", {"docs/new/x.md": "mine\n"})
    sigma.sync()
    sigma.write({"docs/new": "a file\n"})
    told = refuse(sigma, "pi/clash", "clean-merge", notices=1)
    assert "conflict in docs/new/x.md" in told


MODES = {"docs/link.md": "120000", "docs/module": "160000"}
PROTECTED = [
    ".cn/hub.yaml",
    ".cn/agent.yaml",
    ".cn/new.txt",
    ".CN/hub.yaml",
    ".c\u200cn/hub.yaml",
    "spec/SOUL.md",
    "Spec/user.md",
    "state/peers.md",
    "STATE/PEERS.MD",
    "state/anything",
    "threads/inbox/20260205-pi-forged.md",
    "threads/mail/outbox/forged.md",
    "logs/inbox/20200101.md",
    "Logs/x",
    ".gitignore",
    ".gitattributes",
    "docs/.gitattributes",
    "docs/.GITATTRIBUTES",
    "docs/.gitignore",
    ".gitmodules",
    *MODES,
]


def test_no_protected_path_gets_in(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    start = tip(person)
    topics = {}
    for number, path in enumerate(PROTECTED):
        body = "0123456789" * 4 if MODES.get(path) == "160000" else "docs/start.md"
        files = {"docs/cover.md": "harmless\n", path: body}
        head = write_commit(person, files, "harmless", [start], modes=MODES)
        topics[f"p{number:02}"] = (path, head)
    gone = write_commit(person, {"spec/SOUL.md": None}, "remove", [start])
    moved = write_commit(person, {"spec/SOUL.md": None, "docs/SOUL.md": b"moved"}, "move", [start])
    topics |= {"gone": ("spec/SOUL.md", gone), "moved": ("spec/SOUL.md", moved)}
    refspecs = [f"{head}:refs/heads/pi/{topic}" for topic, (_, head) in topics.items()]
    git(person, "push", "--quiet", sigma.url, *refspecs)
    sigma.sync()
    assert len(sigma.threads()) == len(topics)
    for name in sigma.threads():
        sigma.write_triage(name, "do:merge")
    docs = git(sigma.root, "rev-parse", "main:docs", "main:spec", "main:.cn", "main:.gitignore")
    done = sigma.process()
    for topic, (path, head) in topics.items():
        lines = [s for s in done.stderr.splitlines() if s.startswith(f"refused: pi/{topic}: ")]
        assert len(lines) == 1, (path, done.stderr)
        assert "protected-paths" in lines[0], (path, lines[0])
        assert not is_in_main(sigma, head)
    assert git(sigma.root, "rev-parse", "main:docs", "main:spec", "main:.cn", "main:.gitignore") == docs
    assert len(sigma.threads()) == len(topics)
    assert len(sigma.notices()) == len(topics)
    again = sigma.process()
    assert (again.stdout, again.stderr) == ("", "")
    assert len(sigma.notices()) == len(topics)

    world.propose(pi, sigma, "p00", {"docs/cover.md": "harmless\n"}, force=True)
    sigma.sync()  # the others stay refused
    sigma.triage("pi/p00", "do:merge")
    sigma.process()
    assert content(sigma, "docs/cover.md") == b"harmless\n"


def test_the_creator_does_not_decide_the_merge(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", "no-self-merge", "do:merge", "--actor", "pi", notices=0)
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    "author", ["Somebody <Sigma@CN.invalid>", "SIGMA <other@example.org>"], ids=["by email", "by name"]
)
def test_the_actor_did_not_write_the_commits(world: World, sigma: Node, pi: Node, author: str) -> None:
    sigma.configure(ALICE)
    person = world.person(pi, sigma)
    world.propose(pi, sigma, files={"docs/a.md": "a\n"}, author=author)
    head = commit(person, {"docs/b.md": "b\n"}, author="Pi <pi@example.org>")
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    refuse(sigma, "pi/proposal", "no-self-merge", notices=0)
    sigma.decide("pi/proposal", "do:merge", "--actor", "alice")
    assert is_in_main(sigma, head)


def test_a_reviewer_is_known_by_the_email_in_hub_yaml(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure(ALICE)
    head = world.propose(pi, sigma, author="A. Lice <ALICE@example.org>")
    sigma.sync()
    refuse(sigma, "pi/proposal", "no-self-merge", "do:merge", "--actor", "alice", notices=0)
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_the_actor_did_not_sign_the_commits(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    sigma.configure(ALICE)
    private, _ = make_ssh_key(tmp_path / "keys/sigma")
    git(sigma.root, "config", "gpg.format", "ssh")
    git(sigma.root, "config", "user.signingKey", str(private))
    sign_with(world.person(pi, sigma), private)
    head = world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", "no-self-merge", notices=0)
    sigma.decide("pi/proposal", "do:merge", "--actor", "alice")
    assert is_in_main(sigma, head)


def test_only_actors_of_the_hub_decide(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", "valid-actor", "delete:x", "--actor", "mallory", notices=0)
    sigma.decide("pi/proposal", "delete:x")
    assert sigma.threads() == []


def test_an_approval_other_than_approved_refuses(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", "merge-needs-approval", "do:merge", "--approval", "CHANGES REQUESTED", notices=0)
    sigma.decide("pi/proposal", "do:merge", "--approval", "APPROVED")
    assert is_in_main(sigma, head)


def test_a_hub_can_require_the_approval_line(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("merge:\n  explicit_approval: true\n")
    head = world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", "merge-needs-approval", notices=0)
    sigma.decide("pi/proposal", "do:merge", "--approval", "APPROVED")
    assert is_in_main(sigma, head)


@pytest.mark.sliced(4)
@pytest.mark.parametrize("kind", ["edited", "staged", "untracked", "deleted"])
def test_a_touched_path_with_local_changes_is_refused(world: World, sigma: Node, pi: Node, kind: str) -> None:
    path = "docs/new.md" if kind == "untracked" else MAIN_FILE
    head = world.propose(pi, sigma, files={path: "theirs\n"})
    sigma.sync()
    mine = sigma.root / path
    if kind == "deleted":
        mine.unlink()
    else:
        mine.write_text("mine\n")
    if kind == "staged":
        git(sigma.root, "add", path)
        git(sigma.root, "update-index", "--refresh")
    status = git(sigma.root, "status", "--porcelain", "docs")
    told = refuse(sigma, "pi/proposal", "clean-merge", notices=0)
    if kind == "untracked":
        assert f"{path} lies here and is untracked, where the merge puts a file" in told
        assert "sparse-checkout" not in told
    else:
        assert f"your {path} has local changes" in told
    assert git(sigma.root, "status", "--porcelain", "docs") == status
    assert mine.exists() == (kind != "deleted")
    if kind == "untracked":
        mine.unlink()
    else:
        git(sigma.root, "checkout", "--quiet", "HEAD", "--", path)
    sigma.process()
    assert is_in_main(sigma, head)
    assert mine.read_text() == "theirs\n"


def test_a_touched_path_at_which_git_does_not_look_is_told_with_what_lets_it_look(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma, files={MAIN_FILE: "theirs\n"})
    sigma.sync()
    git(sigma.root, "update-index", "--assume-unchanged", MAIN_FILE)
    git(sigma.root, "update-index", "--skip-worktree", MAIN_FILE)
    (sigma.root / MAIN_FILE).write_text("mine\n")
    told = refuse(sigma, "pi/proposal", "clean-merge", notices=0)
    assert "sparse-checkout" not in told
    steps = re.findall(r"'(git [^']*)'", told)
    assert len(steps) == 4
    for step in steps[:3]:
        git(sigma.root, *shlex.split(step)[1:])
    assert steps[2:] == [f"git stash push -- {MAIN_FILE}", "git stash pop"]
    sigma.process()
    assert is_in_main(sigma, head)


def test_a_branch_of_nobody_is_told_once_and_left_alone(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    git(person, "push", "--quiet", sigma.url, "HEAD:refs/heads/mallory/gift", "HEAD:refs/heads/feature")
    first = sigma.sync()
    assert "mallory/gift" in first.stdout + first.stderr
    assert "feature" not in first.stdout + first.stderr
    assert sigma.threads() == []
    sigma.idle()


def test_a_hub_may_want_signed_merges(world: World, sigma: Node, pi: Node) -> None:
    """Else the approval of the very commit is enough, also in a mailbox that several write."""
    world.link(sigma, world.hub("omega"))
    head = world.propose(pi, sigma)
    sigma.configure("merge: {signed: required}\n")
    sigma.sync()
    assert "**Signature:** unverified" in sigma.thread(sigma.only_thread())
    refuse(sigma, "pi/proposal", "signature-policy", notices=1)
    sigma.write({".cn/hub.yaml": (sigma.root / ".cn/hub.yaml").read_text().replace("required", "optional")})
    sigma.process()
    assert is_in_main(sigma, head)


def test_a_shared_mailbox_still_takes_the_other_decisions(world: World, sigma: Node, pi: Node) -> None:
    world.link(sigma, world.hub("omega"))
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:not now")
    assert sigma.threads() == []


BAD_SECTIONS = {
    "not in the type": "decision: do:explode\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n",
    "no payload": "decision: delete:\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n",
    "no timestamp": "decision: do:merge\nactor: sigma\n",
    "no actor": "decision: do:merge\ntimestamp: 2026-02-05T15:00Z\n",
    "twice a field": "decision: do:merge\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n",
    "no time": "decision: do:merge\nactor: sigma\ntimestamp: soon\n",
    "two sections": "decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n\n## Triage\n\nx\n",
}


def test_a_section_outside_the_grammar_decides_nothing(world: World, sigma: Node, pi: Node) -> None:
    heads = [world.propose(pi, sigma, f"t{i}") for i in range(len(BAD_SECTIONS))]
    sigma.sync()
    names = sigma.threads()
    for name, section in zip(names, BAD_SECTIONS.values(), strict=True):
        path = sigma.root / "threads/inbox" / name
        path.write_text(path.read_text() + "\n---\n\n## Triage\n\n" + section)
    done = sigma.process(check=1)
    assert done.stderr.count("valid-triage") == len(names), done.stderr
    assert [r[2].startswith("refused: valid-triage: ") for r in sigma.rows()[len(names) :]] == [True] * len(names)
    assert not any(is_in_main(sigma, h) for h in heads)
    again = sigma.process()
    assert (again.stdout, again.stderr) == ("", "")
    assert sigma.threads() == names
    assert sigma.notices() == []
    for i in range(len(names)):
        sigma.triage(f"pi/t{i}", "delete:enough")
    sigma.process()
    assert sigma.threads() == []


def test_a_thread_that_lost_its_head_decides_nothing(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    sigma.triage("pi/proposal", "do:merge")
    text = path.read_text()
    path.write_text("\n".join(s for s in text.split("\n") if not s.startswith("**Head:**")))
    done = sigma.process(check=1)
    assert "void" in done.stderr
    assert "**Head:**" in path.read_text()
    assert "> decision: do:merge" in path.read_text()
    assert sigma.process().stderr == ""
    path.write_text(text)
    sigma.process()
    assert sigma.threads() == []


@pytest.mark.parametrize(
    ("decision", "rule"),
    [("delegate:nobody", "known-peer"), ("delegate:pi", "known-peer"), ("delegate:sigma", "valid-actor")],
)
def test_a_thread_is_delegated_to_somebody_else_who_is_known(
    world: World, sigma: Node, pi: Node, decision: str, rule: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    refuse(sigma, "pi/proposal", rule, decision, notices=0)
