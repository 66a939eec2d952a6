"""Order report: what became of the last order of each kind, for as long as this boot lives.

Place: kept by `replica`, shown in /v1/identity. Pure. Must never: remember what another boot did.
"""

from __future__ import annotations


class OrderReport:
    """The last order of each kind with its result; None where none came yet."""

    def __init__(self) -> None:
        self._orders: dict[str, dict[str, str] | None] = {"probe": None, "restart": None, "flush": None}

    def show(self, kind: str, order_id: str, result: str) -> None:
        """Show that an order of `kind` came to `result`, whatever came before it."""
        self._orders[kind] = {"id": order_id, "result": result}

    def end(self, kind: str, order_id: str, result: str) -> None:
        """Show that an order which was running came to `result`, unless another one was given since."""
        if self._orders[kind] == {"id": order_id, "result": "running"}:
            self.show(kind, order_id, result)

    def render(self) -> dict[str, dict[str, str] | None]:
        """Return it as /v1/identity has it."""
        return dict(self._orders)
