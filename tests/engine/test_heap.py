"""What a batch has freed serves the next one: it is not given back to the system and taken again, page by page."""

import subprocess
import sys

PROGRAM = """
import resource, sys
from encoder_server.engine import heap
assert heap.keep()
import torch
def batch():
    parts = [torch.ones(2 * 2**20, dtype=torch.uint8) for _ in range(8)]
    return torch.cat(parts)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
batch()
before = faults()
for _ in range(10):
    batch()
print((faults() - before) / 10)
"""


def test_a_batch_takes_no_new_pages_where_the_last_one_was_as_large() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 800  # Of the 8192 pages that a batch has.
