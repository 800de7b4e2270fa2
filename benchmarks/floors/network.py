"""Floor of a command over a network: the same fetches and pushes by bare git, each at once: ``network.py STEP…``.

A step is ``+`` (a commit upon main), a command of git's, or several with ``&`` between them, which go side by side.
"""

import subprocess
import sys


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


for step in sys.argv[1:]:
    if step == "+":
        tip = git("commit-tree", "-p", "HEAD", "-m", "floor", "HEAD^{tree}")
        git("update-ref", "refs/heads/main", tip)
        continue
    running = [subprocess.Popen(["git", *one.split()], stdout=subprocess.DEVNULL) for one in step.split("&")]
    assert [process.wait() for process in running] == [0] * len(running), step
