# SPDX-License-Identifier: Apache-2.0
"""The chart's files and its values, as they lie in the repository."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.deploy.chart_files import CHART, contents
from tests.deploy.values_page import PAGE, page

Document = dict[str, Any]


@pytest.mark.parametrize("name", sorted(contents()))
def test_what_it_takes_from_elsewhere_is_in_step(name: str) -> None:
    """``python -m tests.deploy.chart_files`` writes it."""
    assert (CHART / "files" / name).read_text(encoding="utf-8") == contents()[name]


def test_it_has_nothing_else() -> None:
    folder = CHART / "files"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == set(contents())


def test_every_value_is_described() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def undescribed(value: object, where: Document, path: str) -> list[str]:
        missing = [] if where.get("description") else [path]
        if isinstance(value, dict) and "properties" in where:
            assert where["additionalProperties"] is False, path
            for key, each in value.items():
                missing += undescribed(each, where["properties"].get(key, {}), f"{path}.{key}")
        return missing

    assert undescribed(values, schema, "values") == []


def test_the_page_of_values_is_in_step() -> None:
    """``python -m tests.deploy.values_page`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
