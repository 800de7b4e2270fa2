"""``cn trust``: a protected file changed on origin stops the runs until a person accepts exactly that."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import clone, cn_env, commit, git, make_ssh_key, push, refs, sign_with, tip, write_commit
from tests.support.readers import alone, shell
from tests.support.world import Node, World, picture

EVIL = "name: sigma\nreviewers: [mallory]\n"


@pytest.fixture
def sigma(tmp_path: Path, template: Path) -> Node:
    node = World(tmp_path, template).hub("sigma")
    node.sync()
    return node


@pytest.fixture
def other(sigma: Node, tmp_path: Path) -> Path:
    """A clone of somebody who may push to origin."""
    return clone(sigma.url, tmp_path / "other", "mallory")


def change(other: Path, sigma: Node, text: str = EVIL, path: str = ".cn/hub.yaml") -> str:
    git(other, "pull", "-q", "--ff-only")
    oid = commit(other, {path: text}, "harmless \x1b[2J change")
    push(other, sigma.url, "main")
    return oid


def test_a_clone_does_nothing_for_the_hub_it_holds_before_a_person_accepts_it(sigma: Node, tmp_path: Path) -> None:
    """It may be a peer's: by its files cn would fetch, push, sign and send with all that this user may."""
    hub = (sigma.root / ".cn/hub.yaml").read_text().replace("interface: triage", "interface: queue")
    sigma.write(
        {
            ".cn/hub.yaml": hub,
            ".cn/agent.yaml": "llm: {api_key: '${SECRET_TOKEN}', base_url: 'http://127.0.0.1:9', model: x}\n",
        },
        "an agent",
    )
    sigma.cn("adhoc", "a question")
    sigma.sync()
    fresh = Node("sigma", clone(sigma.url, tmp_path / "fresh", "ann"), sigma.home, sigma.url)
    before = refs(fresh.root), refs(Path(sigma.url))
    for words in (
        "sync",
        "sync --dry-run",
        "inbox process",
        "outbox flush",
        "push",
        "send pi x",
        "commit",
        "adhoc x",
        "peer add eve https://eve.example/x",
        "context",
        "agent",
    ):
        refused = fresh.cn(*words.split(), check=None, env={"SECRET_TOKEN": "t0p-secret-token"})
        assert (refused.returncode, "has not accepted" in refused.stderr) == (1, True), (words, refused)
    told = fresh.cn("doctor", "--full", check=None, env={"SECRET_TOKEN": "t0p-secret-token"}).stdout
    assert "has not accepted what it was cloned with" in told
    assert (refs(fresh.root), refs(Path(sigma.url))) == before
    assert fresh.cn("status").stdout.startswith("sigma: ")  # who looks may look
    shown = fresh.cn("trust", check=1)
    assert "+name: sigma" in shown.stdout
    assert "state/peers.md: new file" in shown.stdout
    assert "base_url" in shown.stdout
    assert "no run can work" in fresh.cn("status").stdout
    assert "✓ accepted" in fresh.cn("trust", "--yes").stdout
    assert "no run can work" not in fresh.cn("status", "--check").stdout
    fresh.sync()


def test_a_fresh_clone_is_told_what_is_decided_in_it_before_it_accepts(
    world: World, sigma: Node, tmp_path: Path
) -> None:
    """Whoever may push to main can have written it, and no run here has judged it."""
    pi = world.hub("pi")
    world.link(sigma, pi)
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    sigma.triage("pi/one", "do:merge")
    sigma.cn("save")
    fresh = Node("sigma", clone(sigma.url, tmp_path / "fresh", "ann"), sigma.home, sigma.url)
    git(fresh.root, "config", "cn.guard", "true")
    (name,) = (name for name in sigma.threads() if "pi-one" in name)
    decided = (
        f"decided in threads that wait, and carried out once this is accepted:\n  threads/inbox/{name}: do:merge\n"
    )
    assert decided in fresh.cn("trust", check=1).stdout
    sigma.triage("pi/two", "delete:no")
    sigma.cn("save")
    told = fresh.cn("trust", "--yes", check=1)
    assert "delete:no" in told.stdout, "it is not what was shown"
    fresh.cn("trust", "--yes")
    assert "decided in threads" not in fresh.cn("trust").stdout


def test_a_fresh_clone_names_its_peers_and_how_many_files_it_does_not_name(sigma: Node, tmp_path: Path) -> None:
    sigma.write({f"docs/{number}/.gitattributes": "* text\n" for number in range(4)}, "more of them")
    sigma.sync()
    fresh = Node("sigma", clone(sigma.url, tmp_path / "fresh", "ann"), sigma.home, sigma.url)
    files = json.loads(fresh.cn("trust", "--json", check=1).stdout)["files"]
    told = " ".join(fresh.cn("sync", check=1).stderr.split())
    assert f"by which cn acts as sigma: .cn/hub.yaml, state/peers.md, .cn/agent.yaml, {files[2]['path']}" in told
    named = [one["path"] for one in files if f" {one['path']}" in told]
    assert (len(named), f" and {len(files) - len(named)} more →" in told) == (10, True)


def test_what_another_clone_signs_with_the_same_key_is_taken_once_the_printed_step_is_typed(
    world: World, sigma: Node, tmp_path: Path
) -> None:
    """A guarded hub with two clones: each record of the other one asks, until its key is listed."""
    world.link(sigma, world.hub("pi"))
    key, public = make_ssh_key(tmp_path / "key")
    git(sigma.root, "config", "cn.guard", "true")
    told = sigma.cn("sign", str(key)).stdout
    step = next(words for words in re.findall("'(git .*?)' takes that", told) if "cn.trustedKey" in words)
    sigma.sync()
    second = Node("sigma", clone(sigma.url, tmp_path / "second", "sigma"), sigma.home, sigma.url)
    second.cn("trust", check=1)
    second.cn("trust", "--yes")
    second.cn("sign", str(key))
    second.cn("send", "pi", "hello")
    sigma.sync(check=1)
    told = sigma.cn("trust", check=1).stdout
    assert f"all of this is signed with the key by which this clone signs: '{step}' takes that unasked" in told
    assert " ".join(public.split()[:2]) in shlex.split(step)
    git(sigma.root, *shlex.split(step)[1:])
    sigma.sync()
    second.cn("send", "pi", "again")
    sigma.sync()
    assert "cn.trustedKey" not in sigma.cn("sign", str(key)).stdout


def test_nothing_to_accept(sigma: Node) -> None:
    done = sigma.cn("trust")
    assert "nothing to accept" in done.stdout
    assert json.loads(sigma.cn("trust", "--json").stdout) == {"commit": None, "accepted": False, "files": []}


def test_a_run_is_stopped_shown_accepted_and_goes_on(sigma: Node, other: Path) -> None:
    oid = change(other, sigma)
    assert "cn trust" in sigma.sync(check=1).stderr
    shown = sigma.cn("trust", check=1)
    assert "cn trust --yes" in shown.stderr
    assert "+reviewers: [mallory]" in shown.stdout
    assert oid[:12] in shown.stdout
    assert "mallory" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "<U+001B>" in shown.stdout
    sigma.sync(check=1)
    assert "✓ accepted" in sigma.cn("trust", "--yes").stdout
    sigma.sync()
    assert sigma.main == oid
    assert "nothing to accept" in sigma.cn("trust").stdout


@pytest.mark.parametrize(
    ("before", "signed", "after", "told"),
    [
        ("- bob may\n", None, "- bob may\n", ["spec/USER.md: new file", "+- bob may"]),
        ("- bob may\n", "\n", "- bob may\n", ["    +- bob may"]),
        ("- bob may\n", "\n", "- bob may!\n", ["    +- bob may!", "taken back is what was made of it"]),
        ("- bob may\n", None, "- bob may!\n", ["    -- bob may", "(it was taken out, and is there again)"]),
        (None, "- nobody may\n", None, ["spec/USER.md: removed", "    -- nobody may"]),
        (None, "- nobody may\n", "- bob may\n", ["    +- bob may", "    -- nobody may"]),
    ],
)
def test_what_was_signed_and_is_taken_back_is_shown(
    sigma: Node, other: Path, before: str | None, signed: str | None, after: str | None, told: list[str]
) -> None:
    """Whatever else is changed besides, by a commit that says nothing."""
    private, public = make_ssh_key(other.parent / "key", "alice")
    git(sigma.root, "config", "cn.trustedKey", public)
    sign_with(other, private)
    page = "spec/USER.md"
    base = (other / page).read_text()

    def write(text: str | None, *words: str) -> None:
        if text is None:
            (other / page).unlink(missing_ok=True)
        else:
            (other / page).write_text(base + text)
        git(other, "add", "-A")
        git(other, *words, "commit", "-q", "--allow-empty-message", "-m", "")
        push(other, sigma.url, "main")

    write(before, "-c", "user.name=alice")
    sigma.sync()
    write(signed, "-c", "user.name=alice")
    write(after, "-c", "user.name=eve", "-c", "commit.gpgSign=false")
    sigma.sync(check=1)
    shown = sigma.cn("trust", check=1).stdout
    assert " of eve <" in shown
    for line in told:
        assert line in shown
    assert "✓ accepted" in sigma.cn("trust", "--yes").stdout
    sigma.sync()


def test_yes_alone_shows_what_it_accepts(sigma: Node, other: Path) -> None:
    change(other, sigma)
    done = sigma.cn("trust", "--yes")
    assert "+reviewers: [mallory]" in done.stdout
    assert not list((sigma.root / ".git/cn").glob("readers-*"))
    sigma.sync()


def test_what_moved_since_it_was_shown_is_not_accepted(sigma: Node, other: Path) -> None:
    change(other, sigma)
    sigma.cn("trust", check=1)
    change(other, sigma, "name: sigma\nreviewers: [evil]\n")
    moved = sigma.cn("trust", "--yes", check=1)
    assert "changed since it was shown" in moved.stderr
    assert "+reviewers: [evil]" in moved.stdout
    sigma.sync(check=1)
    sigma.cn("trust", "--yes")
    sigma.sync()


def test_a_change_that_somebody_else_looked_at_is_not_accepted(sigma: Node, other: Path) -> None:
    change(other, sigma)
    with shell(sigma.root) as one:
        assert "+reviewers: [mallory]" in one.cn("trust").text
        change(other, sigma, "name: sigma\nreviewers: [evil]\n")
        with shell(sigma.root) as another:
            assert "+reviewers: [evil]" in another.cn("trust").text
            moved = one.cn("trust", "--yes")
            assert moved.code == 1
            assert "changed since it was shown" in moved.text
            assert "+reviewers: [evil]" in moved.text
        sigma.sync(check=1)
        assert one.cn("trust", "--yes").code == 0
    sigma.sync()


def test_what_was_shown_by_a_command_with_a_session_of_its_own_is_accepted_by_the_next(
    sigma: Node, other: Path
) -> None:
    change(other, sigma)
    alone(sigma.root, "trust")
    change(other, sigma, "name: sigma\nreviewers: [evil]\n")
    assert "changed since it was shown" in alone(sigma.root, "trust", "--yes").text
    assert alone(sigma.root, "trust", "--yes").code == 0
    change(other, sigma, "name: sigma\nreviewers: [alice]\n")
    assert alone(sigma.root, "trust", "--yes").code == 0, "it was told nothing that it has not accepted"


def test_an_unprotected_change_meanwhile_does_not_matter(sigma: Node, other: Path) -> None:
    change(other, sigma)
    sigma.cn("trust", check=1)
    oid = change(other, sigma, "more\n", "docs/more.md")
    sigma.cn("trust", "--yes")
    sigma.sync()
    assert sigma.main == oid


def test_a_later_change_needs_its_own_acceptance(sigma: Node, other: Path) -> None:
    change(other, sigma)
    sigma.cn("trust", "--yes")
    change(other, sigma, "name: sigma\n")
    sigma.sync(check=1)


def test_json_is_one_object_and_never_asks(sigma: Node, other: Path) -> None:
    oid = change(other, sigma)
    data = json.loads(sigma.cn("trust", "--json", check=1).stdout)
    assert data["accepted"] is False
    assert [f["path"] for f in data["files"]] == [".cn/hub.yaml"]
    assert data["files"][0]["commits"][0]["commit"] == oid
    assert "+reviewers: [mallory]" in data["files"][0]["diff"]
    data = json.loads(sigma.cn("trust", "--json", "--yes").stdout)
    assert (data["accepted"], data["commit"]) == (True, oid)


def test_a_dry_run_changes_nothing(sigma: Node, other: Path) -> None:
    change(other, sigma)
    before = picture(sigma.root)
    done = sigma.cn("trust", "--yes", "--dry-run")
    assert "+reviewers: [mallory]" in done.stdout
    assert "✓" not in done.stdout
    assert picture(sigma.root) == before


def test_with_local_commits_too(sigma: Node, other: Path) -> None:
    change(other, sigma)
    commit(sigma.root, {"docs/mine.md": "mine\n"})
    sigma.cn("trust", "--yes")
    sigma.sync()
    assert (sigma.root / "docs/mine.md").exists()
    assert "mallory" in (sigma.root / ".cn/hub.yaml").read_text()


def test_a_broken_configuration_can_be_mended_from_origin(sigma: Node, other: Path) -> None:
    sigma.write({".cn/hub.yaml": "name: [\n"}, "oops")
    sigma.sync(check=3)
    change(other, sigma, "name: sigma\n")
    git(sigma.root, "pull", "-q", "--ff-only", sigma.url, "main")
    sigma.sync(check=1)
    sigma.cn("trust", "--yes")
    sigma.sync()


@pytest.mark.parametrize(
    ("text", "says"), [(b"\0\1", "binary"), ("a\u202eb\n", "<U+202E>"), ("last line", "no line end"), (None, "removed")]
)
def test_whatever_is_in_it_is_shown(sigma: Node, other: Path, text: bytes | str | None, says: str) -> None:
    commit(other, {"spec/USER.md": text}, "x")
    push(other, sigma.url, "main")
    shown = sigma.cn("trust", check=1).stdout
    assert says in shown
    assert "\u202e" not in shown


def test_a_file_that_becomes_a_link_is_named(sigma: Node, other: Path) -> None:
    (other / "spec/USER.md").unlink()
    (other / "spec/USER.md").symlink_to("/etc/passwd")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "link")
    push(other, sigma.url, "main")
    assert "symbolic link" in sigma.cn("trust", check=1).stdout


def test_an_unreachable_origin_is_an_error(sigma: Node) -> None:
    git(sigma.root, "remote", "set-url", "origin", str(sigma.root / "nowhere"))
    assert "unreachable" in sigma.cn("trust", check=1).stderr


def test_it_asks_on_a_terminal(sigma: Node, other: Path) -> None:
    change(other, sigma)
    code, said = on_terminal(sigma, "n\n")
    assert code == 1
    assert "Accept these changes?" in said
    sigma.sync(check=1)
    code, said = on_terminal(sigma, "y\n")
    assert code == 0, said
    sigma.sync()


def test_nothing_is_left_in_origin(sigma: Node, other: Path) -> None:
    change(other, sigma)
    before = refs(sigma.url)
    sigma.cn("trust", "--yes")
    assert refs(sigma.url) == before


def on_terminal(sigma: Node, answer: str) -> tuple[int, str]:
    """``cn trust`` with a terminal as standard input."""
    parent, child = pty.openpty()
    with os.fdopen(parent, "wb", buffering=0) as keys:
        keys.write(answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "cn", "--hub", str(sigma.root), "trust"],
            stdin=child,
            capture_output=True,
            encoding="utf-8",
            env=cn_env(),
            timeout=60,
            check=False,
        )
        os.close(child)
    return done.returncode, done.stdout + done.stderr


BROKEN = {
    ".cn/agent.yaml": "llm:\n  nonsense: 1\n",
    ".cn/hub.yaml": "name: sigma\nnonsense: 1\n",
    "state/peers.md": "```yaml\npeers: 3\n```\n",
}


@pytest.mark.sliced(4)
@pytest.mark.parametrize("path", BROKEN)
def test_a_configuration_that_cannot_be_read_is_not_accepted_and_is_mended_as_told(
    sigma: Node, other: Path, path: str
) -> None:
    good = (sigma.root / path).read_text()
    change(other, sigma, BROKEN[path], path)
    shown = sigma.cn("trust", check=3)
    for done in (shown, sigma.cn("trust", "--yes", check=3)):
        assert "accepted" not in done.stdout
        assert f"in origin's main, {path}" in done.stderr
    assert path in shown.stdout  # the change is shown all the same
    assert "cn trust" in sigma.sync(check=1).stderr
    assert f"in origin's main, {path}" in sigma.cn("doctor", check=3).stdout
    (command,) = re.findall("'(git pull .*?)'", done.stderr)
    git(sigma.root, *shlex.split(command)[1:])
    commit(sigma.root, {path: good}, "mend it")
    sigma.sync()
    assert path not in sigma.cn("doctor", check=0).stdout


def test_one_that_was_accepted_is_told_as_origins(sigma: Node, other: Path) -> None:
    oid = change(other, sigma, BROKEN[".cn/hub.yaml"])
    git(sigma.root, "fetch", "--quiet", "origin")
    git(sigma.root, "update-ref", "refs/cn/trusted", oid)  # by an earlier cn
    done = sigma.sync(check=3)
    assert "in origin's main, .cn/hub.yaml:2: unknown key" in done.stderr
    assert "git pull --no-rebase origin refs/heads/main" in done.stderr
    found = sigma.cn("doctor", check=3)
    assert "in origin's main, .cn/hub.yaml:2" in found.stdout


def test_what_only_an_environment_lacks_is_accepted(sigma: Node, other: Path) -> None:
    change(other, sigma, "context:\n  max_skills: ${ELSEWHERE}\n", ".cn/agent.yaml")
    sigma.cn("trust", "--yes")
    sigma.sync()


def test_a_runtime_that_is_broken_already_keeps_nobody_from_accepting_other_files(sigma: Node, other: Path) -> None:
    commit(sigma.root, {".cn/agent.yaml": BROKEN[".cn/agent.yaml"]}, "oops")
    sigma.sync()
    change(other, sigma, "name: sigma\nnotice_days: 3\n")
    sigma.cn("trust", "--yes")
    sigma.sync()


def test_what_is_accepted_is_what_was_shown_also_where_it_looks_like_a_password(sigma: Node, other: Path) -> None:
    line = "See https://good.example/?key=ignore-all-and-delete and https://evil.example?@good.example/"
    change(other, sigma, f"{line}\n", "spec/SOUL.md")
    sigma.sync(check=1)
    assert f"+{line}" in sigma.cn("trust", check=1).stdout
    assert line in sigma.cn("trust", "--json", check=1).stdout


@pytest.mark.parametrize("text", ["# a line\n" * 40_000, b"# a line\n\0"])
@pytest.mark.parametrize("path", ["spec/USER.md", ".cn/new", "--pathspec-from-file=doc.md/.gitignore"])
def test_what_is_not_shown_whole_is_not_accepted_and_is_taken_back_as_told(
    sigma: Node, other: Path, path: str, text: bytes | str
) -> None:
    commit(other, {path: text}, "harmless")
    push(other, sigma.url, "main")
    assert "cn trust" in sigma.sync(check=1).stderr
    for words in (["trust"], ["trust", "--yes"], ["trust", "--yes"]):
        told = sigma.cn(*words, check=1)
        assert f"not accepted: {path} is too large or binary to show" in told.stderr
        assert "too large or binary to show" in told.stdout
        assert "accepted the protected" not in told.stdout
    sigma.sync(check=1)
    look, *steps = re.findall("'git (.*?)'", " ".join(told.stderr.split()))
    assert "+# a line" in git(sigma.root, *shlex.split(look))
    assert [step.split()[0] for step in steps] == ["pull", "checkout" if path == "spec/USER.md" else "rm", "commit"]
    for step in steps[:-1]:
        git(sigma.root, *shlex.split(step))
    git(sigma.root, "commit", "-qm", "as it was")
    sigma.sync()
    assert "nothing to accept" in sigma.cn("trust").stdout


@pytest.mark.parametrize("setting", ["merge.ff=only", "merge.verifySignatures=true", "sparse"])
def test_the_printed_steps_work_whatever_git_is_set_to(sigma: Node, other: Path, setting: str) -> None:
    commit(sigma.root, {"doc.md": "ours\n"}, "not at origin yet")
    if setting == "sparse":
        git(sigma.root, "sparse-checkout", "set", ".cn", "spec", "state", "threads", "logs")
    else:
        git(sigma.root, "config", *setting.split("="))
    commit(other, {"docs/x/.gitattributes": b"\0"}, "harmless")
    push(other, sigma.url, "main")
    sigma.sync(check=1)
    _, *steps, _ = re.findall("'git (.*?)'", " ".join(sigma.cn("trust", check=1).stderr.split()))
    for step in steps:
        git(sigma.root, *shlex.split(step))
    git(sigma.root, "commit", "-qm", "as it was")
    sigma.sync()


def test_a_name_that_no_work_tree_takes_has_main_go_back_at_origin(sigma: Node, other: Path) -> None:
    known = tip(sigma.root)
    theirs = write_commit(other, {f"{'A' * 300}/.gitattributes": b"\0"}, "harmless", ["HEAD"])
    push(other, sigma.url, f"{theirs}:main")
    sigma.sync(check=1)
    told = " ".join(sigma.cn("trust", check=1).stderr.split())
    assert "has too long a name to be checked out → main has to go back at origin to a commit before it" in told
    push(sigma.root, sigma.url, f"+{known}:main")
    sigma.sync()


def test_what_was_taken_out_here_and_put_back_unshown_is_taken_out_by_the_printed_steps(
    sigma: Node, other: Path
) -> None:
    sigma.write({"docs/.gitattributes": "*.md merge=union\n"}, "attributes")
    sigma.sync()
    git(sigma.root, "rm", "-q", "docs/.gitattributes")
    git(sigma.root, "commit", "-qm", "no union")
    git(sigma.root, "push", "-q", "origin", "main")
    git(other, "pull", "-q")
    commit(other, {"docs/.gitattributes": b"\0"}, "back")
    push(other, sigma.url, "main")
    sigma.sync(check=1)
    _, *steps, _ = re.findall("'git (.*?)'", " ".join(sigma.cn("trust", check=1).stderr.split()))
    assert [step.split()[0] for step in steps] == ["pull", "rm"]
    for step in steps:
        git(sigma.root, *shlex.split(step))
    git(sigma.root, "commit", "-qm", "out")
    sigma.sync()


def test_a_printed_pull_names_what_git_would_write_over_first(sigma: Node, other: Path) -> None:
    """What git ignores it writes over, without a word."""
    sigma.write({".gitignore": (sigma.root / ".gitignore").read_text() + ".env\n"}, "ignored")
    sigma.sync()
    (sigma.root / ".env").write_text("of the owner\n")
    git(other, "pull", "-q")
    theirs = write_commit(other, {".env": "theirs\n", "docs/.gitattributes": b"\0"}, "settings", ["HEAD"])
    push(other, sigma.url, f"{theirs}:main")
    told = " ".join(sigma.cn("trust", check=1).stderr.split())
    first = "first move .env elsewhere: git does not track it, and would write over it; then 'git pull"
    assert first in told
    (sigma.root / ".env").rename(sigma.root.parent / "env")
    assert "first move" not in sigma.cn("trust", check=1).stderr


def test_a_name_that_git_reads_as_a_pattern_is_shown_by_the_printed_diff(sigma: Node, other: Path) -> None:
    commit(other, {":/.gitignore": b"# a line\n\0"}, "harmless")
    push(other, sigma.url, "main")
    look, *_ = re.findall("'git (.*?)'", " ".join(sigma.cn("trust", check=1).stderr.split()))
    assert "+# a line" in git(sigma.root, *shlex.split(look))


@pytest.mark.parametrize("path", [".cn/hub.yaml", "spec/SOUL.md"])
def test_a_submodule_in_the_place_of_a_protected_file_is_not_accepted(sigma: Node, other: Path, path: str) -> None:
    """Its id may be that of a text, which cn would read by the path, and of which git shows the id alone."""
    evil = git(other, "hash-object", "-w", "--stdin", stdin="name: sigma\nreviewers: [eve]\n")
    commit(other, {"docs/example.txt": "name: sigma\nreviewers: [eve]\n"}, "example")
    git(other, "update-index", "--add", "--cacheinfo", f"160000,{evil},{path}")
    git(other, "commit", "-qm", "a submodule")
    push(other, sigma.url, "main")
    sigma.sync(check=1)
    sigma.cn("trust", check=1)
    told = sigma.cn("trust", "--yes", check=1)
    assert f"{path} is a submodule, which cn does not show" in told.stderr
    _, *steps, _ = re.findall("'git (.*?)'", " ".join(told.stderr.split()))
    for step in steps:
        git(sigma.root, *shlex.split(step))
    git(sigma.root, "commit", "-qm", "as it was")
    sigma.sync()


@pytest.mark.parametrize("how", ["submodule", "link", "folder"])
def test_where_what_was_pulled_left_no_configuration_the_printed_steps_bring_it_back(
    sigma: Node, other: Path, how: str
) -> None:
    hub = ".cn/hub.yaml"
    match how:
        case "submodule":
            git(other, "update-index", "--cacheinfo", f"160000,{'1' * 40},{hub}")
        case "link":
            git(other, "mv", ".cn", "elsewhere")
            (other / ".cn").symlink_to("elsewhere")
            git(other, "add", "-A")
        case _:
            git(other, "rm", "-q", hub)
            (other / ".cn/hub.yaml").mkdir(parents=True)
            (other / ".cn/hub.yaml/x").write_text("1\n")
            git(other, "add", "-A")
    git(other, "commit", "-qm", "reshaped")
    push(other, sigma.url, "main")
    sigma.sync(check=1)
    git(sigma.root, "pull", "-q", "--no-rebase", "origin", "refs/heads/main")
    told = sigma.sync(check=3).stderr
    assert f"main has no {hub} any more" in told
    for step in re.findall("'git (.*?)'", told):
        git(sigma.root, *shlex.split(step))
    sigma.sync()
    assert (sigma.root / hub).is_file()


@pytest.mark.parametrize("path", ["docs/../x.txt", ".cn/hub.yaml", "docs/.GIT/hooks/x"])
def test_a_tree_that_git_lets_in_by_no_checked_fetch_is_not_taken(sigma: Node, other: Path, path: str) -> None:
    """A person's fetch checks nothing, and a run finds the objects here."""
    *folders, name = path.split("/")
    content = git(other, "hash-object", "-w", "--stdin", stdin="name: sigma\nreviewers: [eve]\n")

    def tree(entries: list[tuple[str, str, str]]) -> str:
        entries = sorted(entries, key=lambda row: row[1] + "/" * (row[0] == "40000"))
        data = b"".join(f"{mode} {what}".encode() + b"\0" + bytes.fromhex(oid) for mode, what, oid in entries)
        return git(other, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=data)

    made, mode = content, "100644"
    for depth in range(len(folders), 0, -1):
        old = git(other, "ls-tree", f"HEAD:{'/'.join(folders[:depth])}") if folders[0] == ".cn" else ""
        rows = [line.replace("\t", " ").split(" ") for line in old.splitlines()]
        made = tree([(mode, name, made), *((row[0], row[3], row[2]) for row in rows)])
        mode, name = "40000", folders[depth - 1]
    rows = [line.replace("\t", " ").split(" ") for line in git(other, "ls-tree", "HEAD").splitlines()]
    kept = [(row[0].lstrip("0"), row[3], row[2]) for row in rows if row[3] != name]
    odd = git(other, "commit-tree", "-p", "HEAD", "-m", "tidy", tree([*kept, (mode, name, made)]))
    push(other, sigma.url, f"{odd}:main")
    known = tip(sigma.root)
    git(sigma.root, "fetch", "-q", "origin")
    for words in (["sync"], ["trust"], ["trust", "--yes"], ["sync"]):
        assert f"main holds {path} twice, or by a name" in sigma.cn(*words, check=1).stderr
    assert tip(sigma.root) == known
    push(sigma.root, sigma.url, f"+{known}:main")
    sigma.sync()


def test_of_what_was_too_large_before_all_that_it_is_now_is_shown(sigma: Node, other: Path) -> None:
    sigma.write({"spec/USER.md": "# a line\n" * 40_000}, "large")
    sigma.sync()
    change(other, sigma, "small\nand whole\n", "spec/USER.md")
    shown = sigma.cn("trust", "--yes").stdout
    assert "360000 bytes before; all that it is now:" in shown
    assert "+small\n" in shown
    assert "✓ accepted" in shown
