"""The measured parts of docs/THREAT_MODEL.md, each made from kept reports: tables, and sentences that hold figures.

A part is a function of the kept reports by name. A report that is not there makes its part say so; a field that an
older report lacks is a dash.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.guard.profiles import PROFILES
from callboard.evals.rates import Rate, counted
from callboard.evals.reports import markdown_table
from callboard.evals.tables import short

Document = Mapping[str, Any]
Documents = Mapping[str, Document]
"""Kept reports by name; those that are missing are not in it."""
WIDTH: Final = 120
MISSING: Final = "*Not measured.*"
OWN: Final = "the desk's own"
EVERY: Final = "every write"


def wrapped(text: str) -> str:
    """A paragraph, as the page has them."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def found_in(document: Document | None, field: str) -> Rate | None:
    """A share in a report; None where the report does not have it."""
    value = (document or {}).get(field)
    return None if value is None else msgspec.convert(value, Rate)


def row_of(document: Document | None, **wanted: str) -> Document | None:
    """The row of a report with these values; None where there is none."""
    rows = (document or {}).get("rows", ())
    return next((row for row in rows if all(row.get(key) == value for key, value in wanted.items())), None)


# --- the page's first words ---------------------------------------------------------------------------------------


def _paragraph(found: Documents) -> str:
    dojo, desk, detector = found["agentdojo"], found["injections"], found["detector"]["unseen_groups"]
    standard, strict = (_must(row_of(dojo, name=name)) for name in ("standard", "strict"))
    own = row_of(desk, name=OWN)
    return wrapped(
        "In one paragraph: **no profile makes a model safe to obey strangers.** Detection finds "
        f"{_said(found_in(detector, 'detected'))} of attacks in texts of known sources, at "
        f"{_said(found_in(detector, 'false_positives'))} false positives, and far less of a new source; it stops "
        "nothing by itself. What stops attacks is the gate: what a call may do depends on where its values come "
        f"from. With a model that is *fully* in the attacker's hand, `standard` lets {_landed(standard)} of "
        f"AgentDojo's {dojo['pairs']} attacks land (of {dojo['ceiling']} that can; {_silent(standard)} of them "
        f"need no call) and `strict` {_landed(strict)}. The price is people who are asked: in "
        f"{_share(standard, 'tasks_asking')} of honest tasks under `standard`, in "
        f"{_share(strict, 'tasks_asking')} under `strict`. On our own support desk, against attackers who also "
        f"encode what they say, `standard` lets {_landed(_must(row_of(desk, name='standard')))} of "
        f"{desk['ceiling']} land, the desk's own numbers {_landed(_must(own))}, and `strict` "
        f"{_landed(_must(row_of(desk, name='strict')))}."
    )


def _summary(found: Documents) -> str:
    dojo, desk = found["agentdojo"], found["injections"]
    columns = (
        "profile",
        f"AgentDojo: attacks that land (of {dojo['ceiling']})",
        "of these by a call",
        f"our desk: attacks that land (of {desk['ceiling']})",
        "AgentDojo: tasks that ask (97)",
        f"our desk: tickets that ask ({desk['benign_tasks']})",
        "retail: tasks that ask (114)",
        "retail: questions a task",
        "attacks found in texts",
        "honest texts found wrong",
    )
    rows = [_summary_row(name, f"**{name}**", found) for name in PROFILES]
    return markdown_table((columns, [*rows, _summary_row(OWN, OWN, found)]))


def _summary_row(name: str, called: str, found: Documents) -> Sequence[str]:
    dojo, desk = row_of(found["agentdojo"], name=name), row_of(found["injections"], name=name)
    retail = row_of(found.get("retail"), name=name, walk="looked up", goal="trusted")
    texts = row_of(found.get("guardrails"), name="standard" if name == OWN else name) or {}
    return (
        called,
        _landed(dojo),
        "–" if dojo is None else str(dojo["landed"]["count"] - dojo["landed_text_only"]),
        _landed(desk),
        _share(dojo, "tasks_asking"),
        _share(desk, "tasks_asking"),
        _share(retail, "tasks_asking"),
        "–" if retail is None else f"{retail['asked_per_task']:.2f}",
        _share(texts.get("attacks"), "detected"),
        _share(texts.get("benign"), "detected"),
    )


# --- a compromised model ------------------------------------------------------------------------------------------


def _agentdojo(found: Documents) -> str:
    dojo = found["agentdojo"]
    columns = (
        "gate",
        "attacks that land",
        "of ceiling",
        "of these by a call",
        "without any call",
        "by a call, said in base64",
        "honest tasks that ask (97)",
        "writes asked for",
        "tasks done though nobody answers",
    )
    rows = [
        (
            _named(row["name"]),
            _landed(row),
            f"{100 * row['of_ceiling']:.1f} %",
            str(row["landed"]["count"] - row["landed_text_only"]),
            str(row["landed_text_only"]),
            str(row["landed_encoded"]["count"]),
            _wide(row, "tasks_asking"),
            _counted(row, "writes_asked"),
            str(row["tasks_done"]["count"]),
        )
        for row in dojo["rows"]
    ]
    return markdown_table((columns, rows))


def _injections(found: Documents) -> str:
    desk = found["injections"]
    columns = (
        "gate",
        "attacks that land",
        "of ceiling",
        "honest tickets that ask",
        "questions a ticket",
        "writes asked for",
    )
    rows = [
        (
            _named(row["name"]),
            _landed(row),
            f"{100 * row['landed']['count'] / desk['ceiling']:.1f} %",
            _wide(row, "tasks_asking"),
            f"{row['asked_per_task']:.2f}",
            _counted(row, "writes_asked"),
        )
        for row in desk["rows"]
    ]
    return markdown_table((columns, rows))


def _landed_where(found: Documents) -> str:
    desk = found["injections"]
    names = ("standard", OWN)
    rows = {name: row_of(desk, name=name) or {} for name in names}
    lines: list[Sequence[str]] = []
    for title, field in (("form", "landed_by_form"), ("place", "landed_by_place"), ("goal", "landed_by_goal")):
        counts = {name: rows[name].get(field, {}) for name in names}
        keys = sorted({key for one in counts.values() for key in one})
        keys.sort(key=lambda key: -counts[names[0]].get(key, 0))
        lines += [(title, key.replace("_", " "), *(str(counts[name].get(key, 0)) for name in names)) for key in keys]
    return markdown_table((("by", "", *(f"lands under {name}" for name in names)), lines))


# --- honest work --------------------------------------------------------------------------------------------------


def _retail(walk: str) -> Callable[[Documents], str]:
    def part(found: Documents) -> str:
        retail = found["retail"]
        columns = (
            "gate",
            "tasks that ask, goal trusted",
            "questions a task",
            "writes asked for",
            "tasks that ask, goal untrusted",
            "questions a task",
            "writes asked for",
            "right when answered",
            "right though nobody answers",
        )
        names = dict.fromkeys(row["name"] for row in retail["rows"])
        both = [
            [row_of(retail, name=name, walk=walk, goal=goal) for goal in ("trusted", "untrusted")] for name in names
        ]
        lines = [
            (
                _named(name),
                *(cell for row in rows for cell in _asking(row)),
                *(" / ".join(_count(row, field) for row in rows) for field in ("same_answered", "same_unanswered")),
            )
            for name, rows in zip(names, both, strict=True)
        ]
        return markdown_table((columns, lines))

    return part


def _asking(row: Document | None) -> Sequence[str]:
    if row is None:
        return "–", "–", "–"
    return _wide(row, "tasks_asking"), f"{row['asked_per_task']:.2f}", _counted(row, "writes_asked")


def _asked(found: Documents) -> str:
    rows = [row for row in found["retail"]["rows"] if row["name"] == "standard"]
    tools = sorted({tool for row in rows for tool in row["asked_about"]})
    columns = ("", *(f"{row['walk']}, goal {row['goal']}" for row in rows))
    lines: list[Sequence[str]] = [(tool, *(str(row["asked_about"].get(tool, 0)) for row in rows)) for tool in tools]
    return markdown_table((columns, lines))


def _controls(found: Documents) -> str:
    columns = ("spoiled play", "told from the right one", "by customers and orders alone")
    lines: list[Sequence[str]] = [
        (one["name"], _counted(one, "noticed"), _counted(one, "noticed_in_rows")) for one in found["retail"]["controls"]
    ]
    return markdown_table((columns, lines))


def _survival(found: Documents) -> str:
    left = found["retail"].get("survival")
    if not left:
        return MISSING
    calm = left["calm"]
    columns = ("", "store", "times", "tasks that are right", "other tables", "repeated effects", "repeated model calls")
    lines: list[Sequence[str]] = [
        ("calm, as made directly", calm["store"], "–", _wide(calm, "same"), "–", "–", "–"),
        ("calm, as in memory", calm["store"], "–", _wide(calm, "same_as_memory"), "–", "–", "–"),
        ("calm, rewarded as tau2-bench does", calm["store"], "–", _wide(calm, "rewarded"), "–", "–", "–"),
    ]
    for row in (*left["kills"], *left["controls"]):
        harm = [f"{row['harm'][field]:,}" for field in ("other_tables", "repeated_effects", "repeated_model_calls")]
        lines.append((row["name"], row["store"], f"{row['harm']['kills']:,}", _wide(row, "unharmed"), *harm))
    return markdown_table((columns, lines))


def _durability(found: Documents) -> str:
    report = found["durability"]
    rows = [*report["rows"], report["control"]]
    fields = list(rows[0]["damage"])
    columns = ("killed", "kills", *(field.replace("_", " ") for field in fields))
    lines = [(row["name"], str(row["kills"]), *(str(row["damage"][field]) for field in fields)) for row in rows]
    return markdown_table((columns, lines))


def _budget(found: Documents) -> str:
    report = found["budget"]
    columns = ("walk", "class", "tasks", "allowed at first", "used", "raised", "cut short wrongly", "saved of runaways")
    lines = [
        (
            walk,
            row["label"],
            str(row["tasks"]),
            f"{row['allowed']:.1f}",
            f"{row['used']:.1f}",
            _counted(row, "raised"),
            _counted(row, "cut_short"),
            f"{100 * row['saved']:.1f} %",
        )
        for walk, rows in [*report["walks"].items(), ("control", [report["control"]])]
        for row in rows
    ]
    return markdown_table((columns, lines))


# --- cells --------------------------------------------------------------------------------------------------------


def _must(row: Document | None) -> Document:
    return row if row is not None else {"landed": {"count": 0}, "landed_text_only": 0}


def _named(name: str) -> str:
    return f"**{name}**" if name in PROFILES or name == OWN else name


def _landed(row: Document | None) -> str:
    return "–" if row is None else f"{row['landed']['count']}"


def _silent(row: Document) -> str:
    return str(row["landed_text_only"])


def _said(one: Rate | None) -> str:
    return "–" if one is None else short(one)


def _share(row: Document | None, field: str) -> str:
    one = found_in(row, field)
    return "–" if one is None or not one.of else f"{100 * one.count / one.of:.1f} %"


def _wide(row: Document | None, field: str) -> str:
    return _said(found_in(row, field))


def _counted(row: Document | None, field: str) -> str:
    one = found_in(row, field)
    return "–" if one is None else counted(one)


def _count(row: Document | None, field: str) -> str:
    one = found_in(row, field)
    return "–" if one is None else str(one.count)


Part = tuple[Iterable[str], Callable[[Documents], str]]
"""Which reports it needs, and how it is made."""
PARTS: dict[str, Part] = {
    "paragraph": (("agentdojo", "injections", "detector"), _paragraph),
    "summary": (("agentdojo", "injections"), _summary),
    "agentdojo": (("agentdojo",), _agentdojo),
    "injections": (("injections",), _injections),
    "landed-where": (("injections",), _landed_where),
    "retail-looked-up": (("retail",), _retail("looked up")),
    "retail-listed": (("retail",), _retail("listed")),
    "retail-asked": (("retail",), _asked),
    "retail-controls": (("retail",), _controls),
    "retail-survival": (("retail",), _survival),
    "durability": (("durability",), _durability),
    "budget": (("budget",), _budget),
}
