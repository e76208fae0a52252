"""Makes scheduler/objects/podfields.py out of the field table of the sandbox (types.json).

    python -m tests.apiserver.podfields > scheduler/objects/podfields.py

The scheduler's core may not read files and does not know the sandbox, so what it must know of a pod's
fields stands in a module of its own; a test holds it to the table.
"""

import re
import sys

from scheduler.sandbox.kinds.typetable import type_table

WIDTH = 96
HEAD = '''"""The names of a pod's fields, type by type, as the Kubernetes API has them.

Made by `python -m tests.apiserver.podfields` from the field table of the sandbox; do not edit. Used to find
fields that a person misspelled, which an API server would refuse and a decoder skips; the status, which no
person writes, has none here. A line is a type and its fields; `name=Type` leads to another type, whether
one value or a list of them.
"""

from typing import Final

TABLE: Final = """\\
'''
TAIL = '"""\n'


def reachable(start="core.v1.Pod"):
    """Return the types that a pod is made of, each with its fields' own types, in reading order."""
    raw, found, todo = type_table().raw, {}, [start]
    while todo:
        name = todo.pop(0)
        if name in found:
            continue
        fields = {}
        for field, code in sorted(raw[name].items()):
            inner = re.sub(r"^\[\]", "", code.rstrip("!").split(" ")[0])
            is_written = (name, field) != (start, "status")  # by people, who may misspell it
            fields[field] = inner if inner in raw and is_written else ""
        found[name] = fields
        todo += [inner for inner in fields.values() if inner]
    return found


def render():
    """Return the module's text."""
    lines = []
    for name, fields in reachable().items():
        line = f"{_short(name)}:"
        for field, inner in fields.items():
            word = f" {field}={_short(inner)}" if inner else f" {field}"
            if len(line) + len(word) > WIDTH:
                lines.append(line)
                line = " "
            line += word
        lines.append(line)
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _short(name):
    return name.rpartition(".")[2]


if __name__ == "__main__":
    sys.stdout.write(render())
