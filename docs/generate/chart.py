"""The chart's README: its table of values, from values.yaml and the comments (`# --`) in it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generate import markdown

CHART = Path(__file__).parents[2] / "charts" / "trellis"
_REMARK = re.compile(r"^\s*# (-- )?(.*)$")


def page() -> str:
    """Return the whole page."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (CHART / "values.yaml").read_text()
    rows = (
        (markdown.code(path), markdown.value(default), markdown.text(remark))
        for path, default, remark in values(text)
    )
    return "\n".join([introduction(about), markdown.table(("value", "default", "meaning"), rows)])


def introduction(about: dict[str, Any]) -> str:
    """Return the text above the table."""
    return f"""\
# {about["name"]}

{markdown.origin("charts/trellis/values.yaml")}

{about["description"]}. Runs beside the default scheduler,
on Kubernetes {about["kubeVersion"].removesuffix("-0")}.

    helm install trellis charts/trellis --namespace trellis-system --create-namespace --wait \\
      --set image.registry=REGISTRY

`image.registry` is required: no public image exists yet.
[Install it beside the default scheduler](../../docs/howto/install.md) describes how to build one.

## Values
"""


def values(text: str) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, default, comment) of every value; an empty or flow-style map is one."""
    remarks = remarks_of(text)
    yield from _values(yaml.compose(text), "", remarks)


def _values(node: Any, path: str, remarks: dict[int, str]) -> Iterator[tuple[str, Any, str]]:
    for key, inner in node.value:
        place = f"{path}{key.value}"
        remark = remarks.get(key.start_mark.line, "")
        is_ours = isinstance(inner, yaml.MappingNode) and inner.value and not inner.flow_style
        if is_ours:
            if remark:
                yield place, None, remark
            yield from _values(inner, f"{place}.", remarks)
        else:
            default = yaml.safe_load(yaml.serialize(inner))
            yield place, default, remark


def remarks_of(text: str) -> dict[int, str]:
    """Return the comment above each line that has one; it begins with `# --`."""
    found: dict[int, str] = {}
    remark: list[str] = []
    for number, line in enumerate(text.splitlines()):
        match = _REMARK.match(line)
        if match and match[1]:
            remark = [match[2]]
        elif match and remark:
            remark.append(match[2])
        else:
            if remark:
                found[number] = " ".join(remark)
            remark = []
    return found
