"""``@dataclass``, made when the first instance is: most commands meet few of the types they import.

Python's own decorator writes and compiles up to six methods for each class, 0.5 ms of processor
time. A command such as ``cn status`` imports some sixty dataclasses and makes instances of a third
of them; it takes a fifth less time in this way. Nothing else differs: who has an instance has the
class that :func:`dataclasses.dataclass` makes. What asks a *class* for its fields before there is
an instance (:func:`dataclasses.fields`) needs Python's own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **how: bool) -> Any:
        """The same arguments as :func:`dataclasses.dataclass`."""
        if cls is None:
            return lambda found: dataclass(found, **how)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            _finish(cls)
            cls.__init__(self, *args, **kwargs)

        __init__.how = how
        cls.__init__ = __init__
        return cls

    def _finish(cls: type) -> None:
        """Make the dataclass, its bases first."""
        for base in reversed(cls.__mro__):
            how = getattr(base.__dict__.get("__init__"), "how", None)
            if how is not None:
                del base.__init__
                dataclasses.dataclass(**how)(base)
