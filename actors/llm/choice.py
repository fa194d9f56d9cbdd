"""A model client by its name in a command line, a file of settings or the environment.

    openai:gpt-4o-mini                     LLM_API_KEY; at LLM_BASE_URL where that is set (then the key may be missing)
    openai+http://host:8000/v1:some/model  a server that speaks the same protocol; LLM_API_KEY where that is set
    ollama:qwen3:8b                        OLLAMA_HOST, else this machine
    google:gemini-2.5-flash                GOOGLE_API_KEY
    (nothing)                              LLM_MODEL: one of these, or a bare model name for `openai:`

A vendor's package is imported when its client is made, and no other.
"""

from collections.abc import Mapping

from .client import LLMClient
from .errors import BadClientSettings
from .prices import Prices

OPENAI_URL = "https://api.openai.com/v1"
_FORMS = "openai:MODEL, openai+http://HOST/v1:MODEL, ollama:MODEL or google:MODEL"


def client_from(spec: str, *, environ: Mapping[str, str], prices: Prices | None = None) -> LLMClient:
    """The client that `spec` names, with keys and addresses from `environ`.

    Raises:
        BadClientSettings: naming what is missing.
    """
    given = spec.strip()
    if not given:
        given = _bare(environ.get("LLM_MODEL", "").strip())
    vendor, _, model = given.partition(":")
    match vendor:
        case "openai":
            return _openai(environ.get("LLM_BASE_URL", ""), model, environ, prices)
        case "openai+http" | "openai+https":
            return _openai(*_address(given), environ, prices)
        case "ollama":
            from .ollama import OllamaClient

            return OllamaClient(_named(model, given), environ.get("OLLAMA_HOST") or None)
        case "google":
            from .google import GoogleClient

            key = environ.get("GOOGLE_API_KEY", "")
            if not key:
                raise BadClientSettings(f"{given} needs GOOGLE_API_KEY in the environment")
            return GoogleClient(_named(model, given), key, prices=prices)
    raise BadClientSettings(f"no provider is called {vendor!r}; name a model as {_FORMS}")


def _openai(url: str, model: str, environ: Mapping[str, str], prices: Prices | None) -> LLMClient:
    from .openai import OpenAICompatibleClient

    key = environ.get("LLM_API_KEY", "")
    named = _named(model, f"openai:{model}")
    if not url and not key:
        raise BadClientSettings(f"openai:{named} needs LLM_API_KEY, or LLM_BASE_URL of a server that wants no key")
    return OpenAICompatibleClient(url or OPENAI_URL, named, key or None, prices=prices)


def _address(spec: str) -> tuple[str, str]:
    """(base address, model) of `openai+http://host:8000/v1:model`, parted at the first colon of the path."""
    scheme, _, rest = spec.removeprefix("openai+").partition("://")
    host, slash, path = rest.partition("/")
    version, colon, model = path.partition(":")
    if not (host and slash and colon):
        raise BadClientSettings("an address ends with a path and the model: openai+http://localhost:8000/v1:MODEL")
    return f"{scheme}://{host}/{version}", model


def _named(model: str, spec: str) -> str:
    if not model.strip():
        raise BadClientSettings(f"{spec!r} names no model; write {_FORMS}")
    return model.strip()


def _bare(name: str) -> str:
    if not name:
        raise BadClientSettings(f"no model is named: give one ({_FORMS}), or set LLM_MODEL")
    known = name.partition(":")[0] in {"openai", "openai+http", "openai+https", "ollama", "google"}
    return name if known else f"openai:{name}"
