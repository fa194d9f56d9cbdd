"""Commands that measure what guardrails see and stop: `eval guardrails`, `peers`, `injections`, `agentdojo`.

`callboard.evals` does it; `evals_output` shows it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .evals_durability import budget, durability
from .evals_output import Picture, Report, show
from .evals_page import threat_model
from .evals_retail import retail
from .options import Dsn, Json
from .progress import progress
from .terminal import print_json

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
        group.command(_name(measure))(measure)
    app.add_typer(group, name="eval")


def eval_(context: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """Measure what guardrails see and stop, and what they ask of people."""
    del dsn  # taken as by every command; nothing that is measured here needs a database
    if context.invoked_subcommand is not None:
        return
    from .render import print_table

    found = [(_name(one), (one.__doc__ or "").strip()) for one in _MEASURES]
    if json:
        print_json({"schema": "callboard.evals/1", "items": [{"name": name, "what": what} for name, what in found]})
    else:
        print_table(("eval", "what"), found)


def _name(measure: Callable[..., None]) -> str:
    return measure.__name__.replace("_", "-")


def guardrails(
    data: _Data,
    profile: _Profile = [],  # noqa: B006 - Typer's own way
    *,
    processes: _Processes = 0,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """What the profiles make of the texts in a folder: detection, effect, and false positives, by kind and source."""
    from callboard.evals.dataset import read_corpus
    from callboard.evals.guardrails import measure, steps
    from callboard.evals.parallel import processors
    from callboard.evals.text_tables import signal_cell_table, signal_table, source_table, text_table

    corpus = read_corpus(data)
    with progress("measuring guardrails", steps(profile)) as advance:
        measured = measure(corpus, profile, processes=processes or processors(), advance=advance)
    tables = [signal_table(measured), signal_cell_table(measured), text_table(measured), source_table(measured)]
    show("guardrails", measured, tables, json=json, picture=picture, folder=report)


def peers(
    data: _Data,
    peer_python: Annotated[
        Path | None,
        typer.Option("--peer-python", metavar="PATH", help="The interpreter that has the peer; this one by default."),
    ] = None,
    *,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """What another library's guardrails make of the same texts. Needs, there: pip install durable-agents==0.1.0."""
    from callboard.evals.dataset import read_corpus
    from callboard.evals.peers import measure
    from callboard.evals.text_tables import peer_kind_table, peer_table

    corpus = read_corpus(data)
    with progress("measuring durable-agents", len(corpus.attacks) + len(corpus.benign)) as advance:
        measured = measure(corpus, peer_python, advance=advance)
    show(
        "peers", measured, [peer_table(measured), peer_kind_table(measured)], json=json, picture=picture, folder=report
    )


def injections(
    profile: _Profile = [],  # noqa: B006
    *,
    processes: _Processes = 0,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Which attacks on the support desk land when its model is fully compromised, and what honest tickets ask."""
    from callboard.evals.compromised import measure
    from callboard.evals.parallel import processors
    from callboard.evals.tables import desk_table

    with progress("measuring injections"):
        measured = measure(profile, processes=processes or processors())
    show("injections", measured, [desk_table(measured)], json=json, picture=picture, folder=report)


def agentdojo(
    profile: _Profile = [],  # noqa: B006
    suite: Annotated[
        list[str], typer.Option("--suite", metavar="NAME", help="workspace, travel, banking or slack. All by default.")
    ] = [],  # noqa: B006
    *,
    processes: _Processes = 0,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """The same on AgentDojo's 949 pairs of task and attack. Needs: pip install agentdojo==0.1.35."""
    from callboard.evals.agentdojo import measure
    from callboard.evals.parallel import processors
    from callboard.evals.tables import dojo_table

    with progress("measuring AgentDojo"):
        measured = measure(profile, suites=suite, processes=processes or processors())
    show("agentdojo", measured, [dojo_table(measured)], json=json, picture=picture, folder=report)


_MEASURES = (guardrails, peers, injections, agentdojo, retail, durability, budget, threat_model)
