"""An endpoint's embeddings behind the vectoriser's protocol, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from synthesis.errors import LLMError
from synthesis.llm import client
from synthesis.llm.embedding import EndpointVectors
from synthesis.llm.endpoint import Endpoint
from synthesis.themes.dedupe import group_texts
from tests.fixtures.llm import Scripted, html, llm_server, raw, refuse


def vectors_of(request: Any) -> Scripted:
    """By the first letter, in reverse order: only the index says which is whose."""
    assert request["_path"].endswith("/embeddings")
    rows = [
        {"object": "embedding", "index": index, "embedding": [3.0, 0.0] if text[0] == "a" else [0.0, 0.5]}
        for index, text in enumerate(request["input"])
    ]
    return raw(200, json.dumps({"object": "list", "data": rows[::-1]}))


def endpoint(url: str, **fields: Any) -> Endpoint:
    return Endpoint(name="local", base_url=url, timeout_s=5, deadline_s=20, max_retries=1, **fields)


def test_embeddings_group_themes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "EMBEDDED_AT_ONCE", 2)
    with llm_server(vectors_of) as server:
        vectors = EndpointVectors(endpoint(server.url, max_concurrency=2), "e-1")
        groups = group_texts(["apple", "bee", "ant", "", "bear"], 0.9, vectors)
        assert len(server.requests) == 3
        assert server.most_open <= 2
        assert {request["model"] for request in server.requests} == {"e-1"}
    assert [(one.kept, [member.index for member in one.members]) for one in groups] == [(0, [2]), (1, [3, 4])]
    assert vectors.name == "local/e-1"


def test_rows_have_length_one() -> None:
    with llm_server(vectors_of) as server:
        rows = EndpointVectors(endpoint(server.url), "e-1")(["a", "b"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def data(*vectors: Any) -> Scripted:
    return raw(200, json.dumps({"data": [{"index": n, "embedding": one} for n, one in enumerate(vectors)]}))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (html(), "malformed"),
        (raw(200, "{}"), "malformed"),
        (data([1.0]), "malformed"),
        (data([1.0], [1.0, 2.0]), "malformed"),
        (data([1.0], ["x"]), "malformed"),
        (data([], []), "malformed"),
        (data([1e300], [1.0]), "malformed"),
        (raw(200, '{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}'), "malformed"),
        (raw(200, '{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}'), "malformed"),
        (refuse(404, "no such model"), "refused"),
        (refuse(500, "down"), "failed"),
    ],
)
def test_what_is_no_embedding_is_an_error_and_never_a_similarity(answer: Scripted, reason: str) -> None:
    with llm_server([answer]) as server, pytest.raises(LLMError) as raised:
        EndpointVectors(endpoint(server.url), "e-1")(["a", "b"])
    assert raised.value.reason == reason
    assert "local" in str(raised.value)


def test_a_passing_failure_is_tried_again() -> None:
    def script(request: Any) -> Scripted:
        return refuse(503, "busy") if request["_number"] == 0 else vectors_of(request)

    with llm_server(script) as server:
        assert len(EndpointVectors(endpoint(server.url), "e-1")(["a", "b"])) == 2
        assert len(server.requests) == 2
