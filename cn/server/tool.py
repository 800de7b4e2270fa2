"""A tool of the server as a value: its name, what it takes and gives, what it may change, and what a call does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from cn.agency.names import Party, Uuid
from cn.agency.operations import ByHandler, Operation, Principal, party_of
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.server.parameters import NAME, Parameter, Schema, input_schema

T = TypeVar("T")
View: TypeAlias = Mapping[str, object]


class Records(Protocol):
    """What tools ask of Agency's records."""

    async def perform(self, operation: Operation, principal: Principal, request_id: str = "") -> View | Refused:
        """Have it done; the answer, once it is on disk."""

    async def look(self, view: Callable[[Facts], T], principal: Principal) -> T | Refused:
        """What there is now; refused to who is no more."""

    async def content(self, file: Uuid, hash: str) -> bytes:
        """A version of a file, whose reading was told."""


class Call(NamedTuple):
    """One call of a tool. ``arguments`` have a value for each parameter; ``user`` is whose hub it is."""

    principal: Principal
    arguments: Mapping[str, Any]
    now: datetime
    user: Party

    @property
    def request_id(self) -> str:
        """The caller's name for what it asks; empty where it gave none."""
        return str(self.arguments.get("request_id") or "")

    @property
    def me(self) -> Party:
        """The caller, as one who owns and gets mail."""
        return party_of(self.principal)[0]

    def handler(self, facts: Facts, name: str = "handler") -> Uuid:
        """The handler that is named, else the caller's own; a user's is the root handler."""
        if given := self.arguments.get(name):
            return Uuid(given)
        if isinstance(self.principal, ByHandler):
            return self.principal.handler
        head = facts.head()
        assert head, "Agency is founded"
        return head.root


class Result(NamedTuple):
    """What a call gave: a short text, the value of the tool's schema, and a file's bytes for who places them.

    What another server gave has its own ``blocks`` of content, and may have ``failed``.
    """

    text: str
    value: View
    content: bytes | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()
    failed: bool = False


Run: TypeAlias = Callable[[Call, Records], Awaitable[Result | View | Refused]]


@dataclass(frozen=True)
class Tool:
    """``reads``: it changes nothing but what is told of readings. ``ends``: what it does cannot be taken back.

    ``again``: the same call again changes no more. ``outside``: it reaches beyond Agency. ``listed`` is the list of
    its result that may be long, and is cut. ``foreign`` is the schema of arguments that another server reads.
    """

    name: str
    title: str
    about: str
    parameters: tuple[Parameter, ...]
    gives: Schema
    run: Run
    reads: bool = False
    ends: bool = False
    again: bool = False
    outside: bool = False
    listed: str = ""
    foreign: Schema | None = None

    @property
    def takes(self) -> dict[str, Any]:
        """The schema of its arguments."""
        if self.foreign is not None:
            return dict(self.foreign)
        return input_schema(self.parameters)

    @property
    def annotations(self) -> dict[str, Any]:
        """What a client is told of its effects (``tools/list``, ``annotations``)."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.reads,
            "idempotentHint": self.reads or self.again,
            "openWorldHint": self.outside,
        }
        return hints if self.reads else {**hints, "destructiveHint": self.ends}


REQUEST = Parameter(
    "request_id", NAME, "Your name for this call, unique for you: the same call again gets the same answer", default=""
)


def asks(operation_of: Callable[[Call], Operation]) -> Run:
    """A tool that has one operation done."""

    async def run(call: Call, records: Records) -> View | Refused:
        return await records.perform(operation_of(call), call.principal, call.request_id)

    return run


def looks(view_of: Callable[[Call, Facts], View | Refused]) -> Run:
    """A tool that only looks."""

    async def run(call: Call, records: Records) -> View | Refused:
        return await records.look(lambda facts: view_of(call, facts), call.principal)

    return run


def a(kind: str, about: str = "", **more: Any) -> dict[str, Any]:
    """A schema of one type."""
    return {"type": kind, **({"description": about} if about else {}), **more}


def maybe(schema: Schema) -> dict[str, Any]:
    """The same, or null."""
    return {"anyOf": [dict(schema), {"type": "null"}]}


def several(schema: Schema, about: str = "") -> dict[str, Any]:
    """A list of these."""
    return a("array", about, items=dict(schema))


def an_object(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> dict[str, Any]:
    """A schema of an object; what is not ``optional`` is there."""
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": needed, "additionalProperties": False}


ID = a("string", format="uuid")
IDS = several(ID)
STAMP = a("string", "UTC")
COUNT = a("integer")
NEXT = a("string", "There is more: give this as 'cursor'")
BEFORE = a("integer", "There is more: give this as 'before'")
WORD = a("string")
FLAG = a("boolean")
_ANSWERS: Mapping[str, Schema] = {
    "outcome": ID,
    "file": ID,
    "handler": ID,
    "version": COUNT,
    "hash": a("string", "SHA-256 of the content"),
    "size": COUNT,
    "grants": several(ID, "Capabilities"),
    "mail": several(ID, "Messages"),
    "stopped": several(ID, "Handlers that were stopped"),
}


def answer(*needed: str) -> dict[str, Any]:
    """The schema of an operation's answer: these are always there, others of its changes may be."""
    return an_object(_ANSWERS, [name for name in _ANSWERS if name not in needed])
