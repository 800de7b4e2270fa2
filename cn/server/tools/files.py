"""What tools that write and read files share: where a content comes from, and how it is given back."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

from cn.agency.names import Uuid
from cn.agency.operations import ReadFile, Seen
from cn.agency.plan.result import Refused
from cn.server.parameters import ARGUMENTS, BASE64, FILE_TEXT, MOST_CONTENT, NAME, NUMBER, Parameter
from cn.server.tool import COUNT, ID, IDS, WORD, Call, Records, Result, a, an_object

CONTENT = (
    Parameter("path", NAME, "The file in your workspace whose content it is; the bridge 'cn mcp' reads it"),
    Parameter("content", FILE_TEXT, "The content itself, instead of a path"),
    Parameter("content_base64", BASE64, "The content itself as base64, for what is no text"),
)
SEEN = (
    Parameter("version", NUMBER, "To overwrite: the number of the version that you saw last"),
    Parameter("hash", NAME, "To overwrite: the hash of the version that you saw last"),
)
FROM = Parameter("offset", NUMBER, "The byte at which to begin; 'next' of the answer before", default=0)
INLINE = 32 << 10
"""Bytes of a file that stand in an answer; more are read in steps, or at the path."""

READ = an_object(
    {
        "file": ID,
        "version": COUNT,
        "hash": WORD,
        "size": COUNT,
        "content": a("string", "The text from 'offset' on"),
        "content_base64": a("string", "The bytes from 'offset' on, of what is no text"),
        "path": a("string", "The read-only copy of all of it in your workspace"),
        "next": a("integer", "There is more from this byte on"),
        "broken": {**IDS, "description": "Links that lead nowhere"},
        "unreadable": {**IDS, "description": "Links to what you may not read"},
    },
    ["content", "content_base64", "path", "next"],
)


def content_of(call: Call) -> bytes | Refused:
    """The bytes that a call brings: one of path, content and content_base64; a path is the bridge's to open."""
    values = {one.name: call.arguments[one.name] for one in CONTENT}
    given = {name: value for name, value in values.items() if value is not None}
    if "path" in given:
        remedy = "give its content as 'content', or connect through the bridge 'cn mcp', which reads files beside you"
        return Refused("path", "the server opens no path that an agent names", remedy)
    if len(given) != 1:
        return Refused(ARGUMENTS, "one of path, content and content_base64 is needed", "give exactly one of them")
    (value,) = given.values()
    data = value.encode() if isinstance(value, str) else value
    if len(data) > MOST_CONTENT:
        remedy = "keep files small and link them as kb://UUID"
        return Refused("size", f"the content is longer than {MOST_CONTENT >> 20} MB", remedy)
    assert isinstance(data, bytes)
    return data


def seen_of(call: Call) -> Seen | Refused | None:
    """The version that the caller saw last, if it says one."""
    version, hash = call.arguments["version"], call.arguments["hash"]
    if version is None and hash is None:
        return None
    if version is None or hash is None:
        return Refused(ARGUMENTS, "version and hash go together", "give both, as the file was read")
    return Seen(version, hash)


async def read_file(call: Call, records: Records, file: Uuid, version: int | None = None) -> Result | Refused:
    """Read a version, which is told, with its content from the byte on that is wanted."""
    done = await records.perform(ReadFile(file, version), call.principal)
    if isinstance(done, Refused):
        return done
    data = await records.content(file, str(done["hash"]))
    start = call.arguments.get("offset") or 0
    value: dict[str, Any] = {**done, **_part(data, start)}
    many = f"{len(data):,} bytes" + (f", from byte {start:,}" if start else "")
    return Result(f"version {done['version']} of {file}, {many}; hash {done['hash']}", value, data)


def _part(data: bytes, start: int) -> Mapping[str, Any]:
    """From a byte on as much as an answer holds: of a text whole characters, else base64."""
    part = data[start : start + INLINE]
    if not _is_text(data):
        found = {"content_base64": binascii.b2a_base64(part, newline=False).decode()}
    else:
        while part and start + len(part) < len(data) and data[start + len(part)] & 0xC0 == 0x80:
            part = part[:-1]
        found = {"content": part.decode("utf-8", "replace")}
    end = start + len(part)
    return found | ({"next": end} if end < len(data) else {})


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False
