"""What could not be fetched together: how often, and whom, cn asks again."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from cn.git.process import TIMED_OUT
from cn.peers.second_tries import Failed, Pair, Wanted, fetch_apart
from cn.protocol.ledger import IN
from cn.values.names import Branch, Name, Oid

HEAD = Oid("1" * 40)


def pairs(peer: str, *topics: str) -> list[Pair]:
    return [(Branch(f"{peer}/{topic}"), HEAD, (Name(peer), topic), IN) for topic in topics]


class Host:
    """Fetches nothing that holds one of the branches in ``bad``."""

    def __init__(self, bad: Collection[str], why: str = TIMED_OUT) -> None:
        self.bad, self.why = bad, why
        self.rounds: list[int] = []

    def fetch(self, wanted: Wanted) -> dict[str, str]:
        self.rounds.append(len(wanted))
        return {k: self.why for k, (_, found) in wanted.items() if any(branch in self.bad for branch, *_ in found)}


def try_again(host: Host, wanted: dict[str, list[Pair]]) -> Failed:
    asked = {remote: (remote, found) for remote, found in wanted.items()}
    return fetch_apart(host.fetch, asked, dict.fromkeys(asked, host.why))


def test_a_host_that_lists_and_hangs_is_left_after_a_few_branches() -> None:
    remotes = {name: pairs(name, *map(str, range(50))) for name in ("pi", "rho", "tau")}
    host = Host({branch for found in remotes.values() for branch, *_ in found})
    failed = try_again(host, remotes)
    assert host.rounds == [12], "all hosts at once, four branches of each"
    assert failed.silent == {(name, name): TIMED_OUT for name in remotes}
    assert failed.branches == []


def test_one_bad_branch_is_found_and_keeps_no_other_out() -> None:
    host = Host({"pi/b"})
    failed = try_again(host, {"box": pairs("pi", "a", "b", "c") + pairs("rho", "x")})
    assert [pair[0] for pair, _ in failed.branches] == ["pi/b"]
    assert failed.silent == {}
    assert host.rounds == [2, 3], "by peer, then the branches of the one that failed"


def test_a_mailbox_that_hangs_for_all_is_not_asked_by_branch() -> None:
    host = Host({"pi/a", "rho/x", "rho/y"})
    failed = try_again(host, {"box": pairs("pi", "a") + pairs("rho", "x", "y")})
    assert set(failed.silent) == {("box", "pi"), ("box", "rho")}
    assert host.rounds == [2]


@pytest.mark.parametrize(("bad", "rounds"), [(range(3, 48, 4), 2), ([3], 12)])
def test_branches_that_take_all_the_time_end_a_run_in_time(bad: Collection[int], rounds: int) -> None:
    host = Host({f"pi/{n}" for n in bad})
    failed = try_again(host, {"pi": pairs("pi", *map(str, range(60)))})
    assert len(host.rounds) == rounds
    assert failed.silent == {}


def test_what_a_host_refuses_is_asked_for_one_by_one() -> None:
    host = Host({f"pi/{n}" for n in range(10)}, "not our ref")
    failed = try_again(host, {"pi": pairs("pi", *map(str, range(10)))})
    assert len(failed.branches) == 10
