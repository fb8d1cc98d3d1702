"""A server that speaks as much of vLLM's HTTP as training uses: completions by token ids, adapters, sleep, health.

It holds a base model of its own and serves adapters that it loads from their folders, as vLLM does, so that a
trainer's weights reach it by the protocol alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from training.engines.local import RunningBatch, _Row


class VllmLike:
    """`log` is what was asked for, in its order: (path, what of it matters)."""

    def __init__(self, folder: str, pad: int, refuses: dict[str, int] | None = None) -> None:
        self.folder, self.pad, self.refuses = folder, pad, refuses or {}
        self.models: dict[str, Any] = {"base": self._base()}
        self.log: list[tuple[str, Any]] = []
        self.asleep, self.can_sleep = False, True
        self.dice = map(random.Random, itertools.count())
        self.lock = threading.Lock()

    def _base(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(self.folder).eval()

    def answer(self, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        with self.lock:
            if path in self.refuses:
                return self.refuses[path], {"error": {"message": "scripted"}}
            if path == "/health":
                return 200, ""
            if path == "/v1/models":
                return 200, {"data": [{"id": "base", "max_model_len": 1024}]}
            if path == "/server_info":
                return 200, {"vllm_config": {"model_config": {"enable_sleep_mode": self.can_sleep}}}
            if path == "/v1/completions":
                return self._complete(body)
            self.log.append((path, query.get("level", [body.get("lora_name")])[0]))
            if path == "/v1/load_lora_adapter":
                if body["lora_name"] in self.models:
                    return 400, "already loaded"
                self.models[body["lora_name"]] = PeftModel.from_pretrained(self._base(), body["lora_path"]).eval()
            elif path == "/v1/unload_lora_adapter":
                self.models.pop(body["lora_name"], None)
            elif path == "/collective_rpc":
                place = body["kwargs"]["weights_path"]
                self.log[-1] = (path, place)
                self.models["base"] = AutoModelForCausalLM.from_pretrained(place).eval()
            elif path == "/reset_prefix_cache":
                return 200, ""
            elif path in ("/sleep", "/wake_up"):
                self.asleep = path == "/sleep"
            else:
                return 404, "no such path"
            return 200, ""

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.asleep or body["model"] not in self.models:
            return 404, {"error": {"message": f"the model {body['model']} does not exist"}}
        if not self.log or self.log[-1] != ("/v1/completions", body["model"]):
            self.log.append(("/v1/completions", body["model"]))
        batch = RunningBatch(
            self.models[body["model"]], ends=frozenset(body["stop_token_ids"]), pad=self.pad,
            temperature=body["temperature"], top_p=body["top_p"],
        )  # fmt: skip
        (row,) = batch.step([_Row(body["prompt"], body["max_tokens"], next(self.dice))]) or [None]
        while row is None:
            (row,) = batch.step() or [None]
        choice = {"index": 0, "token_ids": row.written, "logprobs": {"token_logprobs": row.logprobs}}
        return 200, {"choices": [choice]}


@contextlib.contextmanager
def served(known: VllmLike) -> Iterator[str]:
    """The server's address, for the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            self._reply(json.loads(self.rfile.read(size) or b"{}"))

        def do_GET(self) -> None:
            self._reply({})

        def _reply(self, body: dict[str, Any]) -> None:
            at = urlsplit(self.path)
            with torch.no_grad():
                status, said = known.answer(at.path, parse_qs(at.query), body)
            sent = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
