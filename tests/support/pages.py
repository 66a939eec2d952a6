"""The pages of docs/ as data: their tables, links, blocks of code, and the commands that tests run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_ASSIGNED = re.compile(r"\b([A-Z]+)=")
_USED = re.compile(r"\$([A-Z]+)\b")


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    text: str

    @classmethod
    def of(cls, name: str) -> Page:
        """The page of this name in docs/."""
        return cls((DOCS / name).read_text(encoding="utf-8"))

    def blocks(self, language: str) -> list[str]:
        """Its blocks of code in a language, in their order."""
        return [body for named, body in _FENCE.findall(self.text) if named == language]

    @cached_property
    def prose(self) -> str:
        """All but the blocks of code."""
        return _FENCE.sub("", self.text)

    @cached_property
    def spans(self) -> list[str]:
        """The pieces of code within its sentences and tables."""
        return _SPAN.findall(self.prose)

    def table(self, heading: str) -> list[list[str]]:
        """The cells of the rows under a heading, without the table's head."""
        section = self.text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]

    def column(self, heading: str, at: int = 0) -> set[str]:
        """The pieces of code in one column of that table."""
        return {span for row in self.table(heading) for span in _SPAN.findall(row[at])}

    @cached_property
    def anchors(self) -> set[str]:
        """What its headings are linked by."""
        titles = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    @cached_property
    def links(self) -> set[str]:
        """Where its own links lead within it."""
        return set(re.findall(r"\]\(#([^)]+)\)", self.prose))

    @cached_property
    def settings(self) -> str:
        """The first block: what the commands are about, said once."""
        return self.blocks("sh")[0]

    @property
    def commands(self) -> list[str]:
        """The other blocks of commands."""
        return self.blocks("sh")[1:]

    @property
    def unset(self) -> set[str]:
        """Variables that a command reads, and neither the settings nor a block sets."""
        commands = "\n".join(self.commands)
        return set(_USED.findall(commands)) - set(_ASSIGNED.findall(self.settings + commands))


def of_a_cluster(block: str) -> bool:
    """Whether a block of commands speaks to Kubernetes: tests/e2e runs it."""
    return re.search(r"\b(kubectl|helm) ", block) is not None


def of_redis(block: str) -> bool:
    """Whether it speaks to a Redis alone: tests/http runs it."""
    return "redis-cli " in block and not of_a_cluster(block)


def of_a_server(block: str) -> bool:
    """Whether it starts a server: tests/engine runs it."""
    return "encoder-server " in block and not of_a_cluster(block)
