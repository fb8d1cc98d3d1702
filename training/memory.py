"""Memory of a job on each GPU, or of a worker without one: weights, gradients, optimiser, activations and caches, by
sharding and engine. No torch.

Bytes are computed from the model's shape; a margin (`USABLE`) covers fragmentation, kernels' buffers and the driver.
Settings that are `auto` are decided here, for the trainer and for the preflight alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from training.config import Lora, Reinforcement, Supervised

USABLE = 0.92
"""Share of a GPU's memory, or of the computer's, that is planned with."""
SLEEPLESS = 0.3
"""vLLM stays awake while the model learns where so large a share is left to it."""
GIB = 2**30
LOGITS = 2**28
"""TRL computes log-probabilities in chunks; so many bytes of logits and their gradients are alive at a time."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder. `known` is False if they are those of a Qwen3 with about as many parameters."""

    parameters: int
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    known: bool = False

    @property
    def layer_parameters(self) -> int:
        """Number of weights in one layer's linear maps."""
        attention = self.hidden * self.head_size * 2 * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.inner

    def kv_bytes(self, tokens: float) -> float:
        """Return the bytes of keys and values of so many tokens, in 16 bits."""
        return tokens * 2 * 2 * self.layers * self.kv_heads * self.head_size

    def activation_bytes(self, tokens: float, checkpointed: bool) -> float:
        """Return the bytes that the backward pass of so many tokens needs, in 16 bits: each layer's input, and the
        inner activations of one layer (`checkpointed`) or all.
        """
        inside = 2.0 * tokens * (8 * self.hidden + 3 * self.inner + 2 * self.head_size * (self.heads + self.kv_heads))
        inputs = 2.0 * tokens * self.hidden * self.layers
        return inputs + inside if checkpointed else inputs + inside * self.layers

    def adapter_parameters(self, tuning: Lora) -> int:
        """Return the number of weights of LoRA adapters on the linear maps of all layers."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        pairs = [(self.hidden, queries), (self.hidden, keys), (self.hidden, keys), (queries, self.hidden)]
        if tuning.target == "all-linear":
            pairs += [(self.hidden, self.inner)] * 2 + [(self.inner, self.hidden)]
        return tuning.rank * sum(a + b for a, b in pairs) * self.layers


_QWEN3 = (
    (0.6e9, 28, 1024, 3072, 16, 8),
    (1.7e9, 28, 2048, 6144, 16, 8),
    (4e9, 36, 2560, 9728, 32, 8),
    (8e9, 36, 4096, 12288, 32, 8),
    (14e9, 40, 5120, 17408, 40, 8),
    (32e9, 64, 5120, 25600, 64, 8),
    (72e9, 80, 8192, 29568, 64, 8),
)
"""Parameters, layers, hidden, inner, heads and key heads; the last one is Qwen2.5's."""


def estimate_shape(parameters: int) -> ModelShape:
    """Return the shape of the smallest known model of at least about so many parameters."""
    row = next((row for row in _QWEN3 if parameters <= 1.2 * row[0]), _QWEN3[-1])
    _, layers, hidden, inner, heads, kv_heads = row
    return ModelShape(parameters, layers, hidden, inner, heads, kv_heads, 128, 151_936)


def parse_shape(config: Mapping[str, Any]) -> ModelShape | None:
    """Return the shape that a model's `config.json` describes, or None if it does not."""
    try:
        layers, hidden = int(config["num_hidden_layers"]), int(config["hidden_size"])
        heads, vocabulary = int(config["num_attention_heads"]), int(config["vocab_size"])
        inner = int(config.get("intermediate_size") or 4 * hidden)
        kv_heads = int(config.get("num_key_value_heads") or heads)
        size = int(config.get("head_dim") or hidden // heads)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    shape = ModelShape(0, layers, hidden, inner, heads, kv_heads, size, vocabulary, True)
    tables = 1 if config.get("tie_word_embeddings") else 2
    parameters = shape.layer_parameters * layers + vocabulary * hidden * tables
    return ModelShape(parameters, layers, hidden, inner, heads, kv_heads, size, vocabulary, True)


@dataclass(frozen=True)
class RankMemory:
    """Bytes on one GPU. `held` stays throughout, `learning` and `rolling` alternate; vLLM's bytes are held, or with
    sleep occur while it draws. `computer` is in the computer's memory instead. `bar` is a reason why vLLM cannot start,
    however much memory there is.
    """

    held: dict[str, float]
    learning: dict[str, float]
    rolling: dict[str, float] = field(default_factory=dict)
    computer: float = 0.0
    bar: str = ""

    @property
    def parts(self) -> dict[str, float]:
        """Parts on the GPU at the moment of the largest use."""
        turn = max((self.learning, self.rolling), key=lambda turn: sum(turn.values()))
        return {name: size for name, size in {**self.held, **turn}.items() if size}

    @property
    def bytes(self) -> float:
        """Largest number of bytes needed at a time."""
        return sum(self.parts.values())


Config = Supervised | Reinforcement


def estimate_rank_memory(
    shape: ModelShape, config: Config, gpus: int, engine: str = "transformers", vllm: float = 0
) -> RankMemory:
    """Return the memory of each of `gpus` GPUs (0: of the one process on a CPU, which computes in float32 by default)
    under a configuration whose `hardware` is decided (`decide_hardware`); values that are still `auto` count as copies
    with activations computed again. `vllm`: bytes that vLLM is given; 0: as many as its weights and one attempt need.
    """
    hardware, tuning = config.hardware, config.tuning
    parts = max(1, gpus) if hardware.sharding == "fsdp2" else 1
    wide = config.optimiser.precision == "fp32" or (not gpus and config.optimiser.precision == "auto")
    unit = 4 if wide else 2
    adapters = shape.adapter_parameters(tuning) if isinstance(tuning, Lora) else 0
    trained = adapters or shape.parameters
    weights = (shape.parameters * unit + 4 * adapters) if adapters else 4 * shape.parameters
    moments = (2 if hardware.optimiser_state == "adamw_8bit" else 8) * trained
    held_bytes = {"weights": weights / parts, "gradients": 4 * trained / parts, "optimiser": moments / parts}
    computer = sum(held_bytes.values()) if hardware.offload and parts > 1 else 0.0
    held_bytes = {} if computer else held_bytes
    reference = isinstance(config, Reinforcement) and _needs_reference(config) and not adapters
    if reference:
        held_bytes["reference"] = 4 * shape.parameters / parts
    learning = {
        "activations": shape.activation_bytes(_count_batch_tokens(config), hardware.gradient_checkpointing != "off")
        * (unit / 2),
        "logits": float(LOGITS),
    }
    if parts > 1:
        # The layer being computed, the one being fetched meanwhile, and the embedding tables.
        gathered = unit * (2 * shape.layer_parameters + 2 * shape.vocabulary * shape.hidden)
        learning["gathered"] = gathered + (unit * shape.parameters if reference else 0)
    elif not adapters and not wide:
        # Mixed precision keeps a copy of each weight in 16 bits while it computes.
        learning["copies in 16 bits"] = 2 * shape.parameters
    if not isinstance(config, Reinforcement):
        return RankMemory(held_bytes, learning, computer=computer)
    need = RankMemory(held_bytes, learning, computer=computer)
    if engine == "vllm":
        return _add_vllm(shape, config, gpus, vllm, need)
    if engine == "transformers":
        rolling = {"keys and values": shape.kv_bytes(_count_drawn_tokens(config)) * (unit / 2)}
        if parts > 1 or not adapters:
            rolling["weights while drawing"] = float(unit * shape.parameters)
        need = replace(need, rolling=rolling)
    return need


def _add_vllm(shape: ModelShape, config: Reinforcement, gpus: int, told: float, known: RankMemory) -> RankMemory:
    least, spread, bar = compute_vllm_minimum(shape, config), config.hardware.vllm_tensor_parallel, ""
    if max(1, gpus) % spread:
        available = f"{gpus} GPUs" if gpus > 1 else "one GPU" if gpus else "no GPU"
        bar = f"vLLM spreads a copy of the model over {spread} GPUs, and groups of {spread} do not divide {available}"
    elif told and told < least:
        bar = f"vLLM gets {told / GIB:.1f} GiB, and its weights and one attempt need {least / GIB:.1f} GiB"
    drawing_bytes = {"vLLM": told or least}
    if config.hardware.vllm_sleep == "on":
        return replace(known, rolling=drawing_bytes, bar=bar)
    return replace(known, held={**known.held, **drawing_bytes}, bar=bar)


def compute_vllm_minimum(shape: ModelShape, config: Reinforcement) -> float:
    """Return the bytes without which vLLM does not start: its weights, the cache of one whole attempt, and its
    buffers.
    """
    spread = config.hardware.vllm_tensor_parallel
    return (2 * shape.parameters + shape.kv_bytes(config.decoding.trajectory_tokens)) / spread + GIB


def _needs_reference(config: Reinforcement) -> bool:
    return bool(config.kl.coefficient) and config.kl.to == "reference"


def _count_batch_tokens(config: Config) -> float:
    """Return the number of tokens of the largest micro batch."""
    longest = config.max_length if isinstance(config, Supervised) else config.decoding.trajectory_tokens
    budget = config.hardware.micro_tokens
    return float(max(budget, longest) if budget else longest * config.optimiser.micro_batch)


def _count_drawn_tokens(config: Reinforcement) -> float:
    """Return the largest number of tokens whose keys and values the model's own engine holds."""
    attempts = config.sampling.tasks * config.sampling.rollouts
    return float(min(config.attempts.at_once, attempts) * config.decoding.trajectory_tokens)


C = TypeVar("C", bound=Supervised | Reinforcement)


def decide_hardware(shape: ModelShape, config: C, gpus: int, memory: float, engine: str = "transformers") -> C:
    """Return the configuration with `auto` values decided for `gpus` GPUs of `memory` bytes each (0 GPUs: the CPU with
    so much main memory). One process has nothing to spread, and weights that are not spread are not offloaded.
    """
    hardware_changes: dict[str, Any] = {}
    if config.hardware.gradient_checkpointing == "auto":
        plain = estimate_rank_memory(shape, _change_hardware(config, gradient_checkpointing="off"), gpus, engine)
        hardware_changes["gradient_checkpointing"] = "on" if gpus or plain.bytes > USABLE * memory else "off"
    if config.hardware.sharding == "auto":
        hardware_changes["sharding"] = "copies"
        asked_share = config.hardware.vllm_share if config.hardware.vllm_sleep != "auto" else 0
        vllm = asked_share * memory if asked_share else 0
        if (
            gpus > 1
            and estimate_rank_memory(shape, _change_hardware(config, **hardware_changes), gpus, engine, vllm).bytes
            > USABLE * memory
        ):
            hardware_changes["sharding"] = "fsdp2"
    config = _change_hardware(config, **hardware_changes)
    if gpus < 2 or config.hardware.sharding == "copies":
        config = _change_hardware(config, sharding="copies", offload=False)
    if engine != "vllm" or not gpus or not isinstance(config, Reinforcement):
        return _change_hardware(config, vllm_sleep="off") if config.hardware.vllm_sleep == "auto" else config
    plain = estimate_rank_memory(shape, config, gpus)
    held_bytes, learning = sum(plain.held.values()), sum(plain.learning.values())
    awake = (USABLE * memory - held_bytes - learning) / memory
    if config.hardware.vllm_sleep == "auto":
        config = _change_hardware(
            config, vllm_sleep="off" if awake >= (config.hardware.vllm_share or SLEEPLESS) else "on"
        )
    left_share = awake if config.hardware.vllm_sleep == "off" else (USABLE * memory - held_bytes) / memory
    share = config.hardware.vllm_share or round(min(0.9, max(0.1, left_share)), 2)
    return _change_hardware(config, vllm_share=share)


def _change_hardware(config: Any, **changes: Any) -> Any:
    return config.model_copy(update={"hardware": config.hardware.model_copy(update=changes)})


@dataclass(frozen=True)
class Room:
    """Memory of a worker: `gpus` of `each` bytes, in a computer of `main` bytes (0: unknown); without GPUs `each` is
    its main memory.
    """

    gpus: int
    each: float
    main: float = 0.0

    def count_offloaded_bytes(self, need: RankMemory) -> float:
        """Return the bytes that are in the computer's memory instead of its GPUs', for all of them."""
        return need.computer * max(1, self.gpus)

    def holds(self, need: RankMemory) -> bool:
        """Return whether the needed memory is available, on each GPU and in the computer's memory."""
        if need.bar:
            return False
        return need.bytes <= USABLE * self.each and (
            not self.main or self.count_offloaded_bytes(need) <= USABLE * self.main
        )


def settle_hardware(shape: ModelShape, config: C, room: Room, engine: str) -> C:
    """Return the configuration with `auto` values decided for a worker, except vLLM's share, which stays as
    requested.
    """
    found = decide_hardware(shape, config, room.gpus, room.each, engine)
    return _change_hardware(found, vllm_share=config.hardware.vllm_share)


def estimate_need(shape: ModelShape, config: Config, room: Room, engine: str) -> RankMemory:
    """Return the memory that a job needs on a worker, with `auto` values decided for it."""
    share = config.hardware.vllm_share if room.gpus else 0
    return estimate_rank_memory(
        shape, settle_hardware(shape, config, room, engine), room.gpus, engine, share * room.each
    )


def fits_worker(shape: ModelShape, config: Config, room: Room, engine: str = "transformers") -> bool:
    """Return whether a job fits a worker's memory, with `auto` values decided for it."""
    return room.holds(estimate_need(shape, config, room, engine))


@dataclass(frozen=True)
class Remedy:
    """A change that makes a job fit: `changes` by path, empty if the remedy is `gpus` of the same size instead."""

    words: str
    changes: dict[str, Any] = field(default_factory=dict)
    gpus: int = 0


MOST_GPUS = 64


def find_remedies(shape: ModelShape, config: Config, room: Room, engine: str) -> list[Remedy]:
    """Return the changes each of which alone makes a job fit a worker that it does not fit, the gentlest first; more
    GPUs only if that many suffice. If none alone is enough, return the first cumulative combination that is. Return an
    empty list if no combination is enough.
    """
    steps = _list_remedy_steps(config, room.gpus, engine)
    draws_itself = room.gpus > 0 and isinstance(config, Reinforcement) and engine == "transformers"
    unset = _change_hardware(config, vllm_sleep="auto", vllm_share=0.0, vllm_tensor_parallel=1)
    if draws_itself and fits_worker(shape, unset, room, "vllm"):
        return [Remedy("the engine vllm, which keeps no more than fits", {"engine": "vllm"})]
    alone = [remedy for remedy, changed in steps if fits_worker(shape, changed(config), room, engine)]
    counts = [n for n in (2, 4, 8, 16, 32, MOST_GPUS) if n > room.gpus] if room.gpus else []
    spread = _change_hardware(config, sharding="fsdp2")
    gpu_count = next((n for n in counts if fits_worker(shape, spread, replace(room, gpus=n), engine)), 0)
    if gpu_count:
        alone.append(Remedy(f"{gpu_count} GPUs of this size, over which the model is spread", gpus=gpu_count))
    if alone:
        return alone
    summed, words, changes = config, list[str](), dict[str, Any]()
    for remedy, changed in steps:
        summed = changed(summed)
        words.append(remedy.words)
        changes |= remedy.changes
        if fits_worker(shape, summed, room, engine):
            return [Remedy(" and ".join(words), changes)]
    return []


def _list_remedy_steps(config: Config, gpus: int, engine: str) -> list[tuple[Remedy, Any]]:
    """Return (remedy, its change of a configuration) for those that change something."""
    hardware, steps = config.hardware, list[tuple[Remedy, Any]]()

    def add_step(words: str, path: str, value: Any, change: Any) -> None:
        steps.append((Remedy(words, {path: value}), change))

    def add_hardware_step(words: str, name: str, value: Any) -> None:
        add_step(words, f"hardware.{name}", value, lambda c: _change_hardware(c, **{name: value}))

    if hardware.gradient_checkpointing == "off":
        add_hardware_step("activations computed again (gradient checkpointing)", "gradient_checkpointing", "on")
    if config.optimiser.micro_batch > 1 and not hardware.micro_tokens:
        add_step("a micro batch of 1", "optimiser.micro_batch", 1, _set_single_micro_batch)
    if isinstance(config, Reinforcement) and config.attempts.at_once > 8:
        add_step("8 attempts at once", "attempts.at_once", 8, _limit_attempts)
    if gpus > 1 and hardware.sharding == "copies":
        add_hardware_step("the model spread over the GPUs (FSDP2)", "sharding", "fsdp2")
    has_vllm = isinstance(config, Reinforcement) and engine == "vllm"
    if has_vllm and max(1, gpus) % hardware.vllm_tensor_parallel:
        count = next(n for n in range(hardware.vllm_tensor_parallel, 0, -1) if not max(1, gpus) % n)
        add_hardware_step(f"a tensor parallel of {count} for vLLM", "vllm_tensor_parallel", count)
    if has_vllm and hardware.vllm_share:
        add_hardware_step("what training leaves as vLLM's share (0)", "vllm_share", 0.0)
    if has_vllm and hardware.vllm_sleep == "off":
        add_hardware_step("vLLM asleep while the model learns", "vllm_sleep", "on")
    if gpus and hardware.optimiser_state == "adamw" and not isinstance(config.tuning, Lora):
        add_hardware_step("the optimiser's state in 8 bit", "optimiser_state", "adamw_8bit")
    if not isinstance(config.tuning, Lora):
        add_step("adapters (LoRA)", "tuning.kind", "lora", lambda c: c.model_copy(update={"tuning": Lora()}))
    if gpus > 1 and not hardware.offload:
        add_step("weights and optimiser in the computer's memory", "hardware.offload", True, _offload_model)
    return steps


def _set_single_micro_batch(config: Config) -> Config:
    return config.model_copy(update={"optimiser": config.optimiser.model_copy(update={"micro_batch": 1})})


def _limit_attempts(config: Any) -> Any:
    return config.model_copy(update={"attempts": config.attempts.model_copy(update={"at_once": 8})})


def _offload_model(config: Config) -> Any:
    return _change_hardware(config, sharding="fsdp2", offload=True)
