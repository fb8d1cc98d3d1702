"""SFT: which tokens are learnt, which samples there are, in what order, and that a job can be stopped and resumed."""

from __future__ import annotations

import os
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from safetensors.torch import load_file, save_file  # noqa: E402
from trl import chat_template_utils as known  # noqa: E402

from synthesis.errors import InputError  # noqa: E402
from tests.training import small  # noqa: E402
from tests.training.test_templates import dressed  # noqa: E402
from training import sft  # noqa: E402
from training.chat.sample_conversations import SAMPLE_TOOLS, SAMPLES  # noqa: E402
from training.config import Hardware, Limits, Lora, Mixture, Optimiser, Supervised  # noqa: E402
from training.dataset import TrajectoryRow  # noqa: E402
from training.metrics import Position, Writer, read_records  # noqa: E402
from training.model_loader import load_model  # noqa: E402
from training.templates import prepare_template  # noqa: E402
from training.trainer_callbacks import Watch, find_latest_checkpoint  # noqa: E402

CFG = Supervised(
    epochs=2, batch=8, max_length=2048, optimiser=Optimiser(learning_rate=3e-3, micro_batch=4),
    limits=Limits(checkpoint_every=3),
)  # fmt: skip


def row(sample: list, **rest) -> TrajectoryRow:
    return TrajectoryRow.model_validate({"id": "r", "messages": sample, "tools": list(SAMPLE_TOOLS), **rest})


def learnt(tokenizer, sample: sft.Sample) -> str:
    return tokenizer.decode([label for label in sample.labels if label != sft.IGNORED])


@pytest.fixture(scope="module")
def qwen():
    tokenizer = dressed(known.qwen3_chat_template)
    prepare_template(tokenizer)
    return tokenizer


def test_whole_conversation_is_one_sample_of_all_turns(qwen) -> None:
    samples, dropped = sft.build_samples(qwen, [row(SAMPLES[1])], CFG)
    assert (len(samples), dropped) == (1, 0)
    text = learnt(qwen, samples[0])
    assert text.count("<|im_end|>") == 4
    assert text.startswith("<think>\nThat is all.\n</think>\n\nIn which week?<|im_end|><think>\nI look it up.")
    assert "Thanks." not in text


STRIPPED = CFG.model_copy(update={"samples": "mask_history", "thinking": "stripped"})


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_masked_history_is_a_sample_a_turn_without_the_reasoning_of_earlier_ones(qwen, number: int) -> None:
    """ES B.2: of n rounds n samples, in each the last round's reasoning and action alone are learnt, and no earlier
    reasoning is seen: neither that before the user's last words nor that between calls."""
    said = SAMPLES[number]
    rounds = [place for place, message in enumerate(said) if message["role"] == "assistant"]
    samples, _ = sft.build_samples(qwen, [row(said)], STRIPPED)
    assert len(samples) == len(rounds)
    for place, sample in zip(rounds, samples, strict=True):
        text = learnt(qwen, sample)
        assert text.startswith(f"<think>\n{said[place]['reasoning_content']}\n</think>\n\n")
        assert text.count("<|im_end|>") == 1
        seen = qwen.decode(sample.input_ids)
        assert seen.endswith(text)
        assert "think>" not in seen.removesuffix(text), "no earlier reasoning, and no empty block where it was"
        actions = [m for m in said[:place] if m["role"] == "assistant"]
        assert seen.count("<|im_start|>assistant\n") == len(actions) + 1, "earlier actions stay"
    kept, _ = sft.build_samples(qwen, [row(said)], CFG.model_copy(update={"samples": "mask_history"}))
    assert qwen.decode(kept[-1].input_ids).count("<think>") == len(rounds)


def test_reasoning_within_earlier_words_is_stripped_too(qwen) -> None:
    told = []
    for asked, thought, said in (("Which day?", "A.", "Five."), ("Sure?", "B.", "Yes.")):
        told.append({"role": "user", "content": asked})
        told.append({"role": "assistant", "content": f"<think>\n{thought}\n</think>\n\n{said}"})
    samples, _ = sft.build_samples(qwen, [row(told)], STRIPPED)
    assert learnt(qwen, samples[1]) == "<think>\nB.\n</think>\n\nYes.<|im_end|>"
    assert qwen.decode(samples[1].input_ids).count("think>") == 2


def test_prompt_and_completion_learn_the_completion(qwen) -> None:
    told = SAMPLES[0]
    given = TrajectoryRow.model_validate(
        {"id": "r", "prompt": told[:4], "completion": told[4:5], "tools": list(SAMPLE_TOOLS)}
    )
    (sample,), _ = sft.build_samples(qwen, [given], CFG)
    assert learnt(qwen, sample).count("<tool_call>") == 1


def test_long_samples_are_refused_by_name_or_dropped_and_counted(qwen) -> None:
    rows = [row(SAMPLES[0]), row(SAMPLES[1], id="long")]
    lengths = [len(sft.build_samples(qwen, [one], CFG)[0][0].input_ids) for one in rows]
    cfg = CFG.model_copy(update={"max_length": max(lengths) - 1})
    with pytest.raises(InputError, match=f"longer than {max(lengths) - 1} tokens"):
        sft.build_samples(qwen, rows, cfg)
    samples, dropped = sft.build_samples(qwen, rows, cfg.model_copy(update={"too_long": "drop"}))
    assert (len(samples), dropped) == (1, 1)
    with pytest.raises(InputError, match="nothing to learn"):
        sft.build_samples(qwen, rows, cfg.model_copy(update={"too_long": "drop", "max_length": 16}))


def test_all_samples_that_are_too_long_are_counted(qwen, tmp_path, monkeypatch) -> None:
    """Of the rows that have most bytes the first few are looked at; a refusal counts the others too."""
    rows = [row(SAMPLES[0], id=f"r{number}") for number in range(9)]
    monkeypatch.setattr(sft, "LOOKED_AT", 2)
    cfg = CFG.model_copy(update={"max_length": 20})
    one = sft.SupervisedJob(cfg, tmp_path, None, qwen, rows, None, Watch(lambda: False, cfg.limits, 0.0))
    counts = sft.count_samples(rows, cfg)
    with pytest.raises(InputError, match=rf"max_length: {sum(counts)} samples are longer than 20 tokens"):
        sft.find_longest_sample(one, counts)


def test_rows_come_as_often_as_the_mixture_weighs(qwen) -> None:
    rows = [row(SAMPLES[0], id="a", environment="a"), row(SAMPLES[0], id="b", environment="b")]
    counts = sft.count_samples(rows, CFG)
    assert counts == [len(sft.build_row_samples(qwen, n, one, CFG)) for n, one in enumerate(rows)]
    order = sft.order_samples(
        rows, counts, CFG.model_copy(update={"mixture": Mixture(environments={"a": 3.0}), "epochs": 2})
    )
    assert sorted(order) == [(0, 0)] * 6 + [(1, 0)] * 2
    half = sft.order_samples(rows, counts, CFG.model_copy(update={"epochs": 0.5}))
    assert len(half) == 1


def job(folder, cfg=CFG, asked=lambda: False) -> sft.SupervisedJob:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.parent / "model"
    model, tokenizer, _ = load_model(small.saved(path) if not path.exists() else str(path), cfg.optimiser)
    writer = Writer(folder / "record.jsonl")
    return sft.SupervisedJob(cfg, folder, model, tokenizer, list(small.lessons()), writer, Watch(asked, cfg.limits))


def test_job_learns_stops_and_resumes_the_same_way(tmp_path) -> None:
    whole = job(tmp_path / "whole")
    ended, through = sft.train_supervised(whole)
    whole.writer.close()
    assert (ended, through.state.global_step) == ("done", 6)
    found = read_records(whole.folder / "record.jsonl", Position())[0]
    losses = [record.values["loss"] for record in found if record.kind == "values"]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert found[0].data["samples"] == 24
    assert found[1].message == "Training begins."
    part = job(tmp_path / "part")
    part.watch.asked = lambda: sum(1 for _ in (part.folder / "record.jsonl").open()) > 4
    ended, trainer = sft.train_supervised(part)
    part.writer.close()
    assert ended == "stopped"
    assert find_latest_checkpoint(part.folder).name == f"checkpoint-{trainer.state.global_step}"
    again = job(tmp_path / "part")
    ended, trainer = sft.train_supervised(again, resume=True)
    again.writer.close()
    assert (ended, trainer.state.global_step) == ("done", 6)
    first, second = (one.model.state_dict() for one in (through, trainer))
    assert all(torch.allclose(first[name], second[name], atol=1e-5) for name in first)


def test_adapters_leave_the_model_as_it_is(tmp_path) -> None:
    one = job(tmp_path / "job", CFG.model_copy(update={"tuning": Lora(rank=4), "epochs": 1}))
    _, trainer = sft.train_supervised(one)
    one.writer.close()
    names = {name for name, value in trainer.model.named_parameters() if value.requires_grad}
    assert names
    assert all("lora" in name for name in names)


def test_weights_that_are_torn_missing_or_of_other_sizes_are_refused(tmp_path) -> None:
    """Left alone, the loader would draw what is missing at random, and the job would learn on without a word."""
    kept = tmp_path / "model.safetensors"
    small.saved(tmp_path)
    whole = load_file(kept)
    lost = next(name for name in whole if "q_proj" in name)
    save_file({name: held for name, held in whole.items() if name != lost}, kept, {"format": "pt"})
    with pytest.raises(InputError, match="1 of its weights are missing .*" + re.escape(lost)):
        load_model(str(tmp_path), CFG.optimiser)
    save_file(whole | {lost: whole[lost][:, :1].clone()}, kept, {"format": "pt"})
    with pytest.raises(InputError, match=r"other sizes than its config\.json says"):
        load_model(str(tmp_path), CFG.optimiser)
    kept.write_bytes(kept.read_bytes()[:1_000])
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(tmp_path), CFG.optimiser)


def gradient(folder, cfg: Supervised) -> dict[str, torch.Tensor]:
    """Of the first step; nothing is learnt."""
    one, caught = job(folder, cfg), {}

    def catch(trainer, model, **_) -> torch.Tensor:
        caught.update({key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
        return torch.tensor(0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", lambda *a, **k: None)
        patch.setattr(sft.SampleTrainer, "_get_grad_norm", catch)
        patch.setattr(sft.SampleTrainer, "_clip_grad_norm", lambda *a, **k: None)
        sft.train_supervised(one)
    one.writer.close()
    return caught


def test_micro_batches_of_tokens_and_packed_rows_learn_what_padded_rows_do(tmp_path) -> None:
    cfg = CFG.model_copy(update={"batch": 24, "epochs": 1})
    whole, budget = gradient(tmp_path / "whole", cfg), {"hardware": Hardware(micro_tokens=700)}
    for name, changes in (("parts", budget), ("packed", {**budget, "packing": True}), ("rows", {"packing": True})):
        other = gradient(tmp_path / name, cfg.model_copy(update=changes))
        assert whole.keys() == other.keys()
        assert all(torch.allclose(value, other[key], atol=1e-5) for key, value in whole.items()), name


def test_sample_that_turns_out_too_long_ends_the_job_or_bears_no_loss(tmp_path, monkeypatch) -> None:
    """A row with fewer bytes than others may have more tokens: it is met while it is learnt."""
    lengths = [len(one.input_ids) for one in sft.build_samples(small.tokenizer(), list(small.lessons()), CFG)[0]]
    cfg = CFG.model_copy(update={"max_length": max(lengths) - 1, "epochs": 1})
    monkeypatch.setattr(sft, "find_longest_sample", lambda job, counts: 1)
    one = job(tmp_path / "refuse", cfg)
    with pytest.raises(InputError, match="has a sample that is longer than"):
        sft.train_supervised(one)
    two = job(tmp_path / "drop", cfg.model_copy(update={"too_long": "drop"}))
    ended, trainer = sft.train_supervised(two)
    assert (ended, trainer.state.global_step, trainer.blank) == ("done", 3, lengths.count(max(lengths)))
