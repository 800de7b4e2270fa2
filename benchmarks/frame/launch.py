"""Start one command, wait for it, print what it cost: ``launch.py OUT ERR SECONDS COMMAND…``.

A process of its own, and a small one: Linux counts the memory of whoever starts a process as
the child's own peak until the child has called exec, so that a large benchmark would hide a
small command (getrusage(2), ``ru_maxrss``; fs/exec.c, ``exec_mmap``). Run with ``python -I -S``.

Prints ``CODE SECONDS PEAK``: exit code, wall time, and the peak resident memory in KiB of the
largest single process among the command and the children it waited for (wait4(2)).
"""

import os
import signal
import sys
import time

out, err, limit, *command = sys.argv[1:]
flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
actions = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, out, flags, 0o600),
    (os.POSIX_SPAWN_OPEN, 2, err, flags, 0o600),
]
began = time.perf_counter()
child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions, setpgroup=0)
signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
signal.setitimer(signal.ITIMER_REAL, float(limit))
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - began
peak = usage.ru_maxrss // 1024 if sys.platform == "darwin" else usage.ru_maxrss
print(os.waitstatus_to_exitcode(status), seconds, peak)
