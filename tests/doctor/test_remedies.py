"""What a pusher or a peer named is only a name in every remedy: the remedies are really typed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.support.hubs import clone, push, tip, write_commit
from tests.support.world import World

RUN = "$(echo>pwned)"
PLACES = [
    f"threads/mail/outbox/20261121-pi-{RUN}-aaaaaaaa.md", f"threads/mail/outbox/{RUN}-say.md",
    f"state/queue/inbox-{RUN}.md", "state/queue/*.md", "state/queue/a\u202eb.md", f"threads/inbox/{RUN}.md",
    f"state/ledger/{RUN}/202611.jsonl",
]  # fmt: skip


def _typed(line: str) -> set[str]:
    """As people copy it from a line: each command with its quotes and without, a remedy as it stands too."""
    at = [found.start() for found in re.finditer("'", line)]
    spans = {line[a + 1 : b] for a in at for b in at if re.match(r"(git|cn|rm) ", line[a + 1 : b])}
    return spans | {f"'{span}'" for span in spans} | set(re.findall("→ (.*)", line))


def test_no_remedy_runs_what_a_name_says(tmp_path: Path, template: Path) -> None:
    world = World(tmp_path, template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.write({f".cn/{RUN}.md": "x\n"})
    pusher = clone(sigma.url, tmp_path / "pusher", "eve")
    tree = dict.fromkeys(PLACES, "x\n")
    push(pusher, sigma.url, f"{write_commit(pusher, tree, 'x', [tip(pusher, 'main')])}:refs/heads/main")
    ref = "pi/$(echo${IFS}x>pwned)"  # no blank: git takes it as a name of a branch
    head = write_commit(pusher, {"a": "x\n"}, "x", [tip(pusher, "main")])
    push(pusher, sigma.url, f"{head}:refs/heads/{ref}")
    runs = [sigma.cn("sync", check=None)]
    # What a person did with a name that came from elsewhere.
    for place in (f".cn/{RUN}.md", f"threads/adhoc/{RUN}.md", ".gitattributes"):
        (sigma.root / place).write_text("changed\n")
    (sigma.root / ".git" / f"{RUN}.lock").write_text("")
    for words in (("sync",), ("status", "-v"), ("queue",), ("save",), ("inbox", "show", ref), ("done", ref),
                  ("inbox", "triage", ref, "delete:x"), ("doctor",)):  # fmt: skip
        runs.append(sigma.cn(*words, check=None))
    found = json.loads(sigma.cn("doctor", "--json", check=None).stdout)
    lines = [f"→ {f['remedy']}" for f in found]
    for done in runs:
        assert "Traceback" not in done.stderr
        lines += (done.stdout + done.stderr).splitlines()
    commands = "\n".join(lines)
    for want in (
        r"git log -p -- threads/mail/outbox/20261121-pi-\$\(echo\>pwned\)-aaaaaaaa.md'",
        r"git log -p -- threads/mail/outbox/\$\(echo\>pwned\)-say.md'",
        r"git rm -- state/queue/inbox-\$\(echo\>pwned\).md'",
        r"git --literal-pathspecs rm -- state/queue/\*.md'",
        "git rm -- NAME'",
        r"git add -- .cn/\$\(echo\>pwned\).md && git commit'",
    ):  # fmt: skip
        assert want in commands, commands
    folder = tmp_path / "typed"
    folder.mkdir()
    for text in sorted(set().union(*map(_typed, lines))):
        # No program is found there, and what a name says needs none.
        subprocess.run(["/bin/bash", "-c", text], cwd=folder, env={"PATH": "/nowhere"},
                       capture_output=True, timeout=20, check=False)  # fmt: skip
        assert not list(folder.iterdir()), text
