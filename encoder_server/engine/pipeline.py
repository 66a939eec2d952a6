"""One encoder with the stages around it: load, prepare, encode, probe, measure.

Place: inside `process`, which adds the socket. Also the in-process way to the same rows, for comparisons.

Must never: hold state between batches: an item's result depends on its bytes alone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from encoder_server import logs
from encoder_server.encoders import Encoder, RefusedError, Source, UnfitMediaError, progress
from encoder_server.encoders.registry import AUTO, find
from encoder_server.engine import measure
from encoder_server.engine.bounds import DEFAULTS, Bounds, taken
from encoder_server.engine.decode_clip import Choose
from encoder_server.engine.encode import Embedding, encode
from encoder_server.engine.messages import Failure, Measured, ProbeItem, Promise
from encoder_server.engine.preprocess import Medium, Ready, Rules, preprocess
from encoder_server.engine.probe import CHOSEN, GOLDEN, PROMISED, judge, medium, plain
from encoder_server.engine.promise import promise
from encoder_server.size import Size

_log = logging.getLogger(__name__)


class NotEncodedError(Exception):
    """A medium failed that was given to `Pipeline.rows`, or that was to be prepared again; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A batch before the model runs: what to encode, its promises, and the items that got none.

    `bounds` are those that its media were held to.
    """

    ready: tuple[Ready, ...]
    promises: tuple[Promise, ...]
    failures: tuple[Failure, ...]
    bounds: Bounds


class Pipeline:
    """An encoder and its stages. Not for use from several threads at once."""

    def __init__(self, encoder: Encoder[Any], *, bounds: Bounds = DEFAULTS) -> None:
        self._encoder = encoder
        self._description = encoder.describe()
        self._bounds = bounds.within(self._description.declared)
        if "audio" in self._description.declared and self._description.sampling_rate is None:
            raise RefusedError("the encoder declares audio, and no sampling rate for it")

    @classmethod
    def load(
        cls,
        model: Path,
        *,
        processor: Path | None = None,
        encoder: str = AUTO,
        device: str = "cpu",
        dtype: str = "auto",
        bounds: Bounds = DEFAULTS,
    ) -> Self:
        """Load the encoder registered as `encoder` from the checkpoint folder, and run its model once.

        `processor` is the folder of the processor's settings, where it is another. Raises RefusedError naming
        the file or key. A warm-up that fails is left to the probe to tell.
        """
        progress.tell("loading")
        source = Source(model=model, processor=processor or model, device=device, dtype=dtype)
        with _refusing("load"):
            found = find(encoder, model)
            logs.take_over("transformers")  # Which set up its own when the encoder's module imported it.
            loaded = found.load(source)
        with _refusing("describe itself"):
            pipeline = cls(loaded, bounds=bounds)
        progress.tell("warming")
        try:
            loaded.warm_up()
        # Whatever it raises: an encoder that calls for an exit must not end the engine without a word.
        except BaseException:
            _log.exception("the warm-up failed")
        return pipeline

    @property
    def together(self) -> bool:
        """Whether several items may share one batch."""
        return self._description.together

    @property
    def batch_budget(self) -> int:
        """Pixels that items which share a batch never exceed, as the encoder says; 0: they share none."""
        return self._description.batch_budget

    def prepare(self, media: Sequence[Medium]) -> Prepared:
        """Decode, preprocess and promise; every item is among the promises or the failures."""
        return self._prepare(media, self._bounds)

    def encode(
        self, prepared: Prepared, wanted: Callable[[int], bool] = lambda index: True
    ) -> tuple[list[Embedding], list[Failure]]:
        """Run the model; every promised item is among the embeddings or the failures, but those that were not `wanted`
        (asked by index, right before a run of the model that they would share)."""

        def renew(item: Ready) -> Ready:
            ready, failures = self._preprocess([item.medium], prepared.bounds)
            if failures:
                raise NotEncodedError(failures[0])
            return ready[0]

        together = self._description.together
        return encode(self._encoder, prepared.ready, together=together, renew=renew, wanted=wanted)

    def rows(self, content: bytes, modality: str = "image") -> npt.NDArray[np.float32]:
        """Encode one file alone: rows (tokens, width), widened to float32 where the model's are narrower.

        Raises NotEncodedError when it fails.
        """
        prepared = self.prepare([Medium(index=0, modality=modality, data=content)])
        embeddings, failures = self.encode(prepared)
        for failure in (*prepared.failures, *failures):
            raise NotEncodedError(failure)
        return _widened(embeddings[0])

    def probe(self, sizes: Sequence[Size]) -> tuple[tuple[ProbeItem, ...], str | None]:
        """Run the golden probe, then each of `sizes` alone; give all items, and the signature of the golden ones now.

        A size that the encoder would refuse from any caller says nothing about this replica: left out.
        """
        items, embeddings = self._run_probe(GOLDEN)
        ordered = [self._run_probe([size])[0] for size in sizes if self._may_probe(size)]
        numbered = enumerate((*items, *(i for o in ordered for i in o)))
        return tuple(replace(item, index=index) for index, item in numbered), _sign(items, embeddings)

    def measure(self) -> Measured:
        """Run the golden probe and measure the identity; raises RefusedError where that fails."""
        progress.tell("probing")
        with _refusing("be measured"):
            return self._measure()

    def _measure(self) -> Measured:
        items, embeddings = self._run_probe(GOLDEN)
        description = self._description
        made = {"settings": description.processor, "promises": self._promise_only(PROMISED), **self._choices()}
        return Measured(
            weights=description.weights,
            processor=measure.settings_digest(made),
            config=measure.settings_digest(description.config),
            classes=dict(description.classes),
            declared=dict(description.declared),
            probe=items,
            signature=_sign(items, embeddings),
            advisory=measure.advisory(description),
        )

    def _prepare(self, media: Sequence[Medium], bounds: Bounds) -> Prepared:
        ready, refused = self._preprocess(media, bounds)
        kept, promises, unexpected = promise(ready)
        return Prepared(ready=tuple(kept), promises=tuple(promises), failures=(*refused, *unexpected), bounds=bounds)

    def _preprocess(self, media: Sequence[Medium], bounds: Bounds) -> tuple[list[Ready], list[Failure]]:
        description = self._description
        rules = Rules(
            modalities=description.declared, rate=description.sampling_rate, bounds=bounds, choose=self._choose
        )
        return preprocess(self._encoder, media, rules)

    @property
    def _choose(self) -> Choose | None:
        return getattr(self._encoder, "frames_wanted", None)  # See `encoders.ChoosesFrames`.

    def _run_probe(self, sizes: Sequence[Size]) -> tuple[tuple[ProbeItem, ...], list[Embedding]]:
        declared = self._description.declared
        sizes = [size for size in sizes if taken(size, declared)]
        media = [medium(size, at) for at, size in enumerate(sizes)]
        prepared = self._prepare(media, Bounds.around(sizes))
        if any(failure.code == "bad_media" for failure in prepared.failures):
            refused = {failure.index for failure in prepared.failures if failure.code == "bad_media"}
            words = ", ".join(sizes[at].words for at in sorted(refused))
            _log.warning("of the probe's media the encoder does not take: %s", words)
            return self._run_probe([size for at, size in enumerate(sizes) if at not in refused])
        embeddings, failures = self.encode(prepared)
        for failure in (*prepared.failures, *failures):
            _log.warning("the probe's item %d failed: %s", failure.index, failure.detail)
        return judge(sizes, prepared.promises, embeddings, declared), embeddings

    def _promise_only(self, sizes: Sequence[Size]) -> list[tuple[int, tuple[int, ...]] | None]:
        """Give what the processor promises for each of `sizes` alone: tokens and grid; None where nothing."""
        told: list[tuple[int, tuple[int, ...]] | None] = []
        for size in sizes:
            if size.modality in (declared := self._description.declared):
                promises = self._prepare([plain(size, 0)], Bounds.around([size]).within(declared)).promises
                told.append((promises[0].tokens, promises[0].grid) if promises else None)
        return told

    def _choices(self) -> dict[str, list[list[int] | None]]:
        """Give which frames of a video the encoder wants, where it chooses any; None where it takes no such video."""
        choose, chosen = self._choose, list[list[int] | None]()
        if choose is None or "video" not in self._description.declared:
            return {}
        for total, fps in CHOSEN:
            try:
                chosen.append([int(index) for index in choose(total, fps)])
            except UnfitMediaError:
                chosen.append(None)
        return {"frames": chosen}

    def _may_probe(self, size: Size) -> bool:
        may = size.fits(self._description.declared) and self._bounds.allow(size)
        if not may:
            _log.warning("not probed, for it could not be asked for: %s", size)
        return may


@contextlib.contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Turn whatever an encoder raises at the start, an exit too, into a refusal that says at what it failed."""
    try:
        yield
    except RefusedError:
        raise
    except BaseException as error:
        _log.exception("the encoder failed to %s", what)
        raise RefusedError(f"the encoder failed to {what}; the engine's log has the reason") from error


def _sign(items: Sequence[ProbeItem], embeddings: Sequence[Embedding]) -> str | None:
    """Give the signature of a golden probe's rows; None where one of its items failed, or there is none."""
    passed = bool(items) and all(item.result == "ok" for item in items)
    return measure.signature([_widened(embedding) for embedding in embeddings]) if passed else None


def _widened(embedding: Embedding) -> npt.NDArray[np.float32]:
    rows: npt.NDArray[np.float32] = embedding.rows.to(torch.float32).numpy()
    return rows
