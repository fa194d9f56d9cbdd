"""A virtual environment for each peer, in the user's cache: they disagree with each other about what they depend on.

Made once and used again while its requirements stay. Where one cannot be made, the reason is told and the peer is not
measured.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

MAKE_SECONDS = 300.0
"""How long an installation may take."""
_VERSION = "import sys; print(*sys.version_info[:2])"


class NotInstalled(Exception):
    """A peer's environment cannot be made here; the message says why, in one line."""


def interpreter(name: str, requirements: Sequence[str], needs: tuple[int, int]) -> Path:
    """The Python that has these packages, at least of version `needs`; installed first where that is not done yet.

    Raises:
        NotInstalled: there is no such Python, or an installation failed.
    """
    key = hashlib.sha256("\n".join((*requirements, f"{needs}")).encode()).hexdigest()[:10]
    folder = _cache() / f"{name}-{key}"
    python, done = folder / "bin" / "python", folder / "installed"
    if done.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    base = _base(needs)
    if base is None:
        raise NotInstalled(f"needs Python {needs[0]}.{needs[1]} or newer, and there is none here")
    _run([base, "-m", "venv", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    done.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    return python


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "callboard" / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _base(needs: tuple[int, int]) -> str | None:
    for candidate in _pythons():
        try:
            said = subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            continue
        major, minor = map(int, said.stdout.split())
        if (major, minor) >= needs:
            return candidate
    return None


def _pythons() -> Iterator[str]:
    """Ours; then newer ones on the path; then those of pyenv, whose shims refuse where none is chosen."""
    yield sys.executable
    yield from (f"python3.{minor}" for minor in range(12, 16))
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(root.glob("versions/3.1[2-9]*/bin/python")))


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=MAKE_SECONDS)
    except subprocess.CalledProcessError as error:
        lines = [line for line in str(error.stderr).splitlines() if line.startswith("ERROR")] or [str(error.stderr)]
        raise NotInstalled(" ".join(lines[-1].split())[:200]) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalled(" ".join(str(error).split())[:200]) from None
