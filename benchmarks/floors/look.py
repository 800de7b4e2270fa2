"""Floor of ``cn status`` and ``cn inbox``: click, one ``for-each-ref``, the pending threads of main.

``look.py HUB`` prints the names of the threads whose text was read.
"""

import subprocess
import sys

import click

hub = sys.argv[1]
git = ["git", "-C", hub]
tip = subprocess.run([*git, "for-each-ref", "refs/heads/main"], capture_output=True, check=True).stdout
commit = tip.split(b" ")[0]
names = subprocess.run(
    [*git, "ls-tree", "--name-only", f"{commit.decode()}:threads/inbox"], capture_output=True, check=True
).stdout.split()
names = [name for name in names if name.endswith(b".md")]
wanted = b"".join(b"%b:threads/inbox/%b\n" % (commit, name) for name in names)
texts = subprocess.run([*git, "cat-file", "--batch", "--buffer"], input=wanted, capture_output=True, check=True).stdout
if texts.count(b"\n**Head:** ") != len(names):
    sys.exit("a thread was not read")
click.echo(b"\n".join(names))
