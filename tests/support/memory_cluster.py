"""The part of the cluster port that apply uses, in memory: what is there, and what was written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from encoder_operator import vocabulary
from encoder_operator.cluster import ChildKind, JsonObject

T = TypeVar("T")


def as_served(value: T) -> T:
    """A copy as it crosses the wire; many times quicker than a deep one."""
    copied: T = json.loads(json.dumps(value))
    return copied


class MemoryChildren:
    """Children by kind and name; an apply replaces the object, and changes its version only with its content."""

    def __init__(self) -> None:
        self.objects: dict[tuple[ChildKind, str], JsonObject] = {}
        self.writes: list[str] = []
        self._versions = itertools.count(1)

    def put(self, manifest: JsonObject) -> None:
        """An object that somebody else made."""
        self.objects[_key(manifest)] = self._served(manifest, {"uid": f"uid-{next(self._versions)}"})

    async def list_children(self, kind: ChildKind, namespace: str, pool: str) -> list[JsonObject]:
        wanted = {vocabulary.LABEL_POOL: pool, vocabulary.LABEL_MANAGED_BY: vocabulary.MANAGED_BY}
        return [
            as_served(child)
            for (each, _), child in self.objects.items()
            if each is kind and wanted.items() <= child["metadata"].get("labels", {}).items()
        ]

    async def get_child(self, kind: ChildKind, namespace: str, name: str) -> JsonObject | None:
        return as_served(self.objects.get((kind, name)))

    async def apply_child(self, manifest: JsonObject) -> JsonObject:
        key = _key(manifest)
        self.writes.append(f"apply {key[0].value}/{key[1]}")
        before = self.objects.get(key, {"metadata": {"uid": f"uid-{next(self._versions)}"}})
        entry = {
            "manager": vocabulary.FIELD_MANAGER,
            "operation": "Apply",
            "fieldsV1": _owned({name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}),
        }
        after = self._served(manifest, {"uid": before["metadata"]["uid"], "managedFields": [entry]})
        if _content(after) != _content(before):
            self.objects[key] = after
        return as_served(self.objects[key])

    async def delete_child(self, kind: ChildKind, namespace: str, name: str, uid: str) -> None:
        assert self.objects[kind, name]["metadata"]["uid"] == uid
        self.writes.append(f"delete {kind.value}/{name}")
        del self.objects[kind, name]

    def _served(self, manifest: JsonObject, metadata: JsonObject) -> JsonObject:
        served = as_served(manifest)
        served["metadata"] |= metadata | {"resourceVersion": str(next(self._versions))}
        return served


def _key(manifest: Mapping[str, Any]) -> tuple[ChildKind, str]:
    return ChildKind(manifest["kind"]), manifest["metadata"]["name"]


def _owned(value: Mapping[str, Any]) -> JsonObject:
    # The identity of an object is nobody's field.
    return {
        f"f:{name}": _owned(below) if isinstance(below, Mapping) else {}
        for name, below in value.items()
        if name not in ("name", "namespace")
    }


def _content(child: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in child["metadata"].items() if key != "resourceVersion"}
    return child | {"metadata": metadata}
