"""Bodies as the lock says they may be: fields with a default left out, fields of a later version in between."""

import ast
from typing import Any

from hypothesis import strategies as st

from callboard.actors.schema_change import Lock
from callboard.actors.schema_shape import Shape

Values = st.SearchStrategy[Any]

INTS = st.integers(-(2**53), 2**53)
TEXT = st.text(max_size=8)
PLAIN: Values = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KINDS: dict[str, Values] = {
    "any": PLAIN,
    "none": st.none(),
    "bool": st.booleans(),
    "int": INTS,
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "str": TEXT,
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
}
LATER = st.dictionaries(TEXT.map(lambda text: f"later {text}"), PLAIN, max_size=2)


class Bodies:
    """Strategies for the bodies of a lock's types. `json`: keys of objects are texts."""

    def __init__(self, lock: Lock, *, json: bool) -> None:
        self.lock = lock
        self.json = json
        self._known: dict[int, tuple[Shape, st.SearchStrategy[dict[str, Any]]]] = {}
        self._values: dict[str, Values] = {}

    def of(self, shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
        """Plain bodies of a type."""
        # Made once: making a strategy takes longer than drawing from it. The shape is kept, and so its id is its own.
        if id(shape) not in self._known:
            self._known[id(shape)] = (shape, self._bodies(shape))
        return self._known[id(shape)][1]

    def _bodies(self, shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
        must = {name: self._value(text) for name, text in shape.fields.items() if not name.endswith("?")}
        may = {name[:-1]: self._value(text) for name, text in shape.fields.items() if name.endswith("?")}
        tags = dict(flag[4:].split("=", 1) for flag in shape.flags if flag.startswith("tag "))
        fields = st.fixed_dictionaries(must, optional=may)
        return st.tuples(LATER, fields).map(lambda parts: {**parts[0], **parts[1], **tags})

    def _value(self, text: str) -> Values:
        if text not in self._values:
            self._values[text] = self._node(ast.parse(text, mode="eval").body)
        return self._values[text]

    def _node(self, node: ast.expr) -> Values:
        match node:
            case ast.Name(id=name) if name in KINDS:
                return KINDS[name]
            case ast.Name() | ast.Attribute():
                return st.deferred(lambda: self.of(self.lock.structs[ast.unparse(node)]))
            case ast.BinOp(left=left, right=right):
                return self._node(left) | self._node(right)
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                return st.sampled_from([ast.literal_eval(part) for part in _parts(inner)])
            case ast.Subscript(value=ast.Name(id="list"), slice=inner):
                return st.lists(self._node(inner), max_size=3)
            case ast.Subscript(value=ast.Name(id="tuple"), slice=inner):
                return st.tuples(*map(self._node, _parts(inner))).map(list)
            case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
                keys = self._node(key)
                return st.dictionaries(keys.map(str) if self.json else keys, self._node(value), max_size=3)
            case _:
                raise AssertionError(f"no bodies are made of {ast.unparse(node)} yet: teach it to this class")


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]
