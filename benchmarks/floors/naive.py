"""The way one writes the bulk paths first: some processes for each branch. ``naive.py WHAT``."""

import sys

from bare import DAY, INBOX, OUTBOX, SENT, contents, decision, entries, field, git, message, peers

what = sys.argv[1]
if what == "arrivals":
    lines = git("ls-remote", "--heads", "origin").decode().split("\n")
    for oid, ref in (line.split("\t") for line in lines if line):
        if ref == "refs/heads/main":
            continue
        git("fetch", "--quiet", "origin", ref)
        text = git("log", "-1", "--format=%B", oid) + git("diff", f"main...{oid}")
        name = ref.removeprefix("refs/heads/").replace("/", "-")
        with open(f"{INBOX}/{DAY}-{name}.md", "wb") as file:
            file.write(b"".join(b"> " + line + b"\n" for line in text.split(b"\n")))
    git("add", INBOX)
    git("commit", "--quiet", "-m", "naive")
elif what == "merges":
    heads = []
    for name in entries(INBOX):
        with open(f"{INBOX}/{name}", encoding="utf-8") as thread:
            said = thread.read()
        if decision(said) == "do:merge":
            heads.append(field(said, "Head"))
    git("checkout", "--quiet", "--", INBOX)
    for head in heads:
        git("merge", "--quiet", "--no-ff", "--no-edit", head)
elif what == "delivery":
    waiting = entries(OUTBOX)
    for name, text in zip(waiting, contents(list(waiting.values())), strict=True):
        entry = message(text)
        blob = git("hash-object", "-w", "--stdin", stdin=text.partition(b"\n---\n")[2]).decode().strip()
        tree = git("mktree", stdin=f"100644 blob {blob}\tmessage.md\n".encode()).decode().strip()
        commit = git("commit-tree", "-m", entry["subject"], tree).decode().strip()
        git("push", "--quiet", f"../peers/{entry['to']}.git", f"{commit}:refs/heads/{entry['branch']}")
        git("mv", f"{OUTBOX}/{name}", f"{SENT}/{name}")
    git("commit", "--quiet", "-m", "naive")
elif what == "cleanup":
    waiting = entries(OUTBOX)
    (peer,) = peers()
    for text in contents(list(waiting.values())):
        entry = message(text)
        lease = f"--force-with-lease=refs/heads/{entry['branch']}:{entry['tip']}"
        git("push", "--quiet", lease, f"../peers/{peer}", f":refs/heads/{entry['branch']}", fails=True)
else:
    sys.exit(f"no such way: {what}")
