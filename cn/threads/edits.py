"""``cn commit``, ``cn push``, ``cn save``: bring what people edited in cn's folders into main.

Committed on local main, also without a network; the next ordinary run, or ``push``,
integrates it with origin's main and pushes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cn.git.entries import merge_file
from cn.git.objects import read_object
from cn.git.repository import Hub
from cn.protocol.effects import Edit, Plan, WorkingCopy
from cn.protocol.layout import DRAFTS, KEPT_BY_MAIN, inbox_path
from cn.protocol.ledger import Item
from cn.protocol.message import object_id
from cn.protocol.thread_file import holds_section, showing_of, what_it_lacks, why_void, with_words
from cn.run.executor import Executor
from cn.run.run import open_run
from cn.run.secret_gate import check_texts, mask_line, mask_path
from cn.run.settings import Settings
from cn.secrets.findings import quoted_here
from cn.secrets.scanner import Text, own_lines
from cn.system.closed import closed_words
from cn.threads.plan.edits import FOLDERS, Kind, Left, judge
from cn.threads.read_edits import Edited, read_edit, read_edits
from cn.threads.refused_edits import note_edits
from cn.transaction import unplaced
from cn.transaction.unplaced import forget_edited, read_unplaced
from cn.values.errors import CnError, Refused, UsageError
from cn.values.names import HubPath, ThreadName
from cn.values.report import Mark, Report
from cn.values.shell_words import command
from cn.values.text import decode, is_text, one_line

_SHOWN = 8


def save(hub: Hub, message: str | None = None, *, dry_run: bool = False) -> Report:
    """Commit, then push. What stops the push is told beside what was committed."""
    report = commit_edits(hub, message, dry_run=dry_run)
    try:
        report.notes.extend(push(hub, dry_run=dry_run).notes)
    except CnError as error:
        report.notes.extend(error.report.notes if isinstance(error.report, Report) else ())
        report.failed(f"not pushed: {error.text}", error.step)
    return report


def commit_edits(hub: Hub, message: str | None = None, *, dry_run: bool = False) -> Report:
    """Commit the edits of people in cn's folders, byte for byte, on local main."""
    if message is not None and not (is_text(message) and message.strip()):
        raise UsageError("the message is empty or not UTF-8", "say in a few words what changed")
    with open_run(hub, dry_run=dry_run, offline=True) as run:
        if refusal := check_texts([Text("the commit message", tuple((message or "").split("\n")))], run.settings):
            raise Refused.by(refusal)

        def plan(executor: Executor) -> tuple[str | None, _Looked]:
            edits = read_edits(run.hub, FOLDERS)
            left = read_unplaced(run.hub).left
            known = [one.edit.path for one in edits if one.edit.path in left]
            cns = {path for path in known if left[path].is_it(read_edit(run.hub, path))}
            looked = _take(executor, [one for one in edits if one.edit.path not in cns])
            return message or _subject(looked.taken), looked

        looked = run.commit_for(plan)
        taken = looked.taken
        if not taken:
            run.report.info("nothing to commit")
        elif not dry_run:
            run.report.done(f"committed {_names(taken)} as {run.base.tip[:7]}")
        if not dry_run:
            note_edits(run, looked.refused)
            known = read_unplaced(run.hub).edited
            forget_edited(run.hub, [path for path in known if path in taken or path not in looked.paths])
    return run.report


def push(hub: Hub, *, dry_run: bool = False) -> Report:
    """Bring local main to origin: an ordinary run that decides nothing."""
    if not hub.origin:
        raise Refused("this hub has no origin to push to", "'git remote add origin URL' names one")
    with open_run(hub, dry_run=dry_run) as run:
        origin = run.commit_for(lambda executor: (None, executor.base.origin))
        main = run.base.tip
        if origin == main:
            run.report.info(f"nothing to push: origin has {run.hub.main} at {main[:7]}")
        elif dry_run:
            run.report.plan(f"push {run.hub.main} to origin")
        else:
            count = run.hub.git.run("rev-list", "--count", main, *([f"^{origin}"] if origin else [])).text
            run.report.done(f"pushed {run.hub.main} at {main[:7]} to origin ({count} new)")
    return run.report


def _subject(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return f"cn: save {paths[0]}"
    return "\n".join([f"cn: save {len(paths)} files", "", *paths])


class _Looked(NamedTuple):
    """The paths of all edits, of those that are committed, and what a rule refuses."""

    paths: list[str]
    taken: list[str]
    refused: list[Left]


def _take(executor: Executor, edits: Sequence[Edited]) -> _Looked:
    """Perform what may be committed, say what is left out and why."""
    pending = {str(inbox_path(ThreadName(item.get("thread")))): item for _, item in executor.snapshot.pending()}
    overtaken = read_unplaced(executor.hub).edited
    tracked = [one.edit.path for one in edits if one.edit.tracked]
    looked = _Looked([one.edit.path for one in edits], [], [])
    for one in edits:
        outcome = judge(one.edit, pending)
        if isinstance(outcome, str):
            path = HubPath(outcome)
            outcome = _displaced(one, tracked) or _take_one(executor, one, path, overtaken.get(path), pending.get(path))
        if isinstance(outcome, Left):
            _tell(outcome, executor.settings, executor.notes)
            if outcome.mark is not Mark.INFO:
                looked.refused.append(outcome)
        elif outcome is not None:
            looked.taken.append(str(outcome))
    return looked


def _displaced(one: Edited, tracked: Sequence[str]) -> Left | None:
    """A folder in the place of a file, or a file in that of a folder, would take the other out of main."""
    above = [path for path in tracked if one.edit.path.startswith(f"{path}/") or path.startswith(f"{one.edit.path}/")]
    if not above:
        return None
    where = one_line(above[0], 200)
    return Left(one.edit.path, f"and {where} cannot both be there", "move one of them, and commit that first")


def _take_one(
    executor: Executor, one: Edited, path: HubPath, known: unplaced.Edited | None, item: Item | None
) -> HubPath | Left | None:
    main = executor.snapshot.read(path)
    if one.edit.kind is Kind.MISSING:
        if one.index not in (None, one.head):
            return _staged(path)
        if main is None:
            return None
        executor.perform(Plan(path, (Edit(path, None),)))
        if path.startswith(f"{DRAFTS}/"):
            executor.notes.info(f"{path} is taken back: it is not said; {KEPT_BY_MAIN}")
        return path
    data = read_edit(executor.hub, path)
    if data is None:
        _, remedy = closed_words(executor.hub.root / path) or ("", "mend its permissions")
        return Left(path, "cannot be read", remedy)
    if data == main:
        return None
    here, oid = WorkingCopy(path, data), object_id("blob", data, executor.snapshot.algorithm)
    staged = one.index is not None and one.index.oid == oid
    if one.index != one.head and not staged:
        return _staged(path)
    mains = [] if main is None else [decode(main)]
    said = decode(data).replace("\r\n", "\n")
    void = why_void(said, showing_of(item))[0] if item is not None else ""
    if item is not None and main is not None and known is None and not void:
        lacks, _ = what_it_lacks(said, decode(main))  # it was open in an editor when that came
        if lacks and holds_section(said):
            void = lacks
        elif lacks:
            data = with_words(said, decode(main)).encode("utf-8", "surrogateescape")
            executor.notes.info(f"{path} was open when words came: they are in it too now")
    if known is not None and main is not None and not (staged and known.found != oid):
        # Merged with main's text, a decision about what was shown before would be one about what is there now.
        merged = data if void else merge_file(executor.hub.git, known.base, data, main)
        if merged is None:
            mixed = f"see {command('git diff HEAD -- {}', path)}, take over what shall stay, 'git add' it, run again"
            mine = command("git commit --message {} -- {}", "Mine shall stay", path)
            return Left(
                path, "was changed here and in main, and git cannot merge the two", f"{mixed}; {mine} keeps yours alone"
            )
        if not void:
            executor.notes.info(f"{path} was changed here and in main: both are in it now")
        if merged == main:
            return None
        data = merged
        mains.append(decode(read_object(executor.hub.git, known.base) or b"") if known.base else "")
    named = [Text("the file's name", (path,), 0)] if main is None else []
    text = decode(data).replace("\0", "")
    texts = [*named, own_lines(path, text), quoted_here(path, text, *mains)]
    secret = check_texts(texts, executor.settings)
    if secret is not None:
        return Left(path, f"is refused: {secret.rule}: {secret.reason}", secret.remedy)
    if void:
        return Left(path, f"is {void}", "'cn inbox process' writes it anew, with what you wrote quoted in it")
    executor.perform(Plan(path, (Edit(path, data), here)))
    return path


def _staged(path: HubPath) -> Left:
    remedy = f"{command('git add -- {}', path)} stages what it holds now; then run again"
    return Left(path, "is staged in another state than it has here", remedy)


def _tell(left: Left, settings: Settings, notes: Report) -> None:
    path = mask_path(left.path, settings)
    text = f"not committed: {one_line(path, 300)} {left.why}"
    notes.add(left.mark, text, mask_line(left.remedy, settings), source=path)


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(one_line(path, 120) for path in paths[:_SHOWN]) + more
