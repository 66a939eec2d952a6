"""The main job, told in a terminal: a fleet that notices, names, cordons, repairs and lets back.

Runs where the cluster's addresses exist (`make demo` sees to that). Everything is done with what a user has:
helm, kubectl, HTTP. What stands behind a `$` can be typed after `tests/cluster/cluster run`, then and later.
"""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import time
from pathlib import Path

from tests.support import ground, kube, pictures
from tests.support.pools import (
    TRUNCATING_IMAGE,
    identity,
    install_chart,
    pool,
    reason_is,
    service_address,
    serving_label,
)
from tests.support.router import Router
from tests.support.truth import Truth, make_checkpoint
from tests.support.waiting import until

NAMESPACE = "demo"
POOL = "vision"
READY = "{.status.conditions[?(@.type=='Ready')].message}"
CORDON = r"{.metadata.annotations.encoderpool\.io/cordon}"
BEGAN = time.monotonic()


def main() -> None:
    """Tell the story; the cluster stays up afterwards."""
    folder = ground.FOLDER / "encoderpool-demo"
    prepare(folder)
    step("Install the operator from its chart, and apply a pool of three replicas")
    install_chart(prometheus_address=ground.PROMETHEUS_INSIDE)
    kube.apply(pool(POOL, NAMESPACE, image=TRUNCATING_IMAGE, encoder="truncating"))
    until("the pool to be Ready", lambda: reason_is(POOL, NAMESPACE, "AsExpected"), seconds=240)
    look()

    step("Send pictures through the Service, as a router would")
    truth = Truth(folder / "truth")
    address, port = service_address(POOL, NAMESPACE)
    album = pictures.album(2, 25, smallest=40, largest=200) + pictures.album(3, 25, smallest=360, largest=520)
    with Router(address=address, port=port, pictures=album, threads=3, pause=0.1, bound=50_000) as router:
        until("a hundred embeddings", lambda: len(router.accepted()) > 100, seconds=120)
        say(f"{len(router.accepted())} calls answered, none failed")
        drift_in_traffic(folder / "checkpoint", request_with(folder, album[0], album[-1]))
        drift_in_files(folder)
    step("What the client got, all through this")
    compared = truth.check(router.accepted())
    refused = sum(one.status == 502 for _, one in router.attempts())
    say(f"{len(router.accepted())} calls answered, {len(router.failed())} failed; {refused} tries met a wrong row")
    say(f"all {compared} embeddings that the client accepted equal those of the same model in this process")
    say(f"done in {time.monotonic() - BEGAN:.0f} s; the cluster is still up:")
    print("    tests/cluster/cluster run kubectl -n demo describe encp vision\n    make demo-down")


def prepare(folder: Path) -> None:
    """A fresh namespace, and a checkpoint on a volume whose files can change while the spec does not."""
    step("Make a tiny checkpoint (encoder-server make-checkpoint DIR) and put it on a volume")
    kube.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=150s")
    kube.kubectl("delete", "persistentvolume", f"{NAMESPACE}-weights", "--ignore-not-found", "--timeout=60s")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    for name in ("checkpoint", "truth"):
        make_checkpoint(folder / name)
    (folder / "checkpoint" / "faults").mkdir(mode=0o755)
    kube.apply(kube.namespace(NAMESPACE))
    kube.apply(*kube.volume("weights", NAMESPACE, str(folder / "checkpoint")))
    show("ls", str(folder / "checkpoint"))


def request_with(folder: Path, *chosen: pictures.Picture) -> Path:
    """A request for these pictures, in a file that curl can send."""
    items = [{"modality": "image", "data": base64.b64encode(each.data).decode()} for each in chosen]
    path = folder / "request.json"
    path.write_text(json.dumps({"items": items}))
    return path


def drift_in_traffic(checkpoint: Path, ask: Path) -> None:
    """One replica starts to truncate; it is named, counted, cordoned, restarted, probed, and let back."""
    victim = str(kube.pods(POOL, NAMESPACE)[0]["metadata"]["name"])
    step(f"One replica goes wrong: the encoder of {victim} now truncates large pictures")
    (checkpoint / "faults" / victim).touch()
    address = pod(victim)["status"]["podIP"]
    say("a client that asks it for a small picture and a large one is told which of the two is wrong:")
    show("curl", "-s", "-H", "Content-Type: application/json", "-d", f"@{ask}", f"http://{address}:8000/v1/encode")
    until("the cordon", lambda: serving_label(pod(victim)) == "false", seconds=90)
    say("the failed checks are counted, and Prometheus has the counts:")
    counted = f'encoder_token_checks_total{{pod="{victim}",source="fresh",result="count"}}'
    show("curl", "-sG", f"{ground.PROMETHEUS}/api/v1/query", "--data-urlencode", f"query=max_over_time({counted}[2m])")
    until("the pool to say so", lambda: cordoned_replicas() == 1, seconds=30)
    say("the operator took the replica out of the Service; nobody else is touched:")
    look()
    say("describe tells why, with what was measured:")
    show_line(f"kubectl -n {NAMESPACE} describe encp {POOL} | sed -n '/^Status:/,$p'")
    say("who, why, when and how often stands on the pod:")
    show("kubectl", "-n", NAMESPACE, "get", "pod", victim, "-o", f"jsonpath={CORDON}")

    step("While the cause stays, the probe of the failed sizes fails, and the replica stays out")
    until("a failed probe", lambda: ordered_probe(victim) == "failed", seconds=120)
    say("restarted in place, probed with the sizes that failed: failed again")
    step("The cause removed, the probe passes, and the replica is let back")
    (checkpoint / "faults" / victim).unlink()
    until("the release", lambda: serving_label(pod(victim)) == "true", seconds=180)
    until("the pool as expected", lambda: reason_is(POOL, NAMESPACE, "AsExpected"), seconds=60)
    show("kubectl", "-n", NAMESPACE, "events", "--for", f"encoderpool/{POOL}")


def drift_in_files(folder: Path) -> None:
    """A changed processor on the volume: the next pod is never admitted, until the file is repaired."""
    settings = folder / "checkpoint" / "preprocessor_config.json"
    step("The processor's file changes on the volume (merge size 4, the model has 2), and a pod is replaced")
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "merge_size": 4}))
    replace_a_pod(ready=True)
    until("ProbeFailed", lambda: reason_is(POOL, NAMESPACE, "ProbeFailed"), seconds=120)
    look()
    show("kubectl", "-n", NAMESPACE, "get", "encp", POOL, "-o", f"jsonpath={READY}")
    step("The file repaired and the held pod replaced, its successor is admitted")
    settings.write_bytes((folder / "truth" / "preprocessor_config.json").read_bytes())
    replace_a_pod(ready=False)
    until("the pool as expected", lambda: reason_is(POOL, NAMESPACE, "AsExpected"), seconds=120)
    look()


def replace_a_pod(*, ready: bool) -> None:
    """Delete one pod that is Ready, or one that is not."""
    name = next(p["metadata"]["name"] for p in kube.pods(POOL, NAMESPACE) if kube.is_ready(p) == ready)
    show("kubectl", "-n", NAMESPACE, "delete", "pod", name, "--wait=false")


def look() -> None:
    """The pool and its pods at a glance."""
    show("kubectl", "-n", NAMESPACE, "get", "encp,pods", "-L", "encoderpool.io/serving")


def pod(name: str) -> kube.Object:
    """The pod of this name."""
    found = kube.get("pod", name, NAMESPACE)
    assert found, f"pod {name} is gone"
    return found


def cordoned_replicas() -> int:
    """How many replicas the pool's status calls cordoned."""
    found = kube.get("encoderpool", POOL, NAMESPACE) or {}
    return int(found.get("status", {}).get("cordonedReplicas", 0))


def ordered_probe(name: str) -> str | None:
    """How the last probe that the operator ordered ended; None while the container restarts."""
    try:
        order = identity(pod(name))["orders"]["probe"]
    except OSError:
        return None
    return str(order["result"]) if order else None


def step(title: str) -> None:
    """A heading with the time that has passed."""
    print(f"\n=== [{time.monotonic() - BEGAN:4.0f} s] {title}", flush=True)


def say(text: str) -> None:
    """One line of what was seen."""
    print(f"    {text}", flush=True)


def show(*command: str) -> None:
    """Run a command and print it with its output, as in a terminal."""
    shown(shlex.join(command), kube.kubectl(*command[1:]) if command[0] == "kubectl" else kube.run(*command))


def show_line(line: str) -> None:
    """The same for a line with a pipe in it."""
    shown(line, kube.run("sh", "-c", line))


def shown(typed: str, output: str) -> None:
    """What was typed and what came of it."""
    print(f"  $ {typed}", flush=True)
    for line in output.splitlines():
        print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()
