"""What is built and installed: one package `callboard` with every folder in it, which hides nobody's module."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import callboard

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("actors", "mailbox", "persistence", "crm", "tui", "evals", "bench", "service")
FACE = ("__init__.py", "__main__.py", "py.typed")

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run_python(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run_python("-m", "hatchling", "build", "-t", "wheel", "-d", str(directory), cwd=ROOT)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the wheel's content as pip installs it."""
    directory = tmp_path_factory.mktemp("installed")
    run_python(
        "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(directory), str(wheel), cwd=ROOT
    )
    return directory


def test_the_wheel_holds_every_file_of_every_folder_and_only_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"callboard/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected | {f"callboard/{name}" for name in FACE}


def test_the_sdist_holds_the_folders_the_tests_and_no_machine_state(tmp_path: Path) -> None:
    run_python("-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path), cwd=ROOT)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        tops = {name.split("/", 2)[1] for name in archive.getnames()}
    assert {*FOLDERS, "tests", ".src", "pyproject.toml", "LICENSE", "README.md"} <= tops
    assert not {".venv", ".git"} & tops


@pytest.mark.parametrize("cwd", [Path("/"), ROOT], ids=["elsewhere", "checkout"])
def test_the_installed_package_leaves_the_standard_librarys_mailbox_alone(installed: Path, cwd: Path) -> None:
    code = (
        "import callboard, callboard.mailbox, mailbox;"
        "assert mailbox.Maildir and mailbox is not callboard.mailbox;"
        "print(callboard.__file__)"
    )
    assert run_python("-c", code, cwd=cwd, path=installed).strip() == str(installed / "callboard" / "__init__.py")


def test_the_checkout_leaves_the_standard_librarys_mailbox_alone() -> None:
    code = "import mailbox, callboard.mailbox; assert mailbox.Maildir and mailbox is not callboard.mailbox"
    run_python("-c", code, cwd=ROOT)


def test_importing_the_face_loads_no_library() -> None:
    code = (
        "import callboard, sys; print(*sorted({'google', 'httpx', 'ollama', 'psycopg', 'textual'} & set(sys.modules)))"
    )
    assert run_python("-c", code, cwd=Path("/")).split() == []


def test_every_public_name_stands_in_all_three_places_and_resolves() -> None:
    tree = ast.parse((ROOT / ".src" / "callboard" / "__init__.py").read_text())
    guarded = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    declared = {
        alias.asname or alias.name: node.module
        for block in guarded
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes: dict[str, str] = vars(callboard)["_HOME"]
    assert declared == homes
    assert {*homes, "__version__"} == set(callboard.__all__)
    for name, home in homes.items():
        inside = vars(callboard)["_RENAMED"].get(name, name)
        assert getattr(callboard, name) is getattr(importlib.import_module(home), inside)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        vars(callboard)["__getattr__"]("nothing_of_the_kind")


def test_the_version_is_the_same_everywhere() -> None:
    assert callboard.__version__ == PYPROJECT["project"]["version"]


def test_the_development_extra_and_the_development_group_are_one_list() -> None:
    assert PYPROJECT["project"]["optional-dependencies"]["dev"] == PYPROJECT["dependency-groups"]["dev"]


def test_every_folder_has_its_link_and_its_row_in_the_build() -> None:
    targets = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    for folder in FOLDERS:
        link = ROOT / ".src" / "callboard" / folder
        # a copy that followed the links is a working checkout too
        assert not link.is_symlink() or os.readlink(link) == f"../../{folder}"
        assert link.is_dir()
        assert targets["wheel"]["sources"][folder] == f"callboard/{folder}"
        assert folder in targets["sdist"]["only-include"]


def test_the_lock_pins_every_requirement_with_hashes_and_names_every_dependency() -> None:
    lines = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in lines if line.strip()]
    assert all("==" in line and "--hash=sha256:" in line for line in requirements)
    locked = {re.split(r"[=\s\[]", line)[0] for line in requirements}
    project = PYPROJECT["project"]
    wanted = [
        *project["dependencies"],
        # `evals` is for training the detector: too large for everybody's set-up.
        *(name for extra, names in project["optional-dependencies"].items() if extra != "evals" for name in names),
    ]
    wanted += [name for group in PYPROJECT["dependency-groups"].values() for name in group]
    assert {re.split(r"[<>=;\[ ]", name)[0] for name in wanted} <= locked


def test_no_file_names_a_path_of_a_machine_or_the_host_of_a_registry() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    # written so that this file does not match itself
    pattern = re.compile(rb"(?<![\w.])/(?:work|opt|home/\w+)/" + rb"|(?i:py" + rb"pi\.org|python" + rb"hosted|npmjs\.)")
    found = []
    for name in filter(None, listing.stdout.split(b"\0")):
        path = ROOT / os.fsdecode(name)
        if path.is_file() and not path.is_symlink() and (match := pattern.search(path.read_bytes())):
            found.append(f"{path.relative_to(ROOT)}: {os.fsdecode(match.group())}")
    assert not found, "\n".join(found)
