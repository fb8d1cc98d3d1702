"""Judged dependencies between the tools of an environment, as stored with its version (AF 3.2, AW 3.1.1)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from synthesis.contracts.base import Frozen

GraphEdgeKind = Literal["strong", "weak"]
MOST_EDGES = 40_000


class GraphEdge(Frozen):
    """Judged dependency: an output of `source` may go into `parameter` of `target`.

    `strong` (AF 3.2, AW 3.1.1): the parameter has to come from there. `weak` (AW 3.1.1): it can, and can be known in
    other ways as well; a walk takes it in both directions. Tools without an edge are independent.
    """

    source: str
    target: str
    parameter: str
    reason: str = ""
    kind: GraphEdgeKind = "strong"

    @property
    def place(self) -> tuple[str, str, str]:
        """Source, target and parameter, which identify a judgement."""
        return self.source, self.target, self.parameter


class JudgedEdges(Frozen):
    """Edges of an environment version known before a batch begins.

    `graded` is True if weak edges were requested. `added` and `removed` are corrections by people: they are part of
    `edges` already, and override the verdicts of a model that judges anew.
    """

    edges: tuple[GraphEdge, ...] = Field(default=(), max_length=MOST_EDGES)
    graded: bool = False
    added: tuple[GraphEdge, ...] = ()
    removed: tuple[tuple[str, str, str], ...] = ()

    @property
    def strong(self) -> Self:
        """The same without weak edges, as if none had been requested."""
        return self.model_copy(
            update={"edges": tuple(edge for edge in self.edges if edge.kind == "strong"), "graded": False}
        )

    def correct(self, judged: tuple[GraphEdge, ...]) -> tuple[GraphEdge, ...]:
        """Return edges that a model judged anew, with people's corrections applied."""
        added = {edge.place: edge for edge in self.added}
        kept_edges = [edge for edge in judged if edge.place not in added and edge.place not in self.removed]
        return (*kept_edges, *added.values())
