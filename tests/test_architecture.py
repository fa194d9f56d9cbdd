"""The import table, and the other rules about who may use what, read off the source.

The rules are data at the top. Each rule is a function from one module's source to complaints, so that the last tests
can show it complaining.
"""

import ast
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What a module may import: its own row and the rows above it. The longest name that fits a module is its row.
LAYERS = (
    "mailbox",
    "persistence",
    "actors",
    "actors.llm",
    "actors.guard",
    "actors.agent",
    "actors.adapters",
    "crm",
    "evals",
    "service",
    "tui",
    "bench",
    "tests",
)
RUNTIME = ("actors", "mailbox", "persistence", "crm", "tui", "evals", "service")

# module -> what it alone may import from below its row
UPWARD = {"service.cli.tui": "tui"}  # the command that opens the terminal UI, loaded on demand

# library -> its owners: only these folders or modules know that it exists
OWNERS = {
    "agentdojo": ("evals",),
    "google": ("actors.llm.google",),
    "httpx": ("actors.llm",),
    "jsonschema": ("actors.adapters.mcp_schema",),
    "langchain_core": ("actors.adapters.langgraph",),
    "langgraph": ("actors.adapters.langgraph",),
    "litestar": ("service.http",),
    "mcp": ("actors.adapters.mcp", "actors.adapters.mcp_connection", "actors.adapters.mcp_tool"),
    "opentelemetry": ("service.telemetry",),
    "ollama": ("actors.llm.ollama",),
    "prometheus_client": ("service.metrics",),
    "psycopg": ("persistence.postgres",),
    "psycopg_pool": ("persistence.postgres",),
    "rich": ("service.cli", "tui"),
    "sklearn": ("evals",),
    "textual": ("tui",),
    "typer": ("service.cli",),
    "uvicorn": ("service.http",),
}

CONCRETE_STORES = {"InMemoryStore", "MemoryStore", "PostgresStore"}
NAMES_STORES = ("persistence", "service.wiring", "actors.testing")  # defined, chosen, and the kit's own

# Time, chance and concurrency come through the port, so that the simulation can own them.
PORT_FOLDERS = ("mailbox", "persistence", "actors", "crm")
PORT_EXEMPT = ("persistence.embedded",)  # looks after processes of the operating system
PORT_ONLY = {
    "anyio.sleep",
    "asyncio.create_task",
    "asyncio.ensure_future",
    "asyncio.sleep",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "os.urandom",
    "random",
    "secrets",
    "threading.Thread",
    "threading.Timer",
    "time.monotonic",
    "time.perf_counter",
    "time.sleep",
    "time.time",
    "uuid.uuid4",
}

# How text reaches a widget of the terminal UI: through these functions, called right where it is given.
DOOR = {"content", "block", "plain", "filter_title"}
WIDGETS_OF_TEXT = {"Button", "Checkbox", "Collapsible", "Input", "Label", "Link", "RadioButton", "Static", "TextArea"}
WIDGETS_WITH_OWN_TEXT = {
    "DataTable", "Log", "Markdown", "MarkdownViewer", "OptionList", "Pretty", "RichLog", "SelectionList", "TabPane",
    "Tree",
}  # fmt: skip
TEXT_OF_A_WIDGET = {"border_subtitle", "border_title", "label", "placeholder", "title", "tooltip", "value"}
TEXT_THAT_IS_SET = {"border_subtitle", "border_title", "placeholder", "sub_title", "tooltip"}

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60


@dataclass(frozen=True)
class Module:
    """One source file, named as it is imported, without the leading `callboard.`."""

    name: str
    is_package: bool
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, walked once: every rule goes through all of them."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[str]:
        """Every imported module and every name imported from one, absolute, as dotted names."""
        return list(self._imports())

    def begins(self) -> ast.Module:
        """Its first statement alone, without the work of parsing all."""
        for token in tokenize.generate_tokens(StringIO(self.source).readline):
            if token.type == tokenize.NEWLINE:
                return ast.parse("".join(list(StringIO(self.source))[: token.end[0]]))
        return ast.parse("")

    def _imports(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from (f"{base}.{alias.name}" for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = ("callboard." + self.name).split(".")
        keep = len(parts) - node.level + (1 if self.is_package else 0)
        return ".".join([*parts[:keep], *([node.module] if node.module else [])])


Rule = Callable[[Module], Iterator[str]]


def lies_in(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder + ".")


def layer(name: str) -> int:
    """The row of a module in the table."""
    rows = [row for row in LAYERS if lies_in(name, row)]
    assert rows, f"{name} is in no row of the table"
    return LAYERS.index(max(rows, key=len))


def upward_imports(module: Module) -> Iterator[str]:
    for imported in module.imports:
        if not lies_in(imported, "callboard"):
            continue
        target = imported.removeprefix("callboard").removeprefix(".")
        if not any(lies_in(target, row) for row in LAYERS):
            if module.name.split(".")[0] not in {"tests", "bench"}:
                yield f"{module.name} imports {imported} from the public face; name the module that defines it"
        elif layer(target) > layer(module.name) and UPWARD.get(module.name) != target.split(".")[0]:
            yield f"{module.name} imports {imported}, which is above it"


def borrowed_libraries(module: Module) -> Iterator[str]:
    for imported in module.imports:
        owners = OWNERS.get(imported.split(".")[0], ())
        if owners and not any(lies_in(module.name, owner) for owner in owners):
            yield f"{module.name} imports {imported}, which belongs to {', '.join(owners)}"


def concrete_stores(module: Module) -> Iterator[str]:
    if any(lies_in(module.name, place) for place in NAMES_STORES):
        return
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name in CONCRETE_STORES:
                yield f"{module.name} names {name}; it works with the Store protocol, service/wiring.py chooses"


def around_the_port(module: Module) -> Iterator[str]:
    folder, file = module.name.split(".")[0], module.name.split(".")[-1]
    exempt = file.startswith("port") or any(lies_in(module.name, place) for place in PORT_EXEMPT)
    if folder not in PORT_FOLDERS or exempt:
        return
    used = set(module.imports) | set(_dotted_uses(module, _origins(module)))
    for name in sorted(used):
        if any(lies_in(name, forbidden) for forbidden in PORT_ONLY) or name.endswith(".create_task"):
            yield f"{module.name} uses {name}; time, chance and tasks come through the port"


def _origins(module: Module) -> dict[str, str]:
    """Local name -> what was imported under it."""
    origins: dict[str, str | None] = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            origins |= {alias.asname or alias.name.split(".")[0]: alias.asname and alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {local: origin or local for local, origin in origins.items()}


def _dotted_uses(module: Module, origins: dict[str, str]) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            first, _, rest = name.partition(".")
            yield f"{origins[first]}.{rest}" if first in origins else name


def around_the_door(module: Module) -> Iterator[str]:
    """Text that reaches a widget other than through `tui.text`, where it is made safe."""
    if not lies_in(module.name, "tui") or module.name == "tui.text":
        return
    origins = _origins(module)
    for name in module.imports:
        library, _, imported = name.rpartition(".")
        if lies_in(name, "rich.text") or lies_in(name, "rich.markup") or lies_in(name, "textual.markup"):
            yield f"{module.name} imports {name}; text is made by tui.text"
        if library == "textual.widgets" and imported in WIDGETS_WITH_OWN_TEXT:
            yield f"{module.name} imports {imported}, which draws strings as they are; use LineTable or Static"
    for node in module.nodes:
        for text in _given_to_a_widget(node, origins):
            if not _is_through_the_door(text):
                where = f"{module.name}:{text.lineno}"
                yield f"{where} shows {ast.unparse(text)}; it goes through {', '.join(sorted(DOOR))}, right there"


def _given_to_a_widget(node: ast.AST, origins: dict[str, str]) -> Iterator[ast.expr]:
    """What a widget would draw; for what is made of pieces by other means, the call that makes it."""
    match node:
        case (
            ast.Call(func=ast.Name(id="Piece" | "Content")) | ast.Call(func=ast.Attribute(value=ast.Name(id="Content")))
        ):
            yield node
        case ast.Call(func=ast.Name(id=name)) if origins.get(name, "").startswith("textual.widgets.") and (
            name in WIDGETS_OF_TEXT
        ):
            yield from node.args[:1]
            yield from (one.value for one in node.keywords if one.arg in TEXT_OF_A_WIDGET)
        case ast.Call(func=ast.Attribute(attr="notify")):
            yield from node.args[:1]
        case ast.Call(func=ast.Attribute(attr="update"), args=[text]):
            yield text
        case ast.ClassDef(bases=bases) if any(isinstance(b, ast.Name) and b.id in WIDGETS_OF_TEXT for b in bases):
            yield from (
                call.args[0]
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == "super().__init__"
            )
        case ast.keyword(arg="markup", value=ast.Constant(value=True) as text):
            yield ast.copy_location(ast.Name("markup=True"), text)
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=text) if name in TEXT_THAT_IS_SET:
            yield text


def _is_through_the_door(text: ast.expr) -> bool:
    match text:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in DOOR
        case ast.Attribute(value=inner, attr="plain"):
            return _is_through_the_door(inner)
        case ast.IfExp(body=one, orelse=other):
            return _is_through_the_door(one) and _is_through_the_door(other)
    return False


def missing_docstring(module: Module) -> Iterator[str]:
    if ast.get_docstring(module.begins()) is None:
        yield f"{module.name} has no docstring; say the concept, its neighbours, the invariant"


def too_long(module: Module) -> Iterator[str]:
    lines = module.source.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{module.name} has {lines} lines; a file holds one noun"
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{module.name}.{node.name} has {length} lines"


def modules(*folders: str) -> list[Module]:
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            found.append(Module(".".join(parts[:-1] if is_package else parts), is_package, path.read_text()))
    return found


@pytest.fixture(scope="module")
def runtime() -> list[Module]:
    """Parsed once for all rules."""
    return modules(*RUNTIME)


@pytest.mark.parametrize(
    "rule",
    [upward_imports, borrowed_libraries, concrete_stores, around_the_port, around_the_door, too_long],
    ids=lambda rule: rule.__name__,
)
def test_the_runtime_keeps_the_rule(rule: Rule, runtime: list[Module]) -> None:
    complaints = [complaint for module in runtime for complaint in rule(module)]
    assert not complaints, "\n".join(complaints)


def test_every_module_has_a_docstring(runtime: list[Module]) -> None:
    complaints = [
        complaint for module in (*runtime, *modules("bench", "tests")) for complaint in missing_docstring(module)
    ]
    assert not complaints, "\n".join(complaints)


def test_the_root_holds_no_folder_that_is_in_no_row() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == {row for row in LAYERS if "." not in row}


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (upward_imports, "mailbox.envelope", "from callboard.persistence import store"),
        (upward_imports, "mailbox.envelope", "from ..actors.node import Node"),
        (upward_imports, "actors.node", "from .agent import run"),
        (upward_imports, "actors.llm.client", "from ..agent.run import Run"),
        (upward_imports, "service.cli.run", "import callboard.tui.app"),
        (upward_imports, "crm.desk", "from callboard import Runtime"),
        (borrowed_libraries, "crm.tools", "import psycopg"),
        (borrowed_libraries, "actors.llm.client", "from google import genai"),
        (borrowed_libraries, "service.wiring", "def f():\n    from textual.app import App"),
        (concrete_stores, "actors.node", "from callboard.persistence.memory import InMemoryStore"),
        (concrete_stores, "crm.desk", "def f(module):\n    return module.PostgresStore()"),
        (around_the_port, "actors.timer", "import time\nnow = time.time()"),
        (around_the_port, "actors.timer", "import time as clock\nnow = clock.time()"),
        (around_the_port, "actors.timer", "from asyncio import sleep"),
        (around_the_port, "actors.timer", "from random import random"),
        (around_the_port, "actors.node", "import threading\nthreading.Thread()"),
        (around_the_port, "actors.node", "def f(group):\n    group.create_task(f)"),
        (around_the_port, "persistence.memory", "from datetime import datetime\nnow = datetime.now()"),
        (around_the_door, "tui.pane", "from rich.text import Text"),
        (around_the_door, "tui.pane", "from textual.widgets import Markdown"),
        (around_the_door, "tui.pane", "from textual.widgets import Static\nStatic(view.reason)"),
        (around_the_door, "tui.pane", "from textual.widgets import Static\nStatic(f'by {view.who}')"),
        (around_the_door, "tui.pane", "from textual.widgets import Input\nInput(value=view.reason)"),
        (around_the_door, "tui.pane", "class A(Static):\n    def __init__(self, a):\n        super().__init__(a)"),
        (around_the_door, "tui.pane", "self.query_one(Static).update(said)"),
        (around_the_door, "tui.pane", "self.notify(str(error))"),
        (around_the_door, "tui.pane", "self.notify('done', markup=True)"),
        (around_the_door, "tui.pane", "self.border_title = view.name"),
        (around_the_door, "tui.pane", "Piece(view.name)"),
        (around_the_door, "tui.pane", "Content.from_markup(view.name)"),
        (missing_docstring, "actors.node", "import os"),
        (too_long, "actors.node", "\n" * 500),
        (too_long, "actors.node", "def f():\n" + "    pass\n" * 70),
    ],
)
def test_the_rule_can_complain(rule: Rule, name: str, source: str) -> None:
    assert list(rule(Module(name, False, source)))


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (upward_imports, "actors.agent.run", "from ..llm.client import LLMClient\nfrom callboard.mailbox import lane"),
        (upward_imports, "service.cli.tui", "from callboard.tui.app import App"),
        (borrowed_libraries, "persistence.postgres.store", "import psycopg\nfrom psycopg_pool import ConnectionPool"),
        (concrete_stores, "service.wiring", "from callboard.persistence.memory import InMemoryStore"),
        (around_the_port, "actors.port", "import time\nnow = time.monotonic()"),
        (around_the_port, "actors.node", "def f(port):\n    return port.time()"),
        (around_the_door, "tui.pane", "from textual.widgets import Static\nStatic(content(view.reason), id=f'a{n}')"),
        (around_the_door, "tui.pane", "self.query_one(Static).update(block(lines) if lines else content('none'))"),
        (around_the_door, "tui.pane", "self.notify(content(*parts).plain, markup=False)"),
        (around_the_door, "tui.pane", "Input(placeholder='reason', value=plain(view.reason))"),
        (around_the_door, "service.report", "self.title = view.name\nknown.update(fresh)"),
    ],
)
def test_the_rule_lets_what_is_right_pass(rule: Rule, name: str, source: str) -> None:
    assert not list(rule(Module(name, False, source)))
