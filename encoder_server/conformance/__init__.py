"""The conformance sweep: the audit of an encoder before a pool serves it.

Place: behind `encoder-server check DIR` (`options`, `__main__`) and the pytest plugin (`plugin`). `geometry` finds
what the processor does to sizes, `cases` says what to encode, `sweep` has it encoded by an engine's own pipeline,
`compare` and `verdicts` judge what came out, `report` tells it. A modality is added by one more list of cases.

Must never: be imported by the serving front, or import torch where it is only looked at: `sweep` and `watch` alone
do, and only what runs an audit imports them.
"""
