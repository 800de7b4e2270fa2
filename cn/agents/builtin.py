"""cn's own agent: ``python -m cn.agents.builtin``, started by the runner ``builtin``.

Its tools are those that the server lists, and no others: no shell, no files but those of its workspace, which tools
name. A line of JSON for each turn and call goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cn.agents.loop import DONE, FAILED, OVER, Limits, Loop
from cn.agents.toolkit import Ended, Toolkit
from cn.agents.unanswered import EXIT_UNANSWERED, UNANSWERED
from cn.bridge.run import agents_address
from cn.inherited import refuse_signals
from cn.llm.request import Failure, Usage
from cn.llm.tool_turns import Conversation, Turn
from cn.values.known_secrets import KnownSecrets

_SECONDS = 600.0
_FAILED = 1


def main() -> int:
    """Work for the handler whose token is in the environment; 0 where it ended by itself, or its lease did."""
    options = _parse()
    token = os.environ.pop("CN_AGENT_TOKEN", "")
    key = _key()
    base_url = os.environ.get("ANTHROPIC_BASE_URL", "")
    try:
        address = agents_address(os.environ)
    except ValueError:
        token = ""
    if not token:
        print("cn: 'cn agency serve' starts agents: token and the server's address are missing", file=sys.stderr)
        return _FAILED
    try:
        tools = Toolkit(address, token, Path.cwd())
    except Ended as ended:
        return _end(OVER, Usage(), 0, str(ended))

    def ask(asked: Conversation) -> Turn | Failure:
        from cn.llm.client import call_with_tools  # a second, while the server is already asked

        return call_with_tools(asked, api_key=key, base_url=base_url, seconds=_SECONDS)

    limits = Limits(options.max_tokens, options.context, options.turns)
    loop = Loop(options.model, options.system.read_text("utf-8"), ask, tools, _say, limits)
    return _end(loop.run(options.prompt.read_text("utf-8")), loop.usage, loop.turns)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--system", type=Path, required=True, help="a file: what holds for all agents of the handler")
    parser.add_argument("--prompt", type=Path, required=True, help="a file: how things are now")
    usual = Limits()
    parser.add_argument("--max-tokens", type=int, default=usual.max_tokens, help="of one answer")
    parser.add_argument("--context", type=int, default=usual.context, help="tokens after which it is to end")
    parser.add_argument("--turns", type=int, default=usual.turns, help="turns after which it is to end")
    return parser.parse_args()


def _key() -> str:
    return next((os.environ[name] for name in ("ANTHROPIC_KEY", "ANTHROPIC_API_KEY") if os.environ.get(name)), "")


def _say(value: Mapping[str, Any]) -> None:
    """A line of the transcript, which is kept: whatever the API says, our key is not in it."""
    print(KnownSecrets([_key()]).mask(json.dumps(value, ensure_ascii=False, default=str)), flush=True)


def _end(why: str, usage: Usage, turns: int, more: str = "") -> int:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    _say({"type": "result", "why": why, "turns": turns, "usage": counts})
    if why.startswith((FAILED, UNANSWERED)) or more:
        print(KnownSecrets([_key()]).mask(f"cn: {more or why}"), file=sys.stderr)
    if why.startswith(UNANSWERED):
        return EXIT_UNANSWERED
    return 0 if why in (DONE, OVER) else _FAILED


if __name__ == "__main__":
    refuse_signals()
    sys.exit(main())
