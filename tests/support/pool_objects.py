"""EncoderPools as the API server hands them out: with the schema's defaults filled in."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from encoder_operator import spec

JsonObject = dict[str, Any]

ROOT = Path(__file__).parents[2]
CRD: JsonObject = yaml.safe_load((ROOT / "crds" / "encoderpools.yaml").read_text())
SCHEMA: JsonObject = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
UID = "6f1c2b1e-8c56-4b52-8f4e-0a3f4dbd9f10"
CLAIM: JsonObject = {"source": {"persistentVolumeClaim": {"claimName": "weights", "subPath": "qwen"}}}


def pool_object(name: str = "vision", **fields: Any) -> JsonObject:
    """A pool's object with these fields in its spec, image and model where they are not among them."""
    said = {"image": "encoder-server:1", "model": CLAIM} | fields
    return {
        "apiVersion": "encoderpool.io/v1alpha1",
        "kind": "EncoderPool",
        "metadata": {"name": name, "namespace": "models", "uid": UID, "generation": 1},
        "spec": defaulted(said),
    }


def a_pool(name: str = "vision", **fields: Any) -> spec.EncoderPool:
    """The same, parsed."""
    return spec.parse(pool_object(name, **fields))


def defaulted(value: Any, schema: JsonObject = SCHEMA["properties"]["spec"]) -> Any:
    """The value with the schema's defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [defaulted(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, below in schema.get("properties", {}).items():
        if name not in filled and "default" in below:
            filled[name] = copy.deepcopy(below["default"])
        if name in filled:
            filled[name] = defaulted(filled[name], below)
    return filled
