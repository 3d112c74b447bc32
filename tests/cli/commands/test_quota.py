# SPDX-License-Identifier: Apache-2.0
"""``koord quota runtime``: the guide's worked cases, both kinds, several trees, and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from koord.api.protocol import quotas as protocol
from koord.kernels import quota as kernel
from koord.simulator.quota_what_if import QuotaPlan, read_manifests
from tests.cli.conftest import Run
from tests.outcomes import refusal

LABEL = "quota.scheduling.koordinator.sh/"
ROOT = "koordinator-root-quota"

Groups = dict[str, dict[str, object]]


def guide(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "quota.koordinator.sh/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": f"team-{name}"},
        "spec": {k: v if k == "priority" else {"cpu": v} for k, v in spec.items()},
    }


def quota(name: str, most: int, least: int = 0, annotations: dict[str, str] | None = None,
          **labels: str) -> dict[str, object]:  # fmt: skip
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": "quotas",
            "labels": {LABEL + key.replace("_", "-"): value for key, value in labels.items()},
            "annotations": {LABEL + key: value for key, value in (annotations or {}).items()},
        },
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }


@pytest.fixture
def runtime(koord: Run) -> Run:
    return partial(koord, "quota", "runtime")


@pytest.fixture
def runtimes(runtime: Run, tmp_path: Path):
    """Works out documents and returns the groups by name."""

    def run(documents: list[dict[str, object]], *arguments: str) -> Groups:
        path = tmp_path / "quotas.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        status, out, err = runtime(str(path), *arguments, "-o", "json")
        assert (status, err) == (0, "")
        return {group["name"]: group for group in json.loads(out)["groups"]}

    return run


WORKED = [
    pytest.param("500", {"A": (0, "300", "200"), "B": (0, "300", "200")}, id="hard-is-the-end"),
    pytest.param("250", {"A": (0, "120", "120"), "B": (0, "100", "100")}, id="idle-goes-to-a"),
    pytest.param("250", {"A": (100, "150", "150"), "B": (50, "140", "100")}, id="priority-first"),
]


@pytest.mark.parametrize(("total", "cases"), WORKED)
def test_the_guides_worked_cases(runtimes, total, cases) -> None:
    documents = [
        guide(name, min=100, max=300, hard=200, priority=priority)
        for name, (priority, _, _) in cases.items()
    ]
    requests = [f"--request={name}:cpu={request}" for name, (_, request, _) in cases.items()]
    groups = runtimes(documents, "--total", f"cpu={total}", *requests)
    for name, (priority, request, runtime) in cases.items():
        assert groups[name] == {
            "kind": "ElasticQuota", "namespace": f"team-{name}", "name": name, "tree": "",
            "parent": "koord-guide", "priority": priority, "min": {"cpu": "100"},
            "max": {"cpu": "200"}, "request": {"cpu": request}, "runtime": {"cpu": runtime},
        }  # fmt: skip
    parent = groups["koord-guide"]
    assert (parent["parent"], parent["min"], parent["max"]) == (
        ROOT,
        {"cpu": "200"},
        {"cpu": total},
    )
    assert (parent["kind"], parent["namespace"]) == (None, None)
    assert groups[ROOT]["runtime"] == {"cpu": total}


def test_the_guides_manifest(runtime, reference_data: Path) -> None:
    path = reference_data / "examples" / "guide" / "elasticquotas.yaml"
    status, out, _ = runtime(
        str(path), "--total", "cpu=600,memory=600Gi", "--request", "team-a-quota:cpu=90,pods=70",
        "--request", "batch-team/batch-team-quota:cpu=250", "--request",
        "critical-team-quota:cpu=400,memory=1Ti", "-o", "json",
    )  # fmt: skip
    groups = {group["name"]: group for group in json.loads(out)["groups"]}
    assert status == 0
    assert groups["team-a-quota"]["max"] == {"cpu": "100", "memory": "100Gi", "pods": "100"}
    # 150 are left above the minimums: critical takes its 100, team-a (50) comes before batch (10).
    cpu = {name: group["runtime"]["cpu"] for name, group in groups.items()}
    assert cpu["critical-team-quota"] == "400"
    assert cpu["team-a-quota"] == "90"
    assert cpu["batch-team-quota"] == "110"
    assert groups["critical-team-quota"]["runtime"]["memory"] == "500Gi"
    assert groups["team-a-quota"]["runtime"]["pods"] == "50"


def test_canonical_quotas_with_parents_weights_and_repeated_requests(runtimes) -> None:
    documents = [
        quota("leaf-1", 100, 20, parent="parent", allow_lent_resource="false"),
        quota("leaf-2", 100, 20, parent="parent", allow_lent_resource="false"),
        quota("parent", 100, 60, is_parent="true", allow_lent_resource="false"),
        quota("heavy", 100, annotations={"shared-weight": '{"cpu": 300}'}),
        quota("light", 100, annotations={"shared-weight": "not JSON"}),
    ]
    requests = ["heavy:cpu=100", "quotas/light:cpu=60", "light:cpu=40", "leaf-1:cpu=40"]
    groups = runtimes(documents, "--total=cpu=100", *(f"--request={text}" for text in requests))
    runtime = {name: group["runtime"] for name, group in groups.items()}
    assert groups["light"]["request"] == {"cpu": "100"}
    assert groups["light"]["priority"] is None
    assert runtime["parent"] == {"cpu": "60"}
    assert (runtime["leaf-1"], runtime["leaf-2"]) == ({"cpu": "40"}, {"cpu": "20"})
    assert (runtime["heavy"], runtime["light"]) == ({"cpu": "30"}, {"cpu": "10"})
    assert list(groups) == [ROOT, "heavy", "light", "parent", "leaf-1", "leaf-2"]


def test_a_tree_with_a_total_of_its_own_is_paid_by_the_default_tree(runtimes) -> None:
    own = {"total-resource": '{"cpu": "30"}'}
    documents = [
        quota("pool", 1000, 30, own, tree_id="42", is_root="true", is_parent="true"),
        quota("inside", 1000, parent="pool"),
        quota("outside", 1000),
    ]
    requests = ["--request=inside:cpu=99", "--request=outside:cpu=99"]
    groups = runtimes(documents, "--total=cpu=100", *requests)
    assert groups["inside"]["tree"] == "42"
    assert groups["inside"]["runtime"] == {"cpu": "30"}
    assert groups["outside"]["runtime"] == {"cpu": "70"}
    documents[0]["metadata"]["labels"][LABEL + "ignore-default-tree"] = "true"
    groups = runtimes(documents, "--total=cpu=100", *requests)
    assert groups["outside"]["runtime"] == {"cpu": "99"}


def test_a_list_as_a_cluster_prints_it_with_its_built_in_groups(runtime, tmp_path: Path) -> None:
    everything = 2**63 // 5
    items = [quota(name, everything) for name in ("koordinator-default-quota", ROOT, "a")]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}, indent="\t"))
    status, out, err = runtime(str(path), "--total", "cpu=8", "--request", "a:cpu=4,gpu=1")
    assert status == 0
    assert err == "warning: a does not count gpu: its max lacks it\n"
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:6] == ["kind", "namespace", "name", "tree", "parent", "priority"]
    assert rows[2][:8] == ["ElasticQuota", "quotas", "a", "-", ROOT, "-", "cpu", "0"]
    assert rows[2][-2:] == ["4", "4"]
    assert [row[2] for row in rows[1:]] == [ROOT, "a", "koordinator-default-quota"]


def test_a_typed_list_and_old_resource_names(runtime, tmp_path: Path) -> None:
    item = guide("a", priority=1)
    item["spec"] |= {"max": {"koordinator.sh/batch-cpu": "1500"}}
    items = [{key: item[key] for key in ("metadata", "spec")}]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({**item, "kind": "ElasticQuotaList", "items": items}))
    arguments = ["--total", "kubernetes.io/batch-cpu=2k", "-o", "json"]
    request = "--request=a:koordinator.sh/batch-cpu=1k"
    status, out, err = runtime(str(path), *arguments, request)
    assert (status, err) == (0, "")
    group = json.loads(out)["groups"][-1]
    assert group["max"] == {"kubernetes.io/batch-cpu": "1500"}
    assert group["runtime"] == {"kubernetes.io/batch-cpu": "1k"}


def test_built_in_names_are_the_same_in_the_api_and_in_the_kernel() -> None:
    wire = (protocol.ROOT_QUOTA, protocol.SYSTEM_QUOTA, protocol.DEFAULT_QUOTA)
    assert wire == (kernel.ROOT, kernel.SYSTEM, kernel.DEFAULT)


def _bad(change: Callable[[dict[str, object]], object]) -> dict[str, object]:
    document = quota("a", 10)
    change(document)
    return document


MANY = {f"r{i}": 1 for i in range(70)}
BAD = {
    "min-over-max": ([quota("a", 1, 2)], [], ["quotas/a", "spec.min[cpu]", "2", "more than"]),
    "min-over-hard": ([guide("a", min=5, max=9, hard=4)], [], ["spec.min[cpu]", "5", "hard"]),
    "negative": ([quota("a", -1)], [], ["quotas/a", "spec.max[cpu]", "-1", "0 or more"]),
    "bad-quantity": ([guide("a", min="1x")], [], ["team-a/a", "spec.min[cpu]", "1x", "expected"]),
    "bad-priority": ([guide("a", priority="high")], [], ["spec.priority", "high", "integer"]),
    "unknown-parent": ([quota("a", 1, parent="zz")], [], ["quotas/a", "parent", "zz"]),
    "cycle": ([quota("a", 1, parent="b"), quota("b", 1, parent="a")], [], ["parent", "below"]),
    "own-parent": ([quota("a", 1, parent="a")], [], ["parent", "'a'", "below"]),
    "other-tree": ([quota("a", 1, tree_id="1"), quota("b", 1, tree_id="2", parent="a")], [],
                   ["quotas/b", "parent", "tree 2"]),
    "duplicate": ([quota("a", 1), quota("a", 2)], [], ["quotas/a", "metadata.name", "taken"]),
    "unknown-kind": ([_bad(lambda d: d.update(apiVersion="v1", kind="Pod"))], [],
                     ["quotas/a", "kind", "v1 Pod", "ElasticQuota"]),
    "hard-negative": ([guide("a", hard=-1, max=1)], [], ["team-a/a", "spec.hard[cpu]", "-1"]),
    "too-much": ([_bad(lambda d: d["spec"]["max"].update(memory="1e30"))], [],
                 ["quotas/a", "spec.max[memory]", "64"]),
    "big-priority": ([guide("a", priority=2**31)], [], ["spec.priority", "2147483648", "32 bits"]),
    "bad-tree-id": ([quota("a", 1, tree_id="a b")], [], ["tree-id]", "'a b'", "a name of"]),
    "bad-total": ([quota("a", 1, annotations={"total-resource": "{"}, tree_id="1", is_root="true")],
                  [], ["bad.yaml: ElasticQuota quotas/a", "total-resource]", "JSON"]),
    "line-break": ([_bad(lambda d: d["spec"]["max"].update({"a\nb": 1}))], [], ["'a\\nb'", "name"]),
    "unknown-group": ([_bad(lambda d: d.update(apiVersion="v1"))], [], ["apiVersion", "v1"]),
    "no-name": ([_bad(lambda d: d.update(metadata={}))], [], ["metadata.name", "''"]),
    "spec-list": ([_bad(lambda d: d.update(spec=[1]))], [], ["quotas/a", "spec", "an object"]),
    "too-many-resources": ([_bad(lambda d: d.update(spec={"max": MANY}))], [],
                           ["resource name", "64"]),
    "request-unknown": ([quota("a", 1)], ["zz:cpu=1"], ["--request", "zz", "of the manifests"]),
    "request-parent": ([quota("a", 1, is_parent="true")], ["a:cpu=1"], ["'a'", "children"]),
    "request-guide": ([guide("a", max=1)], ["koord-guide:cpu=1"], ["koord-guide", "children"]),
    "request-quantity": ([quota("a", 1)], ["a:cpu=q"], ["--request a: resources[cpu]: got 'q'"]),
    "request-negative": ([quota("a", 1)], ["a:cpu=-1"], ["--request a", "cpu", "-1"]),
    "request-no-colon": ([quota("a", 1)], ["a"], ["--request", "'a'", "NAME:"]),
    "request-no-amount": ([quota("a", 1)], ["a:cpu"], ["--request a", "'cpu'", "cpu=500"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_that_names_field_and_value(
    runtime, tmp_path: Path, case: str
) -> None:
    documents, requests, words = BAD[case]
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    asked = [f"--request={text}" for text in requests]
    status, out, err = runtime(str(path), "--total", "cpu=10", *asked)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert [word for word in words if word not in err] == []
    if not requests and case != "request-guide":
        assert "bad.yaml" in err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [1", "bad.yaml: line 2"),
        ("- 3", "mapping"),
        ('{"kind": 1}', "kind"),
        ("\xff", "bad.yaml"),
    ],
)
def test_files_that_are_no_manifests(runtime, tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(text.encode("latin-1"))
    status, _, err = runtime(str(path), "--total", "cpu=10")
    assert (status, err.count("\n")) == (2, 1)
    assert word in err
    status, _, err = runtime(str(tmp_path / "missing.yaml"), "--total", "cpu=10")
    assert (status, err.count("\n")) == (2, 1)


words = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["a", "b", ROOT, "koord-guide", "1", "2Gi", "true"]),
)  # fmt: skip
lists = st.one_of(
    words, st.dictionaries(st.sampled_from(["cpu", "memory", "\n"]), words, max_size=2)
)
manifests = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(
            ["quota.koordinator.sh/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"]
        ),
        "kind": st.just("ElasticQuota"),
        "metadata": st.fixed_dictionaries(
            {"name": words},
            optional={
                "namespace": words,
                "labels": st.dictionaries(
                    st.sampled_from([LABEL + "parent", LABEL + "tree-id", LABEL + "is-root"]), words
                ),
            },
        ),
        "spec": st.dictionaries(st.sampled_from(["min", "max", "hard", "priority"]), lists),
    }
)


@given(st.one_of(st.text(max_size=20), st.lists(manifests, max_size=2).map(json.dumps)))
@example("!!timestamp x")
@example("!!int ''")
@example("[" * 5000)
def test_fuzzed_manifests_are_read_or_refused_in_one_line(text: str) -> None:
    refusal(lambda: list(QuotaPlan(read_manifests("file", text), {"cpu": 1000}).rows()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--total", "cpu=1e30"],
            "error: --total: resources[cpu]: got '1e30', expected an amount that 64 bits hold\n",
        ),
        (
            ["--total", "cpu=5", "--request", "a:cpu=1e30"],
            "error: --request a: resources[cpu]: got '1e30', expected an amount that 64 bits hold"
            "\n",
        ),
    ],
)
def test_a_zero_too_many_is_no_amount(
    koord: Run, tmp_path: Path, words: list[str], expected: str
) -> None:
    path = tmp_path / "quota.yaml"
    path.write_text(json.dumps(quota("a", 10)))
    assert koord("quota", "runtime", path, *words) == (2, "", expected)


def test_manifests_without_a_quota_are_said(koord: Run, tmp_path: Path) -> None:
    path = tmp_path / "nothing.yaml"
    path.write_text("")
    status, _, err = koord("quota", "runtime", path, "--total", "cpu=5")
    assert (status, err) == (0, "warning: no ElasticQuota in the manifests\n")
