# SPDX-License-Identifier: Apache-2.0
"""Which texts are names: DNS labels and subdomains, label keys and values, ports.

Every function gives what is wrong with a text, worded as apimachinery's ``validation`` words it;
nothing for a good one. The same few texts come back all the time, so answers are cached.
"""

from __future__ import annotations

import re

from koord.base.memory.text_cache import text_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY_NAME})?"
_ENV = "printable ASCII characters other than '='"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"

_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character"
)
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_dns_1035 = re.compile(_DNS_1035).fullmatch
_is_key_name = re.compile(_KEY_NAME).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch

NameErrors = tuple[str, ...]


@text_cache(16_384)
def dns_label(text: str) -> NameErrors:
    """RFC 1123 label: names of containers, namespaces, volumes."""
    whys = _longer_than(text, 63)
    if not _is_label(text):
        if _is_subdomain(text):
            return (*whys, "must not contain dots")
        return (*whys, _regex(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return whys


@text_cache(16_384)
def dns_subdomain(text: str) -> NameErrors:
    """RFC 1123 subdomain: names of most objects."""
    return _subdomain(text, "characters")


@text_cache(4096)
def dns_1035_label(text: str) -> NameErrors:
    """RFC 1035 label: names of services."""
    whys = _longer_than(text, 63)
    if not _is_dns_1035(text):
        return (*whys, _regex(_DNS_1035_WORDS, _DNS_1035, "my-name", "abc-123"))
    return whys


@text_cache(4096)
def path_segment(text: str) -> NameErrors:
    """What fits between two slashes of a URL: names of roles and bindings."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{mark}'" for mark in ("/", "%") if mark in text)


@text_cache(16_384)
def label_key(text: str) -> NameErrors:
    """Keys of labels, annotations (in lower case), finalizers: a name, perhaps after a domain."""
    parts = text.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_KEY_WORDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
            f"used for validation is '{_KEY_NAME}') with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    whys: NameErrors = ()
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            whys = ("prefix part must be non-empty",)
        else:
            whys = tuple(f"prefix part {why}" for why in _subdomain(parts[0], "bytes"))
    if not name:
        whys = (*whys, "name part must be non-empty")
    elif len(name) > 63:
        whys = (*whys, "name part must be no more than 63 bytes")
    if not _is_key_name(name):
        worded = _regex(f"name part {_KEY_WORDS}", _KEY_NAME, "MyName", "my.name", "123-abc")
        whys = (*whys, worded)
    return whys


@text_cache(65_536)
def label_value(text: str) -> NameErrors:
    """Values of labels."""
    whys = _longer_than(text, 63, "bytes")
    if not _is_value(text):
        return (*whys, _regex(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return whys


@text_cache(4096)
def env_name(text: str) -> NameErrors:
    """Names of environment variables."""
    if not text:
        return ("environment variable name must be non-empty",)
    if not (text.isascii() and text.isprintable()) or "=" in text:
        return (f"a valid environment variable name must consist only of {_ENV}",)
    return ()


@text_cache(4096)
def config_key(text: str) -> NameErrors:
    """Keys of config maps and secrets."""
    whys = _longer_than(text, 253)
    if not _is_config_key(text):
        words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        whys = (*whys, _regex(words, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text == ".":
        return (*whys, "must not be '.'")
    if text == "..":
        return (*whys, "must not be '..'")
    return (*whys, "must not start with '..'") if text.startswith("..") else whys


@text_cache(4096)
def port_name(text: str) -> NameErrors:
    """Names of container ports (IANA service names)."""
    whys = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _is_port_charset(text):
        whys.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in text):
        whys.append("must contain at least one letter (a-z)")
    if "--" in text:
        whys.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        whys.append("must not begin or end with a hyphen")
    return tuple(whys)


def port_number(value: int) -> NameErrors:
    """Port numbers."""
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


def percent(text: str) -> NameErrors:
    """``25%``."""
    if re.fullmatch(_PERCENT, text):
        return ()
    words = "a valid percent string must be a numeric string followed by an ending '%'"
    return (_regex(words, _PERCENT, "1%", "93%"),)


def as_prefix(text: str) -> str:
    """A generateName as its rule sees it: a dash at its end will be followed by something."""
    return f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text


def _subdomain(text: str, unit: str) -> NameErrors:
    whys = _longer_than(text, 253, unit)
    if not _is_subdomain(text):
        return (*whys, _regex(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return whys


def _longer_than(text: str, limit: int, unit: str = "characters") -> NameErrors:
    """Bytes are counted; the rules for keys and values say so, those for names do not."""
    return (f"must be no more than {limit} {unit}",) if len(text.encode()) > limit else ()


def _regex(words: str, pattern: str, *examples: str) -> str:
    listed = ",  or ".join(f"'{example}'" for example in examples)
    return f"{words} (e.g. {listed}, regex used for validation is '{pattern}')"
