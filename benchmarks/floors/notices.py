"""Floor of a sync that brings notices: one fetch, one commit with a row each, one push a peer that deletes."""

import re

from bare import Stream, changes, contents, git, peers, together

git("fetch", "--quiet", "origin", "+refs/heads/*:refs/floor/*")
lines = git("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/floor/").decode().split("\n")
heads = {name: oid for oid, name in (line.split(" ", 1) for line in lines if line) if name != "main"}
found = changes(list(heads.values()))
texts = contents([found[head][1][0][1] for head in heads.values()])
rows, gone = [], dict[str, list[str]]()
for name, text in zip(heads, texts, strict=True):
    about = dict(re.findall(r'^  (\w+): "?([^"\n]*)"?$', text.decode(), re.M))
    rows.append(f"| {name} | {about['branch']} | {about['status']} | {about['reason']} |\n")
    gone.setdefault(name.partition("/")[0], []).append(f":refs/heads/{about['branch']}")
stream = Stream()
stream.commit("refs/heads/main", "floor", ["refs/heads/main^0"])
stream.file("logs/notices.md", "".join(rows).encode())
stream.run()
git("push", "--quiet", "origin", "main")
together(
    [
        ["push", "--quiet", "--atomic", f"../peers/{peer}", *gone[peer.removesuffix(".git")]]
        for peer in peers()
        if peer.removesuffix(".git") in gone
    ]
)
git("read-tree", "-u", "--reset", "main")
