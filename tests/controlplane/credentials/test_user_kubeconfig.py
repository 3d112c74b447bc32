# SPDX-License-Identifier: Apache-2.0
"""A cluster in a kubeconfig that was there before: what others have put there stays."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from koord.base.errors import KoordError
from koord.controlplane.credentials import kubeconfig, user_kubeconfig

THEIRS = """\
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: prod
  cluster: {server: https://prod.example.com:6443, certificate-authority-data: QQ==}
contexts:
- name: prod
  context: {cluster: prod, user: alice, namespace: shop}
users:
- name: alice
  user:
    exec: {command: login, args: ["--until", 2024-01-01]}
current-context: prod
"""
OURS = kubeconfig.text("http://127.0.0.1:6443", None)


def test_entries_are_added_and_taken_out_again(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    path.chmod(0o644)
    assert user_kubeconfig.merge(path, OURS) == "koord"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = yaml.safe_load(path.read_text())
    assert found["current-context"] == "koord"
    assert [each["name"] for each in found["clusters"]] == ["prod", "koord"]
    assert found["clusters"][1]["cluster"] == {"server": "http://127.0.0.1:6443"}
    assert found["contexts"][0]["context"]["namespace"] == "shop"
    # What YAML would take for a date is the text that it was.
    assert found["users"][0]["user"]["exec"]["args"] == ["--until", "2024-01-01"]
    assert found["preferences"] == {"colors": True}
    # Once more changes nothing, and the context before is still known.
    assert user_kubeconfig.merge(path, OURS) == "koord"
    assert yaml.safe_load(path.read_text()) == found
    user_kubeconfig.remove(path, "koord", OURS)
    left = yaml.safe_load(path.read_text())
    assert left["current-context"] == "prod"
    for each in ("clusters", "contexts", "users"):
        assert [entry["name"] for entry in left[each]] == [
            {"clusters": "prod", "contexts": "prod", "users": "alice"}[each]
        ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config"]


def test_the_context_before_a_cluster_that_was_killed_comes_back(tmp_path: Path) -> None:
    path, other = tmp_path / "config", kubeconfig.text("http://127.0.0.1:7443", None)
    path.write_text(THEIRS)
    user_kubeconfig.merge(path, OURS)  # and nobody takes it out
    context = yaml.safe_load(path.read_text())["contexts"][1]["context"]
    assert context == {
        "cluster": "koord",
        "user": "koord",
        "extensions": [{"name": "koord", "extension": {"former-context": "prod"}}],
    }
    assert user_kubeconfig.merge(path, other) == "koord"
    user_kubeconfig.remove(path, "koord", other)
    assert yaml.safe_load(path.read_text())["current-context"] == "prod"


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    assert user_kubeconfig.merge(path, OURS) == "koord"
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(OURS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_texts_that_kubectl_takes_for_numbers_or_booleans_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        'kind: Config\ncontexts:\n- name: "1e3"\n  context: {cluster: "n", user: "y"}\n'
        'current-context: "1e3"\n'
    )
    user_kubeconfig.merge(path, OURS)
    text = path.read_text()
    for quoted in ('name: "1e3"', 'cluster: "n"', 'user: "y"', 'former-context: "1e3"'):
        assert quoted in text


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(THEIRS)
    (tmp_path / "config").symlink_to(tmp_path / "real")
    user_kubeconfig.merge(tmp_path / "config", OURS)
    assert (tmp_path / "config").is_symlink()
    assert "koord" in (tmp_path / "real").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("clusters: [", "config"),
        ("[]", "expected a kubeconfig"),
        ("a: 1", "expected a kubeconfig"),
        (f"{THEIRS}---\n{THEIRS}", "expected a kubeconfig"),
        ("kind: Config\nclusters: {a: 1}", "expected a kubeconfig"),
        (
            "kind: Config\nclusters: [{name: koord, cluster: {server: https://koord.example.com}}]",
            "clusters[koord]: got 'https://koord.example.com'",
        ),
        (
            "kind: Config\nusers: [{name: koord, user: {token: abc}}]",
            "users[koord]: got 'token'",
        ),
        (
            "kind: Config\n"
            "clusters: [{name: koord, cluster: {server: https://127.0.0.1:6443}}]\n"
            "users: [{name: koord, user: {client-key-data: QQ==}}]",
            "users[koord]: got 'client-key-data'",
        ),
        (
            "kind: Config\n"
            "clusters: [{name: koord, cluster: {server: https://127.0.0.1:6443}}]\n"
            "users: [{name: koord, user: {token: abc}}]\n"
            "contexts: [{name: prod, context: {cluster: prod, user: koord}}]",
            "contexts[prod]: got 'cluster prod, user koord'",
        ),
        (
            "kind: Config\ncontexts: [{name: koord, context: {cluster: prod, user: alice}}]",
            "contexts[koord]: got 'cluster prod, user alice'",
        ),
    ],
)
def test_what_cannot_be_read_is_left_as_it_is(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(KoordError) as caught:
        user_kubeconfig.merge(path, OURS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text() == content
    assert [each.name for each in tmp_path.iterdir()] == ["config"]


def test_anothers_lock_is_waited_for_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_kubeconfig, "_LOCK_SECONDS", 0.1)
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text(THEIRS)
    lock.touch()
    with pytest.raises(KoordError, match=r"config\.lock"):
        user_kubeconfig.merge(path, OURS)
    assert lock.exists()
    assert path.read_text() == THEIRS


def test_entries_of_another_cluster_by_that_name_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "config", kubeconfig.text("http://127.0.0.1:7443", None)
    user_kubeconfig.merge(path, OURS)
    user_kubeconfig.merge(path, other)
    user_kubeconfig.remove(path, "koord", OURS)
    assert yaml.safe_load(path.read_text())["clusters"] == yaml.safe_load(other)["clusters"]


def test_two_clusters_have_two_names_and_each_takes_out_its_own(tmp_path: Path) -> None:
    path, other = tmp_path / "config", kubeconfig.text("http://127.0.0.1:7443", None)
    runs = {"http://127.0.0.1:6443", "http://127.0.0.1:7443"}.__contains__
    for first_ends in (True, False):
        path.write_text(THEIRS)
        assert user_kubeconfig.merge(path, OURS, runs) == "koord"
        assert user_kubeconfig.merge(path, other, runs) == "koord-2"
        found = yaml.safe_load(path.read_text())
        assert found["current-context"] == "koord-2"
        assert [each["name"] for each in found["contexts"]] == ["prod", "koord", "koord-2"]
        assert found["clusters"][1]["cluster"] == {"server": "http://127.0.0.1:6443"}
        assert found["clusters"][2]["cluster"] == {"server": "http://127.0.0.1:7443"}
        assert found["contexts"][2]["context"]["cluster"] == "koord-2"
        assert found["contexts"][2]["context"]["user"] == "koord-2"
        if first_ends:
            user_kubeconfig.remove(path, "koord", OURS)
            assert yaml.safe_load(path.read_text())["current-context"] == "koord-2"
            user_kubeconfig.remove(path, "koord-2", other)
        else:
            user_kubeconfig.remove(path, "koord-2", other)
            assert yaml.safe_load(path.read_text())["current-context"] == "koord"
            user_kubeconfig.remove(path, "koord", OURS)
        left = yaml.safe_load(path.read_text())
        assert left["current-context"] == "prod"
        for kind in ("clusters", "contexts", "users"):
            assert len(left[kind]) == 1


def test_further_names_of_killed_clusters_go_with_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "config"
    mine = "- name: koord-7\n  cluster: {server: https://127.0.0.1:1}\ncontexts:\n"
    path.write_text(THEIRS.replace("contexts:\n", mine, 1))  # not of koord: no note in a context
    killed = [kubeconfig.text(f"http://127.0.0.1:{port}", None) for port in (6443, 7443)]
    for each in killed:
        user_kubeconfig.merge(path, each, lambda _: True)
    user_kubeconfig.merge(path, kubeconfig.text("http://127.0.0.1:8443", None), lambda _: False)
    found = yaml.safe_load(path.read_text())
    assert [each["name"] for each in found["contexts"]] == ["prod", "koord"]
    assert [each["name"] for each in found["clusters"]] == ["prod", "koord-7", "koord"]
    extension = found["contexts"][1]["context"]["extensions"][0]["extension"]
    assert extension == {"former-context": "prod"}
