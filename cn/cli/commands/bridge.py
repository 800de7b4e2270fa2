"""``cn mcp``: the bridge, as the command line shows it. An agent's starts without that (``cli/start.py``)."""

from __future__ import annotations

import os

import click

from cn.cli.options import HUB, Env


@click.command("mcp")
@click.option("--write", is_flag=True, help="Let the client change things in your name; else it only reads.")
@HUB
@click.pass_obj
def mcp_command(env: Env, *, write: bool) -> None:
    """Speak MCP on standard input and output, for an agent or any client of yours, and ask the server of this hub.

    Environment: CN_AGENT_TOKEN with CN_MCP_SOCKET or CN_MCP_URL makes it an agent's; without a token it is yours.
    """
    from cn.bridge.run import run

    words = ["--write"] if write else []
    if os.environ.get("CN_AGENT_TOKEN"):
        run(words)
    from cn.agency.server_seen import HEALTH

    run(words, str(env.hub().state / HEALTH))
