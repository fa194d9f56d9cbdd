"""Capabilities: what a node says that it can read, and what others make of it."""

import json

import pytest

from callboard.actors import schemas
from callboard.actors.schemas import can, capabilities, place_name
from callboard.actors.snapshot import kind_name
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UsageError
from callboard.mailbox.message import known_types

from . import v1, v2

OLD = Tree(Supervisor("deploy", (Child(v1.Counter, "counter", pool=True),)))
NEW = Tree(Supervisor("deploy", (Supervisor("in", (Child(v2.Counter, "counter", pool=True),)),)))


def test_a_process_says_every_message_type_its_kinds_of_state_and_its_places() -> None:
    said = json.loads(capabilities(NEW))
    assert said.items() >= known_types().items()
    assert said["deploy.add"] == 2
    assert said["kind:deploy-counter"] == 2
    assert said["kind:supervisor"] >= 1
    assert {name for name in said if name.startswith("at:")} == {"at:/deploy", "at:/deploy/in", "at:/deploy/in/counter"}
    assert json.loads(capabilities(OLD))["kind:deploy-counter"] == 1


def test_the_text_is_the_same_however_it_came_about() -> None:
    assert capabilities(NEW) == capabilities(Tree(NEW.root))
    assert capabilities(NEW) == json.dumps(json.loads(capabilities(NEW)), sort_keys=True, separators=(",", ":"))


def test_who_can_read_what() -> None:
    said = capabilities(OLD)
    assert can(said, "deploy.add", 1)
    assert can(said, "deploy.add", 2)
    assert not can(said, "deploy.add", 3)
    assert not can(said, "deploy.nothing", 1)
    assert can(said, kind_name("deploy-counter"), 1)
    assert not can(said, kind_name("deploy-counter"), 2)
    assert can(said, place_name("/deploy/counter:a%3Ab"))
    assert not can(said, place_name("/deploy/in/counter:1"))
    assert place_name("/crm/desk/agent:42/tool:shell") == "at:/crm/desk/agent/tool"


@pytest.mark.parametrize("said", ["", "{", "[]", '{"deploy.add":"2"}', "null"])
def test_who_says_nothing_sensible_can_read_nothing(said: str) -> None:
    assert not can(said, "deploy.add", 1)


def test_what_is_published_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "MAX_CAPABILITIES_BYTES", 100)
    with pytest.raises(UsageError, match=r"message types and kinds of actors are [0-9,]+ bytes to publish, 100 are"):
        capabilities(NEW)


@pytest.mark.anyio
async def test_a_node_publishes_them_when_it_joins() -> None:
    async with TestKit(OLD) as kit:
        newer = await kit.join(tree=NEW)
        members = {member.number: member.capabilities for member in await kit.session(newer).members()}
        assert members[kit.session(newer).number] == capabilities(NEW)
        assert members[kit.session(kit.nodes[0]).number] == capabilities(OLD)
