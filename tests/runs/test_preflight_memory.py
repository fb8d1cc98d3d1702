"""What a preflight says of memory: by part, by worker, and what would make a job fit."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from tests.runs.job_support import asks, frozen, lessons, tasks
from webapp.common.templatetags.show import memory
from webapp.runs.preflight.job_checks import Preflight, run_preflight
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db


def worker(gpus: int, gib: int, **fields: object) -> None:
    devices = [{"name": "a GPU", "memory_mib": gib * 1024}] * gpus
    Worker.objects.create(**{"seen_at": timezone.now(), "engines": ["transformers"], "devices": devices, **fields})


def test_who_can_take_a_job_leaves_out_gpus_without_room_and_names_processors() -> None:
    name, row = "Qwen/Qwen3-4B", frozen(lessons())
    worker(1, 24, name="small", model_names=[name])
    assert run_preflight(asks(row, "supervised", model=name)).queue.able == ()
    worker(0, 0, name="cramped", model_names=[name], main_memory_mib=24 * 1024)
    worker(0, 0, name="processor", model_names=[name])
    worker(8, 80, name="large", model_names=[name])
    queue = run_preflight(asks(row, "supervised", model=name)).queue
    assert (queue.able, queue.untold) == (("large", "processor"), ("processor",))


def test_memory_of_a_worker_without_a_gpu_is_its_main_memory() -> None:
    """A CPU computes in float32, and keeps each layer's activations where they fit; the demo's model fits any."""
    name, row = "Qwen/Qwen3-4B", frozen(lessons())
    worker(0, 0, name="box", model_names=[name], main_memory_mib=24 * 1024)
    found = run_preflight(asks(row, "supervised", model=name))
    assert found.memory is not None
    assert (found.memory.gpus, found.memory.device_bytes, found.memory.fits) == (0, 24 << 30, False)
    assert found.memory.parts["optimiser"] == 2 * found.memory.parts["weights"] == 32_000_000_000
    message = next(w.message for w in found.warnings if w.code == "too_large")
    assert "GiB of main memory (box), of 24 GiB, of which 92% count: mostly for" in message
    assert "No setting makes it fit: take a worker with GPUs or more memory" in message
    short = {"max_length": 512, "tuning": {"kind": "lora"}, "optimiser": {"micro_batch": 1}}
    adapters = run_preflight(asks(row, "supervised", model=name, changes=short))
    assert adapters.memory is not None
    assert adapters.memory.fits
    assert 16_000_000_000 <= adapters.memory.parts["weights"] < 17_000_000_000, "float32, where GPUs keep 16 bits"
    small = "Qwen/Qwen3-0.6B"
    Worker.objects.update(model_names=[name, small])
    for length, parts in ((512, "kept"), (32_768, "computed again")):
        tried = run_preflight(asks(row, "supervised", model=small, changes={"max_length": length})).memory
        assert tried is not None
        assert tried.fits, f"activations are {parts}"
    demo = run_preflight(asks(row, "supervised"))
    assert demo.memory is not None
    assert (demo.memory.fits, demo.queue.able) == (True, ("box",))
    worker(1, 80, name="gpu", model_names=[name])
    best = run_preflight(asks(row, "supervised", model=name)).memory
    assert best is not None
    assert best.workers[0].worker == "gpu"


@pytest.mark.parametrize(("told", "words"), [(97 << 30, "97 GiB"), (7 << 29, "3.5 GiB"), (40 << 20, "40 MiB")])
def test_memory_is_told_in_one_unit(told: int, words: str) -> None:
    assert memory(told) == words


def test_a_model_that_is_to_be_spread_is_warned_of_where_there_is_one_device() -> None:
    name, row = "Qwen/Qwen3-0.6B", frozen(lessons())

    def said(hardware: dict[str, object]) -> list[str]:
        found = run_preflight(asks(row, "supervised", model=name, changes={"hardware": hardware}))
        assert found.memory is not None
        assert found.memory.sharding == ("fsdp2" if found.memory.gpus > 1 else "copies")
        return [one.message for one in found.warnings if one.code == "nothing_to_spread"]

    worker(1, 80, name="single", model_names=[name])
    worker(0, 0, name="box", model_names=[name], main_memory_mib=256 * 1024)
    (told,) = said({"sharding": "fsdp2"})
    assert "not two at box, single: there the job trains as one process" in told
    assert "offloaded" not in told
    assert "nothing is offloaded" in said({"sharding": "fsdp2", "offload": True})[0]
    Worker.objects.all().delete()
    worker(2, 80, name="pair", model_names=[name])
    assert said({"sharding": "fsdp2", "offload": True}) == []


def test_memory_says_which_worker_fits_and_what_would_make_it_fit() -> None:
    name, row = "Qwen/Qwen3-4B", frozen(lessons())
    worker(1, 24, name="small", model_names=[name])
    found = run_preflight(asks(row, "supervised", model=name))
    full, message = found.memory, next(w.message for w in found.warnings if w.code == "too_large")
    assert full is not None
    assert (full.parameters, full.fits, full.sharding) == (4_000_000_000, False, "copies")
    assert full.bytes == sum(full.parts.values())
    assert full.parts["optimiser"] == 2 * full.parts["weights"] == 2 * full.parts["gradients"] == 32_000_000_000
    assert "It would fit with adapters (LoRA); or with 8 GPUs of this size" in message
    adapters = run_preflight(asks(row, "supervised", model=name, changes={"tuning": {"kind": "lora"}}))
    assert not any(one.code == "too_large" for one in adapters.warnings)
    worker(8, 80, name="large", model_names=[name])
    spread = run_preflight(asks(row, "supervised", model=name)).memory
    assert spread is not None
    assert [(one.worker, one.gpus, one.fits) for one in spread.workers] == [("large", 8, True), ("small", 1, False)]
    assert (spread.sharding, spread.parts["weights"]) == ("fsdp2", full.parts["weights"] // 8)
    long = run_preflight(asks(row, "supervised", model=name, changes={"max_length": 4_000_000}))
    assert any("nor do more GPUs" in w.message for w in long.warnings), (
        "what one sequence needs is on one GPU, however many there are"
    )


def test_vllm_in_the_trainers_process_takes_the_share_that_it_was_told() -> None:
    """0.9 of 80 GiB beside training cannot fit, 0.05 holds no weights of 4 billion; another server takes nothing."""
    name, row = "Qwen/Qwen3-4B", frozen(tasks())
    worker(4, 80, name="four", model_names=[name], engines=["transformers", "vllm", "vllm_server"])

    def found(engine: str = "vllm", **hardware: Any) -> Preflight:
        sampling = {"environments": 1, "tasks": 2, "rollouts": 2}
        changes = {"sampling": sampling, "hardware": hardware}
        answer = run_preflight(asks(row, model=name, engine=engine, changes=changes))
        assert not answer.problems
        return answer

    def told(**hardware: Any) -> str:
        return next((w.message for w in found(**hardware).warnings if w.code == "too_large"), "")

    beside = found(vllm_sleep="off", vllm_share=0.3).memory
    assert beside is not None
    assert beside.parts["vLLM"] == round(0.3 * (80 << 30))
    message = told(vllm_sleep="off", vllm_share=0.9)
    assert "of 80 GiB, of which 92% count" in message
    assert "what training leaves as vLLM's share (0)" in message
    assert "vLLM gets 4.0 GiB, and its weights and one attempt need" in told(vllm_share=0.05)
    assert told(vllm_share=0.3) == told() == told(vllm_tensor_parallel=2) == ""
    message = told(vllm_tensor_parallel=3)
    assert "groups of 3 do not divide 4 GPUs (four)" in message
    assert "It would fit with a tensor parallel of 2 for vLLM" in message
    assert found(vllm_tensor_parallel=3).queue.able == ()
    server = found("vllm_server", vllm_share=0.9).memory
    assert server is not None
    assert server.fits
    assert "vLLM" not in server.parts


def test_an_offload_that_would_do_nothing_is_refused() -> None:
    changes = {"hardware": {"offload": True, "sharding": "copies"}}
    refused = run_preflight(asks(frozen(lessons()), "supervised", changes=changes)).problems
    assert [(one.param, one.code) for one in refused] == [("changes.hardware.offload", "nothing_spread")]
