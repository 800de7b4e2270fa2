"""Floor of an idle sync: ``ls-remote`` of every URL in a file, at most so many at once.

``idle.py FILE WIDTH`` prints, sorted, the number of the URL, the branch and its tip.
"""

import os
import select
import sys

with open(sys.argv[1]) as listed:
    urls = listed.read().split()
width = int(sys.argv[2])
waiting = list(enumerate(urls))
running: dict[int, tuple[int, int]] = {}
said: dict[int, bytes] = {}
poll = select.poll()
null = os.open(os.devnull, os.O_RDONLY)
while waiting or running:
    while waiting and len(running) < width:
        number, url = waiting.pop()
        read, write = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)]
        child = os.posix_spawnp("git", ["git", "ls-remote", "--heads", url], os.environ, file_actions=actions)
        os.close(write)
        running[read] = number, child
        said[number] = b""
        poll.register(read, select.POLLIN | select.POLLHUP)
    for pipe, _event in poll.poll():
        data = os.read(pipe, 1 << 20)
        number, child = running[pipe]
        said[number] += data
        if not data:
            poll.unregister(pipe)
            os.close(pipe)
            del running[pipe]
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
                sys.exit(f"{urls[number]} does not answer")
lines = []
for index, answer in said.items():
    for line in answer.decode().splitlines():
        oid, _, ref = line.partition("\t")
        lines.append(f"{index} {ref} {oid}")
print("\n".join(sorted(lines)))
