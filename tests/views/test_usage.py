"""``cn usage`` on a real hub: what the log holds, and nothing that disturbs the others who read it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cn.llm.config import Budget, Budgets
from cn.llm.request import Usage
from cn.llm.usage import Call, cost, format_call, log_call, over_budget, read_calls
from cn.protocol.log import Row, format_event
from cn.run.executor import MACHINE_LOG
from tests.support.hubs import cn, git
from tests.views.test_views import agree, documented

NOW = datetime.now(UTC).replace(microsecond=0)
MODEL = "claude-sonnet-5-5"
USED = Usage(1200, 350, 6400)


def call(days: int = 0, peer: str = "pi", usage: Usage = USED, **more: Any) -> Call:
    model = more.pop("model", MODEL)
    stop = more.pop("stop", "end_turn")
    at = NOW - timedelta(days=days)
    return Call(at, "20260205-151400-3f2a9c", f"{peer}/x", peer, model, usage, cost(usage, model), 4.2, stop, **more)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    root = tmp_path / "hub"
    cn("init", "sigma", "--path", root, check=0)
    return root


def usage(hub: Path, *args: str) -> Any:
    return json.loads(cn("usage", *args, "--json", hub=hub, check=0).stdout)


def test_without_a_call_it_says_so(hub: Path) -> None:
    assert cn("usage", hub=hub, check=0).stdout == "no call to a model is logged\n"
    empty = usage(hub)
    assert (empty["rows"], empty["total"]["calls"], empty["total"]["cost_usd"]) == ([], 0, None)


def test_calls_are_summed_by_day_and_by_peer(hub: Path) -> None:
    for made in (call(1), call(), call(peer="omega"), call(stop="overloaded", usage=Usage())):
        log_call(hub, made)
    days = usage(hub)
    assert [row["calls"] for row in days["rows"]] == [1, 3]
    assert days["total"]["cost_usd"] == pytest.approx(3 * 0.00654)
    assert days["total"]["failed"] == 1
    assert days["total"]["cache_hit_rate"] == round(6400 / 7600, 4)
    peers = usage(hub, "--by", "peer")
    assert [(row["key"], row["calls"]) for row in peers["rows"]] == [("pi", 3), ("omega", 1)]
    assert usage(hub, "--since", "12h")["total"]["calls"] == 3


def test_the_table_shows_money_only_where_it_is_known(hub: Path) -> None:
    log_call(hub, call())
    log_call(hub, call(peer="omega", model="claude-unheard-of", unknown=True))
    lines = cn("usage", "--by", "peer", hub=hub, check=0).stdout.splitlines()
    assert lines[0].split() == ["PEER", "CALLS", "FAILED", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert lines[1].split() == ["omega", "1", "0", "7,600", "84%", "350", "—"]
    assert lines[2].split() == ["pi", "1", "0", "7,600", "84%", "350", "$0.0065"]
    assert lines[3].split() == ["total", "2", "0", "15,200", "84%", "700", "$0.0065", "and", "more"]
    assert lines[4] == "1 call used a model whose price cn does not know"
    assert lines[5].startswith("1 call broke off")


def test_the_documented_shape_is_what_is_printed(hub: Path) -> None:
    log_call(hub, call())
    agree(documented()["usage"], usage(hub), "usage")


def test_no_hidden_character_reaches_the_screen(hub: Path) -> None:
    log_call(hub, call(peer="pi\u202e\x1b[31m"))
    assert "\u202e" not in cn("usage", "--by", "peer", hub=hub, check=0).stdout
    assert "\x1b" not in cn("usage", "--by", "peer", hub=hub, check=0).stdout


def test_the_log_of_what_happened_does_not_show_calls(hub: Path) -> None:
    log_call(hub, call())
    assert "nothing logged" in cn("log", hub=hub, check=0).stdout


def test_other_lines_of_the_log_disturb_nothing(hub: Path) -> None:
    path = hub / MACHINE_LOG
    path.parent.mkdir(exist_ok=True)
    path.write_text(format_event(Row(NOW, "pi/x", 'say "event": "model"')) + '\n{"torn')
    log_call(hub, call())
    assert len(read_calls(hub)) == 1
    assert path.read_text().endswith('{"torn\n' + format_call(call()) + "\n")
    assert "pi/x" in cn("log", hub=hub, check=0).stdout


def test_rotated_logs_are_read_too(hub: Path) -> None:
    for number, days in ((3, 3), (2, 2), (1, 1)):
        (hub / f"{MACHINE_LOG}.{number}").parent.mkdir(exist_ok=True)
        (hub / f"{MACHINE_LOG}.{number}").write_text(format_call(call(days)) + "\n")
    log_call(hub, call())
    assert [made.at for made in read_calls(hub)] == [call(days).at for days in (3, 2, 1, 0)]


def test_budgets_count_what_is_logged(hub: Path) -> None:
    budgets = Budgets(Budget(tokens_per_day=10_000_000, turns_per_hour=2))
    assert over_budget(hub, budgets, "pi", NOW) == ""
    log_call(hub, call())
    assert over_budget(hub, budgets, "pi", NOW) == ""
    log_call(hub, call(peer="omega"))
    assert "turns_per_hour" in over_budget(hub, budgets, "pi", NOW)


def test_the_log_stays_out_of_the_tree(hub: Path) -> None:
    log_call(hub, call())
    assert git(hub, "status", "--porcelain") == ""
    assert not (hub / MACHINE_LOG).is_symlink()


def test_a_link_in_the_place_of_the_log_is_not_followed(hub: Path, tmp_path: Path) -> None:
    from cn.values.errors import Refused

    (hub / MACHINE_LOG).parent.mkdir(exist_ok=True)
    (hub / MACHINE_LOG).unlink(missing_ok=True)
    (hub / MACHINE_LOG).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="cannot append"):
        log_call(hub, call())
    assert read_calls(hub) == []
    assert not (tmp_path / "elsewhere").exists()
