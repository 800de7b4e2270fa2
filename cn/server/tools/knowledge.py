"""Tools of the knowledge base: files with all their versions."""

from __future__ import annotations

from cn.agency.names import Uuid
from cn.agency.operations import CreateFile, WriteFile
from cn.agency.plan.result import Refused
from cn.agency.plan.views import LATEST, browse, file_audit, file_history, list_files
from cn.server.parameters import CURSOR, LINE, NAME, NUMBER, UUID, Parameter
from cn.server.tool import (
    BEFORE,
    COUNT,
    ID,
    IDS,
    NEXT,
    REQUEST,
    STAMP,
    WORD,
    Call,
    Records,
    Result,
    Tool,
    View,
    a,
    an_object,
    answer,
    looks,
    several,
)
from cn.server.tools.files import CONTENT, FROM, READ, SEEN, content_of, read_file, seen_of

_FILE = Parameter("file", UUID, "The UUID of the file", needed=True)
_ROW = {
    "file": ID,
    "kind": WORD,
    "description": WORD,
    "access": WORD,
    "version": COUNT,
    "hash": a("string", "SHA-256 of the content, where you may read it"),
    "size": a("integer", "Bytes of the content, where you may read it"),
    "path": a("string", "Where a copy of this version lies in your workspace; kb_read puts it there"),
    "named_by": IDS,
}
_FILES = an_object({"files": several(an_object(_ROW, ["hash", "size", "path", "named_by"])), "next": NEXT}, ["next"])
_EVENT = {"seq": COUNT, "time": STAMP, "actor": WORD, "type": WORD}


async def _read(call: Call, records: Records) -> Result | Refused:
    return await read_file(call, records, Uuid(call.arguments["file"]), call.arguments.get("version"))


async def _write(call: Call, records: Records) -> View | Refused:
    data, seen = content_of(call), seen_of(call)
    if isinstance(data, Refused) or isinstance(seen, Refused):
        return data if isinstance(data, Refused) else seen  # type: ignore[return-value]
    operation = WriteFile(Uuid(call.arguments["file"]), data, seen)
    return await records.perform(operation, call.principal, call.request_id)


async def _create(call: Call, records: Records) -> View | Refused:
    data = content_of(call)
    if isinstance(data, Refused):
        return data
    return await records.perform(CreateFile(call.arguments["description"], data), call.principal, call.request_id)


KNOWLEDGE = (
    Tool(
        "kb_list",
        "List files",
        "Lists the files that you may read or write, but outcomes.",
        (CURSOR,),
        _FILES,
        looks(lambda call, facts: list_files(call.principal, facts, call.arguments["cursor"].after)),
        reads=True,
        listed="files",
    ),
    Tool(
        "kb_browse",
        "Browse descriptions",
        "Finds files and outcomes whose description has all the words, readable or not; no words find all.",
        (Parameter("words", NAME, "Words of the description", default=""), CURSOR),
        _FILES,
        looks(
            lambda call, facts: browse(call.arguments["words"], call.principal, facts, call.arguments["cursor"].after)
        ),
        reads=True,
        listed="files",
    ),
    Tool(
        "kb_read",
        "Read a file",
        "Gives the latest version of a file with its number and hash, which a later kb_write has to name. Outcomes, "
        "messages, state documents and audit logs are files too. Through the bridge, all of it lies at 'path'.",
        (_FILE, FROM),
        READ,
        _read,
        reads=True,
    ),
    Tool(
        "kb_read_version",
        "Read an earlier version",
        "Gives one version of a file by its number.",
        (_FILE, Parameter("version", NUMBER, "Its number", needed=True), FROM),
        READ,
        _read,
        reads=True,
    ),
    Tool(
        "kb_write",
        "Write a file",
        "Writes a new version of a file in place of the one that you saw last. If somebody wrote since, it is refused "
        "and names the latest version: read that, put your changes into it, and write again.",
        (_FILE, *CONTENT, *SEEN, REQUEST),
        answer("file", "version", "hash"),
        _write,
    ),
    Tool(
        "kb_create",
        "Create a file",
        "Makes a new file of yours. Everybody sees its description.",
        (Parameter("description", LINE, "What it is, on one line", needed=True), *CONTENT, REQUEST),
        answer("file", "version", "hash"),
        _create,
    ),
    Tool(
        "kb_history",
        "List versions",
        "Lists all versions of a file: number, hash, size, time, and who wrote it.",
        (_FILE, CURSOR),
        an_object(
            {
                "versions": several(
                    an_object({"file": ID, "number": COUNT, "hash": WORD, "size": COUNT, "time": STAMP, "actor": WORD})
                ),
                "next": NEXT,
            },
            ["next"],
        ),
        looks(lambda call, facts: file_history(Uuid(call.arguments["file"]), call.principal, facts)),
        reads=True,
        listed="versions",
    ),
    Tool(
        "kb_audit",
        "Who read and wrote a file",
        "Lists who read and who wrote a file, oldest first.",
        (_FILE, Parameter("before", NUMBER, "Only events before this number", default=LATEST)),
        an_object({"events": several(an_object(_EVENT)), "next": BEFORE}, ["next"]),
        looks(
            lambda call, facts: file_audit(
                Uuid(call.arguments["file"]), call.principal, facts, call.arguments["before"]
            )
        ),
        reads=True,
        listed="events",
    ),
)
