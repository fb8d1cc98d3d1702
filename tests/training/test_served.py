"""Attempts through servers: a policy whose tokens a vLLM server draws, and conversations whose user a server plays."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("openai")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.contracts import Criterion, RubricVerifier  # noqa: E402
from synthesis.errors import InputError  # noqa: E402
from synthesis.llm import AskedModel, Endpoint  # noqa: E402
from synthesis.rollout import STOP  # noqa: E402
from tests.fixtures.llm import DROP, llm_server, raw, refuse, say  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import list_tries, make_attempts  # noqa: E402
from training.config import Attempts, Decoding, Masking  # noqa: E402
from training.engines.served import ServedEngine  # noqa: E402
from training.rewards import score_attempt  # noqa: E402
from training.step_record import choose_watched_tasks, compute_step_values  # noqa: E402

DECODING = Decoding(turn_tokens=48, trajectory_tokens=8192)


def completion(ids: list[int], logs: list[float | None] | None = None) -> object:
    logs = [-0.5] * len(ids) if logs is None else logs
    choice = {
        "index": 0, "text": "", "finish_reason": "stop", "token_ids": ids,
        "logprobs": {"token_logprobs": logs, "tokens": [""] * len(ids), "text_offset": [], "top_logprobs": []},
    }  # fmt: skip
    return raw(
        200, json.dumps({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]})
    )


def attempted(url: str, rows, **rest):
    endpoint = Endpoint(name="vllm", base_url=url, max_retries=0)
    engine = ServedEngine(endpoint, "m", ends={small.tokenizer().eos_token_id}, temperature=1.0)
    return make_attempts(small.table(**rest), engine, list_tries(rows, 1), turns=5, decoding=DECODING, seed="s")


def test_servers_tokens_are_carried_forward() -> None:
    task, row = small.tasks()[0], small.rows()[0]
    turns = [small.written(message) for message in small.solution(task)]
    with llm_server([completion(ids) for ids in turns]) as server:
        (tried,) = attempted(server.url, [row])
    assert tried.attempt.outcome == "solved"
    assert tried.attempt.policy == "vllm m"
    prompts = [request["prompt"] for request in server.requests]
    assert prompts[1][: len(prompts[0]) + len(turns[0])] == prompts[0] + turns[0]
    assert server.requests[0]["return_token_ids"] is True
    assert "seed" not in server.requests[0]
    own = [token for token, bit in zip(tried.trace.completion, tried.trace.own, strict=True) if bit]
    assert own == [token for ids in turns for token in ids]
    assert {log for log, bit in zip(tried.trace.logprobs, tried.trace.own, strict=True) if bit} == {-0.5}


def test_a_server_that_is_full_or_hangs_up_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.engines.served.FIRST_WAIT_S", 0.01)
    turns = [completion(small.written(message)) for message in small.solution(small.tasks()[0])]
    full = [refuse(429, "too many requests")] * 3
    with llm_server([turns[0], *full, *turns[1:]]) as server:
        (tried,) = attempted(server.url, small.rows()[:1])
    assert tried.attempt.outcome == "solved"
    with llm_server([turns[0], DROP, *turns[1:]]) as server:
        # The connection had carried a turn before: that the server closed it meanwhile is no failure.
        (tried,) = attempted(server.url, small.rows()[:1])
    assert tried.attempt.outcome == "solved"
    (tried,) = attempted("http://127.0.0.1:9/v1", small.rows()[:1])
    assert tried.attempt.ending == "lost"
    assert "cannot be reached" in tried.attempt.note


def test_a_server_that_works_on_is_heard_of_by_its_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn takes longer than the deadline; what is asked every 15 s is asked sooner here, and there is no `/health`
    on the silent one."""
    monkeypatch.setattr("training.engines.served.LOOK_S", 0.1)
    message = small.solution(small.tasks()[0])[-1]

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        healthy = True

        def do_GET(self) -> None:
            self._reply(200 if self.path == "/health" and self.healthy else 503, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(2.0)
            self._reply(200, completion(small.written(message)).body.encode())

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(OSError):
                parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:10], body[10:]) if part)
                self.wfile.write(parts + b"0\r\n\r\n")

        def log_message(self, *_) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    limits = Attempts(at_once=2, deadline_s=1.0)
    try:
        endings = []
        for Server.healthy in (True, False):
            engine = ServedEngine(
                Endpoint(name="v", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1"), "m",
                ends={small.tokenizer().eos_token_id}, temperature=1.0,
            )  # fmt: skip
            table = replace(small.table(), limits=limits)
            (tried,) = make_attempts(table, engine, [(small.rows()[0], 0)], turns=1, decoding=DECODING, seed="s")
            endings.append(tried.attempt.ending)
    finally:
        server.shutdown()
        server.server_close()
    assert endings == ["answered", "lost"]


@pytest.mark.parametrize(
    ("reply", "ending", "note"),
    [
        (completion([1, 2], [None]), "lost", "no token ids"),
        (completion([1, "2"]), "lost", "no token ids"),
        (completion([1, 1.5]), "lost", "no token ids"),
        (completion([1, True]), "lost", "no token ids"),
        (completion([1, -2]), "lost", "no token ids"),
        (completion([1, 2], [-0.5, "-0.5"]), "lost", "no token ids"),
        (completion([1, 2], [-0.5, float("nan")]), "lost", "no token ids"),
        (raw(200, json.dumps({"id": "c", "object": "x", "created": 1, "model": "m", "choices": []})), "lost", "vLLM"),
        (refuse(500, "no"), "lost", "status 500"),
        (refuse(400, "this model's maximum context length is 16 tokens"), "too_long", "maximum context length"),
        (refuse(400, "no such model"), "lost", "refused"),
    ],
)
def test_useless_reply_is_no_fault_of_the_agent(reply, ending: str, note: str) -> None:
    with llm_server([reply]) as server:
        (tried,) = attempted(server.url, small.rows()[:1])
    assert tried.attempt.ending == ending
    assert note in tried.attempt.note


def made(table, maker, rows):
    return make_attempts(table, maker, list_tries(rows, 1), turns=5, decoding=DECODING, seed="s")


def conversation(task):
    row = small.rows()[0]
    assert row.id == task.rollout.key
    return row.model_copy(update={"setting": "conversation"})


def test_conversation_is_one_sequence_too() -> None:
    """The user tells the task, the agent carries it out and says so, the user ends the talk."""
    task = small.tasks()[0]
    maker = small.ScriptedEngine({task.rollout.key: small.solution(task)})
    with llm_server([say("Please see to the booking."), say(STOP)]) as server:
        user = AskedModel(Endpoint(name="user", base_url=server.url), "user-model")
        (tried,) = made(small.table(user=user), maker, [conversation(task)])
    assert tried.attempt.ending == "user_stopped"
    assert tried.attempt.outcome == "solved"
    assert tried.group == f"conversation:{task.rollout.key}"
    shown = small.tokenizer().decode(tried.trace.prompt)
    assert "Please see to the booking." in shown
    assert task.rollout.instruction not in shown
    assert small.tokenizer().decode(tried.trace.completion).count("<|im_end|>") == 5


def test_a_rubric_is_put_to_the_judge_and_a_judge_that_lies_is_no_zero() -> None:
    task, row = small.tasks()[0], small.rows()[0]
    rubric = {"verifier": RubricVerifier(criteria=(Criterion(text="The booking is made."),))}
    row = row.model_copy(update={"rollout": row.rollout.model_copy(update=rubric)})
    maker = small.ScriptedEngine({task.rollout.key: small.solution(task)})

    def verdict(quote: str) -> str:
        return json.dumps({"verdicts": [{"criterion": 1, "passed": True, "reason": "so", "quote": quote}]})

    with llm_server([say(verdict('"call": '))]) as server:
        judge = AskedModel(Endpoint(name="judge", base_url=server.url), "judge-model")
        (tried,) = made(small.table(judge=judge), maker, [row])
        assert [request["model"] for request in server.requests] == ["judge-model"]
    with llm_server([say(verdict("nothing of the kind"))]) as server:
        judge = AskedModel(Endpoint(name="judge", base_url=server.url), "judge-model")
        (lost,) = made(small.table(judge=judge), maker, [row])
    with pytest.raises(InputError, match="judge: tasks that are judged by a rubric"):
        made(small.table(), maker, [row])
    assert (tried.attempt.outcome, tried.attempt.judge_usage.requests) == ("solved", 1)
    assert score_attempt(tried.attempt, "score", Masking()).reward == 1.0
    assert score_attempt(lost.attempt, "score", Masking()).masked == "infra_error"
    told = choose_watched_tasks([row])
    assert list(told) == [row.id]
    values = compute_step_values([(tried, score_attempt(tried.attempt, "score", Masking()))], 1.0, told)
    assert values[f"check/{told[row.id][:16]}.1/success"] == 1.0


def test_user_that_errs_masks_the_attempt() -> None:
    task = small.tasks()[0]
    maker = small.ScriptedEngine({task.rollout.key: small.solution(task)})
    with llm_server([say("")]) as server:
        user = AskedModel(Endpoint(name="user", base_url=server.url), "user-model")
        (tried,) = made(small.table(user=user), maker, [conversation(task)])
    assert tried.attempt.user_error
    assert score_attempt(tried.attempt, "score", Masking()).reward is None
