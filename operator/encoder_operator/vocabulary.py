"""Vocabulary: every name that crosses from this program to the API server, to a replica or to a user.

Place: read by all steps. Must never: hold logic, or a name that tests/contract/vocabulary.json does not fix.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "encoderpool.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "EncoderPool"
PLURAL: Final = "encoderpools"
SHORT_NAME: Final = "encp"
FIELD_MANAGER: Final = "encoderpool-operator"

LABEL_POOL: Final = "encoderpool.io/pool"
LABEL_REVISION: Final = "encoderpool.io/revision"
LABEL_SERVING: Final = "encoderpool.io/serving"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

SERVER_NAME: Final = "encoderpool-server"
MANAGED_BY: Final = "encoderpool-operator"
SERVING: Final = "true"
NOT_SERVING: Final = "false"

ANNOTATION_CORDON: Final = "encoderpool.io/cordon"
ANNOTATION_ORDER_PROBE: Final = "encoderpool.io/order-probe"
ANNOTATION_ORDER_RESTART: Final = "encoderpool.io/order-restart"
ANNOTATION_ORDER_FLUSH: Final = "encoderpool.io/order-flush"
ANNOTATION_EXPECTED_DIGEST: Final = "encoderpool.io/expected-digest"
ANNOTATION_APPLIED_TEMPLATE: Final = "encoderpool.io/applied-template"
ANNOTATION_HAND_CORDON: Final = "encoderpool.io/hand-cordon"
ANNOTATION_HAND_RELEASE: Final = "encoderpool.io/hand-release"
ANNOTATION_SKIP: Final = "encoderpool.io/skip"
ANNOTATION_RETRY: Final = "encoderpool.io/retry"

CONTAINER: Final = "encoder"
PORT_NAME: Final = "http"
PORT: Final = 8000
SERVICE_PORT: Final = 80
PROBE_PERIOD_SECONDS: Final = 300  # the server's own default, which it need not be told

PATH_ENCODE: Final = "/v1/encode"
PATH_IDENTITY: Final = "/v1/identity"
PATH_LIMITS: Final = "/v1/limits"
PATH_LOAD: Final = "/v1/load"
PATH_HEALTHZ: Final = "/healthz"
PATH_READYZ: Final = "/readyz"
PATH_METRICS: Final = "/metrics"

MOUNT_MODEL: Final = "/model"
MOUNT_PROCESSOR: Final = "/processor"
MOUNT_POD: Final = "/etc/encoderpool/pod"
MOUNT_EXPECTED: Final = "/etc/encoderpool/expected"
MOUNT_REDIS: Final = "/etc/encoderpool/redis"
MOUNT_TEMPORARY: Final = "/tmp"  # noqa: S108 - a mount path inside the pod, not a file of this process
MOUNT_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - likewise
POD_FILE_LABELS: Final = "labels"
POD_FILE_ANNOTATIONS: Final = "annotations"

STATE_STARTING: Final = "STARTING"
STATE_WARMING: Final = "WARMING"
STATE_HELD: Final = "HELD"
STATE_READY: Final = "READY"
STATE_CORDONED: Final = "CORDONED"
STATE_DRAINING: Final = "DRAINING"
STATE_FAILED: Final = "FAILED"
STATES: Final = (
    STATE_STARTING,
    STATE_WARMING,
    STATE_HELD,
    STATE_READY,
    STATE_CORDONED,
    STATE_DRAINING,
    STATE_FAILED,
)

AS_EXPECTED: Final = "AsExpected"
LEARNING: Final = "Learning"
FINGERPRINT_DRIFT: Final = "FingerprintDrift"
SIGNATURE_DRIFT: Final = "SignatureDrift"
TOKEN_MISMATCH: Final = "TokenMismatch"  # noqa: S105 - a reason, not a secret
LAYOUT_ERROR: Final = "LayoutError"
NON_FINITE: Final = "NonFinite"
PROBE_FAILED: Final = "ProbeFailed"
REVISION_FAULT: Final = "RevisionFault"
CALLER_FAULT: Final = "CallerFault"
REFERENCE_SUSPECT: Final = "ReferenceSuspect"
BUDGET_EXCEEDED: Final = "BudgetExceeded"
MIN_SERVING: Final = "MinServing"
EVICTION_BLOCKED: Final = "EvictionBlocked"
NO_EVIDENCE: Final = "NoEvidence"
NO_SPARE_ACCELERATOR: Final = "NoSpareAccelerator"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
DOWNLOAD_FAILED: Final = "DownloadFailed"
TOKEN_DENIED: Final = "TokenDenied"  # noqa: S105 - a reason, not a secret
INVALID_SPEC: Final = "InvalidSpec"
HAND_CORDON: Final = "HandCordon"
REASONS: Final = (
    AS_EXPECTED,
    LEARNING,
    FINGERPRINT_DRIFT,
    SIGNATURE_DRIFT,
    TOKEN_MISMATCH,
    LAYOUT_ERROR,
    NON_FINITE,
    PROBE_FAILED,
    REVISION_FAULT,
    CALLER_FAULT,
    REFERENCE_SUSPECT,
    BUDGET_EXCEEDED,
    MIN_SERVING,
    EVICTION_BLOCKED,
    NO_EVIDENCE,
    NO_SPARE_ACCELERATOR,
    DEADLINE_EXCEEDED,
    DOWNLOAD_FAILED,
    TOKEN_DENIED,
    INVALID_SPEC,
    HAND_CORDON,
)
