"""Floor of delivering the outbox: one ``cat-file``, one fast-import, one push a peer, one commit."""

from bare import OUTBOX, SENT, Stream, contents, deliver, entries, git, message

waiting = entries(OUTBOX)
texts = dict(zip(waiting, contents(list(waiting.values())), strict=True))
stream = Stream()
for text in texts.values():
    head = message(text)
    commit = head["commit"].partition("\n\n")
    who, seconds, zone = commit[0].split("\ncommitter ")[1].rsplit(" ", 2)
    ref = f"refs/floor/{head['to']}/{head['branch']}"
    stream.commit(ref, commit[2], [], who, f"{seconds} {zone}")
    stream.file("message.md", text.partition(b"\n---\n")[2])
stream.commit("refs/heads/main", "floor", ["refs/heads/main^0"])
for name in waiting:
    stream.change(f"R {OUTBOX}/{name} {SENT}/{name}")
stream.run()
deliver()
git("push", "--quiet", "origin", "main")
git("read-tree", "-u", "--reset", "main")
