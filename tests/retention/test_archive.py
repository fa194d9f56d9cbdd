"""The archive: what it has returned for can be read, whatever happens afterwards."""

import gzip
import json
import os
import zlib
from pathlib import Path

import pytest

from callboard.mailbox.errors import UsageError
from callboard.persistence.retention import Old
from callboard.service.archive import SCHEMAS, ArchiveFile

pytestmark = pytest.mark.anyio

ONE = Old('[1,"/a:1",3]', 4, 100, '{"actors" : [{"address":"/a:1"}, \n {"address":"/a:1/b"}]}')
TWO = Old("[2]", 1, 10, '{"body":"line\\nbreak"}')


def readable(path: Path) -> list[dict[str, object]]:
    """What can be read of a file that ended in the middle."""
    data = path.read_bytes()
    text = zlib.decompressobj(wbits=31).decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().splitlines()]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
async def test_what_was_kept_can_be_read_before_the_file_is_closed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with ArchiveFile(path) as archive:
        assert not path.exists(), "nothing to keep, no file"
        await archive.keep("runs", [ONE])
        [line] = readable(path)
        assert line["schema"] == "callboard.archive.run/1" and line["key"] == [1, "/a:1", 3]
        assert line["kept"] == {"actors": [{"address": "/a:1"}, {"address": "/a:1/b"}]} and line["rows"] == 4
        await archive.keep("dead-letters", [TWO, TWO])
        assert [one["schema"] for one in readable(path)][1:] == ["callboard.archive.dead-letter/1"] * 2
        assert archive.lines == 3
    whole = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = [json.loads(line) for line in whole.decode().splitlines()]
    assert lines[1]["kept"] == {"body": "line\nbreak"} and len(lines) == 3


async def test_it_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size if os.path.exists(tmp_path / "a") else 0)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with ArchiveFile(tmp_path / "a") as archive:
        await archive.keep("runs", [ONE])
        assert len(synced) == 2, "its name, then its line"
        assert synced[-1] == (tmp_path / "a").stat().st_size
        await archive.keep("runs", [ONE])
        assert synced[-1] == (tmp_path / "a").stat().st_size


async def test_a_file_that_is_there_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        ArchiveFile(path)
    late = ArchiveFile(tmp_path / "b")
    (tmp_path / "b").write_text("made meanwhile")
    with late, pytest.raises(FileExistsError):
        await late.keep("runs", [ONE])
    assert path.read_text() == "mine" and (tmp_path / "b").read_text() == "made meanwhile"


def test_every_line_has_a_schema_of_its_own() -> None:
    assert len(set(SCHEMAS.values())) == len(SCHEMAS)
