"""The demo's act about Agency: a boss, underlings, a file that two of them edit, capabilities, a layer, a person."""

from __future__ import annotations

import json
import re
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.demo import Stage

_CN = "cn --hub cn-pi"
_MAIN = "refs/heads/main"
_WIDTH = 74


def organisation(stage: Stage) -> None:
    """Play it in pi's hub; nothing of it is in what peers see."""
    stage.scene("8  A small organisation")
    stage.tell("""Agency keeps what is to be done, who is responsible for it, and what each may do, in a
        git repository of its own in pi's clone. Pi begins, and delegates two outcomes.
        A person works the first; '--as' acts for a handler, and is recorded so.""")
    stage.run("git -C cn-pi config agency.user pi")
    _run(stage, f"{_CN} agency init 'Run the office'")
    site = _id(_run(stage, f"{_CN} outcome create 'Build the site'"))
    shop = _id(_run(stage, f"{_CN} outcome create 'Open the shop'"))
    prices = _id(_run(stage, f"echo 'to be decided' | {_CN} kb create - --description Prices --as root"))
    _run(stage, f"{_CN} handler delegate {site} --runner person --grant write:kb:{prices} --as root")
    _run(stage, f"{_CN} handler delegate {shop} --grant write:kb:{prices} --as root")
    stage.check("two handlers stand below the first", len(_handlers(stage)) == 3)
    _edit(stage, prices, site, shop)
    _end(stage, prices, site, shop)
    _layer(stage, shop)
    branches = stage.ask("git -C cn-pi for-each-ref --format='%(refname)' refs/heads")
    stage.check("nothing of it is on a branch of the hub", branches == _MAIN)


def _edit(stage: Stage, prices: str, site: str, shop: str) -> None:
    stage.tell("Both edit the same file. The second learns that it saw an old version.")
    seen = _seen(_run(stage, f"{_CN} kb read {prices} --as {shop}"))
    _run(stage, f"echo '5 each' | {_CN} kb write {prices} - --seen {seen} --as {shop}")
    said = _run(stage, f"echo '6 each' | {_CN} kb write {prices} - --seen {seen} --as {site}", 1)
    stage.check("the refusal names its rule, and the version to read", "stale-version" in said)
    _run(stage, f"echo '5 each, 50 for a dozen' | {_CN} kb write {prices} - --seen {_seen(said)} --as {site}")
    said = _run(stage, f"{_CN} kb history {prices}")
    stage.check("all three versions are kept, each with who wrote it", said.count("/user:pi") == 3)


def _end(stage: Stage, prices: str, site: str, shop: str) -> None:
    stage.tell("What was granted for an outcome is gone with it. Nothing has to be swept up.")
    _run(stage, f"{_CN} agency can {site} write kb:{prices}")
    _run(stage, f"{_CN} outcome complete {site} --rationale 'It is online.' --as root")
    _run(stage, f"{_CN} kb read {prices} --as {site}", 1)
    stage.tell("An outcome that is delegated again begins with nothing.")
    _run(stage, f"{_CN} handler stop {shop} --as root")
    _run(stage, f"{_CN} handler delegate {shop} --as root")
    said = _run(stage, f"{_CN} agency can {shop} read kb:{prices}", 1)
    stage.check("the old capability is not revived", "no, it has none" in said)


def _layer(stage: Stage, shop: str) -> None:
    stage.tell("A layer is inserted above the shop, and removed. The shop notices nothing.")
    before = _handlers(stage)
    layer = _id(_run(stage, f"{_CN} handler insert 'Run the trade' {shop} --as root"))
    _run(stage, f"{_CN} mail send boss 'We are open.' --as {shop}")
    stage.check("its mail to the boss reached the layer", "We are open." in _run(stage, f"{_CN} mail --as {layer}"))
    _run(stage, f"{_CN} handler remove {layer} --as root")
    stage.check("all stand as they stood", _handlers(stage) == before)
    stage.tell("A person can be the boss of any handler.")
    _run(stage, f"{_CN} handler move {shop} user:ben")
    _run(stage, f"{_CN} mail send boss 'How many shall we bake?' --as {shop}")
    stage.run("git -C cn-pi config agency.user ben")
    stage.check("ben has it in his inbox", "How many" in _run(stage, f"{_CN} mail"))


def _run(stage: Stage, command: str, *expect: int) -> str:
    """A command that fits the width, on several lines where it is long."""
    kept = re.sub("'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), command)  # a quoted text stays on its line
    lines = wrap(kept, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return stage.run(" \\\n      ".join(lines).replace("\0", " "), *expect)


def _handlers(stage: Stage) -> dict[str, str]:
    """Who is whose boss."""
    return {row["handler"]: row["boss"] for row in json.loads(stage.ask(f"{_CN} handler list --json"))}


def _id(said: str) -> str:
    """The first UUID that a command names, as short as it shows it."""
    return str(re.findall(r"\b[0-9a-f]{8}\b", said)[0])


def _seen(said: str) -> str:
    return str(re.findall(r"--seen (\S+)", said)[-1])
