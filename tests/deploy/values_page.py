# SPDX-License-Identifier: Apache-2.0
"""docs/reference/chart.md from the chart's values and their schema.

``python -m tests.deploy.values_page`` writes it; a test keeps it in step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.deploy.chart_files import CHART, ROOT

PAGE = ROOT / "docs" / "reference" / "chart.md"
_HEAD = """\
# Values of the chart

What `helm install` of `deploy/charts/koord` takes, beside [the guide](../guide-install.md). Values
that Koordinator's chart has, too, mean the same; one that is misspelt or out of range is refused.
Written by `python -m tests.deploy.values_page`.

| value | default | what it says |
|---|---|---|
"""


def page() -> str:
    """The page."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return _HEAD + "".join(_rows(schema, values, ""))


def _rows(schema: dict[str, Any], values: dict[str, Any], path: str) -> Iterator[str]:
    for key, value in values.items():
        described = schema["properties"][key]
        name = f"{path}{key}"
        if isinstance(value, dict) and "properties" in described:
            yield from _rows(described, value, f"{name}.")
        else:
            yield f"| `{name}` | {_default(value)} | {described['description']} |\n"


def _default(value: object) -> str:
    if value in ("", {}, []):
        return "none"
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    return f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
