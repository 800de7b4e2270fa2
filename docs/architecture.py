"""Draw ``docs/architecture.svg`` and the table of ``docs/architecture.md`` from the code (``make tables``).

An arrow leads from a package to one that it imports, also where a function imports it when it is called. The
picture leaves out arrows that follow from others: who imports the agent gets what the agent imports. The
table names all of them.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE, PICTURE = HERE / "architecture.md", HERE / "architecture.svg"
BEGIN, END = "<!-- packages -->\n", "<!-- /packages -->\n"

STRATA: Mapping[str, Mapping[str, int]] = {
    "ground": {"values": 1, "protocol": 1},
    "engine": {"system": 2, "secrets": 0, "telegram": 3, "git": 1, "transaction": 1, "run": 1},
    "capabilities": {
        "llm": 0,
        "peers": 1,
        "threads": 2,
        "agency": 3,
        "outbox": 1,
        "inbox": 1,
        "agent": 1,
        "loop": 1,
        "actions": 0,
        "views": 2,
        "runtime": 2,
        "agents": 3,
        "bridge": 0,
    },
    "doors": {"server": 3, "doctor": 1, "web": 2, "cli": 1},
}
"""Each stratum, from the lowest, with its packages and the column in which the picture has them. Their rows
follow from what they import."""
COLOURS = {"ground": "#eef2ee", "engine": "#e9f0f7", "capabilities": "#f8f2e6", "doors": "#f4ecf4"}

WIDTH, HEIGHT, GAP_X, GAP_Y, LEFT, TOP = 300, 80, 36, 24, 128, 44
Imports = dict[str, frozenset[str]]


def read_packages() -> dict[str, list[Path]]:
    """Package of ``cn`` → its modules."""
    folders = sorted(path.parent for path in (ROOT / "cn").glob("*/__init__.py"))
    return {folder.name: sorted(folder.rglob("*.py")) for folder in folders}


def read_imports() -> Imports:
    """Package → the other packages it imports."""
    packages = read_packages()
    named = {name: {package for path in paths for package in _imported(path)} for name, paths in packages.items()}
    return {name: frozenset(found & packages.keys() - {name}) for name, found in named.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ImportFrom(module="cn", names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield from module.removeprefix("cn.").split(".")[:1] if module.startswith("cn.") else ()
            case ast.Import(names=names):
                yield from (name.name.split(".")[1] for name in names if name.name.startswith("cn."))


def arrows(imports: Imports) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""

    def reached(start: str, without: str) -> set[str]:
        seen: set[str] = set()
        todo = [name for name in imports[start] if name != without]
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                todo += imports[name]
        return seen

    return [(a, b) for a in sorted(imports) for b in sorted(imports[a]) if b not in reached(a, b)]


def rows(imports: Imports) -> dict[str, int]:
    """Package → its row from the bottom: above all that it imports, and above the strata below its own."""
    found: dict[str, int] = {}
    base = 0
    for packages in STRATA.values():
        todo = set(packages)
        while todo:
            ready = {name for name in todo if imports[name] <= found.keys()}
            if not ready:
                raise SystemExit(f"{', '.join(sorted(todo))}: these import upwards, or each other")
            for name in ready:
                found[name] = max([base, *(found[below] + 1 for below in imports[name])])
            todo -= ready
        base = max(found.values()) + 1
    return found


def purpose(package: str) -> str:
    """What a package is for: the first sentence that its ``__init__`` says."""
    text = ast.get_docstring(ast.parse((ROOT / "cn" / package / "__init__.py").read_text("utf-8"))) or ""
    first = text.split("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.sub(r" \(`docs/[^)]*\)", "", first)


class Drawing:
    """The picture: strata as bands, packages as boxes, imports as arrows with one bend at most."""

    def __init__(self, imports: Imports) -> None:
        self.imports = imports
        self.row = rows(imports)
        self.column = {name: at for packages in STRATA.values() for name, at in packages.items()}
        self.cells = {(self.row[name], self.column[name]) for name in self.row}
        self.top = max(self.row.values())

    def svg(self) -> str:
        """The whole picture."""
        width = LEFT + 4 * (WIDTH + GAP_X)
        height = TOP + (self.top + 1) * (HEIGHT + GAP_Y) + 8
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">',
                "<title>The packages of cn, and what they import</title>",
                f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                '<text x="16" y="26" font-size="15" fill="#333">An arrow leads from a package to one that it'
                " imports; imports that follow from other arrows are left out.</text>",
                *self._bands(width),
                *(self._arrow(a, b) for a, b in arrows(self.imports)),
                *(self._box(name) for name in sorted(self.row)),
                "</svg>\n",
            ]
        )

    def _bands(self, width: int) -> Iterator[str]:
        for name, packages in STRATA.items():
            of_it = [self.row[package] for package in packages]
            top, bottom = self._y(max(of_it)) - GAP_Y / 2, self._y(min(of_it)) + HEIGHT + GAP_Y / 2
            yield (
                f'<rect x="8" y="{top:.0f}" width="{width - 16}" height="{bottom - top:.0f}" fill="{COLOURS[name]}"/>'
            )
            yield f'<text x="20" y="{top + 26:.0f}" font-size="16" fill="#555">{name}</text>'

    def _y(self, row: int) -> int:
        return TOP + GAP_Y // 2 + (self.top - row) * (HEIGHT + GAP_Y)

    def _middle(self, column: int) -> int:
        return LEFT + column * (WIDTH + GAP_X) + WIDTH // 2

    def _box(self, name: str) -> str:
        x, y = self._middle(self.column[name]) - WIDTH // 2, self._y(self.row[name])
        said = enumerate(textwrap.wrap(escape(purpose(name).replace("`", "")), 43))
        within = sorted(path.parent.name for path in (ROOT / "cn" / name).glob("*/__init__.py"))
        inner = f'<tspan fill="#777" font-size="12">  {", ".join(within)}</tspan>' if within else ""
        return "\n".join(
            [
                f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#fff" stroke="#667"/>',
                f'<text x="{x + 10}" y="{y + 20}" font-size="15" font-weight="bold" fill="#111" '
                f'xml:space="preserve">{name}{inner}</text>',
                *(
                    f'<text x="{x + 10}" y="{y + 39 + 16 * line}" font-size="12" fill="#333">{text}</text>'
                    for line, text in said
                ),
            ]
        )

    def _arrow(self, a: str, b: str) -> str:
        """Straight down, or with one bend: first sideways if that way is free, else first down."""
        (row_a, col_a), (row_b, col_b) = ((self.row[name], self.column[name]) for name in (a, b))
        x, y = self._middle(col_a), self._y(row_a) + HEIGHT
        to_x, to_y = self._middle(col_b), self._y(row_b)
        if col_a == col_b:
            way = f"M{x} {y}V{to_y - 7}"
            head = _down(to_x, to_y)
        else:
            side = 1 if col_b > col_a else -1
            beside = {(row_a, column) for column in range(col_a + side, col_b + side, side)}
            below = {(row, col_b) for row in range(row_b + 1, row_a)}
            if not self.cells & (beside | below):
                start, bend = x + side * WIDTH // 2, side * 8
                way = f"M{start} {y - 20}H{to_x - bend}q{bend} 0 {bend} 8V{to_y - 7}"
                head = _down(to_x, to_y)
            else:
                level = to_y + 20
                end = to_x - side * WIDTH // 2
                way = f"M{x} {y}V{level - 8}q0 8 {side * 8} 8H{end - side * 7}"
                head = f'<path d="M{end} {level}l{-side * 9} -5v10z" fill="#334"/>'
        return f'<path d="{way}" fill="none" stroke="#334" stroke-width="1.4" id="{a}-{b}"/>{head}'


def _down(x: int, y: int) -> str:
    return f'<path d="M{x} {y}l-5 -9h10z" fill="#334"/>'


def table(imports: Imports) -> str:
    """One row for each package, from the doors down."""
    lines = ["| package | holds | lines | imports |", "|---|---|---|---|"]
    packages = read_packages()
    for stratum in reversed(STRATA.values()):
        for name in sorted(stratum, key=lambda name: (-rows(imports)[name], name)):
            count = sum(len(path.read_text("utf-8").splitlines()) for path in packages[name])
            below = sorted(imports[name], key=lambda other: (-rows(imports)[other], other))
            lines.append(f"| `{name}` | {purpose(name)} | {count:,} | {', '.join(below) or '–'} |")
    return "\n".join(lines) + "\n"


def fill_page(text: str, imports: Imports) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table(imports) + END + rest.partition(END)[2]


if __name__ == "__main__":
    found = read_imports()
    PICTURE.write_text(Drawing(found).svg(), "utf-8")
    PAGE.write_text(fill_page(PAGE.read_text("utf-8"), found), "utf-8")
