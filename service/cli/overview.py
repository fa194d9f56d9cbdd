"""What `callboard --help` says. Plain text made here, so that asking for help costs no more than starting Python."""

COMMANDS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "start",
        (
            ("demo", "A support desk at work: a node is killed in the middle of a refund, one refund exists."),
            ("init-db", "Make the database schema, or bring an older one up to date."),
            ("daemon", "Keep node processes of an application alive."),
            ("http", "Serve the HTTP API; nodes do the work."),
            ("token", "Make, list and revoke the bearer tokens of the HTTP API."),
        ),
    ),
    (
        "runs",
        (
            ("run", "Start a run, work on it here, and follow it until it rests."),
            ("submit", "Record a run; a daemon begins it."),
            ("runs", "List runs, newest first."),
            ("show", "Show one run: where it is, why it does not move, what it cost."),
            ("replay", "Tell a run's whole history."),
            ("record", "Print a run as a recording, which answers as its model did."),
            ("verify", "Prove that a run's state is the fold of its journal."),
            ("tell", "Say something to a live run."),
            ("cancel", "Ask a run to begin nothing more and end."),
            ("fork", "Go on from any event of a run, in a new run."),
            ("pause", "Let a run or an actor take no more messages until it is resumed."),
            ("resume", "Let a parked, paused or failed run or actor go on."),
        ),
    ),
    (
        "people",
        (
            ("approvals", "List the calls that wait for a person, or show one."),
            ("approve", "Let a held call go, exactly as shown."),
            ("deny", "Refuse a held call; the model gets the reason."),
            ("edit", "Change a held call's arguments."),
            ("take-back", "Undo an approval while it is held."),
            ("audit", "Tell who did what, newest first."),
            ("tui", "Watch actors, decide what waits for a person, and see what happened."),
        ),
    ),
    (
        "inspector",
        (
            ("actors", "List actors and why each does not move; resume, pause, cancel or kill one."),
            ("mailbox", "Show what waits and why, without touching it; search, export, or give a message up."),
            ("dead", "List what was given up and why, show one, send it again, or leave it for good."),
        ),
    ),
    (
        "operating",
        (
            (
                "status",
                (
                    "Say whether the system is healthy, what waits for somebody, and what is stuck; "
                    "exit 1 where something is bad."
                ),
            ),
            (
                "health",
                (
                    "Say nothing and exit 0 where the system is healthy; "
                    "else say what is bad and exit 1, or 75 without a database."
                ),
            ),
            ("prune", "Remove what ended long ago and nothing needs any more."),
            ("config", "Show the settings in force, and where each came from."),
            ("doctor", "Check the database, this machine and this terminal, and say what to do."),
            ("completion", "Print a script with which a shell completes commands, options and names."),
        ),
    ),
    (
        "measuring",
        (("eval", "Measure what guardrails see and stop, and what they ask of people."),),
    ),
)
"""Group, and each command with its purpose; a test compares them with the commands there are."""

EXIT_CODES = (
    (0, "ok"),
    (1, "failed"),
    (2, "wrong usage"),
    (3, "not found"),
    (4, "not allowed"),
    (5, "conflict: somebody else was first"),
    (6, "expired"),
    (7, "timed out"),
    (75, "the database is not reachable"),
    (130, "interrupted"),
)


def overview() -> str:
    """The text."""
    lines = [
        "Callboard runs LLM agents as actors with durable mailboxes in PostgreSQL.",
        "",
        "  callboard demo",
        '  callboard run callboard.crm.app:app "Refund order A-8891, the item arrived damaged"',
        "  callboard approvals; callboard approve RUN --amount 480.00",
        "",
        "usage: callboard COMMAND [--help]",
    ]
    for group, commands in COMMANDS:
        lines += ["", f"{group}:", *(f"  {name:<11} {purpose}" for name, purpose in commands)]
    lines += [
        "",
        "callboard help COMMAND says all of one; callboard --version says which this is.",
        "",
        "Every command takes --dsn and --json. Without --dsn, CALLBOARD_DSN or DATABASE_URL an embedded PostgreSQL of",
        "the working directory is used (embedded:NAME is a database of it). Settings come from flags, then CALLBOARD_*",
        "variables, then callboard.toml, then defaults: callboard config show --origin tells which, and all of them.",
        "NO_COLOR is respected.",
        "",
        "exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES[:6]) + ",",
        "  " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES[6:]),
        "",
    ]
    return "\n".join(lines)
