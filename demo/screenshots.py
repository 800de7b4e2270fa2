"""Pictures of ``cn web`` for the documentation: ``make screenshots``.

A hub that has lived for some weeks is made (``tests/support/showcase.py``), served, and drawn by the system's Chromium
at two widths, dark and light. The first words are the folders for all pictures and for those of the documentation.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.pop(0)  # this folder
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser

from tests.conftest import pytest_configure, pytest_unconfigure
from tests.support.hubs import cn
from tests.support.model_server import model_server
from tests.support.showcase import Showcase
from tests.support.world import World
from tests.web.browser import Scheme, chromium, open_context
from tests.web.site import Site, serving

PAGES = (
    "/",
    "/thread/pi/skip-the-head",
    "/thread/pi/add-dover",
    "/threads?state=all",
    "/agent",
    "/peers",
    "/log",
    "/history",
    "/why/omega/index",
)
SHOWN = {"/": "web-now.png", "/thread/pi/skip-the-head": "web-thread.png"}
"""What stands in the documentation: at 1280 px, light, so much of the page as a screen shows."""
COLOURS = 128


def main(folder: Path, docs: Path) -> None:
    """Make the hub, and draw it."""
    pytest_configure()  # the same sealed home and settings as a test has
    with tempfile.TemporaryDirectory(prefix="cn-screenshots-") as scratch:
        root = Path(scratch)
        for name in ("sigma", "pi", "omega"):
            cn("init", name, "--path", root / "template" / name, check=0)
        showcase = Showcase(World(root / "hubs", root / "template"))
        with model_server() as server:
            showcase.live(server)
        with serving(showcase.sigma.root, "--actor", "alice") as site, chromium() as browser:
            draw(browser, site, folder, docs)
    pytest_unconfigure()


def draw(browser: Browser, site: Site, folder: Path, docs: Path) -> None:
    """Every page at two widths, in both colours."""
    folder.mkdir(parents=True, exist_ok=True)
    site.enter()
    name, _, value = site.cookie.partition("=")
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for width in (1280, 360):
        for scheme in schemes:
            context = open_context(browser, width, scheme)
            context.add_cookies([{"name": name, "value": value, "url": f"http://{site.host}/"}])
            page = context.new_page()
            for path in PAGES:
                page.goto(f"http://{site.host}{path}")
                picture = folder / f"{re.sub('[^a-z]+', '-', path).strip('-') or 'now'}-{width}-{scheme}.png"
                page.screenshot(path=picture, full_page=True)
                if (width, scheme) == (1280, "light") and path in SHOWN:
                    page.screenshot(path=docs / SHOWN[path])
                    shrink(docs / SHOWN[path])
            context.close()


def shrink(picture: Path) -> None:
    """A palette instead of millions of colours."""
    image = Image.open(picture).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    if not shutil.which("chromium"):
        raise SystemExit("chromium is missing (Debian: apt-get install chromium)")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
