"""Fields: typed reading of an API object, with the path of each field for the errors.

Place: used by spec alone. Must never: fill in a value, or convert one type to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from encoder_operator.errors import InvalidSpecError
from encoder_operator.quantities import quantity

_QUANTITY = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")

_PER_CENT = re.compile(r"(100|[1-9]?[0-9])%")

_Choice = TypeVar("_Choice", bound=Enum)


class Fields:
    """An object and where it lies. Each method reads one field, and raises InvalidSpecError where it is
    missing or of the wrong type: the API server's schema fills in every default, so a gap means that the
    schema in the cluster is not this release's."""

    __slots__ = ("_path", "_values")

    def __init__(self, values: object, path: str) -> None:
        if not isinstance(values, Mapping):
            raise InvalidSpecError(path, "must be an object")
        self._values: Mapping[str, Any] = values
        self._path = path

    def path(self, name: str) -> str:
        """Where the field `name` lies."""
        return f"{self._path}.{name}" if self._path else name

    def error(self, name: str, message: str) -> InvalidSpecError:
        """An error about the field `name`."""
        return InvalidSpecError(self.path(name), message)

    def has(self, name: str) -> bool:
        """Whether the field is there (null is not)."""
        return self._values.get(name) is not None

    def object(self, name: str) -> Fields:
        """An object."""
        return Fields(self._required(name), self.path(name))

    def objects(self, name: str) -> tuple[Fields, ...]:
        """A list of objects."""
        value = self._required(name)
        if not isinstance(value, list):
            raise self.error(name, "must be a list")
        return tuple(Fields(each, f"{self.path(name)}[{index}]") for index, each in enumerate(value))

    def text(self, name: str, pattern: str = r"(?s).+", expected: str = "a text that is not empty") -> str:
        """A text that matches all of `pattern`, which `expected` says in words."""
        value = self._required(name)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.error(name, f"must be {expected}")
        return value

    def texts(self, name: str, pattern: str, expected: str) -> tuple[str, ...]:
        """A list of texts that each match all of `pattern`, which `expected` says in words; absent: none."""
        values = self._values.get(name)
        if values is None:
            return ()
        if not isinstance(values, list) or not values:
            raise self.error(name, "must be a list that is not empty")
        for index, each in enumerate(values):
            if not isinstance(each, str) or not re.fullmatch(pattern, each):
                raise self.error(f"{name}[{index}]", f"must be {expected}")
        return tuple(values)

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer from low to high."""
        value = self._required(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(name, f"must be an integer from {low} to {high}")
        return value

    def count_or_share(self, name: str) -> int | str:
        """A number that is not negative, or a text from 0% to 100%."""
        value = self._required(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
            return value
        if isinstance(value, str) and _PER_CENT.fullmatch(value):
            return value
        raise self.error(name, "must be a number of replicas, or a share of them from 0% to 100%")

    def choice(self, name: str, choices: type[_Choice]) -> _Choice:
        """One member of an enumeration of texts."""
        value = self._required(name)
        for member in choices:
            if member.value == value:
                return member
        raise self.error(name, f"must be one of {', '.join(str(member.value) for member in choices)}")

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object whose names are data."""
        return self.object(name)._values

    def quantities(self, name: str) -> dict[str, str]:
        """Quantities by resource name, as text: the API takes integers for them too."""
        quantities = self.object(name)
        for key, value in quantities._values.items():
            if isinstance(value, bool) or not _QUANTITY.fullmatch(str(value)):
                raise quantities.error(key, "must be a quantity, for example 500m, 2 or 8Gi")
        return {key: str(value) for key, value in quantities._values.items()}

    def byte_count(self, name: str) -> int:
        """A quantity of bytes, rounded down to a whole one."""
        value = self._required(name)
        number = None if isinstance(value, bool) else quantity(str(value))
        if number is None or not 0 <= number < 2**50:
            raise self.error(name, "must be a quantity of bytes, for example 0, 512Mi or 8Gi")
        return int(number)

    def _required(self, name: str) -> Any:
        if not self.has(name):
            raise self.error(name, "is missing: set it, or install this release's CRD, which fills it in")
        return self._values[name]
