"""Floor of a sync with new branches: one fetch, ``log``, ``cat-file``, commit and push, and files."""

from bare import DAY, INBOX, Stream, changes, contents, git


def record() -> None:
    """A thread file for each branch below ``refs/floor/``, in one commit, pushed."""
    lines = git("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/floor/").decode().split("\n")
    heads = {name: oid for oid, name in (line.split(" ", 1) for line in lines if line) if name != "main"}
    found = changes(list(heads.values()))
    blobs = [blob for head in heads.values() for _, blob, _ in found[head][1]]
    texts = dict(zip(blobs, contents(blobs), strict=True))
    stream = Stream()
    stream.commit("refs/heads/main", "floor", ["refs/heads/main^0"])
    for name, head in heads.items():
        said, paths = found[head]
        body = "".join(f"A {path}\n{texts[blob].decode()}" for _, blob, path in paths)
        quoted = "".join(f"> {line}\n" for line in (said + body).split("\n"))
        data = f"# {name}\n\n**Head:** {head}\n\n---\n\n{quoted}".encode()
        path = f"{INBOX}/{DAY}-{name.replace('/', '-')}.md"
        with open(path, "wb") as file:
            file.write(data)
        stream.file(path, data)
    stream.run()
    git("read-tree", "main")
    git("push", "--quiet", "origin", "main")


if __name__ == "__main__":
    git("fetch", "--quiet", "origin", "+refs/heads/*:refs/floor/*")
    record()
