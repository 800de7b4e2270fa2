"""The system's Chromium, driven by Playwright, and what it noticed while it showed pages.

Playwright's own download is not used: ``CHROMIUM`` names a program, else the one on the path is taken.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, ViewportSize, sync_playwright

AXE = Path(__file__).with_name("axe") / "axe.min.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="chromium is missing (Debian: apt-get install chromium)")
Scheme = Literal["dark", "light"]


@dataclass
class Noticed:
    """What a browser noticed: errors of scripts and of the policy, dialogs, requests to ``elsewhere`` than ``home``."""

    home: str
    problems: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Listen to a page."""
        page.on("console", lambda said: self._console(said.type, said.text))
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self._request(request.url))
        page.on("popup", lambda popup: self.problems.append(f"window: {popup.url}"))
        page.on("download", lambda download: self.problems.append(f"download: {download.url}"))

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "status of 4" not in text:  # what a test asks for in vain it sees itself
            self.problems.append(f"{kind}: {text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url: str) -> None:
        if not url.startswith(self.home):
            self.problems.append(f"request: {url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a profile. Root has no sandbox of its own to put it in."""
    words = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words)
        try:
            yield browser
        finally:
            browser.close()


def open_context(browser: Browser, width: int = 1280, scheme: Scheme = "light", **more: Any) -> BrowserContext:
    """A window of that width, dark or light."""
    size = ViewportSize(width=width, height=800)
    context = browser.new_context(viewport=size, color_scheme=scheme, **more)
    context.set_default_timeout(20_000)
    return context


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or critical, by rule, with the first element."""
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in bad]
