"""The measured parts of docs/BENCHMARKS.md: a table for each kept report, and what the goals have become."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

Documents = dict[str, dict[str, Any]]
"""Kept reports by the name of their bench."""
Part = tuple[str, Callable[[dict[str, Any]], str]]
"""The report that it shows, and how."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float | None) -> str:
    """A figure with as many digits as it deserves."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ms(microseconds: float | None) -> str:
    """Microseconds as milliseconds."""
    return number(None if microseconds is None else microseconds / 1e3)


def machine_of(report: dict[str, Any]) -> str:
    """One line about where it was measured."""
    it = report["machine"]
    return (
        f"{it['cores']} cores ({it['processor']}), {it['memory_gib']} GiB, {it['system']}, Python {it['python']}, "
        f"PostgreSQL {it['postgres']}, fsync {it['fsync']}, synchronous_commit {it['synchronous_commit']}, "
        f"8 kB synced in {it['sync_p50_ms']} ms; {it['date']}."
    )


# --- peers --------------------------------------------------------------------------------------------------------


def _figures(report: dict[str, Any], work: str) -> list[dict[str, Any]]:
    return [one for one in report["figures"] if one["work"] == work]


def _ratio(report: dict[str, Any], figure: dict[str, Any]) -> tuple[str, str]:
    for one in report["ratios"]:
        if (one["name"], one["work"], one["at_once"]) == (figure["name"], figure["work"], figure["at_once"]):
            return (number(one["cpu"]) + " ×", number(one["rate"]) + " ×")
    return ("", "")


def _version(figure: dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in figure["versions"].items()]
    return "" if figure["name"].startswith("callboard") else f" ({', '.join(versions)})"


def peers_steps(report: dict[str, Any]) -> str:
    """Steps of an agent, many at once and alone."""
    parts = []
    for at_once in sorted({one["at_once"] for one in _figures(report, "step")}, reverse=True):
        figures = [one for one in _figures(report, "step") if one["at_once"] == at_once]
        rows = [
            (
                one["label"] + _version(one),
                ms(one["client_cpu_us"]),
                ms(one["server_cpu_us"]),
                ms(one["cpu_us"]),
                _ratio(report, one)[0],
                number(one["per_second"]),
                number(one["wal_bytes"] / 1e3),
            )
            for one in figures
        ]
        head = (
            f"{'one run alone' if at_once == 1 else f'{at_once} runs at once'}",
            "client ms",
            "server ms",
            "CPU ms a step",
            "of ours",
            "steps/s",
            "WAL kB",
        )
        parts.append(table(head, rows))
    return "\n\n".join([*parts, _told(report)])


def _told(report: dict[str, Any]) -> str:
    missing = [f"{name} ({reason})" for name, reason in report["not_measured"].items()]
    foreign = [one["foreign_cores"] for one in report["figures"] if one["foreign_cores"] is not None]
    noise = f" Other programs used up to {number(max(foreign))} cores meanwhile." if foreign else ""
    tail = f" Not measured: {'; '.join(missing)}." if missing else ""
    return f"Medians of {report['rounds']} rounds, in turn. {machine_of(report)}{noise}{tail}"


def peers_messages(report: dict[str, Any]) -> str:
    """Messages, and the floor."""
    rows = [
        (
            one["label"] + _version(one) + (f", {one['at_once']} connections" if one["at_once"] > 1 else ""),
            number(one["client_cpu_us"]),
            number(one["server_cpu_us"]),
            number(one["cpu_us"]),
            number(one["per_second"]),
            number(one["wal_bytes"]),
        )
        for work in ("message", "floor")
        for one in _figures(report, work)
    ]
    return table(("", "client µs", "server µs", "CPU µs a message", "messages/s", "WAL bytes"), rows)


# --- ours ---------------------------------------------------------------------------------------------------------

COST: Final = ("CPU µs, client", "CPU µs, server", "a second", "WAL bytes")


def _cost(cost: dict[str, Any]) -> tuple[str, ...]:
    return tuple(number(cost[key]) for key in ("client_cpu_us", "server_cpu_us", "per_second", "wal_bytes"))


def steps(report: dict[str, Any]) -> str:
    """Ours alone."""
    rows = [
        (
            "one run alone" if one["at_once"] == 1 else f"{one['at_once']} runs at once",
            *_cost(one["step"]),
            number(one["step"]["transactions"]),
            f"{number(one['between_model_calls']['p50_ms'])} ({number(one['between_model_calls']['p99_ms'])})",
        )
        for one in report["phases"]
    ]
    return table(("a step", *COST, "transactions", "ms, p50 (p99)"), rows) + "\n\n" + machine_of(report)


def messages(report: dict[str, Any]) -> str:
    """Throughput of one node."""
    rows = [
        ("in rings: state and a send with each", *_cost(report["ring"]["message"]), ""),
        ("full mailboxes emptied", *_cost(report["drain"]["message"]), ""),
    ]
    rows = [
        (*row[:-1], number(report[key]["messages_per_commit"]))
        for row, key in zip(rows, ("ring", "drain"), strict=True)
    ]
    return table(("a message", *COST, "a commit"), rows)


def latency(report: dict[str, Any]) -> str:
    """In commits."""
    names = {
        "commit": "one row committed",
        "sent_until_handled": "sent until handled",
        "sent_until_reply": "asked until answered",
    }
    commits = {
        "commit": 1.0,
        "sent_until_handled": report["handled_commits"],
        "sent_until_reply": report["reply_commits"],
    }
    rows = [
        (text, number(report[key]["p50_ms"]), number(report[key]["p99_ms"]), number(commits[key]))
        for key, text in names.items()
    ]
    return table(("", "p50 ms", "p99 ms", "p50 in commits"), rows)


def fan(report: dict[str, Any]) -> str:
    """In and out."""
    return table(
        ("a message", *COST), [("1,000 to one", *_cost(report["fan_in"])), ("one to 1,000", *_cost(report["fan_out"]))]
    )


def state(report: dict[str, Any]) -> str:
    """By size."""
    rows = [
        (f"a turn that writes a snapshot of {one['bytes']:,} bytes", *_cost(one["cost"])) for one in report["turns"]
    ]
    rows += [(f"a step of a run whose goal has {one['bytes']:,} bytes", *_cost(one["cost"])) for one in report["steps"]]
    return table(("", *COST), rows)


def growth(report: dict[str, Any]) -> str:
    """By step."""
    keys = ("ms", "client_cpu_us", "server_cpu_us", "rows", "wal_bytes")
    rows = [(f"{one['step']:,}", *(number(one[key]) for key in keys)) for one in report["places"]]
    tail = (
        f"The last against the first: CPU {number(report['cpu_ratio'])} times, WAL {number(report['wal_ratio'])} times."
    )
    return table(("step", "ms", "CPU µs, client", "CPU µs, server", "rows", "WAL bytes"), rows) + f"\n\n{tail}"


def nodes(report: dict[str, Any]) -> str:
    """By number."""
    rows = [(f"{one['nodes']}", *_cost(one), number(one["messages_per_commit"])) for one in report["shared"]]
    return table(("nodes", *COST, "a commit"), rows)


def recovery(report: dict[str, Any]) -> str:
    """After a kill, and after a freeze."""
    rows = [
        (
            text,
            str(one["latency"]["count"]),
            number(one["latency"]["p50_ms"]),
            number(one["latency"]["p99_ms"]),
            number(one["most_ms"]),
        )
        for text, one in (
            ("kill -9", report["killed"]),
            (f"SIGSTOP (lease {report['lease_seconds']:g} s)", report["frozen"]),
        )
    ]
    head = (f"at {report['messages_a_second']:,.0f} messages/s from outside", "times", "p50 ms", "p99 ms", "most ms")
    return table(head, rows)


def deep(report: dict[str, Any]) -> str:
    """By depth."""
    rows = [
        (
            f"{one['waiting']:,}",
            *_cost(one),
            number(one["node_memory_mib"]),
            f"{number(one['urgent']['p50_ms'])} ({number(one['urgent']['p99_ms'])})",
            str(one["urgent_missed"]),
        )
        for one in report["deep"]
    ]
    return table(("waiting", *COST, "memory MiB", "urgent ms, p50 (p99)", "missed"), rows)


def wake(report: dict[str, Any]) -> str:
    """By number."""
    rows = [
        (
            f"{one['actors']:,}",
            number(one["node_memory_mib"]),
            str(one["in_memory"]),
            number(one["idle_cpu_ms_a_second"]),
            number(one["idle_server_cpu_ms_a_second"]),
            number(one["wake"]["p50_ms"]),
            number(one["wake"]["p99_ms"]),
        )
        for one in report["parked"]
    ]
    head = ("parked", "memory MiB", "actors in memory", "idle CPU ms/s", "server's", "wake p50 ms", "p99 ms")
    return table(head, rows)


def servers(report: dict[str, Any]) -> str:
    """Side by side."""
    rows = [(f"{one['name']} ({one['machine']['postgres']})", *_cost(one)) for one in report["servers"]]
    tail = f"\n\nNot measured: {report['not_measured']}." if report["not_measured"] else ""
    return table(("a step, 50 runs at once", *COST), rows) + tail


PARTS: Final[dict[str, Part]] = {
    "peers-steps": ("peers", peers_steps),
    "peers-messages": ("peers", peers_messages),
    "steps": ("steps", steps),
    "messages": ("messages", messages),
    "latency": ("latency", latency),
    "recovery": ("recovery", recovery),
    "growth": ("growth", growth),
    "wake": ("wake", wake),
    "nodes": ("nodes", nodes),
    "fan": ("fan", fan),
    "deep": ("deep", deep),
    "state": ("state", state),
    "servers": ("servers", servers),
}
