"""Arrays in the binary format: what goes out comes back, and what cannot go out is refused before it is sent."""

import struct
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.persistence.postgres import arrays

pytestmark = pytest.mark.anyio

_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.fixture
async def raw(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        arrays.register(connection)
        yield connection


async def back(raw: psycopg.AsyncConnection[Any], array: arrays.Array) -> Any:
    cursor = psycopg.AsyncRawCursor(raw)
    await cursor.execute(b"SELECT $1", [array], binary=True)
    return (await cursor.fetchall())[0][0]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (arrays.integers(()), []),
        (arrays.texts(()), []),
        (arrays.byte_strings(()), []),
        (arrays.integers((0, -1, 2**63 - 1, -(2**63))), [0, -1, 2**63 - 1, -(2**63)]),
        (arrays.floats((0.0, -1.5, 1e300)), [0.0, -1.5, 1e300]),
        (arrays.bools((True, False, True)), [True, False, True]),
        (arrays.texts(("", "", "")), ["", "", ""]),
        (arrays.texts(("", "NULL", '{"a,b"}', "å\u2028🎭", "a\\b")), ["", "NULL", '{"a,b"}', "å\u2028🎭", "a\\b"]),
        (arrays.texts((None, "", None)), [None, "", None]),
        (arrays.texts((None,)), [None]),
        (arrays.byte_strings((b"", b"\0\xff", None)), [b"", b"\0\xff", None]),
        (arrays.texts(('{"nul":"\\u0000","lone":"\\ud800"}',)), ['{"nul":"\\u0000","lone":"\\ud800"}']),
    ],
)
async def test_s10_what_went_in_comes_out(
    raw: psycopg.AsyncConnection[Any], array: arrays.Array, values: list[Any]
) -> None:
    assert await back(raw, array) == values


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(_TEXT | st.none()), numbers=st.lists(st.integers(-(2**63), 2**63 - 1)), raws=st.lists(st.binary())
)
async def test_s10_any_values_come_back(
    raw: psycopg.AsyncConnection[Any], texts: list[str | None], numbers: list[int], raws: list[bytes]
) -> None:
    assert await back(raw, arrays.texts(texts)) == texts
    assert await back(raw, arrays.integers(numbers)) == numbers
    assert await back(raw, arrays.byte_strings(raws)) == raws


async def test_s10_a_nul_is_refused_by_the_server(raw: psycopg.AsyncConnection[Any]) -> None:
    with pytest.raises(psycopg.errors.CharacterNotInRepertoire):
        await back(raw, arrays.texts(("a\0b",)))


def test_s10_what_cannot_be_sent_is_refused_here() -> None:
    with pytest.raises(UnicodeEncodeError):
        arrays.texts(("\ud800",))
    with pytest.raises(struct.error):
        arrays.integers((2**63,))
