"""A mailbox whose host lists names that no git would make: refused by name, and nobody is delayed.

A real server behind a proxy that changes the names, so all they name can be fetched.
"""

from __future__ import annotations

import pytest

from tests.support.hubs import bare, commit, git, push, try_git
from tests.support.proxy import Fault, proxy
from tests.support.servers import git_daemon
from tests.support.world import Node, World, picture

CLIMBING = {
    "pi/up/here": "pi/../here",
    "pi/up/up/up/cn-sigma/x": "pi/../../../cn-sigma/x",
    "pi/last/up": "pi/last/..",
    "pi/inside--": "pi/in..side",
}
CONTROL = {
    "pi/escape-2J": "pi/escape\x1b[J",
    "pi/return-": "pi/return\r",
    "pi/bell-": "pi/bell\x07",
    "pi/delete-": "pi/delete\x7f",
}
SHOWN = {
    **{told: told for told in CLIMBING.values()},
    "pi/escape\x1b[J": "pi/escape<U+001B>[J",
    "pi/return\r": "pi/return<U+000D>",
    "pi/bell\x07": "pi/bell<U+0007>",
    "pi/delete\x7f": "pi/delete<U+007F>",
}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("names", [CLIMBING, CONTROL], ids=["climbing", "control"])
def test_what_a_host_calls_so_is_refused_by_name(world: World, sigma: Node, pi: Node, names: dict[str, str]) -> None:
    box = bare(world.folder / "host/box.git")
    person = world.person(pi, sigma)
    heads = {}
    for name in [*names, "pi/fine"]:
        git(person, "checkout", "--quiet", "-B", "work", "origin/main")
        heads[name] = commit(person, {f"docs/{name[3:].replace('/', '-')}.md": f"{name}\n"}, name)
        push(person, box, f"HEAD:refs/heads/{name}")
    lies = tuple((true.encode(), told.encode()) for true, told in names.items())
    with git_daemon(world.folder / "host", world.folder) as served:
        port = int(served.base.rpartition(":")[2])
        with proxy(port) as host:
            host.fault = Fault("lies", lies=lies)
            git(sigma.root, "remote", "add", "box", f"git://127.0.0.1:{host.port}/box.git")
            sigma.configure("mailbox: box\n")
            before = picture(world.folder / "people", world.folder / "cn-pi")
            done = sigma.sync(check=1)
            assert "✓ received pi/fine" in done.stdout
            for told in names.values():
                assert f"refused: pi's branch {SHOWN[told]} is refused: valid-name\n" in done.stderr
            assert not set(done.stderr) & {"\x1b", "\r", "\x07", "\x7f"}
            assert len(sigma.threads()) == 1
            assert "pi/fine" in sigma.thread(sigma.only_thread())
            assert picture(world.folder / "people", world.folder / "cn-pi") == before
            for name in names:  # nothing of them was fetched
                assert try_git(sigma.root, "cat-file", "-e", heads[name]).returncode
            assert sigma.cn("status").stdout.count("is refused: valid-name") == len(names)
            again = sigma.sync()
            assert (again.stdout, again.stderr) == ("", "")
            # The same names told as they are come in: nothing else kept them out.
            host.fault = Fault("none")
            assert sigma.sync().stdout.count("✓ received") == len(names)
