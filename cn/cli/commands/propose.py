"""``cn propose``, ``cn rebase``, ``cn withdraw``: branches of ours for peers."""

from __future__ import annotations

from pathlib import Path

import click

from cn.cli.completers import complete_peer, complete_sent
from cn.cli.options import DRY_RUN, Env, naming_hub, note_place, options, refused_as_usage


@click.command("propose")
@click.argument("topic")
@click.argument("peer", required=False, default="", shell_complete=complete_peer)
@click.option("-m", "--message", default="", help="What you have to say about it; it goes as a message beside it.")
@click.option("--commit", "rev", default="", metavar="REV", help="A commit or branch; HEAD if not given.")
@click.option("--replace", is_flag=True, help="Replace also what another clone proposed and this one never had.")
@options(DRY_RUN)
def propose_command(env: Env, topic: str, peer: str, message: str, rev: str, *, replace: bool) -> None:
    """Propose commits to PEER as a branch TOPIC, from the clone around the current folder.

    Work in a clone of the peer's hub, commit, then propose; PEER may be left out there. The first time --hub names
    your own hub, and the clone remembers it. Proposed again, the branch moves. 'cn withdraw TOPIC' takes it back.
    PEER:TOPIC, as 'cn status' names it, is understood too.
    """
    from cn.actions.propose import find_proposing_hub, propose

    before, colon, after = topic.partition(":")
    if colon and peer in ("", before):  # as 'cn status' and 'cn rebase' name it; no topic has a colon
        topic, peer = after, before
    with naming_hub(env), refused_as_usage():
        hub, work = find_proposing_hub(env.hub_path, Path.cwd())
        note_place(hub)
        report = propose(hub, work, topic, peer, message=message, rev=rev, replaces=replace, dry_run=env.dry_run)
    env.show(report)


@click.command("rebase")
@click.argument("topic")
@click.argument("peer", required=False, default="", shell_complete=complete_peer)
@options(DRY_RUN)
def rebase_command(env: Env, topic: str, peer: str) -> None:
    """Bring our proposal TOPIC onto PEER's latest main, and push it.

    Authors and messages stay. Nothing is changed where it conflicts, and never a branch of yours.
    """
    from cn.actions.propose import find_proposing_hub
    from cn.actions.rebase import rebase_topic

    with naming_hub(env):
        hub, work = find_proposing_hub(env.hub_path, Path.cwd())
        note_place(hub)
        report = rebase_topic(hub, work, topic, peer, dry_run=env.dry_run)
    env.show(report)


@click.command("withdraw")
@click.argument("sent", shell_complete=complete_sent)
@options(DRY_RUN)
def withdraw_command(env: Env, sent: str) -> None:
    """Take back what we sent, SENT: peer:topic, or its topic alone.

    Its branch is deleted where it lies, or it goes out of the outbox. What its peer has read stays read. Where it is
    gone already, it is told as lost no more.
    """
    from cn.actions.withdraw import withdraw

    with naming_hub(env):
        report = withdraw(env.hub(), sent, dry_run=env.dry_run)
    env.show(report)
