"""Commands at the moment they are called, for the crash matrix: one scene per thing cn does.

A scene is a function that prepares hubs and answers with a :class:`Trial`. What a person has
staged, edited and left lying about is part of every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tests.support.hubs import branches, clone, commit, git, identify, make_ssh_key, push
from tests.support.kill import State, Trial, tree
from tests.support.permission import closed, obedient
from tests.support.world import Node, World, content

Scene = Callable[[World], Trial]
CODES = (0, 1)


class Stage:
    """sigma receives from pi; omega is another peer, alice a reviewer. ``route`` is the link to pi."""

    def __init__(self, world: World, *, origin: bool = True, route: str = "mailbox") -> None:
        self.inside = World(world.folder / "world", world.template)
        config = "mailbox_trusted: true\nreviewers:\n  - name: alice\n    email: alice@people.example\n"
        self.sigma = self.inside.hub("sigma", origin=origin, config=config)
        self.pi, self.omega = self.inside.hub("pi"), self.inside.hub("omega")
        self.inside.link(self.sigma, self.pi, route)
        self.inside.link(self.sigma, self.omega)
        git(self.sigma.root, "config", "cn.wake", "cat >> .git/woken")

    def propose(self, *topics: str) -> None:
        """A person of pi's pushes branches."""
        for topic in topics:
            self.inside.propose(self.pi, self.sigma, topic)

    def settle(self, node: Node) -> None:
        """What cron does, until both runs find nothing to do."""
        hubs, quiet = (self.sigma, self.pi, self.omega), 0
        for turn in range(12):
            before = node.refs(), [branches(n.home) for n in hubs]
            done = node.cn("inbox", ("sync", "process")[turn % 2], check=None)
            assert done.returncode in CODES, (done.stdout, done.stderr)
            assert "internal error" not in done.stderr
            after = node.refs(), [branches(n.home) for n in hubs]
            quiet = quiet + 1 if after == before else 0
            if quiet == 2:
                return
        raise AssertionError("the hub did not come to rest")

    def trial(
        self,
        *words: str,
        node: Node | None = None,
        codes: Sequence[int] = (0,),
        again: Callable[[], bool] | None = None,
    ) -> Trial:
        """``words`` on ``node``. ``again`` says whether a person would have to repeat them."""
        actor = node or self.sigma
        work_at(actor)
        peers = [n for n in (self.sigma, self.pi, self.omega) if n is not actor]

        def settle() -> None:
            self.settle(actor)
            if again is not None and again():
                done = actor.cn(*words, check=None)
                assert done.returncode in codes, (done.stdout, done.stderr)
                self.settle(actor)

        def extra() -> State:
            merges = git(actor.root, "rev-list", "--merges", "--format=%s", "main")
            return {
                "merges": sorted(line for line in merges.splitlines() if "Merge" in line),
                "branches": {p.name: sorted(branches(p.home)) for p in peers},
                "at home": {n: tree(actor.home, n) for n in sorted(branches(actor.home)) if n != "main"},
            }

        return Trial(self.inside.folder, actor, peers, words, settle, codes, extra)


def work_at(node: Node) -> None:
    """A person is at work: something staged, something not, something unknown."""
    (node.root / "docs/other.md").write_text("staged\n")
    git(node.root, "add", "docs/other.md")
    (node.root / "docs/other.md").write_text("staged, then edited\n")
    (node.root / "docs/start.md").write_text("edited, not staged\n")
    (node.root / "unknown.txt").write_text("unknown\n")


def decided(decision: str, *more: str, origin: bool = True, route: str = "mailbox") -> Scene:
    """One thread, decided; the run that executes it."""

    def scene(world: World) -> Trial:
        stage = Stage(world, origin=origin, route=route)
        stage.propose("one")
        stage.sigma.sync()
        stage.sigma.triage("pi/one", decision, *more)
        return stage.trial("inbox", "process")

    return scene


def all_decisions(origin: bool, route: str) -> Scene:
    """Every decision in one run."""

    def scene(world: World) -> Trial:
        stage = Stage(world, origin=origin, route=route)
        stage.propose(*(f"t{number}" for number in range(7)))
        stage.sigma.sync()
        for number, (decision, more) in enumerate(DECISIONS.values()):
            stage.sigma.triage(f"pi/t{number}", decision, *more)
        return stage.trial("inbox", "process")

    return scene


DECISIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "merge": ("do:merge", ()),
    "delete": ("delete:not wanted", ()),
    "defer": ("defer:later", ("--until", "2099-01-01")),
    "delegate-peer": ("delegate:omega", ()),
    "delegate-reviewer": ("delegate:alice", ()),
    "reply": ("do:reply:answer", ("--body", "Thanks.\nA second line.")),
    "custom": ("do:custom:Watch the retries", ()),
}


def arrivals(origin: bool, route: str) -> Scene:
    """A sync that meets branches that are new, moved before and after a decision, and gone."""

    def scene(world: World) -> Trial:
        stage = Stage(world, origin=origin, route=route)
        inside, sigma, pi = stage.inside, stage.sigma, stage.pi
        stage.propose("early", "late", "gone")
        sigma.sync()
        sigma.decide("pi/late", "delete:no")
        sigma.triage("pi/early", "do:merge")
        for topic in ("early", "late"):
            inside.propose(pi, sigma, topic, {f"docs/{topic}.md": "again\n"}, force=True)
        inside.withdraw(pi, sigma, "gone")
        stage.propose("new")
        pi.cn("send", "sigma", "hello")
        return stage.trial("inbox", "sync")

    return scene


def mail_waits(world: World) -> Trial:
    """Mail for two peers that were away is delivered."""
    stage = Stage(world)
    homes = [stage.pi.home, stage.omega.home]
    for home in homes:
        home.rename(home.with_suffix(".away"))
    for name in ("pi", "omega"):
        stage.sigma.cn("send", name, "hello", "--body", f"to {name}", check=1)
    for home in homes:
        home.with_suffix(".away").rename(home)
    return stage.trial("outbox", "flush")


def notices_arrive(world: World) -> Trial:
    """The creator learns what became of four branches, and deletes those that are ended."""
    stage = Stage(world)
    stage.propose("one", "two", "three", "four")
    stage.sigma.sync()
    for topic, decision in (("one", "do:merge"), ("two", "delete:no"), ("three", "do:custom:Watch")):
        stage.sigma.triage(f"pi/{topic}", decision)
    stage.sigma.triage("pi/four", "do:reply:answer", "--body", "Thanks.")
    stage.sigma.process()
    return stage.trial("sync", node=stage.pi)


def cleanup(world: World) -> Trial:
    """The branches are gone; what told of them is taken back."""
    stage = Stage(world)
    stage.propose("one", "two")
    stage.sigma.sync()
    stage.sigma.triage("pi/one", "do:merge")
    stage.sigma.triage("pi/two", "do:reply:answer", "--body", "Thanks.")
    stage.sigma.process()
    stage.pi.sync()
    return stage.trial("sync")


def refused(world: World) -> Trial:
    """A merge that the rules refuse: one notice, the thread stays."""
    stage = Stage(world)
    stage.propose("one")
    stage.sigma.sync()
    stage.sigma.triage("pi/one", "do:merge")
    stage.sigma.write({"docs/late.md": "late\n"}, "main moves")
    return stage.trial("inbox", "process", codes=CODES)


def stacked(world: World) -> Trial:
    """Two merges of which the second is upon the first: what is left of that is shown anew in the same run."""
    stage = Stage(world)
    stage.sigma.write({"docs/app.txt": "a\n"})
    one = stage.inside.propose(stage.pi, stage.sigma, "one", {"docs/app.txt": "a\none\n"})
    stage.inside.propose(stage.pi, stage.sigma, "two", {"docs/app.txt": "a\none\ntwo\n"}, start=one)
    stage.sigma.sync()
    for topic in ("one", "two"):
        stage.sigma.triage(f"pi/{topic}", "do:merge")
    return stage.trial("inbox", "process")


def sent(world: World) -> Trial:
    """A person sends a message."""
    stage = Stage(world)

    def missing() -> bool:
        return not any("hello" in name for name in stage.sigma.outbox() + stage.sigma.sent())

    return stage.trial("send", "pi", "hello", "--body", "Please read.", again=missing)


def withdrawn(world: World) -> Trial:
    """A person takes back a message."""
    stage = Stage(world)
    stage.sigma.cn("send", "pi", "hello")

    def missing() -> bool:
        return not any(name.endswith("-delete.md") for name in stage.sigma.outbox() + stage.sigma.sent())

    return stage.trial("withdraw", "pi:hello", again=missing)


def _offered(stage: Stage) -> str:
    """Somebody of sigma's has committed upon pi's main; the hub has the commit."""
    person = stage.inside.person(stage.sigma, stage.pi)
    head = commit(person, {"docs/offer.md": "offer\n"}, "Offer")
    git(stage.sigma.root, "fetch", "--quiet", str(person), "HEAD")
    return head


def proposed(world: World) -> Trial:
    """A person proposes a commit to pi, with words beside it."""
    stage = Stage(world)
    head = _offered(stage)

    def missing() -> bool:
        return not any("-offer-" in name for name in stage.sigma.outbox() + stage.sigma.sent())

    words = ("propose", "offer", "pi", "--commit", head, "--message", "Please look.")
    return stage.trial(*words, again=missing)


def rebased(world: World) -> Trial:
    """A proposal is laid upon pi's main, which has moved."""
    stage = Stage(world)
    stage.sigma.cn("propose", "offer", "pi", "--commit", _offered(stage))
    stage.pi.write({"docs/late.md": "late\n"}, "main moves")

    def missing() -> bool:
        files = [name for name in stage.sigma.outbox() + stage.sigma.sent() if "-offer-" in name]
        return len(files) < 2

    return stage.trial("rebase", "offer", again=missing)


def peer_added(world: World) -> Trial:
    """A person adds a peer."""
    stage = Stage(world)

    def missing() -> bool:
        return b"tau" not in (content(stage.sigma, "state/peers.md") or b"")

    return stage.trial("peer", "add", "tau", str(stage.inside.folder / "host/omega.git"), again=missing)


def peer_removed(world: World) -> Trial:
    """A person removes a peer."""
    stage = Stage(world)

    def there() -> bool:
        return b"omega" in (content(stage.sigma, "state/peers.md") or b"")

    return stage.trial("peer", "remove", "omega", again=there)


def key_pinned(world: World) -> Trial:
    """A person pins a peer's key."""
    stage = Stage(world)
    _, key = make_ssh_key(world.folder / "key")

    def missing() -> bool:
        return b"key:" not in (content(stage.sigma, "state/peers.md") or b"")

    return stage.trial("peer", "key", "pi", " ".join(key.split()[:2]), again=missing)


def peer_synced(world: World) -> Trial:
    """A person syncs with one peer."""
    stage = Stage(world)
    stage.propose("one", "two")
    return stage.trial("peer", "sync", "pi")


def trusted(world: World) -> Trial:
    """A change to a protected file came from elsewhere, beside a branch; a person accepts it."""
    stage = Stage(world)
    sigma = stage.sigma
    sigma.sync()
    other = clone(sigma.home, stage.inside.folder / "people/other")
    identify(other, "other")
    text = (other / ".cn/hub.yaml").read_text() + "warn_after: 9\n"
    commit(other, {".cn/hub.yaml": text, "docs/theirs.md": "theirs\n"}, "from elsewhere")
    push(other, sigma.home, "HEAD:main")
    stage.propose("one")
    assert "cn trust" in sigma.sync(check=1).stderr
    sigma.cn("trust", check=1)

    def stopped() -> bool:
        return b"warn_after" not in (content(sigma, ".cn/hub.yaml") or b"")

    return stage.trial("trust", "--yes", again=stopped)


def edited(*words: str) -> Scene:
    """A person's edits in cn's folders are committed, beside what is staged elsewhere."""

    def scene(world: World) -> Trial:
        stage = Stage(world)
        root = stage.sigma.root
        stage.sigma.cn("adhoc", "first")
        (root / "threads/adhoc/note.md").write_text("new\n")
        for path in (root / "threads/adhoc").glob("*-first.md"):
            path.write_text(path.read_text() + "\nmore\n")

        def missing() -> bool:
            return content(stage.sigma, "threads/adhoc/note.md") is None

        trial = stage.trial(*words, again=missing)
        settle = trial.settle

        def settle_and_push() -> None:
            settle()
            stage.sigma.cn("push")

        trial.settle = settle_and_push
        return trial

    return scene


def own(*words: str, path: str) -> Scene:
    """A person opens a thread of the hub's own; ``path`` is a piece of its name."""

    def scene(world: World) -> Trial:
        stage = Stage(world)

        def missing() -> bool:
            return path not in git(stage.sigma.root, "ls-tree", "-r", "--name-only", "main")

        return stage.trial(*words, again=missing)

    return scene


def brought_together(world: World) -> Trial:
    """A person's commit here, another machine's run there, and a branch that is new."""
    stage = Stage(world)
    sigma = stage.sigma
    stage.propose("one", "two")
    sigma.sync()
    second = stage.inside.second(sigma)
    second.sync()
    second.decide("pi/one", "delete:there")
    commit(sigma.root, {"docs/mine.md": "mine\n"}, "not pushed yet")
    stage.propose("three")
    return stage.trial("inbox", "sync")


def turned(world: World) -> Trial:
    """Files that somebody made folders, and folders files, come from elsewhere; a branch is new."""
    stage = Stage(world)
    sigma, own = stage.sigma, "threads/adhoc/20260101-plan.md"
    sigma.write({"docs/turns": "a\n", "docs/back/one": "b\n", own: "a plan\n"})
    second = stage.inside.second(sigma).root
    git(second, "rm", "-r", "--quiet", "docs/turns", "docs/back", own)
    commit(second, {"docs/turns/one": "a\n", "docs/back": "b\n", f"{own}/x": "a plan\n"}, "turned")
    git(second, "push", "--quiet", "origin", "main")
    stage.propose("one")
    return stage.trial("inbox", "sync")


def placed_again(world: World) -> Trial:
    """What could not be brought to the work tree is brought there, and a thread is new."""
    stage = Stage(world)
    stage.propose("one", "two")
    stage.sigma.sync()
    stage.sigma.triage("pi/one", "do:merge")
    stage.sigma.triage("pi/two", "defer:later")
    with ExitStack() as stack:
        for folder in ("docs", "logs/inbox", "threads/inbox", "threads/inbox/done"):
            stack.enter_context(closed(stage.sigma.root / folder))
        obedient(stage.sigma, "inbox", "process")
    stage.propose("three")
    return stage.trial("inbox", "sync")


SCENES: dict[str, Scene] = {
    **{name: decided(decision, *more) for name, (decision, more) in DECISIONS.items()},
    "merge-alone": decided("do:merge", origin=False),
    "all-decisions": all_decisions(True, "mailbox"),
    "all-decisions-alone": all_decisions(False, "mailbox"),
    "all-decisions-pickup": all_decisions(True, "pickup"),
    "refused": refused,
    "stacked": stacked,
    "sync": arrivals(True, "mailbox"),
    "sync-alone": arrivals(False, "mailbox"),
    "sync-pickup": arrivals(True, "pickup"),
    "brought-together": brought_together,
    "placed-again": placed_again,
    "turned": turned,
    "delivery": mail_waits,
    "notices": notices_arrive,
    "cleanup": cleanup,
    "send": sent,
    "withdraw": withdrawn,
    "propose": proposed,
    "rebase": rebased,
    "peer-add": peer_added,
    "peer-remove": peer_removed,
    "peer-key": key_pinned,
    "peer-sync": peer_synced,
    "trust": trusted,
    "commit": edited("commit"),
    "save": edited("save", "--message", "by hand"),
    "adhoc": own("adhoc", "Buy a rack", path="buy-a-rack"),
    "daily": own("daily", path="reflections/daily/20"),
    "mca": own("mca", "add", "Watch the disk", path="watch-the-disk"),
}
"""Every scene by name; a new command belongs here."""
