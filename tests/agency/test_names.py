"""Names in Agency's records."""

from __future__ import annotations

import pytest

from cn.agency.names import (
    LEVELS,
    NameRefused,
    Resource,
    links_in,
    parse_actor,
    parse_party,
    parse_resource,
    parse_uuid,
    rank,
    user,
)

A = "3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0"


@pytest.mark.parametrize("text", ["", "3f2a", A.upper(), A + "\n", f"{{{A}}}", A.replace("-", ""), "0" * 36])
def test_only_a_whole_uuid_of_version_4_is_one(text: str) -> None:
    assert parse_uuid(A) == A
    with pytest.raises(NameRefused):
        parse_uuid(text)


@pytest.mark.parametrize("text", ["", "user:", "user:A", "user:a b", "ada", "user:ada\n", "peer:pi", "system"])
def test_a_party_is_a_handler_or_a_user(text: str) -> None:
    assert parse_party(A) == A
    assert user("ada") == "user:ada"
    with pytest.raises(NameRefused):
        parse_party(text)


@pytest.mark.parametrize("text", ["", A, f"{A}/", f"/{A}", f"{A}/{A}/{A}", f"{A}/ada", "system:x", f"user:ada/{A}"])
def test_an_actor_is_an_agent_a_user_a_peer_or_the_system(text: str) -> None:
    for good in (f"{A}/{A}", f"{A}/user:ada", "user:ada", "peer:pi", "system"):
        assert parse_actor(good) == good
    with pytest.raises(NameRefused):
        parse_actor(text)


@pytest.mark.parametrize("text", ["", "kb", "kb:", "kb:x", "gmail", "mcp: x", "mcp:a\nb", "mcp:\u202ea", "x:y"])
def test_a_resource_has_a_known_kind_and_a_plain_name(text: str) -> None:
    assert parse_resource("repo:https://example.org/x.git") == Resource("repo", "https://example.org/x.git")
    assert str(parse_resource(f"kb:{A}")) == f"kb:{A}"
    with pytest.raises(NameRefused):
        parse_resource(text)


def test_levels_include_those_before_them() -> None:
    assert [rank(Resource("repo", "x"), level) for level in LEVELS["repo"]] == [0, 1, 2]
    with pytest.raises(NameRefused, match="no level of repo"):
        rank(Resource("repo", "x"), "write")


def test_links_of_a_text_are_found_once_in_their_order() -> None:
    other = A.replace("3f", "77")
    assert links_in(f"see kb://{other}, [x](kb://{A}), kb://{A.upper()} and kb://{A[:-1]}") == (other, A)
    assert links_in("https://example.org kb://nothing") == ()
