"""What the checks look at: the hub, its main, its configuration as far as they can be read."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cn.git.objects import resolve
from cn.git.process import Git
from cn.git.repository import Hub, open_hub, read_config
from cn.run.settings import Settings, read_settings
from cn.system.clock import now
from cn.values.errors import CnError, ConfigError
from cn.values.names import Oid


@dataclass(frozen=True)
class HubFacts:
    """A hub in whatever state it is.

    ``readable`` tells whether git can read the repository at all, ``main`` is its main
    branch's tip, ``settings`` the configuration in it; None: there is none that can be read.
    ``locked``: we hold the hub's lock ourselves.
    """

    hub: Hub
    now: datetime
    readable: bool
    main: Oid | None
    settings: Settings | None
    full: bool = False
    locked: bool = False


def open_damaged(path: Path | None) -> Hub:
    """The hub, also one whose ``.cn/hub.yaml`` is neither in the work tree nor in main.

    Raises :class:`ConfigError` where there is no sign of a hub.
    """
    try:
        return open_hub(path)
    except ConfigError:
        start = (path or Path.cwd()).absolute()
        above = [] if path is not None else list(start.parents)
        for root in (start, *above):
            if (root / ".git").is_dir() and _was_hub(root):
                real = Path(os.path.realpath(root))
                config = read_config(Git(real))
                git, origin = Git(real, config=config), bool(config.all("remote.origin.url"))
                return Hub(real, real / ".git", real / ".git", git, "main", origin)
        raise


def _was_hub(root: Path) -> bool:
    return (root / ".git" / "cn").is_dir() or (root / ".cn").is_dir()


def examine_from(hub: Hub, *, full: bool = False, locked: bool = False) -> HubFacts:
    """Read what every check needs; nothing that fails here ends the examination."""
    main: Oid | None = None
    settings: Settings | None = None
    readable = False
    with suppress(CnError, OSError, ValueError):
        readable = hub.git.run("rev-parse", "--git-dir", check=False).ok
    if readable:
        with suppress(CnError, OSError, ValueError):
            settings = read_settings(hub, "HEAD")
            hub = replace(hub, main=settings.config.main)
        with suppress(CnError, OSError, ValueError):
            main = resolve(hub.git, hub.main_ref)
        if main is not None:
            settings = None
            with suppress(CnError, OSError, ValueError):
                settings = read_settings(hub, main)
    return HubFacts(hub, now(), readable, main, settings, full, locked)
