"""Floor of processing decisions: one listing, one fast-import, one push a remote.

``decisions.py fast`` writes merges of disjoint branches into the stream; ``decisions.py tree``
makes each with ``merge-tree`` and ``commit-tree``, as overlapping or renaming ones need.
"""

import sys

from bare import DONE, INBOX, Stream, changes, decision, deliver, entries, field, git

git("ls-remote", "--heads", "origin")
threads = {}
for name in entries(INBOX):
    with open(f"{INBOX}/{name}", encoding="utf-8") as file:
        threads[name] = file.read()
decided = {name: decision(text) for name, text in threads.items()}
merges = [name for name in threads if decided[name] == "do:merge"]
heads = {name: field(text, "Head") for name, text in threads.items()}
stream = Stream()
tip = git("rev-parse", "main").decode().strip()
if sys.argv[1] == "tree":
    for name in merges:
        tree = git("merge-tree", "--write-tree", tip, heads[name]).decode().split("\n")[0]
        words = ("commit-tree", "-p", tip, "-p", heads[name], "-m", f"merge {name}", tree)
        tip = git(*words).decode().strip()
else:
    found = changes([heads[name] for name in merges]) if merges else {}
    for name in merges:
        stream.commit("refs/heads/main", f"merge {name}", [tip, heads[name]])
        for mode, blob, path in found[heads[name]][1]:
            stream.change(f"M {mode} {blob} {path}" if mode != "000000" else f"D {path}")
        tip = f":{stream.marks}"
stream.commit("refs/heads/main", "floor", [tip])
for name, text in threads.items():
    stream.change(f"D {INBOX}/{name}")
    stream.file(f"{DONE}/{name}", f"{text}\n## Executed\n\n- done\n".encode())
for name, text in threads.items():
    branch = field(text, "Branch")
    peer, _, topic = branch.partition("/")
    word = decided[name]
    topic = word.partition("do:reply:")[2] or f"notice-{topic}"
    stream.commit(f"refs/floor/{peer}/{topic}", f"{branch}: {word}", [])
    body = text.rpartition("## Triage")[2]
    stream.file("message.md", f"---\nabout: {branch}\nhead: {heads[name]}\n---\n{word}\n{body}".encode())
stream.run()
git("push", "--quiet", "origin", "main")
git("read-tree", "-u", "--reset", "main")
deliver("sigma/")
