"""What an agent may choose when it delegates, as the server enforces it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.agency.operations import CreateOutcome, Delegate
from tests.support.agency_server import Office, open_office, serving, uuid
from tests.support.hubs import cn, git
from tests.support.mcp_clients import connect, talk

_MACHINE = """
[runners.plain]
like = "builtin"
underlings = ["other"]
[runners.other]
like = "builtin"
[runners.strong]
argv = ["sh"]
unguarded = true
"""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Office]:
    """A hub on a machine with these runners."""
    cn("init", "office", cwd=tmp_path)
    made = open_office(tmp_path / "cn-office")
    (tmp_path / "agency.toml").write_text(_MACHINE)
    git(made.root, "config", "cn.agency", str(tmp_path / "agency.toml"))
    yield made
    made.agency.store.close()


def test_an_agent_gives_its_underling_no_runner_that_it_may_not_name_and_the_user_any(alone: Office) -> None:
    top = uuid(alone.do(CreateOutcome("Lead", "", (alone.head,)))["outcome"])
    alone.do(Delegate(top, "plain"))
    agent = alone.lease(top)
    outcomes = [uuid(alone.do(CreateOutcome(f"Part {n}", "", (top,)))["outcome"]) for n in range(4)]

    async def work() -> None:
        async with connect(server, agent.token, "socket") as ask:
            refused = await ask("delegate", outcome=outcomes[0], runner="strong")
            assert refused.refused
            assert refused.value["rule"] == "runner"
            assert "may name plain, person, other" in refused.value["reason"]
            await ask.do("delegate", outcome=outcomes[0])
            await ask.do("delegate", outcome=outcomes[1], runner="other")
            await ask.do("delegate", outcome=outcomes[2], runner="person")

    with serving(alone.root) as server:
        talk(work)
    told = cn("handler", "delegate", outcomes[3], "--runner", "strong", "--as", top, hub=alone.root, check=0)
    assert "no runner" not in told.stdout + told.stderr
    with alone.agency.store.reading() as facts:
        runners = [row.runner if (row := facts.handler(one)) else None for one in outcomes]
    assert runners == ["plain", "other", "person", "strong"]
