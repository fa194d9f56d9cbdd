"""Run by the interpreter that has a peer, not by ours: opens one adapter and does what its standard input says.

    work.py ADAPTER.py DSN [OPTION …]

Each line of input is an order, `{"do": "fill" | "go", "count": N, "at_once": N}`. It is answered with one line on
standard output once it is done: `{"seconds": S}`; the first line, before any order, is `{"versions": {…}}`. An adapter
is a file with PACKAGES (whose versions are told), maybe LOOP, and `async def opened(dsn, options)`, which gives an
object with `go(count, at_once)` and, where something has to lie ready, `fill(count)`. This takes the standard library
and the adapter, nothing of Callboard.
"""

import asyncio
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from typing import Any


def adapter(path: str) -> Any:
    """The module in that file."""
    spec = importlib.util.spec_from_file_location("peer_adapter", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peer_adapter"] = module  # where annotations are looked up by name
    spec.loader.exec_module(module)
    return module


def tell(document: dict[str, Any]) -> None:
    """One line of answer."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def serve(module: Any, dsn: str, options: list[str]) -> None:
    """Carry out orders until there are no more."""
    work = await module.opened(dsn, options)
    tell({"versions": {name: importlib.metadata.version(name) for name in module.PACKAGES}})
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        began = time.perf_counter()
        if order["do"] == "fill":
            await work.fill(order["count"])
        else:
            await work.go(order["count"], order["at_once"])
        tell({"seconds": time.perf_counter() - began})


def main() -> None:
    """Open the adapter, serve, and end at once: a peer's threads are no reason to stay."""
    path, dsn, *options = sys.argv[1:]
    module = adapter(path)
    name = getattr(module, "LOOP", "")
    factory = importlib.import_module(name).new_event_loop if name else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(module, dsn, options))
        os._exit(0)


if __name__ == "__main__":
    main()
