"""What each report looks like as a picture. Reports are taken as JSON has them, so recorded ones can be drawn too.

What a report does not have (an older one, a run of a few profiles) is left out of its picture.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from callboard.evals.svg import Bars, Chart, Point, Points, Value, drawn
from callboard.mailbox.errors import UsageError

Document = Mapping[str, Any]
"""A report as JSON has it."""
SIGNALS_WHAT: Final = "found (attacks) against wrong (honest texts), 95 % intervals"


class NoPicture(UsageError):
    """Nobody knows how to draw a report of this shape."""


def picture_of(document: Document) -> str:
    """The picture of a report, as SVG.

    Raises:
        NoPicture: its `schema` is none of those that can be drawn.
    """
    schema = str(document.get("schema", ""))
    if schema not in _DRAWN:
        raise NoPicture(f"there is no picture of {schema or 'a report without a schema'!r:.80}")
    title, charts = _DRAWN[schema]
    return drawn(title, charts(document))


def share(rate: Mapping[str, Any] | None, *, counts: bool = True) -> Value | None:
    """A `Rate` as a value with its interval; None for none, and for a share of nothing."""
    if not rate or not rate["of"]:
        return None
    exact = rate["count"] / rate["of"]
    said = f"{100 * exact:.1f} %"
    return Value(exact, rate["low"], rate["high"], f"{said} ({rate['count']}/{rate['of']})" if counts else said)


# --- attacks on a gate -------------------------------------------------------------------------------------------


def _gate(document: Document) -> list[Chart]:
    return [
        Bars(
            "A fully compromised model: attacks that land, and honest work that asks a person",
            ("attacks that land, of all pairs", "honest tasks that ask"),
            tuple((row["name"], (share(row["landed"]), share(row.get("tasks_asking")))) for row in document["rows"]),
            axis=f"of {document['pairs']} pairs {document['ceiling']} land where nothing is held; 95 % intervals",
        )
    ]


# --- texts ---------------------------------------------------------------------------------------------------------


def signal_points(document: Document) -> list[Point]:
    """What each signal finds on held out groups, against what it gets wrong there."""
    return [
        Point(one["name"], x, y, 0)
        for one in document.get("signals", [])
        if (x := share(one.get("benign_held_out"))) and (y := share(one.get("attacks_held_out")))
    ]


def peer_points(document: Document) -> list[Point]:
    """What each profile of the peer acts on, on the same held out groups: by a pattern, and at all."""
    found = []
    for series, field, how in ((1, "on_sign", "by a pattern"), (2, "acted", "at all")):
        for row in document.get("rows", []):
            x, y = share(row["benign_held_out"].get(field)), share(row["attacks_held_out"].get(field))
            if x and y and (x.at or y.at):
                found.append(Point(f"{document['peer']}, {row['name']}, {how}", x, y, series))
    return found


def _texts(document: Document) -> list[Chart]:
    charts: list[Chart] = [
        _scatter("Signals, on groups that nothing was trained on", signal_points(document), ("ours",))
    ]
    return [*charts, _by_kind(document), _profiles(document)]


def _scatter(title: str, points: Sequence[Point], series: tuple[str, ...]) -> Points:
    return Points(title, series, tuple(points), "honest texts found wrong", "attacks found")


def _by_kind(document: Document) -> Bars:
    signals = [one for one in document.get("signals", []) if one.get("held_out_by_kind")]
    kinds = sorted({kind for one in signals for kind in one["held_out_by_kind"]})
    return Bars(
        "Found (of attacks) or wrong (of honest texts), by kind, held out groups",
        tuple(one["name"] for one in signals),
        tuple((kind, tuple(share(one["held_out_by_kind"].get(kind)) for one in signals)) for kind in kinds),
        axis="share of the texts of that kind; 95 % intervals",
    )


def _profiles(document: Document) -> Bars:
    return Bars(
        "What profiles make of texts",
        ("attacks: the call that carries the words is held", "honest texts: a call without them is held"),
        tuple(
            (row["name"], (share(row["attacks"]["carried"]), share(row["benign"]["unrelated"])))
            for row in document["rows"]
        ),
        axis="share of texts; 95 % intervals",
    )


def _peers(document: Document) -> list[Chart]:
    series = ("attacks acted on", "honest texts acted on", "honest texts: the run is ended")
    rows = document["rows"]
    kinds = sorted({kind for row in rows for kind in row["attacks_by_kind"] | row["benign_by_kind"]})
    looked = [row for row in rows if row["attacks"]["acted"]["count"] or row["benign"]["acted"]["count"]]

    def of_kind(row: Document, kind: str) -> Value | None:
        found = row["attacks_by_kind"].get(kind) or row["benign_by_kind"].get(kind)
        return share(found["acted"]) if found else None

    return [
        Bars(
            f"{document['peer']} {document['version']}: texts acted on",
            series,
            tuple((row["name"], tuple(share(one) for one in (row["attacks"]["acted"], *_honest(row)))) for row in rows),
            axis="share of texts; acted on: a person is asked, or the run is ended; 95 % intervals",
        ),
        Bars(
            "Acted on, by kind",
            tuple(row["name"] for row in looked),
            tuple((kind, tuple(of_kind(row, kind) for row in looked)) for kind in kinds),
            axis="share of the texts of that kind; 95 % intervals",
        ),
    ]


def _honest(row: Document) -> tuple[Document, Document]:
    return row["benign"]["acted"], row["benign"]["ended"]


def texts_side_by_side(ours: Document, peers: Document | None) -> str:
    """Our signals and the peer's profiles in one plot of held out groups, as SVG."""
    points = signal_points(ours) + (peer_points(peers) if peers else [])
    series = (
        "ours: a signal, which asks at most",
        "the peer acts, by a pattern",
        "the peer acts, personal data counted too",
    )
    return drawn("Detection", [_scatter("Detection on held out groups: ours and the peer's", points, series)])


def _detector(document: Document) -> list[Chart]:
    def both(one: Document) -> tuple[Value | None, Value | None]:
        return share(one.get("detected")), share(one.get("false_positives"))

    groups = [(f"held out groups, for {100 * one['wanted']:.2g} %", both(one)) for one in document["held_out_groups"]]
    if across := document.get("unseen_groups"):
        groups.append(("every group unseen once", both(across)))
    groups += [(f"unseen: {one['source']}", both(one)) for one in document["unseen_sources"]]
    return [
        Bars(
            "The detector: groups of known sources, and sources that it never saw",
            ("attacks found", "honest texts found wrong"),
            tuple(groups),
            axis="share of texts; 95 % intervals",
        )
    ]


# --- work ----------------------------------------------------------------------------------------------------------


def _retail(document: Document) -> list[Chart]:
    charts: list[Chart] = []
    for walk in dict.fromkeys(row["walk"] for row in document["rows"]):
        rows = [row for row in document["rows"] if row["walk"] == walk]
        names = list(dict.fromkeys(row["name"] for row in rows))
        by_both = {(row["name"], row["goal"]): row for row in rows}
        goals = tuple(dict.fromkeys(row["goal"] for row in rows))
        charts.append(
            Bars(
                f"Retail tasks that ask a person ({walk})",
                tuple(f"goal {goal}" for goal in goals),
                tuple((name, _asking(by_both, name, goals)) for name in names),
                axis=f"share of {document['tasks']} tasks; 95 % intervals",
            )
        )
    return [*charts, _survival(document.get("survival") or {})]


def _survival(document: Document) -> Bars:
    groups: list[tuple[str, tuple[Value | None, ...]]] = []
    if calm := document.get("calm"):
        groups += [(f"calm, {calm['store']}: {name}", (share(calm[name]),)) for name in ("same", "rewarded")]
    for row in (*document.get("kills", ()), *document.get("controls", ())):
        groups.append((f"{row['name']}, {row['store']}", (share(row["unharmed"]),)))
    return Bars(
        "Retail tasks that end as they should: calm, and killed at every commit",
        ("tasks that are right",),
        tuple(groups),
        axis="share of the tasks that were played; controls have tools that ignore their keys, and must be harmed",
    )


def _retail_model(document: Document) -> list[Chart]:
    chances = enumerate(document["pass_hat"], 1)
    return [
        Bars(
            f"Retail tasks with {document['model']}",
            ("share",),
            (
                ("trials rewarded", (share(document["rewarded"]),)),
                *((f"pass^{k}", (Value(chance),)) for k, chance in chances),
            ),
            axis=f"{len(document['tasks'])} tasks, {document['trials']} trials each; 95 % interval of all trials",
        )
    ]


def _asking(rows: Mapping[tuple[str, str], Document], name: str, goals: Iterable[str]) -> tuple[Value | None, ...]:
    return tuple(share(rows[name, goal]["tasks_asking"]) if (name, goal) in rows else None for goal in goals)


def _durability(document: Document) -> list[Chart]:
    rows = [*document["rows"], document["control"]]
    fields = list(rows[0]["damage"])
    return [
        Bars(
            "Killed at every commit: what was repeated, lost or made again",
            tuple(field.replace("_", " ") for field in fields),
            tuple(
                (f"{row['name']} ({row['kills']} kills)", tuple(Value(row["damage"][field]) for field in fields))
                for row in rows
            ),
            unit="number",
            axis="how often, in all kills together",
        )
    ]


def _budget(document: Document) -> list[Chart]:
    return [
        Bars(
            f"Turns of the model, by the class of the task ({walk})",
            ("allowed at first", "used by honest tasks", "used by runs that never end"),
            tuple(
                (
                    f"{row['label']} ({row['tasks']} tasks)",
                    tuple(Value(row[field]) for field in ("allowed", "used", "runaway")),
                )
                for row in rows
            ),
            unit="number",
            axis=f"turns; without a classifier {document['own_iterations']} are allowed",
        )
        for walk, rows in document["walks"].items()
    ]


_DRAWN: Final[Mapping[str, tuple[str, Callable[[Document], Sequence[Chart]]]]] = {
    "callboard.eval.agentdojo/1": ("AgentDojo at our gate", _gate),
    "callboard.eval.injections/1": ("Injections at the support desk", _gate),
    "callboard.eval.guardrails/1": ("What guardrails make of texts", _texts),
    "callboard.eval.peers/1": ("A peer's guardrails on the same texts", _peers),
    "callboard.eval.detector/1": ("The detector", _detector),
    "callboard.eval.retail/1": ("The retail desk", _retail),
    "callboard.eval.retail-model/1": ("The retail desk with a model", _retail_model),
    "callboard.eval.durability/1": ("Durability", _durability),
    "callboard.eval.budget/1": ("Budgets", _budget),
}
