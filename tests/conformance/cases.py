"""The cases of a file: neutral data recorded on real OTP, read and checked before anything runs.

A case is a tree, a script of steps, and what each step showed (`expect`: events; `result`: what the call returned).
What cannot be read at all is `NotCases`; one that is read but cannot be run fails by itself and not its file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = tuple[Any, ...]
"""(what, id, …) as the file's vocabulary has it, such as ("exit", "b", 1, "boom")."""

SCHEMA = "supervision-cases/"
KINDS = {"start": 3, "start_failed": 4, "start_ignored": 3, "stopping": 4, "exit": 4, "report": 5, "owner_notified": 4}
"""How many parts each event has."""


class NotCases(Exception):
    """The file is not of the format; the sentence says where."""


@dataclass(frozen=True)
class Step:
    """One step of a script."""

    do: str
    fields: dict[str, Any]
    expect: tuple[Event, ...]
    result: Any
    any_order: bool
    """Only the order of the events of one id is fixed."""

    def text(self, name: str) -> str:
        """A field that is a text; "" where it is missing."""
        return str(self.fields.get(name, ""))

    @property
    def milliseconds(self) -> float:
        return float(self.fields.get("ms", 0))


@dataclass(frozen=True)
class Case:
    """One recorded case."""

    id: str
    title: str
    tree: dict[str, Any]
    steps: tuple[Step, ...]
    disposition: str
    """same, adapt or must_differ."""
    final: str = ""
    """root_alive, root_dead or never_started; "" where the file does not say."""

    def specs(self) -> Iterator[dict[str, Any]]:
        """The specs of the tree, root first; not those that a step adds."""
        yield from _walk(self.tree)


def _walk(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield spec
    for child in spec.get("children", ()):
        yield from _walk(child)


def read(path: Path) -> list[Case]:
    """The cases of a file.

    Raises:
        NotCases: it is not of the format.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotCases(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NotCases(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise NotCases(
            f'{path} has no list "cases"; it must be an object such as {{"schema": "{SCHEMA}1", "cases": […]}}'
        )
    schema = data.get("schema", SCHEMA)
    if not (isinstance(schema, str) and schema.startswith(SCHEMA)):
        raise NotCases(f"{path} has the schema {schema!r}; only {SCHEMA}… can be run")
    return [case_of(entry, f"{path}: case {number}") for number, entry in enumerate(data["cases"], 1)]


def case_of(entry: Any, where: str = "the case") -> Case:
    """One case, from its plain data.

    Raises:
        NotCases: it is not of the format.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise NotCases(f'{where} is no object with an "id"')
    where = f"{where} ({entry['id']})"
    script = entry.get("script")
    if not isinstance(script, list) or not script:
        raise NotCases(f'{where} has no "script", the list of its steps')
    _check_spec(entry.get("tree"), f"{where}: tree")
    if entry["tree"]["kind"] != "supervisor":
        raise NotCases(f"{where}: tree: the root must be a supervisor")
    durable = entry.get("durable") or {}
    if not isinstance(durable, dict):
        raise NotCases(f'{where}: "durable" is no object')
    disposition = durable.get("disposition", "same")
    if disposition not in ("same", "adapt", "must_differ"):
        raise NotCases(f"{where}: the disposition {disposition!r} is none of same, adapt, must_differ")
    steps = tuple(_step(step, f"{where}: step {number}") for number, step in enumerate(script, 1))
    final = entry.get("final", "")
    if final not in ("", "root_alive", "root_dead", "never_started"):
        raise NotCases(f"{where}: the final state {final!r} is none of root_alive, root_dead, never_started")
    return Case(entry["id"], str(entry.get("title", "")), entry["tree"], steps, disposition, final)


def _check_spec(spec: Any, where: str) -> None:
    if not isinstance(spec, dict) or not isinstance(spec.get("id"), str):
        raise NotCases(f'{where} is no object with an "id"')
    if spec.get("kind") not in ("supervisor", "worker"):
        raise NotCases(f"{where}: {spec['id']}: the kind {spec.get('kind')!r} is neither supervisor nor worker")
    children = spec.get("children", [])
    if not isinstance(children, list) or not isinstance(spec.get("script", {}), dict):
        raise NotCases(f'{where}: {spec["id"]}: "children" must be a list and "script" an object')
    for child in children:
        _check_spec(child, where)


def _step(step: Any, where: str) -> Step:
    if not isinstance(step, dict) or not isinstance(step.get("do"), str):
        raise NotCases(f'{where} has no "do"')
    expect = step.get("expect", [])
    if not isinstance(expect, list):
        raise NotCases(f'{where}: "expect" is no list')
    if step["do"] == "start_child":
        _check_spec(step.get("spec"), f"{where}: spec")
    if not isinstance(step.get("ms", 0), int | float):
        raise NotCases(f'{where}: "ms" is no number')
    return Step(
        step["do"],
        {key: value for key, value in step.items() if key not in ("do", "expect", "result", "any_order_between_ids")},
        tuple(_event(event, where) for event in expect),
        step.get("result"),
        bool(step.get("any_order_between_ids", False)),
    )


def _event(event: Any, where: str) -> Event:
    if not isinstance(event, list) or not event or KINDS.get(event[0]) != len(event):
        raise NotCases(f"{where}: {event!r} is no event; events are {', '.join(sorted(KINDS))} with their fields")
    return tuple(event)
