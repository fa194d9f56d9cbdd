"""The HTTP API (extra `http`): `create_app(store)` is an ASGI application. Importing this package needs Litestar."""

from .app import create_app as create_app
