"""Tools of repositories: what there is, a clone in the workspace, pushes of the branches that a capability names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cn.agency.names import Party, Resource, Uuid
from cn.agency.operations import ByHandler, BySystem, UseResource
from cn.agency.plan.plan import done_before
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.agents.clones import Clones
from cn.agents.place import Place
from cn.agents.repositories import PLACE, Mirrors, Repository, list_repositories, may_clone, may_push
from cn.server.far_work import UNAVAILABLE, FarWork, Hands
from cn.server.parameters import NAME, Parameter
from cn.server.tool import REQUEST, WORD, Call, Records, Tool, View, a, an_object, several
from cn.server.tools.files import CONTENT, content_of
from cn.values.text import one_line

_REPO = Parameter("repo", NAME, "Its name in repo_list, or its URL", needed=True)
_BRANCH = Parameter("branch", NAME, "The branch to push to", needed=True)
_ROW = an_object({"repo": WORD, "url": WORD, "push": several(WORD, "Patterns of the branches that you may push")})


def repository_tools(place: Place, mirrors: Mirrors, far: FarWork) -> tuple[Tool, ...]:
    """The tools on the mirrors of this machine; what waits on other hosts is ``far``'s."""

    async def listed(call: Call, records: Records) -> View | Refused:
        known = mirrors.known
        found = await records.look(lambda facts: list_repositories(call.principal, known, facts), call.principal)
        return found if isinstance(found, Refused) else {"repos": found}

    async def clone(call: Call, records: Records) -> View | Refused:
        one = _Clone(mirrors, call, records)
        return await far.do(call.principal, partial(one.make, place), call.request_id, ("clone", call.arguments))

    async def push(call: Call, records: Records) -> View | Refused:
        one = _Push(mirrors, call, records)
        return await far.do(call.principal, one.make, call.request_id, ("push", call.arguments))

    return _tools(listed, clone, push)


class _Use:
    """What is done with a repository for one call: the capability is looked at before it waits, and again after that,
    when what is done is told.
    """

    def __init__(self, mirrors: Mirrors, call: Call, records: Records) -> None:
        self.mirrors, self.call, self.records = mirrors, call, records
        self.name, self.principal = str(call.arguments["repo"]), call.principal

    async def find(self, may: Callable[[Facts], Resource | Refused]) -> tuple[Resource, Repository] | Refused:
        """As what the caller may do it, and the repository."""
        allowed = await self.records.look(may, self.principal)
        if isinstance(allowed, Refused):
            return allowed
        repository = self.mirrors.find(self.name)
        return repository if isinstance(repository, Refused) else (allowed, repository)

    async def was_told(self, use: UseResource) -> bool | Refused:
        """Was it, under this request's name?"""
        request = self.call.request_id
        found = await self.records.look(lambda facts: done_before(use, self.principal, request, facts), self.principal)
        return found if isinstance(found, Refused) else found is not None

    async def told(self, use: UseResource) -> Refused | None:
        """Have it recorded, as what the caller may do now, also under a name that told of it before."""
        told = await self.records.perform(use, self.principal, self.call.request_id)
        return told if isinstance(told, Refused) else None


class _Clone(_Use):
    """A clone for one call."""

    async def make(self, place: Place, hands: Hands) -> View | Refused:
        """Once for the same request, as long as that clone is there."""
        principal, request = self.principal, self.call.request_id
        found = await self.find(lambda facts: may_clone(self.name, principal, facts))
        if isinstance(found, Refused):
            return found
        allowed, repository = found
        folder = place.folders.find(Uuid(Party(principal.agent))) if isinstance(principal, ByHandler) else None
        if folder is None:
            url = repository.public_url
            return Refused(PLACE, "you have no workspace on this machine", f"clone it yourself: {url}")
        use, clones = UseResource(str(allowed), "clone", "clones it"), Clones(folder)
        again = await self.was_told(use)
        if isinstance(again, Refused):
            return again
        if again and (made := clones.find(request)):
            return made
        mirrors, places = self.mirrors.watched(hands.gits), (folder.workspace, folder.files)
        tell, note = lambda: hands.ask(self.told(use)), lambda answer: clones.note(request, answer)
        return await hands.in_thread(lambda: mirrors.clone(repository, *places, tell, note, user="".join(folder.users)))


class _Push(_Use):
    """A push for one call."""

    async def make(self, hands: Hands) -> View | Refused:
        """Forward, as what the caller may push; what was cut off is told of."""
        branch, bundle, begun = str(self.call.arguments["branch"]), content_of(self.call), list[str]()
        if isinstance(bundle, Refused):
            return bundle
        found = await self.find(lambda facts: may_push(self.name, branch, self.principal, facts))
        if isinstance(found, Refused):
            return found
        allowed, repository = str(found[0]), found[1]

        def tell(commit: str) -> Refused | None:
            refused = hands.ask(self.told(UseResource(allowed, "push", f"pushes {commit} to {branch}")))
            begun.extend([] if refused else [commit])
            return refused

        mirrors = self.mirrors.watched(hands.gits)
        pushed = await hands.in_thread(lambda: mirrors.push(repository, branch, bundle, tell))
        if not (begun and hands.gits.ended and isinstance(pushed, Refused)):
            return pushed
        why = f"the push of {begun[0]} was cut off, and may have arrived: {hands.gits.ended}"
        await self.records.perform(UseResource(allowed, "push", one_line(f"{why} ({branch})", 200)), BySystem())
        return Refused(UNAVAILABLE, why, "look at the branch before you push again")


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
