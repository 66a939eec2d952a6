"""Write one image of an OCI layout as a tar archive that leaves out the blobs its reader already has.

    archive.py LAYOUT IMAGE < digests-the-reader-has > archive

containerd takes such an archive, because it looks for an image's blobs in its own store. Blobs that no image of
the layout needs any more are removed on the way, or each change of a pin would leave gigabytes behind.
"""

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

NAME = "org.opencontainers.image.ref.name"


def blob(layout: Path, digest: str) -> Path:
    """Return where the layout keeps a blob."""
    algorithm, _, value = digest.partition(":")
    return layout / "blobs" / algorithm / value


def needs(layout: Path, manifest: str) -> list[str]:
    """Return the digests of a manifest and of all that it refers to."""
    content = json.loads(blob(layout, manifest).read_bytes())
    return [manifest, content["config"]["digest"], *(layer["digest"] for layer in content["layers"])]


def prune(layout: Path, images: list[dict[str, Any]]) -> None:
    """Remove the blobs that none of these images needs."""
    needed = {blob(layout, digest) for image in images for digest in needs(layout, image["digest"])}
    for path in (layout / "blobs").glob("*/*"):
        if path not in needed:
            path.unlink()


def main() -> None:
    """Write the archive to standard output."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    layout, name = Path(sys.argv[1]), sys.argv[2]
    present = set(sys.stdin.read().split())
    index = json.loads((layout / "index.json").read_bytes())
    # A name that moved on leaves its former image in the index without one.
    images = [image for image in index["manifests"] if NAME in image.get("annotations", {})]
    (layout / "index.json").write_text(json.dumps({**index, "manifests": images}))
    prune(layout, images)
    wanted = [image for image in images if image["annotations"][NAME] == name]
    if len(wanted) != 1:
        sys.exit(f"{layout} holds {len(wanted)} images named {name}, not one")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(layout / "oci-layout", "oci-layout")
        content = json.dumps({**index, "manifests": wanted}).encode()
        entry = tarfile.TarInfo("index.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        for digest in dict.fromkeys(needs(layout, wanted[0]["digest"])):
            if digest not in present:
                path = blob(layout, digest)
                archive.add(path, str(path.relative_to(layout)))


if __name__ == "__main__":
    main()
