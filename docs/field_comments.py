"""Let the reference of the site show what the comment behind a field says of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import griffe

if TYPE_CHECKING:
    import ast

COMMENT = re.compile(r"  # (?!noqa)(.+)$")


class FieldComments(griffe.Extension):
    """Takes the comment at the end of a field's line for its docstring, where it has none."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: object
    ) -> None:
        if attr.docstring is not None or attr.parent is None or not attr.parent.is_class:
            return
        found = COMMENT.search(attr.source)
        if found is not None and "\n" not in attr.source:
            attr.docstring = griffe.Docstring(found[1], lineno=attr.lineno, parent=attr)
