# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from koord.base.errors import Code, KoordError, MissingExtraError, nearest, value_text
from koord.kube.errors import ApiError, Status


def test_a_message_names_object_field_value_and_what_is_right() -> None:
    error = KoordError("nodes.csv:12", "cpu_milli", "abc", "an integer >= 0")
    assert str(error) == "nodes.csv:12: cpu_milli: got 'abc', expected an integer >= 0"
    assert error.exit_status == 2


def test_a_message_is_one_line_however_long_the_value() -> None:
    assert value_text("a\nb" + "x" * 500).count("\n") == 0
    assert len(value_text("x" * 500)) == 80
    assert value_text(b"\xff") == r"'\\xff'"


def test_wrap_keeps_what_the_kernel_knew() -> None:
    inner = ValueError("cpu list: got 'x', expected ids")
    inner.koord_field, inner.koord_value, inner.koord_expected = "cpu list", "x", "ids"
    wrapped = KoordError.wrap("--taken", "", inner)
    assert str(wrapped) == "--taken: cpu list: got 'x', expected ids"
    assert wrapped.code is Code.INVALID


def test_wrap_of_a_system_error_names_the_path() -> None:
    wrapped = KoordError.wrap("--root", "", FileNotFoundError(2, "No such file", "/x"))
    assert str(wrapped) == "--root: got '/x', expected something readable (No such file)"
    assert wrapped.code is Code.UNREADABLE


@pytest.mark.parametrize(("word", "want"), [("cpusupress", "CPUSuppress"), ("zzz", None)])
def test_nearest(word: str, want: str | None) -> None:
    assert nearest(word, ["CPUSuppress", "CPUBurst"]) == want


def test_names_from_the_input_stay_on_the_line() -> None:
    error = KoordError("Pod a\nb", "labels[\u2028]", "x", "y").within("pods.yaml")
    assert str(error) == "pods.yaml: Pod a\\nb: labels[\\u2028]: got 'x', expected y"


def test_a_module_that_is_missing_of_a_package_that_is_there_is_named() -> None:
    error = MissingExtraError("kubernetes", "kube", "pydantic")
    assert str(error) == (
        "package kubernetes, which is there: module pydantic, which it imports: got "
        "'no such module', expected "
        "it from pip install 'koord[kube]' (python -c 'import kubernetes' shows who imports it)"
    )
    for same in (None, "kubernetes"):
        assert "package kubernetes: got 'no such package'" in str(
            MissingExtraError("kubernetes", "kube", same)
        )


@pytest.mark.parametrize(
    "error",
    [
        KoordError("Pod a", "spec", "x", "y", Code.NOT_FOUND),
        MissingExtraError("kubernetes", "kube"),
        ApiError(Status(code=409, reason="Conflict", message="changed")),
    ],
)
def test_a_copy_has_all_but_where_it_came_from(error: KoordError) -> None:
    with pytest.raises(KoordError) as raised:
        raise error
    copy = raised.value.copy()
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert error.__traceback__ is not None
    assert copy.__traceback__ is copy.__context__ is copy.__cause__ is None
