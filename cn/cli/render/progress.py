"""A progress bar while the network is asked; nothing where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(terminal: bool, title: str) -> Iterator[Callable[[str], None] | None]:
    """Yields a callback that names what has answered, or None without a terminal."""
    if not terminal:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, last="")

        def step(key: str) -> None:
            bar.update(task, advance=1, last=key)

        yield step
