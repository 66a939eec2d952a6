"""A pool of replicas with the tests' own encoder: which faults it has is set by files on its volume."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.support import kube
from tests.support.pools import cordon_record, identity, reason_is, serving_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One pool and the folder that its replicas read (tests/e2e/truncating_encoder says what the faults do)."""

    name: str
    namespace: str
    folder: Path

    @property
    def faults(self) -> Path:
        """The folder of the faults."""
        return self.folder / "faults"

    def pods(self) -> list[kube.Object]:
        """The replicas by name."""
        return kube.pods(self.name, self.namespace)

    def pod(self, name: str) -> kube.Object:
        """One replica as it is now."""
        found = kube.get("pod", name, self.namespace)
        assert found, f"pod {name} is gone"
        return found

    def truncates(self, name: str) -> Path:
        """The file that makes this replica truncate large pictures, from its next batch on."""
        return self.faults / name

    def scales(self, name: str) -> Path:
        """The file that makes this replica's rows too long, from its next start on."""
        return self.faults / f"{name}.scaled"

    def restart(self, name: str, order: str) -> None:
        """Order the replica to restart in place, as anybody may who may patch pods."""
        text = json.dumps({"id": order, "bootId": identity(self.pod(name))["bootId"]})
        annotation = f"encoderpool.io/order-restart={text}"
        kube.kubectl("-n", self.namespace, "annotate", "pod", name, "--overwrite", annotation)

    def is_as_expected(self) -> bool:
        """Whether the pool says so of itself."""
        return reason_is(self.name, self.namespace, "AsExpected")

    def is_cordoned(self, name: str) -> bool:
        """Whether label and record both say so."""
        pod = self.pod(name)
        return serving_label(pod) == "false" and cordon_record(pod).get("state") == "Cordoned"

    def is_in_service(self, name: str) -> bool:
        """Whether the Service sends it requests."""
        return self.pod(name)["status"].get("podIP") in kube.endpoints(self.name, self.namespace)

    def restarts(self) -> dict[str, int]:
        """How often each container was started again."""
        return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in self.pods()}

    def labels(self) -> set[str]:
        """All values of the label by which the Service selects."""
        return {serving_label(pod) for pod in self.pods()}
