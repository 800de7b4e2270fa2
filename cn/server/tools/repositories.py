"""Tools of repositories: what there is, a clone in the workspace, pushes of the branches that a capability names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cn.agency.names import Resource, Uuid
from cn.agency.operations import ByHandler, UseResource
from cn.agency.plan.result import Refused
from cn.agents.place import Place
from cn.agents.repositories import PLACE, Mirrors, list_repositories, may_clone, may_push
from cn.server.parameters import TEXT, Parameter
from cn.server.tool import REQUEST, WORD, Call, Records, Tool, View, a, an_object, several
from cn.server.tools.files import CONTENT, content_of

_REPO = Parameter("repo", TEXT, "Its name in repo_list, or its URL", needed=True)
_BRANCH = Parameter("branch", TEXT, "The branch to push to", needed=True)
_ROW = an_object({"repo": WORD, "url": WORD, "push": several(WORD, "Patterns of the branches that you may push")})


def repository_tools(place: Place, mirrors: Mirrors) -> tuple[Tool, ...]:
    """The tools on the mirrors of this machine."""

    async def listed(call: Call, records: Records) -> View | Refused:
        known = mirrors.known
        found = await records.look(lambda facts: list_repositories(call.principal, known, facts), call.principal)
        return found if isinstance(found, Refused) else {"repos": found}

    async def clone(call: Call, records: Records) -> View | Refused:
        name = call.arguments["repo"]
        allowed = await records.look(lambda facts: may_clone(name, call.principal, facts), call.principal)
        if isinstance(allowed, Refused):
            return allowed
        repository = mirrors.find(name)
        if isinstance(repository, Refused):
            return repository
        principal = call.principal
        folder = place.folders.find(Uuid(principal.agent)) if isinstance(principal, ByHandler) else None  # type: ignore[arg-type]
        if folder is None:
            return Refused(
                PLACE, "you have no workspace on this machine", f"clone it yourself: {repository.public_url}"
            )
        told = await _tell(records, call, allowed, "clone", "clones it")
        if isinstance(told, Refused):
            return told
        return await _in_thread(lambda: mirrors.clone(repository, folder.workspace, folder.files))

    async def push(call: Call, records: Records) -> View | Refused:
        name, branch = call.arguments["repo"], call.arguments["branch"]
        bundle = content_of(call)
        if isinstance(bundle, Refused):
            return bundle
        allowed = await records.look(lambda facts: may_push(name, branch, call.principal, facts), call.principal)
        if isinstance(allowed, Refused):
            return allowed
        repository = mirrors.find(name)
        if isinstance(repository, Refused):
            return repository
        loop = asyncio.get_running_loop()

        def tell(commit: str) -> Refused | None:
            telling = _tell(records, call, allowed, "push", f"pushes {commit} to {branch}")
            told = asyncio.run_coroutine_threadsafe(telling, loop).result()
            return told if isinstance(told, Refused) else None

        return await _in_thread(lambda: mirrors.push(repository, branch, bundle, tell))

    return _tools(listed, clone, push)


async def _tell(records: Records, call: Call, resource: Resource, level: str, what: str) -> View | Refused:
    """It stands in the records before it is done; the same request is told once."""
    return await records.perform(UseResource(str(resource), level, what), call.principal, call.request_id)


async def _in_thread(do: Callable[[], dict[str, object] | Refused]) -> View | Refused:
    return await asyncio.get_running_loop().run_in_executor(None, do)


def _tools(listed: Any, clone: Any, push: Any) -> tuple[Tool, ...]:
    return (
        Tool(
            "repo_list",
            "List repositories",
            "Lists the repositories that you may clone, with their URLs and the branches that you may push.",
            (),
            an_object({"repos": several(_ROW)}),
            listed,
            reads=True,
            listed="repos",
        ),
        Tool(
            "repo_clone",
            "Clone a repository",
            "Puts a clone into your workspace, quickly, from a copy on the server's machine.",
            (_REPO, REQUEST),
            an_object({"repo": WORD, "path": a("string", "The folder in your workspace"), "url": WORD}),
            clone,
            outside=True,
        ),
        Tool(
            "repo_push",
            "Push a branch",
            "Pushes what a bundle holds, forward only: make one of your branch in your clone (git bundle create "
            "work.bundle origin/HEAD..BRANCH), and name that file.",
            (_REPO, _BRANCH, *CONTENT, REQUEST),
            an_object({"repo": WORD, "branch": WORD, "commit": WORD}),
            push,
            again=True,
            outside=True,
        ),
    )


async def _nothing(call: Call, records: Records) -> View | Refused:
    return Refused(PLACE, "this machine has no repositories")


ABOUT = _tools(_nothing, _nothing, _nothing)
"""The same tools for who only describes them."""
