"""OpenAI's chat API over a model of transformers: `python -m training.chat_server FOLDER --port N [--threads N]`.

For workers without vLLM, mainly on a CPU. Template and replies are read as in training (`training.templates`), every
request is drawn at its own temperature, and requests that wait together form one batch. Replies are not streamed. It
listens on the loopback interface only, and requires the key in `ENVARIUM_SERVING_KEY` if set.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import queue
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError

from synthesis.contracts import Message, Tool
from synthesis.errors import EnvariumError, FormatError, InputError
from synthesis.formats.values import clean_text
from synthesis.json_reader import read_json
from synthesis.llm.wire import build_reply_message, read_arguments
from training.chat.token_marks import encode_text
from training.config import Optimiser
from training.engines.local import continue_sequences
from training.job import SERVING_KEY
from training.model_loader import load_model
from training.policy import Generation
from training.templates import list_own_variables, read_turn, render_conversation

BODY_BYTES = 16 * 1024 * 1024
BODY_MEMORY = 256 * 1024 * 1024
GATHER_S = 0.02
"""A batch waits so long for others after its first request came."""
SERVED = frozenset(
    {"model", "messages", "tools", "tool_choice", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed",
     "stream", "n", "response_format", "chat_template_kwargs"}
)  # fmt: skip
Body = Mapping[str, Any]


class RefusedChat(InputError):
    """A refused request. `param` is the field at fault, `code` OpenAI's name of the reason."""

    def __init__(self, message: str, param: str = "", code: str = "invalid_request") -> None:
        super().__init__(message)
        self.param, self.code = param, code


@dataclass
class _Asked:
    ids: list[int]
    most: int
    seed: str
    manner: tuple[float, float]
    answer: Future[Generation] = field(default_factory=Future)


class ChatModel:
    """A model of transformers that answers chat requests, `at_once` in one batch. `context` bounds prompt and reply
    together in tokens; 0 is the model's window."""

    def __init__(self, folder: str, *, context: int = 0, at_once: int = 32) -> None:
        self.model, self.tokenizer, _ = load_model(folder, Optimiser())
        if torch.cuda.is_available():
            self.model.to("cuda")
        self.model.eval()
        window = int(getattr(self.model.config, "max_position_embeddings", 0) or 10**9)
        self.window = min(window, context or window)
        ends = self.model.generation_config.eos_token_id
        self.ends = frozenset({self.tokenizer.eos_token_id, *([ends] if isinstance(ends, int) else ends or [])})
        self.at_once = at_once
        self._asked: queue.Queue[_Asked] = queue.Queue()
        threading.Thread(target=self._compute, name="compute", daemon=True).start()

    def complete(self, body: Body) -> dict[str, Any]:
        """Return a chat completion. Raises RefusedChat; EnvariumError: the model could not compute."""
        require_supported_fields(body)
        require_known_variables(self.tokenizer, body)
        tools = [dict(tool) for tool in body.get("tools") or () if isinstance(tool, dict)]
        if body.get("tool_choice") == "none":
            tools = []
        before = self._encode_prompt(body, tools)
        room = self.window - len(before)
        if room < 1:
            raise RefusedChat(
                f"This model's maximum context length is {self.window} tokens, the conversation has {len(before)}.",
                "messages", "context_length_exceeded",
            )  # fmt: skip
        requested_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or room
        temperature = body.get("temperature")
        top_p = body.get("top_p")
        manner = (1.0 if temperature is None else float(temperature), 1.0 if top_p is None else float(top_p))
        seed = secrets.token_hex(8) if body.get("seed") is None else str(body["seed"])
        request = _Asked(before, max(1, min(int(requested_tokens), room)), seed, manner)
        self._asked.put(request)
        generation = request.answer.result()
        words = (
            generation.ids
            if generation.cut or generation.ids[-1] == self.tokenizer.eos_token_id
            else generation.ids[:-1]
        )
        message = read_turn(self.tokenizer, words, before, [_parse_tool(tool) for tool in tools])
        return self._serialize_completion(body, message, generation, len(before))

    def _encode_prompt(self, body: Body, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        try:
            text = render_conversation(
                self.tokenizer,
                [_convert_message(message) for message in body["messages"]],
                tools,
                prompt=True,
                variables=body.get("chat_template_kwargs"),
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise RefusedChat(f"messages: the model's chat template cannot render them: {error}", "messages") from error
        return encode_text(self.tokenizer, text)

    def _compute(self) -> None:
        while True:
            batch = self._gather()
            for manner in dict.fromkeys(asked.manner for asked in batch):
                self._draw([asked for asked in batch if asked.manner == manner], *manner)

    def _gather(self) -> list[_Asked]:
        batch, until = [self._asked.get()], time.monotonic() + GATHER_S
        while len(batch) < self.at_once:
            try:
                batch.append(self._asked.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                break
        return batch

    def _draw(self, batch: Sequence[_Asked], temperature: float, top_p: float) -> None:
        """Draw the replies of a batch. Boundary: any exception of the model goes to the waiting requests, and the next
        batch is tried again.
        """
        try:
            generations = continue_sequences(
                self.model,
                [asked.ids for asked in batch],
                [asked.most for asked in batch],
                [asked.seed for asked in batch],
                ends=self.ends,
                pad=self.tokenizer.pad_token_id,
                temperature=temperature,
                top_p=top_p,
            )
        except Exception as error:
            for request in batch:
                request.answer.set_exception(EnvariumError(f"the model failed: {error}"))
            return
        for request, generation in zip(batch, generations, strict=True):
            request.answer.set_result(generation)

    def _serialize_completion(self, body: Body, message: Message, made: Generation, before: int) -> dict[str, Any]:
        reply = build_reply_message(message)
        reason = "length" if made.cut else "tool_calls" if "tool_calls" in reply else "stop"
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model"),
            "choices": [{"index": 0, "message": reply, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": before,
                "completion_tokens": len(made.ids),
                "total_tokens": before + len(made.ids),
            },
        }


def require_supported_fields(body: Body) -> None:
    """Raise RefusedChat naming the first unsupported field: no field is ignored silently."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise RefusedChat("messages: a list of objects is needed.", "messages")
    for name in sorted(set(body) - SERVED):
        if body[name] is not None:
            raise RefusedChat(f"'{name}' is not supported by this server.", name)
    plain: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("stream", (None, False)),
        ("n", (None, 1)),
        ("tool_choice", (None, "auto", "none")),
    )
    for name, supported in plain:
        if body.get(name) not in supported:
            raise RefusedChat(f"'{name}' is supported as {supported[-1]!r} alone.", name)
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise RefusedChat("'response_format' is supported as plain text alone.", "response_format")
    for name, least, greatest in (("temperature", 0, 5), ("top_p", 0, 1), ("max_tokens", 1, 10**9),
                                  ("max_completion_tokens", 1, 10**9)):  # fmt: skip
        value = body.get(name)
        if value is not None and not (isinstance(value, int | float) and least <= value <= greatest):
            raise RefusedChat(f"{name}: a number of {least} to {greatest} is needed.", name)


def require_known_variables(tokenizer: Any, body: Body) -> None:
    """Raise RefusedChat for a variable that the model's chat template does not read: it would change nothing, and the
    renderer's own variables (`chat_template`, `tools`) are not a client's to set.
    """
    variables = body.get("chat_template_kwargs") or {}
    if not isinstance(variables, dict):
        raise RefusedChat("chat_template_kwargs: an object is needed.", "chat_template_kwargs")
    known_variables = list_own_variables(tokenizer)
    for name, value in variables.items():
        if name not in known_variables:
            known_text = ", ".join(sorted(known_variables)) or "none"
            raise RefusedChat(
                f"chat_template_kwargs: the model's chat template reads no {name!r:.80} (known: {known_text}).",
                "chat_template_kwargs",
            )
        if not isinstance(value, bool | int | float | str):
            raise RefusedChat(f"chat_template_kwargs: {name!r} is no plain value.", "chat_template_kwargs")


def _convert_message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as templates take it: its content as one text, arguments as objects."""
    content = given.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    converted = {**given, "content": content or ""}
    if given.get("tool_calls"):
        converted["tool_calls"] = [_convert_call(call) for call in given["tool_calls"]]
    return converted


def _convert_call(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with its arguments as an object. Raises RefusedChat: they are not an object."""
    function = dict(given["function"])
    arguments, error = read_arguments(function.get("arguments"))
    if error:
        raise RefusedChat(f"messages: a call of {clean_text(str(function.get('name')))[:100]!r}: {error}", "messages")
    return {**given, "function": {**function, "arguments": arguments}}


def _parse_tool(given: Mapping[str, Any]) -> Tool:
    function = given.get("function")
    function = function if isinstance(function, dict) else {}
    parameters = function.get("parameters")
    return Tool(
        name=clean_text(str(function.get("name", ""))),
        description=clean_text(str(function.get("description", ""))),
        parameters=parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
    )


class ChatServer(ThreadingHTTPServer):
    """A server with a thread for each connection. Connections that arrive while the model computes wait to be accepted:
    with `socketserver`'s backlog of five, packets of the others are dropped, and those connections time out.
    """

    request_queue_size = 1_024


def make_handler(model: ChatModel, key: str) -> type[BaseHTTPRequestHandler]:
    """Return the handler class of HTTP requests for a model."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200 if self.path == "/health" else 404, {})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            authorization = self.headers.get("Authorization", "")
            if not 0 < length <= BODY_BYTES or self.path != "/v1/chat/completions":
                self.close_connection = True
                return self._send(404, _build_error_body("There is nothing else here.", "", "not_found"))
            text = self.rfile.read(length)
            if key and not hmac.compare_digest(authorization.encode(), f"Bearer {key}".encode()):
                return self._send(401, _build_error_body("This is not the server's key.", "", "invalid_key"))
            self._send(*_answer_request(model, text))

        def _send(self, status: int, told: Mapping[str, Any]) -> None:
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: requests are counted at the site."""

    return Handler


def _answer_request(model: ChatModel, text: bytes) -> tuple[int, dict[str, Any]]:
    """Return (status, body) of a request. Boundary: every error becomes a response."""
    try:
        body = read_json(text, "the body", most_memory=BODY_MEMORY)
        if not isinstance(body, dict):
            raise RefusedChat("The body is no JSON object.")
        return 200, model.complete(body)
    except RefusedChat as error:
        return 400, _build_error_body(str(error), error.param, error.code)
    except FormatError as error:
        return 400, _build_error_body(str(error), "", "malformed_body")
    except Exception as error:
        return 500, _build_error_body(str(error) or type(error).__name__, "", "model_failed")


def _build_error_body(message: str, param: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message[:2_000], "param": param or None, "code": code, "type": "server_error"}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the process is ended. Return 1 if the model cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m training.chat_server", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        model = ChatModel(str(options.folder), context=options.context, at_once=options.at_once)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    handler = make_handler(model, os.environ.get(SERVING_KEY, ""))
    with ChatServer(("127.0.0.1", options.port), handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
