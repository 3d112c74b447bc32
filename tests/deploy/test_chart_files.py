# SPDX-License-Identifier: Apache-2.0
"""The chart's files and its values, as they lie in the repository."""

from __future__ import annotations

import io
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart_files import CHART, contents, former_chart
from tests.deploy.values_page import PAGE, page

Document = dict[str, Any]
SERVICES = (("one", 1), ("two", 2))


@pytest.mark.parametrize("name", sorted(contents()))
def test_what_it_takes_from_elsewhere_is_in_step(name: str) -> None:
    """``python -m tests.deploy.chart_files`` writes it."""
    assert (CHART / "files" / name).read_text(encoding="utf-8") == contents()[name]


def test_a_former_chart_gives_today_s_programs_their_rights(tmp_path: Path) -> None:
    """The descheduler of then read no PodGroup, and today's is not ready until it may."""
    chart = former_chart(Path(__file__).parent / "koord-0.1.0.tgz", tmp_path)
    role = "files/rbac/koord-descheduler.yaml"
    assert "podgroups" in (chart / role).read_text(encoding="utf-8")
    assert (chart / role).read_bytes() == (CHART / role).read_bytes()
    # All else is the former's.
    assert not (chart / "templates/monitoring.yaml").exists()


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


def script() -> str:
    """What the pod of `helm test` runs."""
    text = (CHART / "templates/tests/ready.yaml").read_text(encoding="utf-8")
    body = text.partition("- |\n")[2].partition("    {{- range")[0]
    return textwrap.dedent(body).replace("{{ .Values.installation.namespace }}", "system")


@pytest.mark.parametrize(("late", "code"), [(3, 0), (1000, 1)])
def test_helm_test_waits_for_addresses_of_new_pods(
    monkeypatch: pytest.MonkeyPatch, late: int, code: int
) -> None:
    """An endpoint comes a moment after its pod is ready; one that never comes is told of."""
    seconds, asked = [0.0], []

    def urlopen(url: str, **_: object) -> io.BytesIO:
        asked.append(url)
        if seconds[0] < late:
            raise OSError("Temporary failure in name resolution")
        return io.BytesIO()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    monkeypatch.setattr("time.sleep", lambda pause: seconds.append(seconds.pop() + pause))
    monkeypatch.setattr("sys.argv", ["-c", "one=1", "two=2"])
    with pytest.raises(SystemExit) as ended:
        exec(script(), {})
    assert int(ended.value.code or 0) == code
    assert set(asked) == {f"https://{n}-metrics.system.svc:{p}/readyz" for n, p in SERVICES}
