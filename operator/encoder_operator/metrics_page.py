"""Metrics page: what a replica's own /metrics says of its checks, and whose counters they are.

Place: read by `direct`; names are those of tests/contract/metrics.json. Must never: take a page that does not say
which pod and which boot it is of: an address is used again, and another boot's counters start at nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as Line

from encoder_operator.window import PodSamples, Sample, Series

CHECKS = "encoder_token_checks_total"
MEDIA = "encoder_mismatched_media_total"
JUDGED_SOURCE = "fresh"
_IDENTITY = "encoder_identity_info"
_NAMES = (CHECKS, MEDIA, _IDENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One reading: fresh checks by (modality, result), and the media that failed."""

    pod_uid: str
    boot_id: str
    checks: Mapping[tuple[str, str], float] = field(hash=False)
    media: float


Reading = tuple[float, Page]
"""When a page was read (Unix seconds), and what it said."""


def parse_page(text: str) -> Page:
    """The page that this exposition text is; ValueError where it is none, or not of a measured replica."""
    lines = _lines(text)
    owners = {(each.labels.get("pod_uid"), each.labels.get("boot_id")) for each in lines if each.name == _IDENTITY}
    media = [each.value for each in lines if each.name == MEDIA]
    match list(owners), media:
        case [(str(pod_uid), str(boot_id))], [failed]:
            checks = {
                (each.labels.get("modality", ""), each.labels.get("result", "")): float(each.value)
                for each in lines
                if each.name == CHECKS and each.labels.get("source") == JUDGED_SOURCE
            }
            return Page(pod_uid=pod_uid, boot_id=boot_id, checks=checks, media=float(failed))
        case _:
            raise ValueError("not the counters of one measured replica")


def samples_of(readings: Sequence[Reading]) -> PodSamples:
    """Readings of one boot, in order of time, as samples."""
    keys = {key for _, page in readings for key in page.checks}
    return PodSamples(
        checks={key: _series((at, page.checks[key]) for at, page in readings if key in page.checks) for key in keys},
        media=_series((at, page.media) for at, page in readings),
    )


def _lines(text: str) -> list[Line]:
    # Most of a page is histograms: what is not judged need not be parsed, many times a second.
    judged = "\n".join(line for line in text.splitlines() if any(name in line for name in _NAMES))
    try:
        return [line for family in text_string_to_metric_families(judged + "\n") for line in family.samples]
    except Exception as error:
        # The library raises whatever its string handling meets: a page that is none raises many kinds.
        raise ValueError("not the exposition format") from error


def _series(values: Iterable[tuple[float, float]]) -> Series:
    return tuple(Sample(at=at, value=value) for at, value in values)
