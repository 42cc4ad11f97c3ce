"""Typed reading of one message's fields from untrusted JSON; every refusal names type and field."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

PATH_LENGTH_MAX = 4096
"""Linux's PATH_MAX."""
TEXT_LENGTH_MAX = 1024
LABELS_MAX = 32
LABEL_LENGTH_MAX = 128
ENTRIES_MAX = 64
"""Variables of one generation; torchrun's and ours are about twenty."""
INTEGER_MAX = 2**63 - 1
"""Steps and ranks fit a signed 64-bit integer, as every store downstream expects."""


class MessageError(ValueError):
    """A message of a known type breaks the contract; the text names type and field."""


_E = TypeVar("_E", bound=StrEnum)


class Fields:
    """Typed access to the fields of one message; every refusal names type and field."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self._name = name
        self._data = data

    def _refuse(self, key: str, wanted: str) -> MessageError:
        value = self._data.get(key)
        # A container is not shown: one that was nested deep enough cannot even be written out.
        shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else repr(str(value)[:80])
        return MessageError(f"{self._name}.{key} must be {wanted}, got {shown}")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        value = self._data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INTEGER_MAX:
            raise self._refuse(key, "a whole number from 0 to 2^63-1")
        return value

    def number(self, key: str) -> float:
        """Seconds."""
        value = self._data.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= INTEGER_MAX:
            raise self._refuse(key, "a number of seconds, 0 or more")
        return float(value)

    def text(self, key: str, default: str | None = None, *, length_max: int = TEXT_LENGTH_MAX) -> str:
        """A bounded text."""
        value = self._data.get(key, default)
        if not isinstance(value, str) or len(value) > length_max or not _is_text(value):
            raise self._refuse(key, f"a text of at most {length_max} characters")
        return value

    def choice(self, key: str, kind: type[_E], default: _E | None = None) -> _E:
        """A member of a closed set."""
        value = self._data.get(key, default)
        if not isinstance(value, str):  # the enum would write out what it refuses, however deep that is nested
            raise self._refuse(key, f"one of {', '.join(kind)}")
        try:
            return kind(value)
        except ValueError:
            raise self._refuse(key, f"one of {', '.join(kind)}") from None

    def labels(self) -> dict[str, str]:
        """Texts by name."""
        value = self._data.get("labels")
        if not isinstance(value, dict) or len(value) > LABELS_MAX:
            raise self._refuse("labels", f"an object with at most {LABELS_MAX} entries")
        for key, label in value.items():
            if not isinstance(label, str) or not key or max(len(key), len(label)) > LABEL_LENGTH_MAX:
                raise self._refuse("labels", f"texts of 1 to {LABEL_LENGTH_MAX} characters")
            if not _is_text(key + label):
                raise self._refuse("labels", f"texts of 1 to {LABEL_LENGTH_MAX} characters")
        return dict(value)

    def texts(self, key: str) -> dict[str, str]:
        """Environment variables."""
        value = self._data.get(key)
        if not isinstance(value, dict) or len(value) > ENTRIES_MAX:
            raise self._refuse(key, f"an object with at most {ENTRIES_MAX} entries")
        for name, text in value.items():
            if not isinstance(text, str) or not name or len(text) > PATH_LENGTH_MAX or "\0" in name + text:
                raise self._refuse(key, f"texts of at most {PATH_LENGTH_MAX} characters")
        return dict(value)

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._data.get(key)
        if not isinstance(value, bool):
            raise self._refuse(key, "true or false")
        return value

    def optional(self, key: str) -> int | None:
        """A whole number, or None."""
        return self.integer(key) if self.has(key) else None

    def has(self, key: str) -> bool:
        """Whether it is there and not null."""
        return self._data.get(key) is not None


def _is_text(value: str) -> bool:
    """False for half a character (a lone surrogate), which JSON can say and no store downstream can keep."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
