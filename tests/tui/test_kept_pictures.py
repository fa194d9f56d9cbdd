"""The pictures that the documentation shows: all there, small, and complete without anything from the net."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from callboard.tui.pictures import FONT, MAX_BYTES, PICTURES, plain_svg

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tui"


@pytest.mark.parametrize("name", [picture.name for picture in PICTURES])
def test_a_kept_picture_is_small_and_fetches_nothing(name: str) -> None:
    svg = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert len(svg.encode()) <= MAX_BYTES
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", svg)) - {"http://www.w3.org/2000/svg"}
    assert addresses <= {"https://www.textualize.io"}, "a comment names who draws it; nothing else is an address"
    assert not re.search(r"@font-face|@import|url\(\s*['\"]?http|<image|<script|xlink:href|\shref=", svg)
    assert FONT in svg and "Fira" not in svg


def test_the_page_shows_each_of_them_and_no_other() -> None:
    page = (FOLDER.parent / "tui.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(tui/(\w+)\.svg\)", page)) == {picture.name for picture in PICTURES}
    assert {path.stem for path in FOLDER.glob("*.svg")} == {picture.name for picture in PICTURES}


def test_a_picture_with_fonts_of_the_net_loses_them() -> None:
    svg = (
        '<svg><style>@font-face { font-family: "Fira Code"; src: url("https://x/f.woff2"); }\n'
        ".terminal-12-matrix { font-family: Fira Code, monospace; }</style>"
        '<rect fill="#111" x="0" y="1" width="10" height="2" shape-rendering="crispEdges"/>'
        '<rect fill="#111" x="10" y="1" width="5" height="2" shape-rendering="crispEdges"/>'
        '<rect fill="#222" x="15" y="1" width="5" height="2" shape-rendering="crispEdges"/></svg>'
    )
    made = plain_svg(svg)
    assert "https" not in made and FONT in made and ".t-matrix" in made
    assert re.findall(r'x="(\d+)" y="1" width="(\d+)"', made) == [("0", "15"), ("15", "5")]
