"""Checks of the configuration, in main and in the work tree, and of what is around the hub."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cn.actions.cron import ours, paths_of, read_table, stray_hubs, told_of_stray
from cn.agent.hooks import is_builtin
from cn.doctor.finding import Finding, HubFacts, from_error, info, problem
from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree, list_tree, read_objects
from cn.git.process import Git
from cn.git.read_branches import is_signed
from cn.git.running import finds_program, is_shell_command
from cn.git.signatures import why_unsigned
from cn.git.sparse import bring_back, is_sparse
from cn.llm.config import decode_agent_config, parse_agent_config
from cn.protocol import hub_config
from cn.protocol import peers_file as hub_peers
from cn.protocol.hub_config import AGENT_PATH, HubConfig
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.peers_file import MAILBOX, Peer, others_can_write
from cn.run.run import scratch_objects
from cn.run.settings import explain_missing_config
from cn.system.closed import writing
from cn.system.files import has_files, has_room, is_writable, read_plain
from cn.transaction.commit import local_changes
from cn.values.errors import CnError, ConfigError
from cn.values.names import Oid, is_protected
from cn.values.shell_words import command
from cn.values.text import one_line, redact, visible

_PAGES = ("spec/SOUL.md", "spec/USER.md", "spec/HUB.md")
_ALWAYS = (str(hub_config.PATH), str(AGENT_PATH), *_PAGES, str(hub_peers.PATH))
_OF_LATE = 50
"""Commits of main in which a signature shows that a clone of the hub signs."""
_SECRET = re.compile(r"^(?:https?://[^/@\s]+@|[a-z+]+://[^/@\s:]*:[^/@\s]+@)")


def check_configuration(facts: HubFacts) -> Iterator[Finding]:
    """``hub.yaml``, ``peers.md`` and ``agent.yaml`` in main can be read."""
    broken = "no run works before it is mended"
    contents = read_objects(facts.hub.git, [f"{facts.hub.main_ref}:{path}" for path in _ALWAYS])
    there = {path: data for path, data in zip(_ALWAYS, contents, strict=True) if data is not None}
    if hub_config.PATH not in there:
        missing = explain_missing_config(facts.hub)
        if isinstance(missing, ConfigError):  # else told by the check of the place
            yield from_error(missing, broken)
    yield from _parse(there, broken, "the runtime does not start before it is mended")


def check_working_configuration(facts: HubFacts) -> Iterator[Finding]:
    """Protected files have no uncommitted changes; those are not in effect."""
    hub, main = facts.hub, facts.snapshot.commit
    paths = [e.path for e in list_tree(hub.git, main, recursive=True) if is_protected(e.path)]
    paths += [p for p in (*_ALWAYS, ".gitignore", ".gitattributes") if p not in paths]
    changed = local_changes(hub, main, paths)
    left_out = [path for path in changed if is_sparse(hub.config) and not os.path.lexists(hub.root / path)]
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        folders = sorted({path.partition("/")[0] for path in left_out})
        remedy = ", ".join(command("git sparse-checkout add {}", folder) for folder in folders)
        what = f"the sparse checkout leaves out {visible(left_out[0])}{more}"
        yield info(what, "main's are in effect all the same", remedy)
    for path in changed:
        if path in left_out:
            continue
        if path == hub_config.PATH and not (hub.root / path).exists():
            continue  # told by the check of the repository
        if not os.path.exists(hub.root / path):
            what = f"{visible(path)} is missing from the work tree: what {hub.main} has is in effect"
            back = bring_back(hub, path)
            yield problem(what, "a commit of everything takes it out of main", f"{back} brings it back")
            continue
        what = f"{visible(path)} has uncommitted changes, which are not in effect"
        remedy = f"{command('git add -- {} && git commit', path)}, or take the change back"
        yield problem(what, "cn reads the configuration from main", remedy)
    here = {path: plain[1] for path in changed if path in _ALWAYS and (plain := read_plain(hub.root / path))}
    for finding in _parse(here, *["it would break the hub once it is committed"] * 2):
        yield finding._replace(what=f"uncommitted {finding.what}", broken_config=False)


def _parse(contents: Mapping[str, bytes], why: str, runtime: str) -> Iterator[Finding]:
    """What is wrong with files of the configuration; ``runtime`` is why that of the runtime matters."""
    config: HubConfig | None = None
    peers: tuple[Peer, ...] = ()
    for path, data in contents.items():
        try:
            text = decode_agent_config(data, path).replace("\r\n", "\n")
            if path == hub_config.PATH:
                config = hub_config.parse_config(text)
            elif path == hub_peers.PATH:
                peers = hub_peers.parse_peers(text)
            elif path == AGENT_PATH:
                parse_agent_config(text, os.environ)
        except ConfigError as error:
            yield from_error(error, runtime if path == AGENT_PATH else why)
    try:
        if config is not None:
            hub_peers.check_names(config, peers)
    except ConfigError as error:
        yield from_error(error, why)


def check_credentials(facts: HubFacts) -> Iterator[Finding]:
    """No password stands in a URL that is committed and pushed, or in a header that every host gets."""
    for peer in facts.settings.peers.values() if facts.settings else ():
        if _SECRET.match(peer.hub):
            yield problem(
                f"the URL of {peer.name} holds a password or token in clear: {redact(peer.hub)}",
                f"whoever can read this hub or its origin can read {hub_peers.PATH} and its history",
                "change the password, take it out of the URL, and use a git credential helper or SSH",
            )
    url = facts.hub.origin_url
    if _SECRET.match(url):
        what = f"the URL of origin holds a password or token in clear: {redact(url)}"
        yield info(what, "it stands in .git/config of this clone only", "a git credential helper keeps it better")
    if facts.hub.git.run("config", "--get", "http.extraHeader", check=False).ok:
        what, why = "http.extraHeader is set for all hosts", "what it holds is sent to the hosts of peers too"
        yield problem(what, why, "set http.https://HOST/.extraHeader instead (git-config(1), http.<url>.*)")


def check_mailbox(facts: HubFacts) -> Iterator[Finding]:
    """Who can write in whose name?"""
    settings = facts.settings
    if settings is None:
        return
    mailbox = settings.config.mailbox
    if mailbox and not facts.hub.config.last(f"remote.{mailbox}.url"):
        what = f"hub.yaml names the mailbox {visible(mailbox)}, and there is no such remote"
        yield problem(what, "mail from peers cannot be fetched", command("git remote add {} URL", mailbox))
    loose = [
        name
        for name, peer in settings.peers.items()
        if peer.deliver == MAILBOX and others_can_write(settings.peers, name) and not peer.key
    ]
    if not loose:
        return
    why = "mailbox_trusted: true says that the host keeps them apart; if not, one can write as another"
    remedy = "'cn peer key NAME FILE.pub' proves senders"
    if not settings.config.mailbox_trusted:
        why = (
            "any of them could push a branch with another's prefix: their threads say 'unverified', and what they say "
            "became of our branches is believed only where their main, which we must be able to read, shows it"
        )
        remedy = "pin their keys in state/peers.md (key: …), or set mailbox_trusted: true if the host keeps them apart"
    yield info(
        f"several peers share the mailbox, and {', '.join(loose)} {'has' if len(loose) == 1 else 'have'} no pinned key",
        why,
        remedy,
    )


_GIT = (2, 39)
_ROOM = 1 << 20
_RESERVED = {"if", "for", "while", "case", "until", "{", "(", "!"}


def check_versions(facts: HubFacts) -> Iterator[Finding]:
    """Git is new enough; with an older Python than ours this is not reached."""
    text = facts.hub.git.run("version").text
    found = re.search(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < _GIT:
        yield problem(
            f"{one_line(text)} is too old",
            "cn merges with 'git merge-tree --write-tree' and relies on repairs of git 2.39",
            "install git 2.39 or newer",
        )


def check_repository(facts: HubFacts) -> Iterator[Finding]:
    """Git can read the repository, and we may write it."""
    hub = facts.hub
    if not facts.readable:
        done = hub.git.run("rev-parse", "--git-dir", check=False)
        yield problem(
            f"git cannot read {hub.root}: {done.reason}",
            "nothing else in the hub can be checked",
            "correct that file of git's configuration"
            if "bad config" in done.reason
            else "repair .git, or clone the hub again from its origin and copy 'git config' settings over",
        )
    objects = hub.git_dir / "objects"
    below = [hub.git_dir / "refs", hub.state, objects, objects / "pack", *sorted(objects.glob("??"))]
    closed = [f for f in (hub.git_dir, hub.root, *below) if f.is_dir() and not is_writable(f)]
    if closed:
        more = f" and {len(closed) - 1} more folders are" if len(closed) > 1 else " is"
        remedy = writing(closed[0], "check owner, permissions, and how it is mounted")
        yield problem(f"{closed[0]}{more} not writable", "no run can work here", remedy)
    if not has_files(hub.git_dir):
        what, remedy = f"the disk of {hub.git_dir} has no room for another file (no inodes)", "remove files there"
        yield problem(what, "git and cn fail where they cannot write; nothing is lost by that", f"{remedy}: 'df -i'")
    if not has_room(hub.git_dir, _ROOM):
        why = "git and cn fail where they cannot write; nothing is lost by that"
        yield problem(f"less than {_ROOM >> 20} MB are free on the disk of {hub.git_dir}", why, "make room on the disk")
    # What main has not either is told by the check of the configuration.
    if not (hub.root / CONFIG).is_file() and facts.main is not None and facts.snapshot.oid(CONFIG) is not None:
        why = f"runs read {hub.main}'s; a commit of everything would take it out of {hub.main}"
        back = bring_back(hub, CONFIG, anywhere=True)
        yield problem(f"{CONFIG} is missing from the work tree", why, back)


def check_identity(facts: HubFacts) -> Iterator[Finding]:
    """This clone has a name and an email of its own; cn never uses the machine's."""
    hub = facts.hub
    named = replace(hub, name=facts.settings.us) if facts.settings else hub
    for key, used in zip(("user.name", "user.email"), named.identity, strict=True):
        if not hub.config.last(key, "local").strip():
            remedy = command("git config {} NAME" if key == "user.name" else "git config {} EMAIL", key)
            yield info(
                f"{key} is not set in this repository; what cn commits and sends carries {one_line(used)}",
                "what you commit with git here carries the machine's, if that has one",
                f"if it shall be another: {remedy}",
            )


def check_wake(facts: HubFacts) -> Iterator[Finding]:
    """The wake command can be started."""
    command = facts.hub.config.last("cn.wake")
    if not command or is_builtin(command):
        return
    words = [w for w in command.split() if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", w)]
    program = words[0].strip("'\"") if words else ""
    if not is_shell_command(command):
        what = f"the wake command is no shell command: {one_line(redact(command), 80)}"
    elif program[:1] in tuple("$({`~!") or program in _RESERVED or finds_program(program, facts.hub.root):
        return  # of a construct of the shell only the shell knows
    else:
        what = f"the program of the wake command is not found: {one_line(program, 80)}"
    why = "the agent is not told when something arrives; sync reports it as failed"
    yield problem(what, why, "git config cn.wake COMMAND, with an absolute path")


def check_signing(facts: HubFacts) -> Iterator[Finding]:
    """What is to be signed can be signed, what is to be verified can be verified."""
    pinned = [p.name for p in facts.settings.peers.values() if p.key] if facts.settings else []
    will_sign = facts.hub.signs
    form = facts.hub.config.last("gpg.format") or "openpgp"
    if (pinned or (will_sign and form == "ssh")) and shutil.which("ssh-keygen") is None:
        whose = f"branches of {', '.join(pinned)}" if pinned else "our own commits"
        why = f"git needs it for signatures of {whose}"
        yield problem("ssh-keygen is not found", why, "install OpenSSH's client programs")
    if not will_sign:
        if facts.main and _is_signed_elsewhere(facts.hub.git, facts.main):
            what = "another clone of this hub signs what it commits, and this one does not"
            yield info(what, "a peer that pinned the hub's key refuses what is sent from here", "'cn sign KEY'")
        return
    if form != "ssh":
        remedy = "'cn sign KEY', with a key made with ssh-keygen"
        yield info(f"commits are signed with {form}", "peers pin SSH keys: this proves nothing to them", remedy)
        return
    what, remedy = why_unsigned(facts.hub.config)
    why = "no commit can be made while signing is on"
    if what:
        yield problem(what, why, remedy)
        return
    with tempfile.TemporaryDirectory(prefix="cn-doctor-") as scratch:
        hub = scratch_objects(facts.hub, scratch)
        try:
            commit_tree(hub, empty_tree(hub.git), [], "cn: can this be signed?", facts.now)
        except CnError as error:
            yield problem(error.text, why, error.hint)


def _is_signed_elsewhere(git: Git, main: Oid) -> bool:
    """Does main hold commits of cn, of late, that are signed?"""
    names = git.run("rev-list", "--first-parent", f"--max-count={_OF_LATE}", main, "--").lines
    found = [data for data in read_objects(git, names) if data is not None]
    return any(is_signed(data) and data.partition(b"\n\n")[2].startswith(b"cn: ") for data in found)


def check_crontab(facts: HubFacts) -> Iterator[Finding]:
    """Is anything started by itself? Only worth knowing: systemd or a person may do it."""
    try:
        table = read_table()
    except CnError as error:
        yield info(error.text, "", error.hint)
        return
    for name, path in paths_of(table, facts.hub.root).items():
        if shutil.which("cn", path=path) is None:
            what = f"the line of the crontab for '{name}' has no cn in its PATH ({one_line(path)})"
            why = "the line itself may name cn whole, but a wake script that calls cn fails from there"
            yield problem(what, why, "'cn cron install' brings the lines up to date")
    for hub in stray_hubs(table):
        what, remedy = told_of_stray(hub)
        yield problem(what, "each run of them ends with an error, which cron mails", remedy)
    lines = ours(table, facts.hub.root)
    if all(line.lstrip().startswith("#") for line in lines):
        yield info("no crontab line runs this hub", "", "'cn cron install' adds them, if nothing else does")
