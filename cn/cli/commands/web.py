"""``cn web``: the hub in a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, Env, options
from cn.values.errors import UsageError
from cn.values.text import counted


@click.command("web")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen there; else on any port that is free.")
@click.option("--open", "open_", is_flag=True, help="Open the link in your browser.")
@click.option("--detach", is_flag=True, help="Go on without this terminal.")
@click.option("--export", "folder", type=click.Path(), metavar="DIR", help="Write the pages as files instead.")
@click.option("--public", is_flag=True, help="With --export: only what --peer and --thread name, without messages.")
@click.option("--peer", "peers", multiple=True, shell_complete=complete_peer, help="A peer to publish.")
@click.option("--thread", "threads", multiple=True, shell_complete=complete_thread, help="A thread to publish.")
@ACTOR
@options()
def web_command(
    env: Env,
    port: int,
    open_: bool,
    detach: bool,
    folder: str | None,
    public: bool,
    peers: tuple[str, ...],
    threads: tuple[str, ...],
    actor: str,
) -> None:
    """Look at the hub in a browser, and decide there; on this machine alone.

    Prints a link that works once; the same command again gives another. It reads only, but
    for the form of a thread, which writes what 'cn inbox triage' writes. It ends with its
    terminal, with Ctrl-C, or, detached, by 'kill'.
    """
    if (public or peers or threads) and folder is None:
        raise UsageError("--public, --peer and --thread go with --export", "give --export DIR")
    if (peers or threads) and not public:
        raise UsageError("--peer and --thread say what is public", "give --public, or leave them out")
    from cn.system.extras import require_web

    require_web()
    if folder is not None:
        _export(env, Path(folder), public, peers, threads)
        return
    _serve(env, port, actor, open_=open_, detach=detach)


def _serve(env: Env, port: int, actor: str, *, open_: bool, detach: bool) -> None:
    from cn.web.serve import Site, is_running, start_detached

    view = env.view()
    if actor and not view.settings.config.is_actor(actor):
        raise UsageError(f"{actor!r} may not decide here", "reviewers are listed in .cn/hub.yaml")
    actor = actor or view.settings.us
    running = is_running(view.hub)
    if running is None and detach:
        running = start_detached(view.hub, actor, port)
    if running is not None:
        used = f"; {counted(running.used, 'link')} used so far" if running.used else ""
        words = f"it runs as process {running.pid}, for {running.actor}{used}"
        _tell(env, view.hub, running.port, words, open_=open_)
        return
    site = Site(view.hub, actor, port, _tell_of_use)
    _tell(env, view.hub, site.port, f"for {actor}, until Ctrl-C", open_=open_, stays=True)
    site.run()


def _tell_of_use(used: int) -> None:
    """Also where little is to be said, and to the log of a server without a terminal: who came in may decide."""
    with suppress(OSError):  # the terminal is gone
        click.echo(f"· a browser came in by the link ({used}); if it is not yours, end this server", err=True)


def _tell(env: Env, hub: object, port: int, words: str, *, open_: bool, stays: bool = False) -> None:
    from cn.git.repository import Hub
    from cn.web.session import make_link, write_door

    assert isinstance(hub, Hub)
    if env.quiet and not open_:
        return
    link = make_link(hub, port)
    if env.json:
        from cn.cli.render.report import show_json

        show_json({"link": link, "port": port})
    elif not env.quiet:
        click.echo(link)
        click.echo(f"· {words}; the link works once", err=True)
    if open_:
        _launch(write_door(hub, link).as_uri(), stays=stays)


def _launch(place: str, *, stays: bool) -> None:
    """Show a file in the browser; ``stays``: this process has other things to do while the browser runs."""
    if click.launch(place) == 0:
        return
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(place,), daemon=stays).start()


def _export(env: Env, folder: Path, public: bool, peers: tuple[str, ...], threads: tuple[str, ...]) -> None:
    from cn.web.export import export

    with env.progress("writing pages") as step:
        report = export(env.view(), folder, public=public, peers=peers, threads=threads, progress=step)
    env.show(report)
