"""Commands to type: a name in them is a name to every shell, and to git; nothing else makes commands."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click import Context
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.cli.main import cli
from cn.values.shell_words import NAME, command, escape
from cn.values.text import visible
from tests.support.hubs import ROOT

SHELLS = [shell for shell in ("bash", "dash", "zsh", "busybox") if shutil.which(shell)]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda text: visible(text) == text and not set(text) & {"\n", "\t"}
)


def run(shell: str, script: str, cwd: Path) -> bytes:
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run([*words, "-c", script], cwd=cwd, capture_output=True, timeout=20, check=False)
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60)
@given(word=names)
def test_a_word_is_what_the_shell_reads(shell: str, word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.getbasetemp()
    assert run(shell, f"printf '%s\\0' -- {escape(word)}", home).split(b"\0")[1:] == [word.encode(), b""]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "name", ["a$(echo>pwned)b", "a`echo>pwned`", "a;echo>pwned;", "a'$(echo>pwned)'b", 'a"$(echo>pwned)"',
             "a\\$(echo>pwned)", "a'`echo>pwned`", "a|echo>pwned", "a&echo>pwned&", "a>pwned",
             "';echo>pwned;'"]
)  # fmt: skip
def test_nothing_is_run_with_the_quotes_and_without(shell: str, name: str, tmp_path: Path) -> None:
    line = command("true rm -- {} {}", name, name)
    for typed in (line, line[1:-1], f"{line} and commit"):
        run(shell, typed, tmp_path)
        assert list(tmp_path.iterdir()) == [], typed


def test_plain_names_stay_plain() -> None:
    assert command("git rm -- {}", "state/queue/inbox-1a.md") == "'git rm -- state/queue/inbox-1a.md'"
    assert command("git mv -- {} {}", "a b", "ü") == r"'git mv -- a\ b ü'"
    assert command("git rm -- {}", "") == "'git rm -- '''"


@pytest.mark.parametrize(
    "name", ["a\nb", "a\tb", "a\x1b[2Jb", "a\u202eb", "a\u200bb", "a\udcffb", "https://me:token@host/x"]
)
def test_what_cannot_be_typed_is_never_part_of_a_command(name: str) -> None:
    line = command("git add -- {} && git commit -- {}", name, name)
    assert line.startswith(f"'git add -- {NAME} && git commit -- {NAME}' (")
    assert name not in line
    assert visible(name) not in line


def test_git_reads_a_name_as_a_path_and_not_as_a_pattern() -> None:
    for name in ("state/queue/*", "a?", "a[b]", ":(glob)**", "a\\b"):
        assert command("git rm -- {}", name).startswith("'git --literal-pathspecs rm -- ")
        assert command("git -C {} checkout main -- {}", "hub", name).startswith("'git --literal-pathspecs -C hub ")


@pytest.mark.parametrize("word", [":pi/topic", "ssh://git@[::1]/pi.git", "0a1b:refs/heads/pi/topic"])
def test_what_is_no_path_is_typed_in_the_plain_form(word: str) -> None:
    for template in ("git push {} main", "git fetch {}", "git pull --rebase {} main", "git clone {}"):
        assert command(template, word) == f"'{template.format(escape(word))}'"


# Every remedy of cn.

_VERB = "add|branch|checkout|commit|config|diff|fetch|init|log|merge|mv|pull|push|rebase|remote|reset|restore|rm|"
_VERB += "show|switch|update-ref|worktree|-C"
_WORDS = "|".join(cli.list_commands(Context(cli)))
_OPEN = re.compile(
    rf"'(?:git|cn|rm|mv|cp|chmod|chown|sudo|systemctl|ssh|kill) [^']*\{{}}"
    rf"|(?<![\w-])(?:git (?:-\S+ )*(?:{_VERB})|cn (?:{_WORDS})) [^';.,:]*\{{}}"
)


def _texts(path: Path) -> list[tuple[int, str]]:
    """Every string of a module that is put together, with ``{}`` for what is put in."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            found.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            left = node.left
            if isinstance(left, ast.Constant) and isinstance(left.value, str):
                found.append((node.lineno, f"{left.value}{{}}"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            left = node.func.value
            if isinstance(left, ast.Constant) and isinstance(left.value, str):
                found.append((node.lineno, left.value))
    return found


def _loose(path: Path) -> list[str]:
    return [f"{path.name}:{line}: {text}" for line, text in _texts(path) if _OPEN.search(text)]


@pytest.mark.parametrize(
    "text",
    [
        """f"'git rm {path}' and commit\"""", """f"run 'cn done {thread}'\"""",
        """f"git add {path} && git commit\"""",
        """"'git rm " + path""", """"'git rm -- {}'".format(path)""", """f"git -C {root} checkout\"""",
        """f"rm it: 'rm {name}'\"""",
    ],
)  # fmt: skip
def test_a_command_that_is_put_together_otherwise_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(text)
    assert _loose(tmp_path / "x.py")


def test_every_command_with_a_name_in_it_is_made_here() -> None:
    files = list((ROOT / "cn").rglob("*.py"))
    assert len(files) > 150
    assert [line for path in files for line in _loose(path)] == []


def test_the_command_itself_is_never_put_together() -> None:
    users = [p for p in (ROOT / "cn").rglob("*.py") if re.search(r"import command|opened\.typed", p.read_text("utf-8"))]
    assert len(users) > 15
    for path in users:
        tree = ast.parse(path.read_text("utf-8"))
        # What a handler would type: of a template that is looked at where it is given.
        given_on = {call for one in ast.walk(tree) if getattr(one, "name", "") == "typed" for call in ast.walk(one)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or node in given_on:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
            if name in ("command", "opened.typed"):
                first = node.args[0] if node.args else None
                templates = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                assert all(isinstance(t, ast.Constant) for t in templates), f"{path}:{node.lineno}"


def test_a_url_with_an_account_is_typed_as_it_is_and_one_with_a_password_never() -> None:
    assert command("git fetch {} main", "ssh://git@git.example.org:2222/pi.git") == (
        "'git fetch ssh://git@git.example.org:2222/pi.git main'"
    )
    told = command("git fetch {} main", "https://pi:secret@git.example.org/pi.git")
    assert told == f"'git fetch {NAME} main' (for {NAME} type the URL with its password, which is not shown)"
