# SPDX-License-Identifier: Apache-2.0
"""What is printed in a terminal of 80 columns: no line is longer, and nothing is cut."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from koord.cli.commands.explain import node_text, object_text, pod_text
from koord.cli.terminal import output
from tests.cli.commands.explain import test_command as answers

WHY = (
    "node(s) didn't match Pod's node affinity/selector, Insufficient cpu, Insufficient memory, "
    "node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"
)
POD: dict[str, Any] = answers.POD | {
    "last": {"at": 60.0, "message": f"0/2 nodes are available: 2 {WHY}. preemption: none helps."},
    "filters": [{"plugin": "NodeResourcesFit", "nodes": 2, "first": 1, "reasons": {WHY: 2}}],
    "nearest": [{"node": "node-001", "reasons": [WHY], "missing": {"cpu": 470_700},
                 "lacks": ["nvidia.com/gpu 9"]}],
}  # fmt: skip
QUOTA = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: a-team-with-a-long-name, namespace: namespace-with-a-long-name}
spec: {max: {cpu: 5}}
"""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setattr(output, "terminal_width", lambda: 80)


def test_long_reasons_go_on_in_their_cell(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    pod_text.pod(POD)
    out = capsys.readouterr().out
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    begin = lines.index("NEAREST NODE  WHY NOT                            LACKS")
    assert lines[begin + 1 : begin + 7] == [
        "node-001      node(s) didn't match Pod's node    cpu 470700m, nvidia.com/gpu 9",
        "              affinity/selector, Insufficient",
        "              cpu, Insufficient memory, node(s)",
        "              had untolerated taint",
        "              {node-role.kubernetes.io/",
        "              control-plane: }",
    ]


def test_without_a_terminal_lines_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    pod_text.pod(POD)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"node-001 {WHY} cpu 470700m, nvidia.com/gpu 9" in lines
    assert any(line.endswith(f"0/2 nodes are available: 2 {WHY}. preemption: none helps.")
               for line in lines)  # fmt: skip


def test_all_that_explain_says_fits(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    for pod in (answers.POD, answers.BOUND, answers.MEMBER, answers.GATED):
        pod_text.pod(pod)
    for offers in (answers.OFFERS, answers.SILENT):
        node_text.node("a", {"manager": offers, "scheduler": answers.NODE, "problems": {}})
    object_text.quota(answers.QUOTA)
    object_text.gang(answers.GANG)
    object_text.reservation(answers.RESERVATION)
    object_text.device(answers.DEVICE)
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert "…" not in out


def test_a_line_goes_on_behind_its_first_word_where_that_stands_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "  ignored  --a-flag: nothing is looked up here, nor there"
    for width, hanging in ((30, 9), (30, 0), (20, 9), (None, 9)):
        monkeypatch.setattr(output, "terminal_width", lambda width=width: width)
        output.say(line, hanging=hanging)
    assert capsys.readouterr().out.splitlines() == [
        "  ignored  --a-flag: nothing",
        "           is looked up here,",
        "           nor there",
        "  ignored --a-flag: nothing is",
        "  looked up here, nor there",
        "  ignored --a-flag:",
        "          nothing is",
        "          looked up",
        "          here, nor",
        "          there",
        line,
    ]


def test_a_table_of_numbers_is_turned(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"quantity-number-{each}" for each in range(10)]
    output.print_table(names, [[str(each) for each in range(10)]])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["quantity-number-0  0", "quantity-number-1  1"]
    assert len(lines) == 10


def test_a_row_that_fits_no_line_has_a_line_a_column(
    narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "x" * 100
    output.print_table(["NAME", "OTHER", "NONE"], [[long, "a", "-"], ["short", long, "-"]])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        f"NAME   {long[:73]}",
        f"       {long[73:]}",
        "OTHER  a",
        "",
        "NAME   short",
        f"OTHER  {long[:73]}",
        f"       {long[73:]}",
    ]


def in_a_terminal(columns: int, *words: object) -> list[str]:
    """What the command prints in a terminal that is so wide."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    code = "from koord.cli.entry import main; main()"
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], stdout=side, env=environment
    ):
        os.close(side)
        said = b""
        try:
            while part := os.read(main, 65536):
                said += part
        except OSError:  # the other side is closed
            pass
        os.close(main)
    return [line.rstrip() for line in said.decode().replace("\r\n", "\n").splitlines()]


def test_a_terminal_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "quota.yaml"
    path.write_text(QUOTA)
    words = ("quota", "runtime", path, "--total", "cpu=5")
    wide, narrow = in_a_terminal(200, *words), in_a_terminal(80, *words)
    assert len(wide[0]) > 80
    assert max(map(len, narrow)) <= 80
    assert "namespace  -                       namespace-with-a-long-name" in narrow
