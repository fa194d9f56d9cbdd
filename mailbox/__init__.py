"""What is said, to whom, in what order: pure values, no I/O.

The folder has the name of a module of the standard library. Where the checkout's root is on sys.path (`python -m …`
from the root), `import mailbox` finds this folder first; it then hands over the standard library's module, because
libraries ask for that one. The package itself is only ever `callboard.mailbox`.
"""

if __name__ == "mailbox":
    import importlib.util
    import sys
    import sysconfig

    _spec = importlib.util.spec_from_file_location("mailbox", sysconfig.get_path("stdlib") + "/mailbox.py")
    assert _spec is not None and _spec.loader is not None
    sys.modules["mailbox"] = _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
else:
    pass  # the public names of callboard.mailbox are re-exported here
