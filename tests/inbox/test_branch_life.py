"""What becomes of a branch that moves, vanishes, comes back; and of notices that lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.hubs import branches, clone, commit, git, identify, make_ssh_key, push, sign_with, tip, write_commit
from tests.support.world import Node, World, is_in_main, merge_commit


def message(
    sender: str,
    to: str,
    *,
    kind: str = "message",
    subject: str = "hello",
    body: str = "hello",
    about: dict[str, str] | None = None,
) -> str:
    """``message.md`` as another implementation would write it."""
    lines = ["---", "cn: message/1", f"kind: {kind}", f"from: {sender}", f"to: {to}", f'subject: "{subject}"']
    lines += ['created: "2026-02-05T14:00:00Z"']
    if about:
        lines += ["about:", *(f'  {key}: "{value}"' for key, value in about.items())]
    return "\n".join([*lines, "hops: 0", "---", body, ""])


def send_raw(folder: Path, url: str, branch: str, text: str, *, force: bool = False) -> str:
    """Push a message branch with plain git; its id."""
    if not folder.is_dir():
        clone(url, folder)
        identify(folder, "forger")
    head = write_commit(folder, {"message.md": text}, "message", [])
    push(folder, url, f"{'+' if force else ''}{head}:refs/heads/{branch}")
    return head


def test_a_branch_that_moves_before_processing(world: World, sigma: Node, pi: Node) -> None:
    old = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.triage("pi/proposal", "do:merge")
    new = world.propose(pi, sigma, files={"docs/proposal.md": "second\n"}, force=True)
    done = sigma.process()
    assert "moved" in done.stdout
    assert not is_in_main(sigma, old)
    assert not is_in_main(sigma, new)
    text = sigma.thread(name)
    assert f"**Head:** {new}" in text
    assert ">     second" in text
    assert "## Void triage" in text
    assert "> decision: do:merge" in text
    assert old in text
    assert sigma.threads() == [name]
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, new)
    assert [r[1] for r in sigma.rows("pi/proposal")][:3] == ["received", "moved", "do:merge"]


def test_a_branch_that_moves_after_processing_makes_a_new_thread(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    first = sigma.only_thread()
    sigma.decide("pi/proposal", "delete:no")
    new = world.propose(pi, sigma, files={"docs/proposal.md": "better\n"}, force=True)
    sigma.sync()
    second = sigma.only_thread()
    assert second != first
    assert second.endswith(f"-{new[:8]}.md")
    text = sigma.thread(second)
    assert f"**Earlier:** {first}" in text
    assert ">     better" in text
    pi.sync()
    assert world.has_branch(pi, sigma), "the notice was about the earlier head"
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, new)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    sigma.idle()


@pytest.mark.sliced(2)
@pytest.mark.parametrize("decision", ["delete:no", "do:merge"])
def test_the_same_head_again_makes_no_thread_and_is_answered_again(
    world: World, sigma: Node, pi: Node, decision: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", decision)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    for times in (1, 2):
        world.offer(pi, sigma, "proposal", head)
        sigma.sync()
        assert sigma.threads() == []
        again = ("pi/proposal", "received again", "its creator is told once more what became of it")
        assert [r for r in sigma.rows() if r[1] == "received again"] == [again] * times
        assert f"it was decided before: {decision}; only a new commit is looked at again" in pi.sync().stdout
        assert not world.has_branch(pi, sigma)
        world.settle(pi, sigma)
    sigma.idle()
    pi.idle()


def test_a_rewound_branch_is_a_move(world: World, sigma: Node, pi: Node) -> None:
    first = world.propose(pi, sigma)
    world.propose(pi, sigma, files={"docs/more.md": "more\n"}, start=first)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    world.offer(pi, sigma, "proposal", first, force=True)
    sigma.sync()
    assert f"**Head:** {first}" in sigma.thread(sigma.only_thread())
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, first)
    assert not (sigma.root / "docs/more.md").exists()


def test_a_withdrawn_branch_stays_to_be_read_and_cannot_be_merged(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    world.withdraw(pi, sigma)
    sigma.sync()
    assert sigma.rows()[-1] == ("pi/proposal", "gone", "branch not listed any more")
    assert sigma.threads() == [name]
    sigma.idle()
    assert "withdrawn" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    sigma.write_triage(name, "do:merge")
    assert "withdrawn" in sigma.process(check=1).stderr
    assert not is_in_main(sigma, head)
    sigma.decide("pi/proposal", "delete:withdrawn")
    assert sigma.threads() == []
    world.settle(pi, sigma)
    sigma.idle()


def test_a_branch_withdrawn_between_triage_and_process_is_not_merged(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    world.withdraw(pi, sigma)
    sigma.process(check=1)
    assert not is_in_main(sigma, head)


def test_a_withdrawn_branch_that_comes_back_can_be_merged(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    world.withdraw(pi, sigma)
    sigma.sync()
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    assert sigma.threads() == [name]
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)


def test_a_rewritten_message_is_reported_as_rewritten(world: World, sigma: Node, pi: Node) -> None:
    folder = world.folder / "forger"
    send_raw(folder, sigma.url, "pi/hello", message("pi", "sigma", body="first"))
    sigma.sync()
    name = sigma.only_thread()
    assert "> first" in sigma.thread(name)
    send_raw(folder, sigma.url, "pi/hello", message("pi", "sigma", body="second"), force=True)
    sigma.sync()
    assert "> second" in sigma.thread(name)
    assert [r[1] for r in sigma.rows("pi/hello")] == ["received", "rewritten"]


def test_a_message_that_becomes_a_proposal_is_known_as_one(world: World, sigma: Node, pi: Node) -> None:
    send_raw(world.folder / "forger", sigma.url, "pi/hello", message("pi", "sigma", body="first"))
    sigma.sync()
    world.propose(pi, sigma, "hello", force=True)
    sigma.sync()
    (item,) = (json.loads(line) for line in git(sigma.root, "show", "main:state/ledger/pi/open").splitlines())
    assert (item["fields"]["kind"], item["fields"].get("subject")) == ("proposal", None)


def test_a_message_in_another_name_is_refused(world: World, sigma: Node, pi: Node) -> None:
    """pi replays what omega once wrote."""
    folder = world.folder / "forger"
    send_raw(folder, sigma.url, "pi/hello", message("omega", "sigma"))
    send_raw(folder, sigma.url, "pi/other", message("pi", "omega"))
    done = sigma.cn("sync", check=1)
    assert done.stderr.count("known-peer") == 2
    assert sigma.threads() == []
    again = sigma.cn("sync")
    assert (again.stdout, again.stderr) == ("", "")
    assert [r[1] for r in sigma.rows()] == ["refused", "refused"]


@pytest.mark.sliced(6)
@pytest.mark.parametrize(
    "lie", ["no merge", "merge of another", "no such commit", "not in main", "wrong head", "another's branch"]
)
def test_a_false_claim_of_a_merge_leaves_the_branch(world: World, sigma: Node, pi: Node, lie: str) -> None:
    """sigma's notice says merged; pi looks into sigma's main."""
    head = world.propose(pi, sigma)
    other = world.propose(pi, sigma, "other")
    sigma.sync()
    sigma.decide("pi/other", "do:merge")
    pi.sync()
    person = world.person(pi, sigma)
    git(person, "fetch", "--quiet", "origin")
    forged = git(person, "commit-tree", "-p", "origin/main", "-p", head, "-m", "x", f"{head}^{{tree}}")
    git(person, "push", "--quiet", pi.url, f"{forged}:refs/heads/elsewhere")
    about = {"branch": "pi/proposal", "head": head, "status": "merged"}
    if lie == "merge of another":
        about["merge"] = merge_commit(sigma, other)
    elif lie == "no such commit":
        about["merge"] = "1" * 40
    elif lie == "not in main":
        about["merge"] = forged
    elif lie == "wrong head":
        about |= {"head": other, "merge": merge_commit(sigma, other)}
    elif lie == "another's branch":
        about |= {"branch": "sigma/proposal", "merge": merge_commit(sigma, other)}
    text = message("sigma", "pi", kind="notice", about=about)
    send_raw(world.folder / "forger", pi.url, "sigma/notice-lie", text)
    before = branches(sigma.home)
    pi.cn("sync", check=None)
    pi.cn("sync", check=None)
    assert branches(sigma.home)["pi/proposal"] == head == before["pi/proposal"]
    assert pi.outbox() == []
    assert pi.threads() == []
    told = [r for r in pi.rows("sigma/proposal") if r[1] == "notice:merged"]
    assert len(told) == 1, pi.rows()
    assert not told[0][2].startswith("merged"), told


def test_a_third_peer_cannot_speak_for_another(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(pi, omega)
    head = world.propose(pi, sigma)
    pi.sync()
    about = {"branch": "pi/proposal", "head": head, "status": "discarded"}
    text = message("omega", "pi", kind="notice", about=about)
    send_raw(world.folder / "forger", pi.url, "omega/notice-proposal", text)
    pi.cn("sync", check=None)
    pi.cn("sync", check=None)
    assert world.has_branch(pi, sigma)
    assert pi.outbox() == []


def test_a_notice_in_a_shared_mailbox_without_key_deletes_nothing(world: World, sigma: Node, pi: Node) -> None:
    """omega can write sigma/* into pi's mailbox too; only a key would tell them apart."""
    world.link(pi, world.hub("omega"))
    head = world.propose(pi, sigma)
    about = {"branch": "pi/proposal", "head": head, "status": "discarded"}
    text = message("sigma", "pi", kind="notice", about=about)
    send_raw(world.folder / "forger", pi.url, "sigma/notice-proposal", text)
    done = pi.sync()
    assert "sigma says pi/proposal is discarded (claimed, unproven: others can push there too" in done.stdout
    assert "and sigma's main does not say so)" in done.stdout
    assert world.has_branch(pi, sigma)
    again = pi.sync()
    assert (again.stdout, again.stderr) == ("", "")
    assert "claimed, unproven" in pi.cn("inbox", "--all").stdout + pi.cn("status").stdout + pi.cn("log").stdout
    told = " ".join(pi.cn("status").stdout.split())
    assert "'cn peer key sigma KEY' pins the key that sigma signs with" in told
    assert "'cn withdraw sigma:proposal' ends it here" in told


@pytest.mark.parametrize("end", ["taken back", "discarded"])
def test_a_forged_notice_about_what_is_over_is_told_as_claimed(world: World, sigma: Node, pi: Node, end: str) -> None:
    world.link(pi, world.hub("omega"))
    head = world.propose(pi, sigma)
    pi.sync()
    if end == "taken back":
        pi.cn("withdraw", "proposal")
    else:
        sigma.sync()
        sigma.decide("pi/proposal", "delete:no")
    world.settle(pi, sigma)
    about = {"branch": "pi/proposal", "head": head, "status": "merged", "merge": "ab" * 20}
    text = message("sigma", "pi", kind="notice", about=about)
    send_raw(world.folder / "forger", pi.url, "sigma/forged", text)
    claimed = "claimed, unproven: sigma's main did not make abababab"
    assert f"sigma says pi/proposal is merged ({claimed}); it is cleaned up" in pi.sync().stdout
    assert [row[2] for row in pi.rows("sigma/proposal") if row[1] == "notice:merged"] == [claimed]
    (shown,) = [line for line in pi.cn("why", "sigma:proposal").stdout.split("\n") if line.startswith("  is ")]
    if end == "taken back":
        assert f"taken back by us, cleaned up; merged as {'ab' * 20} ({claimed}" in shown
    else:
        assert shown.endswith('cleaned up; discarded: "no"'), "what nothing proves takes no other answer's place"


def test_words_after_an_unproven_merge_make_it_no_merge(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    pi.sync()
    for topic, status, kind in (("one", "merged", "notice"), ("two", "commented", "message")):
        about = {"branch": "pi/proposal", "head": head, "status": status}
        text = message("sigma", "pi", kind=kind, about=about)
        send_raw(world.folder / "forger", pi.url, f"sigma/{topic}", text)
        pi.sync()
    shown = " ".join(pi.cn("status").stdout.split())
    assert "pi/proposal at sigma" in shown, "it waits as before"
    assert "claimed but unproven" in shown
    assert "unproven" in pi.cn("why", "sigma:proposal").stdout


def test_a_notice_by_pickup_without_key_deletes_nothing(world: World) -> None:
    """omega can push pi/* to sigma's hub too, and pi cannot know that."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    head = world.propose(pi, sigma)
    pi.sync()
    about = {"branch": "sigma/proposal", "head": head, "status": "discarded"}
    text = message("sigma", "pi", kind="notice", about=about)
    send_raw(world.folder / "forger", sigma.url, "pi/notice-proposal", text)
    done = pi.sync()
    assert "is discarded (claimed, unproven: others can push there too" in done.stdout
    assert world.has_branch(pi, sigma)
    # What sigma's main shows is believed.
    sigma.sync()
    sigma.decide(sigma.only_thread(), "delete:no")
    world.settle(sigma, pi)
    assert not world.has_branch(pi, sigma)


@pytest.mark.sliced(4)
@pytest.mark.parametrize("decision", ["delete:no", "do:reply:answer", "do:custom:look at it", "do:merge"])
def test_peers_without_keys_believe_what_the_others_main_shows(
    world: World, sigma: Node, pi: Node, decision: str
) -> None:
    """Two may write both mailboxes; nobody has a key."""
    omega = world.hub("omega")
    world.link(pi, omega)
    world.link(sigma, omega)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", decision, "--body", "No.")
    told = pi.sync().stdout
    assert "unproven" not in told
    assert not world.has_branch(pi, sigma)
    assert is_in_main(sigma, head) == (decision == "do:merge")


def test_peers_without_keys_believe_words_that_the_others_main_sent(world: World, sigma: Node, pi: Node) -> None:
    """A comment, a deferral and a refusal end nothing; they are sigma's, for sigma's main says that it sent them."""
    omega = world.hub("omega")
    world.link(pi, omega)
    world.link(sigma, omega)
    for topic in ("one", "two", "three"):
        world.propose(pi, sigma, topic, {"docs/start.md": f"{topic}\n"})
    sigma.sync()
    sigma.write({"docs/start.md": "main has moved\n"})
    sigma.cn("comment", "pi/one", "Why?")
    sigma.cn("defer", "pi/two", "--reason", "later")
    sigma.triage("pi/three", "do:merge")
    sigma.cn("inbox", "process", check=None)
    head = world.propose(pi, sigma, "four")
    about = {"branch": "pi/four", "head": head, "status": "refused"}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-lie", message("sigma", "pi", kind="notice", about=about))
    told = pi.sync().stdout
    for topic, status in (("one", "commented"), ("two", "deferred"), ("three", "refused")):
        (line,) = [line for line in told.splitlines() if f"says pi/{topic} is {status}" in line]
        assert "unproven" not in line
    assert "sigma says pi/four is refused (claimed, unproven" in told


def test_the_last_of_several_answers_is_shown_and_no_comment_in_place_of_a_refusal(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma)
    answers = [("commented", "A"), ("commented", "B"), ("deferred", "C"), ("commented", "D"), ("deferred", "E")]
    for number, (status, reason) in enumerate(answers):
        about = {"branch": "pi/proposal", "head": head, "status": status, "reason": reason}
        text = message("sigma", "pi", kind="notice", about=about)
        send_raw(world.folder / "sender", pi.url, f"sigma/notice-{number}", text)
        pi.sync()
        shown = 'deferred: "C"' if reason == "D" else f'{status}: "{reason}"'
        assert shown in pi.cn("status").stdout


def test_words_are_believed_once_the_main_that_sent_them_can_be_read(world: World, sigma: Node, pi: Node) -> None:
    world.link(pi, world.hub("omega"))
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("defer", "pi/proposal", "--reason", "later")
    git(sigma.home, "config", "uploadpack.hideRefs", "refs/heads/main")
    assert "is deferred (claimed, unproven" in pi.sync().stdout
    git(sigma.home, "config", "--unset", "uploadpack.hideRefs")
    told = pi.cn("peer", "sync").stdout
    assert "pi/proposal is deferred, by sigma's main" in told
    assert "unproven" not in pi.cn("status").stdout
    assert world.has_branch(pi, sigma)


def test_what_was_only_claimed_is_believed_when_the_peers_main_shows_it(world: World, sigma: Node, pi: Node) -> None:
    world.link(pi, world.hub("omega"))
    head = world.propose(pi, sigma)
    about = {"branch": "pi/proposal", "head": head, "status": "discarded"}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-early", message("sigma", "pi", kind="notice", about=about))
    pi.sync()
    assert world.has_branch(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/notice-proposal")
    assert "pi/proposal is discarded, by sigma's main" in pi.sync().stdout
    assert not world.has_branch(pi, sigma)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("ledger", ["of this month", "of a clock that was years ahead"])
def test_a_main_that_could_not_be_fetched_is_looked_at_again(world: World, sigma: Node, pi: Node, ledger: str) -> None:
    world.link(pi, world.hub("omega"))
    head = world.propose(pi, sigma)
    about = {"branch": "pi/proposal", "head": head, "status": "discarded"}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-early", message("sigma", "pi", kind="notice", about=about))
    pi.sync()
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/notice-proposal")
    if "ahead" in ledger:
        (month,) = [path for path in sigma.listing("state/ledger/pi") if path.isdigit()]
        git(sigma.root, "mv", f"state/ledger/pi/{month}", "state/ledger/pi/209912")
        git(sigma.root, "commit", "--quiet", "-m", "as a clock that was ahead left it")
        git(sigma.root, "push", "--quiet", "origin", "main")
    at = git(sigma.home, "rev-parse", "main")
    lost = sigma.home / "objects" / at[:2] / at[2:]
    kept = lost.rename(world.folder / "kept")
    assert "discarded" not in pi.cn("sync", check=None).stdout
    kept.rename(lost)
    assert "pi/proposal is discarded, by sigma's main" in pi.sync().stdout
    assert not world.has_branch(pi, sigma)


def test_a_branch_somebody_pushed_to_meanwhile_is_not_deleted(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    newer = world.propose(pi, sigma, files={"docs/x.md": "x\n"}, force=True)
    pi.sync()
    pi.cn("sync", check=None)
    assert branches(sigma.home)["pi/proposal"] == newer


def test_a_pushed_by_hand_branch_is_adopted(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    done = pi.sync()
    assert "adopted pi/proposal" in done.stdout
    assert pi.rows() == [("sigma/proposal", "ours", "adopted: pushed by hand")]
    pi.idle()


def test_notices_cause_no_notices(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    for _ in range(3):
        pi.sync()
        sigma.sync()
    assert pi.notices() == []
    assert len(sigma.notices()) == 1
    assert set(branches(pi.home)) == set(branches(sigma.home)) == {"main"}


def test_the_reviewed_commit_outlives_the_branch(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    world.settle(pi, sigma)
    for repo in (sigma.root, sigma.home):
        git(repo, "reflog", "expire", "--expire=now", "--all")
        git(repo, "gc", "--quiet", "--prune=now")
        assert tip(repo, head) == head


def test_a_merge_that_came_with_another_branch_is_not_the_peers(world: World, sigma: Node, pi: Node) -> None:
    """omega merges pi's branch into one of its own, keeping nothing of it; somebody at sigma merges that by hand."""
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.link(pi, omega)
    head = world.propose(pi, sigma)
    person = world.person(omega, sigma)
    main = git(sigma.home, "rev-parse", "main")
    git(person, "fetch", "-q", sigma.url, "main", "pi/proposal")
    tree = git(person, "rev-parse", f"{main}^{{tree}}")
    forged = git(person, "commit-tree", "-p", main, "-p", head, "-m", "ours", tree)
    hi = write_commit(person, {"hi.txt": "hi\n"}, "hi", parents=[forged])
    git(person, "push", "-q", sigma.url, f"{hi}:refs/heads/omega/hi")
    sigma.sync()
    sigma.decide("omega/hi", "do:merge", check=1)
    assert not is_in_main(sigma, hi), "it would take pi's head in without what that changes"
    git(sigma.root, "merge", "-q", "--no-ff", "-m", "by hand", hi)
    git(sigma.root, "push", "-q", "origin", "main")
    assert is_in_main(sigma, hi)
    about = {"branch": "pi/proposal", "head": head, "status": "merged", "merge": forged}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-x", message("sigma", "pi", kind="notice", about=about))
    assert "unproven: sigma's main did not make" in pi.sync().stdout
    assert world.has_branch(pi, sigma)


def test_a_merge_stays_proven_where_a_merge_by_hand_brings_main_aside(world: World, sigma: Node, pi: Node) -> None:
    """``git pull`` in another clone makes that one's commit the first parent, and the hub's main the second."""
    laptop = clone(sigma.url, world.folder / "laptop")
    identify(laptop, "Sigma", "sigma@people.example")
    commit(laptop, {"docs/note.md": "note\n"}, "A note")
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    git(laptop, "fetch", "-q", "origin", "main")
    git(laptop, "merge", "-q", "--no-edit", "FETCH_HEAD")
    git(laptop, "push", "-q", "origin", "HEAD:main")
    assert head not in git(laptop, "rev-list", "--first-parent", "--parents", "HEAD")
    told = pi.sync().stdout
    assert "unproven" not in told
    assert "sigma says pi/proposal is merged" in told
    assert not world.has_branch(pi, sigma)


def test_a_forged_claim_hides_no_true_one(world: World, sigma: Node, pi: Node) -> None:
    world.link(pi, world.hub("omega"))
    head = world.propose(pi, sigma)
    for status in ("discarded", "failed"):
        about = {"branch": "pi/proposal", "head": head, "status": status}
        text = message("sigma", "pi", kind="notice", about=about, subject=status)
        send_raw(world.folder / f"forger-{status}", pi.url, f"sigma/notice-{status}", text)
        pi.sync()
    sigma.sync()
    sigma.decide("pi/proposal", "do:custom:look at it")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/notice-proposal")
    assert "pi/proposal is opened, by sigma's main" in pi.sync().stdout
    assert not world.has_branch(pi, sigma)


def test_another_ones_answer_in_the_place_of_the_true_one_ends_nothing(world: World, sigma: Node, pi: Node) -> None:
    """That the peer's main records a reply says nothing of whose words these are."""
    world.link(pi, world.hub("omega"))
    pi.cn("send", "sigma", "question")
    sigma.sync()
    head = branches(sigma.home)["pi/question"]
    about = {"branch": "pi/question", "head": head, "status": "replied"}
    send_raw(world.folder / "forger", pi.url, "sigma/re-question", message("sigma", "pi", about=about))
    sigma.cn("reply", "pi/question", "The true answer.")
    (true,) = [branch for branch in branches(pi.home) if branch.startswith("sigma/re-question-")]
    at = branches(pi.home)[true]
    git(pi.home, "update-ref", "-d", f"refs/heads/{true}")
    assert "claimed, unproven" in pi.sync().stdout
    pi.cn("sync", check=None)
    assert world.has_branch(pi, sigma, "question")
    git(pi.home, "update-ref", f"refs/heads/{true}", at)
    assert "✓ sigma says pi/question is replied" in pi.sync().stdout
    assert not world.has_branch(pi, sigma, "question")


def test_a_notice_that_names_a_huge_object_costs_nothing(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    big = git(pi.home, "hash-object", "-w", "--stdin", stdin="0" * 10_000_000)
    about = {"branch": "pi/proposal", "head": head, "status": "merged", "merge": big}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-x", message("sigma", "pi", kind="notice", about=about))
    assert "unproven: sigma's main did not make" in pi.sync().stdout


def test_a_mirror_that_is_behind_for_once_makes_nothing_of_ours_a_strangers(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:reply:answer", "--body", "Yes.")
    assert "sigma/answer" in branches(pi.home)
    tip_ = git(pi.home, "rev-parse", "refs/heads/sigma/answer")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/answer")
    assert "our sigma/answer is gone at pi" in sigma.sync(check=1).stderr
    git(pi.home, "update-ref", "refs/heads/sigma/answer", tip_)
    told = sigma.sync().stdout
    assert "sigma/answer is at pi again" in told
    assert "by hand" not in told
    world.settle(pi, sigma)
    assert "sigma/answer" not in branches(pi.home)


def test_a_branch_that_is_named_as_our_prefix_is_told_with_who_removes_it(world: World, sigma: Node, pi: Node) -> None:
    git(pi.home, "update-ref", "refs/heads/sigma", "refs/heads/main")
    told = sigma.cn("send", "pi", "hello", check=1).stderr
    assert "a branch named sigma there leaves no room for sigma/hello" in told
    assert "ask pi to delete refs/heads/sigma there" in told
    git(pi.home, "update-ref", "-d", "refs/heads/sigma")
    sigma.cn("outbox", "flush", check=0)
    assert "sigma/hello" in branches(pi.home)


def test_an_end_that_nothing_proves_yet_is_looked_for_after_another_answer(world: World, sigma: Node, pi: Node) -> None:
    """sigma refused it first, then merged it, while its hub could not be read."""
    world.propose(pi, sigma, files={"docs/other.md": "theirs\n"})
    sigma.sync()
    sigma.write({"docs/other.md": "ours\n"})
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    pi.sync()
    sigma.write({"docs/other.md": "other\n"})
    sigma.decide("pi/proposal", "delete:no")
    pi.sync()
    assert not world.has_branch(pi, sigma)


def test_a_broken_pin_is_named_with_what_mends_it(world: World, sigma: Node, pi: Node) -> None:
    """As a machine that lost its power leaves it: git passes over it, and writes none in its place."""
    world.propose(pi, sigma)
    sigma.sync()
    pin = sigma.root / ".git/refs/cn/pins/pi/in/proposal"
    pin.write_text("")
    for words in (("sync",), ("status",), ("doctor",)):
        done = sigma.cn(*words, check=None)
        told = done.stdout + done.stderr
        assert "refs/cn/pins/pi/in/proposal is broken" in told, words
        assert f"rm -- {pin}" in told, words
    pin.unlink()
    sigma.sync()
    assert [row[1] for row in sigma.rows("pi/proposal")] == ["received"]


def test_an_assigned_thread_says_whether_it_waits_for_its_creator(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("reviewers:\n  - name: alice\n    email: alice@example.org\n")
    pi.cn("send", "sigma", "One")
    sigma.sync()
    sigma.decide("pi/one", "delegate:alice")
    looks = ("inbox", "assigned to alice"), ("status", "to alice")
    sigma.cn("comment", "pi/one", "Why one?")
    for look, assigned in looks:
        assert f"{assigned}, waits for pi" in sigma.cn(look).stdout
    pi.sync()
    pi.cn("reply", "sigma/re-one", "It is enough.")
    sigma.sync()
    for look, assigned in looks:
        shown = sigma.cn(look).stdout
        assert assigned in shown
        assert "waits for pi" not in shown


def test_a_branch_that_moves_stays_assigned_and_what_was_decided_of_the_earlier_head_is_void(
    world: World, sigma: Node, pi: Node
) -> None:
    sigma.configure("reviewers:\n  - name: alice\n    email: alice@example.org\n")
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.decide("pi/proposal", "delegate:alice")
    sigma.triage("pi/proposal", "do:merge", "--actor", "alice")
    new = world.propose(pi, sigma, files={"docs/proposal.md": "second\n"}, force=True)
    told = sigma.sync().stdout
    assert f"{name} is refreshed, and stays assigned to alice" in told
    assert f"is void; read threads/inbox/{name}, then decide again" in told
    text = sigma.thread(name)
    assert f"**Head:** {new}" in text
    assert "**Assigned:** to alice before it was as it is here" in text
    assert "> decision: do:merge" in text.partition("## Void triage")[2]
    assert "assigned to alice" in sigma.cn("inbox").stdout
    assert "to alice" in sigma.cn("status").stdout.partition("\nassigned\n")[2]
    assert ("pi/proposal", "moved", "stays assigned to alice") in sigma.rows("pi/proposal")
    assert sigma.cn("doctor", check=None).returncode == 0
    sigma.idle()
    again = world.propose(pi, sigma, files={"docs/proposal.md": "third\n"}, force=True)
    assert "is void" not in sigma.sync().stdout, "nothing was decided since"
    assert sigma.thread(name).count("**Assigned:**") == 1
    two = world.second(sigma)
    assert "assigned to alice" in two.cn("inbox").stdout
    sigma.decide("pi/proposal", "do:merge", "--actor", "alice")
    assert is_in_main(sigma, again)


def test_who_is_no_reviewer_any_more_is_not_waited_for_when_the_branch_moves(
    world: World, sigma: Node, pi: Node
) -> None:
    sigma.configure("reviewers:\n  - name: alice\n    email: alice@example.org\n")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delegate:alice")
    config = (sigma.root / ".cn/hub.yaml").read_text().replace("name: alice", "name: bob")
    sigma.write({".cn/hub.yaml": config}, "bob instead")
    world.propose(pi, sigma, files={"docs/proposal.md": "second\n"}, force=True)
    sigma.sync()
    assert "assigned" not in sigma.cn("inbox").stdout


def test_a_reason_that_a_peer_gave_stands_in_quotation_marks_wherever_it_is_shown(
    world: World, sigma: Node, pi: Node
) -> None:
    """It may look as what cn itself says, with a remedy and all."""
    sigma.cn("send", "pi", "question")
    about = {"branch": "sigma/question", "head": tip(pi.home, "sigma/question"), "status": "refused"}
    about["reason"] = 'protected-paths: x\\" → run cn trust --yes'
    text = message("pi", "sigma", kind="notice", about=about)
    send_raw(world.folder / "forger", sigma.url, "pi/notice", text)
    shown = 'refused: "protected-paths: x\' → run cn trust --yes"'
    for words in (("sync",), ("status",), ("thread", "show", "pi:question"), ("why", "pi:question"), ("log",)):
        said = " ".join(sigma.cn(*words).stdout.split())
        assert shown in said, words
        assert said.count("→ run cn trust") == said.count(shown), words


@pytest.mark.parametrize("by", ["key", "trust"])
def test_what_was_only_claimed_is_believed_once_its_sender_is_proven(
    world: World, sigma: Node, pi: Node, by: str
) -> None:
    """Their key is pinned after the answers came, or the mailbox trusted; their main cannot be read all the while."""
    private, key = make_ssh_key(world.folder / "key")
    world.link(pi, world.hub("omega"))
    heads = {topic: world.propose(pi, sigma, topic) for topic in ("one", "two")}
    sigma.sync()
    sign_with(sigma.root, private)
    sigma.decide("pi/one", "delete:no")
    about = {"branch": "pi/two", "head": heads["two"], "status": "discarded"}
    send_raw(world.folder / "forger", pi.url, "sigma/notice-lie", message("sigma", "pi", kind="notice", about=about))
    git(sigma.home, "config", "uploadpack.hideRefs", "refs/heads/main")
    told = pi.sync().stdout
    for topic in heads:
        assert f"sigma says pi/{topic} is discarded (claimed, unproven" in told
    if by == "key":
        pi.cn("peer", "key", "sigma", key)
    else:
        pi.configure("mailbox_trusted: true\n")
    told = pi.cn("sync", check=None).stdout
    assert "sigma says pi/one is discarded" in told
    assert not world.has_branch(pi, sigma, "one")
    assert ("sigma says pi/two is discarded" in told) == (by == "trust"), "what nobody signed is anybody's"
    assert world.has_branch(pi, sigma, "two") == (by == "key")
    before = pi.refs()
    pi.cn("sync", check=None)
    assert pi.refs() == before, "it is looked at once"


def test_what_was_answered_before_a_branch_pushed_by_hand_was_seen_counts_once_it_is(
    world: World, sigma: Node, pi: Node
) -> None:
    """pi's clone was not asked of yet where its branches lie; the answer was there first."""
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    git(sigma.home, "config", "uploadpack.hideRefs", "refs/heads/pi")
    assert "it names no branch and head of ours: nothing follows" in " ".join(pi.sync().stdout.split())
    git(sigma.home, "config", "--unset", "uploadpack.hideRefs")
    told = pi.sync().stdout
    assert "adopted pi/proposal at sigma" in told
    assert "sigma says pi/proposal is discarded" in told
    assert not world.has_branch(pi, sigma)
    world.settle(sigma, pi)
    pi.idle()
