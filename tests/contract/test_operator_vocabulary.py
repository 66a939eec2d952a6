from __future__ import annotations

import json
from pathlib import Path

from encoder_operator import vocabulary

CONTRACT = json.loads((Path(__file__).parent / "vocabulary.json").read_text())


def test_the_api_is_named_as_agreed() -> None:
    names = ("group", "version", "kind", "plural", "shortName", "fieldManager", "container", "servicePort")
    assert {name: CONTRACT[name] for name in names} == {
        "group": vocabulary.GROUP,
        "version": vocabulary.VERSION,
        "kind": vocabulary.KIND,
        "plural": vocabulary.PLURAL,
        "shortName": vocabulary.SHORT_NAME,
        "fieldManager": vocabulary.FIELD_MANAGER,
        "container": vocabulary.CONTAINER,
        "servicePort": vocabulary.SERVICE_PORT,
    }
    assert json.loads((Path(__file__).parent / "pod.json").read_text())["probePeriodSeconds"] == (
        vocabulary.PROBE_PERIOD_SECONDS
    )
    assert CONTRACT["port"] == {"name": vocabulary.PORT_NAME, "number": vocabulary.PORT}


def test_labels_and_annotations_are_as_agreed() -> None:
    assert CONTRACT["labels"] == {
        "pool": vocabulary.LABEL_POOL,
        "revision": vocabulary.LABEL_REVISION,
        "serving": vocabulary.LABEL_SERVING,
        "name": vocabulary.LABEL_NAME,
        "instance": vocabulary.LABEL_INSTANCE,
        "managedBy": vocabulary.LABEL_MANAGED_BY,
    }
    assert CONTRACT["labelValues"] == {
        "name": vocabulary.SERVER_NAME,
        "managedBy": vocabulary.MANAGED_BY,
        "serving": [vocabulary.SERVING, vocabulary.NOT_SERVING],
    }
    assert CONTRACT["annotations"] == {
        "cordon": vocabulary.ANNOTATION_CORDON,
        "orderProbe": vocabulary.ANNOTATION_ORDER_PROBE,
        "orderRestart": vocabulary.ANNOTATION_ORDER_RESTART,
        "orderFlush": vocabulary.ANNOTATION_ORDER_FLUSH,
        "expectedDigest": vocabulary.ANNOTATION_EXPECTED_DIGEST,
        "appliedTemplate": vocabulary.ANNOTATION_APPLIED_TEMPLATE,
        "handCordon": vocabulary.ANNOTATION_HAND_CORDON,
        "handRelease": vocabulary.ANNOTATION_HAND_RELEASE,
        "skip": vocabulary.ANNOTATION_SKIP,
        "retry": vocabulary.ANNOTATION_RETRY,
    }


def test_paths_and_mounts_are_as_agreed() -> None:
    assert CONTRACT["paths"] == {
        "encode": vocabulary.PATH_ENCODE,
        "identity": vocabulary.PATH_IDENTITY,
        "limits": vocabulary.PATH_LIMITS,
        "load": vocabulary.PATH_LOAD,
        "healthz": vocabulary.PATH_HEALTHZ,
        "readyz": vocabulary.PATH_READYZ,
        "metrics": vocabulary.PATH_METRICS,
    }
    assert CONTRACT["mounts"] == {
        "model": vocabulary.MOUNT_MODEL,
        "processor": vocabulary.MOUNT_PROCESSOR,
        "pod": vocabulary.MOUNT_POD,
        "expected": vocabulary.MOUNT_EXPECTED,
        "redis": vocabulary.MOUNT_REDIS,
        "temporary": vocabulary.MOUNT_TEMPORARY,
        "sharedMemory": vocabulary.MOUNT_SHARED_MEMORY,
    }
    assert CONTRACT["podFiles"] == {
        "labels": vocabulary.POD_FILE_LABELS,
        "annotations": vocabulary.POD_FILE_ANNOTATIONS,
    }


def test_states_and_reasons_are_as_agreed() -> None:
    assert tuple(CONTRACT["states"]) == vocabulary.STATES
    assert tuple(CONTRACT["reasons"]) == vocabulary.REASONS
