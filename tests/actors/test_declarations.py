"""What is declared wrongly says so at once, in one sentence; what is declared rightly is found."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Stateless, Worker, on
from callboard.actors.context import Context, Ref, WorkerContext
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.mailbox.errors import BadAddress, UsageError
from tests.actors.world import Answer, Call, Note, Probe, Tool


def test_a_handler_without_an_annotation_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Bad\.note: 'message' must be annotated with a Message type, not None"):

        class Bad(Actor[Stateless]):
            @on
            def note(self, message, ctx: Context) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize("hint", [int, "str", Any, Note | int])
def test_a_handler_of_what_is_no_message_is_refused(hint: object) -> None:
    def note(self: Any, message: Any, ctx: Context) -> None: ...

    note.__annotations__["message"] = hint
    with pytest.raises(UsageError, match="must be annotated with a Message type"):
        type("Bad", (Actor,), {"note": on(note)})


def test_an_annotation_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Bad\.note: cannot read its annotations: name 'Nowhere' is not defined"):

        class Bad(Actor[Stateless]):
            @on
            def note(self, message: "Nowhere", ctx: Context) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_two_handlers_of_one_type_are_refused() -> None:
    with pytest.raises(UsageError, match="Bad: first and second both handle Note"):

        class Bad(Actor[Stateless]):
            @on
            def first(self, message: Note, ctx: Context) -> None: ...

            @on
            def second(self, message: Answer | Note, ctx: Context) -> None: ...


def test_a_handler_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Bad\.note: a handler takes \(self, message, ctx\), not \(self, message\)"):

        class Bad(Worker):
            @on
            def note(self, message: Note) -> None: ...


def test_a_type_declared_in_a_function_can_be_handled_there() -> None:
    class Local(msgspec.Struct):
        n: int = 0

    class Fine(Actor[Local]):
        @on
        def note(self, message: "Note | Answer", ctx: "Context") -> None: ...

    assert set(Fine.handlers) == {Note, Answer}
    assert (Fine.kind, Fine.state_type) == ("fine", Local)


def test_a_subclass_has_its_bases_handlers_and_may_replace_them() -> None:
    class More(Probe, kind="more"):
        @on
        def call(self, message: Call, ctx: Context) -> None: ...

        def note(self, message: Note, ctx: Context) -> None:
            self.state.notes.append("replaced")

    assert {kind.__name__: handler.method for kind, handler in More.handlers.items()} == {
        "Note": "note",
        "Answer": "answered",
        "AskFailed": "answered",
        "Call": "call",
    }
    assert More.handlers[Note].creates
    assert More.state_type is Probe.state_type
    assert Call not in Probe.handlers


# --- the tree --------------------------------------------------------------------------------------------------------


def sample() -> Tree:
    tool = Child(Tool, "tool", args=(None,))
    return Tree(Supervisor("t", (tool, Supervisor("sub", (Child(Probe, "p", pool=True), Child(Probe, "one"))))))


def test_addresses_find_their_spec() -> None:
    tree = sample()
    pool, one = tree.specs["/t/sub/p"], tree.specs["/t/sub/one"]
    assert tree.address == "/t"
    assert tree.find("/t") is tree.root
    assert tree.find("/t/sub/p:42") is pool
    assert tree.find("/t/sub/p:a%20b") is pool
    assert tree.find("/t/sub/one") is one
    assert set(tree.workers) == {"/t/tool", "/sys/census"}, "a tree with a pool has a census"
    for address in ("/t/sub/p", "/t/sub/one:1", "/t/p:1", "/t/sub:1/p:1", "/t/sub/p:1/p:2", "/u", "/t/sub/q"):
        assert tree.find(address) is None, address


def test_the_digest_tells_one_shape_from_another() -> None:
    kid = Child(Probe, "a")
    shapes = [
        Supervisor("t", (kid,)),
        Supervisor("t", (Child(Probe, "b"),)),
        Supervisor("t", (Child(Probe, "a", restart="temporary"),)),
        Supervisor("t", (Child(Probe, "a", pool=True),)),
        Supervisor("t", (kid,), strategy="one_for_all"),
        Supervisor("t", (kid,), max_restarts=9),
        Supervisor("t", (kid,), within=9),
    ]
    assert len({Tree(shape).digest for shape in shapes}) == len(shapes)
    assert Tree(Supervisor("t", (Child(Probe, "a"),))).digest == Tree(shapes[0]).digest


def test_two_children_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="supervisor 't' has two children named 'a'"):
        Supervisor("t", (Child(Probe, "a"), Supervisor("a")))


@pytest.mark.parametrize(("max_restarts", "within"), [(-1, 1), (1, 0), (1, -5)])
def test_an_intensity_that_means_nothing_is_refused(max_restarts: int, within: float) -> None:
    with pytest.raises(UsageError, match="max_restarts must be 0 or more and within above 0 seconds"):
        Supervisor("t", max_restarts=max_restarts, within=within)


@pytest.mark.parametrize("name", ["", "Upper", "with space", "key:ed", "a/b", "1st"])
def test_a_name_that_is_no_segment_is_refused(name: str) -> None:
    with pytest.raises(BadAddress):
        Tree(Supervisor("t", (Child(Probe, name),)))


def test_a_pool_of_workers_is_refused() -> None:
    with pytest.raises(UsageError, match="leave out pool=True"):
        Child(Tool, "tool", pool=True)


def test_a_ref_is_an_address() -> None:
    assert Ref[Note]("/t/p:1").address == "/t/p:1"
    with pytest.raises(BadAddress):
        Ref[Note]("t")


def test_a_worker_is_declared_like_an_actor() -> None:
    class Fetch(Worker):
        @on
        async def call(self, message: Call, ctx: WorkerContext) -> Answer:
            return Answer(message.text)

    assert (Fetch.kind, list(Fetch.handlers)) == ("fetch", [Call])
