"""The schema lock: Callboard's own types against the committed file, and what `compare` says of a change."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from callboard.actors.schema_change import Change, Lock, compare
from callboard.actors.schema_lock import lock, main, read, text
from callboard.actors.schema_shape import Shape
from callboard.mailbox.errors import UsageError

LOCK = Path(__file__).parent / "schemas.lock.json"
WRITE = f"python -m callboard.actors.schema_lock --write {LOCK.relative_to(Path(__file__).parents[2])}"


def test_callboards_own_types_are_as_the_committed_lock_has_them() -> None:
    before = read(LOCK)
    now = lock(before.modules, before.retired)
    broken = [str(change) for change in compare(before, now) if change.breaks]
    assert not broken, "\n".join(["what is written, or the version before, cannot live with this:", *broken])
    assert text(now) == text(before), f"nothing is broken, but the lock is behind: {WRITE}"


def test_the_lock_holds_every_kind_of_type() -> None:
    held = read(LOCK)
    assert {"sys.start", "sys.child_failed", "run.start", "tool.call", "approval.decided"} <= held.messages.keys()
    assert {"run.started", "tool.completed", "approval.granted"} <= held.events.keys()
    assert {"run", "supervisor", "approvals"} <= held.states.keys()
    assert {"Budget", "RunState", "Call", "ChildState"} <= held.structs.keys()
    assert any(name.startswith("crm.") for name in held.messages)
    assert "event" not in held.messages


# --- what a change does ------------------------------------------------------------------------------------------

FIELDS = {"subject": "str", "urgent?": "bool", "lines?": "list[Line]"}
LINE = {"text": "str", "times?": "int"}


def message(fields: dict[str, str] | None = None, *, version: int = 1, reads: int = 1, flags: Any = ()) -> Shape:
    return Shape(version, reads, list(flags), FIELDS if fields is None else fields)


def of(shape: Shape | None = None, line: dict[str, str] | None = None, *, retired: Any = (), **more: Any) -> Lock:
    """A lock of one message with a struct in it."""
    messages = {} if shape is None else {"t.opened": shape}
    return Lock(["t"], list(retired), messages, structs={"Line": Shape(fields=line or LINE)}, **more)


BEFORE = of(message())


def said(now: Lock, before: Lock = BEFORE) -> list[Change]:
    return compare(before, now)


def only(now: Lock, before: Lock = BEFORE) -> Change:
    changes = said(now, before)
    assert len(changes) == 1, changes
    return changes[0]


def test_nothing_has_changed() -> None:
    assert said(BEFORE) == []


@pytest.mark.parametrize(
    ("now", "name", "what"),
    [
        (of(message({**FIELDS, "late?": "float"})), "t.opened.late", "was added"),
        (of(message({"subject": "str", "lines?": "list[Line]"})), "t.opened.urgent", "was removed"),
        (of(message({"subject?": "str", "urgent?": "bool", "lines?": "list[Line]"})), "t.opened.subject", "a default"),
        (of(message(), {**LINE, "more?": "str"}), "t.opened.lines.more", "was added"),
        (of(message({"other": "int"}, version=2)), "t.opened", "at version 2"),
        (of(message({"other": "int"}, version=3)), "t.opened", "upcasts from 1"),
        (of(message(), events={"t.said": message()}), "t.said", "is new"),
        (of(message(), states={"ticket": message()}), "kind:ticket", "is new"),
    ],
)
def test_a_change_that_breaks_nothing_is_noted(now: Lock, name: str, what: str) -> None:
    change = only(now)
    assert (change.name, change.breaks) == (name, False), change
    assert what in change.what


@pytest.mark.parametrize(
    ("now", "name", "what", "way_out"),
    [
        (of(), "t.opened", "disappeared", "'t.opened' to `retired`"),
        (of(message({**FIELDS, "late": "float"})), "t.opened.late", "without a default", "give it a default"),
        (of(message({**FIELDS, "subject": "int"})), "t.opened.subject", "was str and is int", 'tag="t.opened.v2"'),
        (of(message({**FIELDS, "subject": "none | str"})), "t.opened.subject", "was str", "@upcast('t.opened', 1)"),
        (of(message({"urgent?": "bool", "lines?": "list[Line]"})), "t.opened.subject", "was removed", "v2"),
        (of(message({**FIELDS, "lines?": "list[str]"})), "t.opened.lines", "list[Line] and is list[str]", "v2"),
        (of(message({**FIELDS, "lines?": "Line"})), "t.opened.lines", "list[Line] and is Line", "v2"),
        (of(message({"subject": "str", "urgent": "bool", "lines?": "list[Line]"})), "t.opened.urgent", "no def", "v2"),
        (of(message(flags=["array"])), "t.opened", "written differently", "v2"),
        (of(message(), {"text": "str", "times?": "float"}), "t.opened.lines.times", "was int and is float", "v2"),
        (of(message(), {"text": "str", "n?": "str", "times?": "int", "m": "int"}), "t.opened.lines.m", "without", "v2"),
        (of(message(version=2, reads=2)), "t.opened", "version 1 can be read no more", "@upcast('t.opened', 1)"),
        (of(message(version=3, reads=3)), "t.opened", "version 1 can be read no more", "@upcast('t.opened', 2)"),
    ],
)
def test_a_change_that_breaks_something_names_type_and_field_and_the_way_out(
    now: Lock, name: str, what: str, way_out: str
) -> None:
    broken = [change for change in said(now) if change.breaks]
    assert len(broken) == 1, broken
    assert broken[0].name == name
    assert what in broken[0].what
    assert way_out in broken[0].way_out
    assert way_out in str(broken[0])


def test_a_renamed_field_is_seen_as_one_although_both_have_defaults() -> None:
    renamed = {"subject": "str", "pressing?": "bool", "lines?": "list[Line]"}
    broken = [change for change in said(of(message(renamed))) if change.breaks]
    assert [change.name for change in broken] == ["t.opened.urgent"]
    assert "pressing" in broken[0].what


def test_a_struct_may_have_another_name_but_not_another_shape() -> None:
    before = of(message({"lines": "list[Line]"}))
    now = Lock(["t"], messages={"t.opened": message({"lines": "list[Row]"})}, structs={"Row": Shape(fields=LINE)})
    assert said(now, before) == []
    now.structs["Row"] = Shape(fields={"text": "int", "times?": "int"})
    assert only(now, before).name == "t.opened.lines.text"


def test_a_struct_that_holds_itself_is_compared_once() -> None:
    def tree(leaf: str) -> Lock:
        node = Shape(fields={"leaf": leaf, "children?": "list[Node]"})
        return Lock(["t"], messages={"t.opened": message({"root": "Node"})}, structs={"Node": node})

    assert [change.name for change in said(tree("int"), tree("str"))] == ["t.opened.root.leaf"]


def test_every_message_with_a_changed_struct_is_named() -> None:
    both = {"t.a": message({"line": "Line"}), "t.b": message({"line": "Line"})}
    before, now = Lock(messages=both, structs={"Line": Shape(fields=LINE)}), Lock(messages=both)
    now.structs = {"Line": Shape(fields={"text": "str", "times?": "str"})}
    assert [change.name for change in said(now, before)] == ["t.a.line.times", "t.b.line.times"]


@pytest.mark.parametrize(
    ("before", "now", "what"),
    [
        (message(flags=["strict"]), message({**FIELDS, "late?": "int"}, flags=["strict"]), "refuses fields"),
        (message({**FIELDS, "late?": "int"}, flags=["strict"]), message(flags=["strict"]), "refuses fields"),
        (message({"a": "int"}, flags=["omits"]), message({"a?": "int"}, flags=["omits"]), "left out"),
        (message(version=2), message(version=1), "went back"),
    ],
)
def test_what_a_type_was_told_about_fields_counts(before: Shape, now: Shape, what: str) -> None:
    change = only(of(now), of(before))
    assert change.breaks
    assert what in change.what


def test_what_an_older_version_has_the_default_of_may_be_left_out() -> None:
    change = only(of(message(flags=["omits"])), of(message()))
    assert not change.breaks
    assert "leaves out" in change.what
    assert all(change.breaks for change in said(of(message({"a?": "int"}, flags=["omits"])), of(message({"a": "int"}))))
    assert only(of(message()), of(message(flags=["omits"]))).breaks


def test_a_state_has_its_own_way_out() -> None:
    change = only(Lock(states={"ticket": message({"n": "float"})}), Lock(states={"ticket": message({"n": "int"})}))
    assert change.name == "kind:ticket.n"
    assert "state_version = 2" in change.way_out
    assert "@upcast_state('ticket', 1)" in change.way_out
    assert not only(Lock(retired=["kind:ticket"], states={"x": message()}), Lock(states={"ticket": message()})).breaks


def test_what_is_retired_may_go() -> None:
    assert said(of(retired=["t.opened"])) == []
    assert not any(change.breaks for change in said(of(message(version=2, reads=2), retired=["t.opened.v1"])))
    assert only(of(message(version=3, reads=3), retired=["t.opened.v1"])).what == "version 2 can be read no more"


def test_a_message_may_become_an_event_of_the_same_name() -> None:
    assert said(Lock(events={"t.opened": message()}, structs=BEFORE.structs)) == []


# --- the command -------------------------------------------------------------------------------------------------

V1 = """
import msgspec
from callboard import Actor, Context, Event, Message
from callboard.actors.actor import on

class Line(msgspec.Struct):
    text: str

class Opened(Message, tag="locked_{name}.opened"):
    subject: str
    lines: list[Line] = []

class Seen(Event, tag="locked_{name}.seen"):
    at: float

class State(msgspec.Struct):
    hits: int = 0

class Ticket(Actor[State], kind="locked-{name}"):
    @on(creates=True)
    def opened(self, message: Opened, ctx: Context) -> None: ...
"""


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes and imports a program as a release has it; each test's types have names of their own."""
    name = f"locked_{request.node.name[:40].replace('[', '_').replace(']', '')}"
    monkeypatch.syspath_prepend(str(tmp_path))

    def release(source: str) -> str:
        sys.modules.pop(name, None)
        module = ModuleType(name)
        sys.modules[name] = module
        exec(compile(source.replace("{name}", name), f"{name}.py", "exec"), module.__dict__)
        return name

    yield release
    sys.modules.pop(name, None)


def test_the_command_begins_a_lock_and_finds_nothing_to_say(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, name = tmp_path / "schemas.lock.json", program(V1)
    assert main(["--write", str(file), name]) == 0
    assert main([str(file)]) == 0
    held = json.loads(file.read_text())
    assert held["modules"] == [name]
    assert held["messages"][f"locked_{name}.opened"] == {
        "version": 1,
        "reads": 1,
        "fields": {"lines?": "list[Line]", "subject": "str"},
    }
    assert held["events"][f"locked_{name}.seen"]["fields"] == {"at": "float"}
    assert held["states"][f"locked-{name}"]["fields"] == {"hits?": "int"}
    assert held["structs"] == {"Line": {"fields": {"text": "str"}}}
    capsys.readouterr()


def test_the_command_tells_what_is_behind_and_writes_it(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schemas.lock.json"
    main(["--write", str(file), program(V1)])
    program(V1.replace("at: float", "at: float\n    by: str = ''"))
    capsys.readouterr()
    assert main([str(file)]) == 1
    out = capsys.readouterr().out
    assert "seen.by: was added" in out
    assert "--write" in out
    assert main(["--write", str(file)]) == 0
    assert main([str(file)]) == 0


def test_the_command_refuses_to_write_over_what_would_break(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schemas.lock.json"
    name = program(V1)
    main(["--write", str(file), name])
    before = file.read_text()
    program(V1.replace("hits: int", "total: int").replace("text: str", "text: bytes"))
    capsys.readouterr()
    assert main([str(file)]) == 1
    assert main(["--write", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"kind:locked-{name}.hits: was removed and 'total' came" in out
    assert "opened.lines.text: was str and is bytes" in out
    assert file.read_text() == before
    assert main(["--write", "--force", str(file)]) == 0
    assert main([str(file)]) == 0


def test_a_new_version_with_its_upcast_passes_and_without_it_does_not(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schemas.lock.json"
    name = program(V1)
    main(["--write", str(file), name])
    newer = V1.replace('.opened"', '.opened.v2"').replace("subject: str", "title: str")
    newer = newer.replace("@on(creates", "state_version = 2\n    @on(creates").replace("hits: int", "total: int")
    program(newer)
    capsys.readouterr()
    assert main(["--write", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"declare @upcast('locked_{name}.opened', 1)" in out
    assert f"declare @upcast_state('locked-{name}', 1)" in out
    program(
        newer
        + """
from callboard import upcast
from callboard.actors.snapshot import upcast_state
upcast("locked_{name}.opened", 1)(lambda body: {"title": body["subject"]})
upcast_state("locked-{name}", 1)(lambda state: {"total": state["hits"]})
"""
    )
    assert main(["--write", str(file)]) == 0
    assert read(file).states[f"locked-{name}"].reads == 1


def test_the_command_says_what_it_cannot_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.json"
    assert main([str(file)]) == 2
    assert main(["--write", str(file), "no.such.module"]) == 2
    file.write_text("{}x")
    assert main([str(file)]) == 2
    out = capsys.readouterr().out
    assert "no schema lock" in out
    assert "'no.such.module' cannot be imported" in out


def test_types_that_are_declared_wrongly_cannot_be_locked(program: Any) -> None:
    name = program(V1 + "\nclass Again(Message, tag='locked_{name}.opened'):\n    a: int\n")
    with pytest.raises(UsageError, match="two message types"):
        lock([name])


def test_two_kinds_of_actors_of_one_name_with_unlike_states_cannot_be_locked(program: Any) -> None:
    other = """
class Other(msgspec.Struct):
    b: str = ""

class Second(Actor[Other], kind="locked-{name}"): ...
"""
    name = program(V1 + other)
    with pytest.raises(UsageError, match="unlike states"):
        lock([name])


def test_shapes_say_what_is_on_the_wire() -> None:
    held = read(LOCK)
    assert held.structs["Call"].fields["status"] == "Literal['held', 'in_doubt', 'running']"
    assert held.structs["RunState"].fields["final_answer?"] == "none | str"
    assert held.structs["RunState"].fields["pending?"] == "dict[int, Call]"
    assert msgspec.json.decode(LOCK.read_bytes(), type=Lock) == held
