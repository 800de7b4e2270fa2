"""Make commits of messages, with exact bytes, signed when the hub signs."""

from __future__ import annotations

from cn.git.fast_import import build_commit
from cn.git.objects import read_object, write_objects
from cn.git.repository import Hub
from cn.protocol.message import Message, Sealed, object_id, seal, tree_bytes


class Sealer:
    """Seals the messages of one run; identity and signing are looked up once."""

    def __init__(self, hub: Hub, algorithm: str) -> None:
        self._hub = hub
        self._algorithm = algorithm

    def seal(self, message: Message) -> Sealed:
        """The message's commit. Unsigned ones need no process, signed ones are made by git."""
        plain = seal(message, self._hub.identity, self._algorithm)
        if not self._hub.signs:
            return plain
        tree = tree_bytes(plain.content, self._algorithm)
        write_objects(self._hub.git, [("blob", plain.content), ("tree", tree)], self._algorithm)
        text = plain.commit.partition(b"\n\n")[2].decode()
        oid = build_commit(
            self._hub,
            base=object_id("tree", tree, self._algorithm),
            parents=(),
            changes=(),
            message=text,
            at=message.created,
        )
        return Sealed(oid, read_object(self._hub.git, oid) or b"", plain.content)
