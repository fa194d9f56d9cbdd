"""`python -m callboard.service.http`: prints the OpenAPI document, which docs/openapi.json is a copy of.

It is made from the routes alone: no database is looked at.
"""

import sys

from ..wiring import make_store
from .app import create_app
from .document import written


def main() -> None:
    """Print the document."""
    sys.stdout.write(written(create_app(make_store("postgresql://localhost/nobody"))))


if __name__ == "__main__":
    main()
