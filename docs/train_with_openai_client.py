"""Train over REST with the stock `openai` client: upload, look before, create, list, follow, cancel.

pip install openai
export OPENAI_BASE_URL=http://127.0.0.1:8000/api/v1 OPENAI_API_KEY=envr_...   # a token with the scopes read, train
python train_with_openai_client.py train.jsonl        # or ds-..., a dataset made on the site
python train_with_openai_client.py train.jsonl --cancel
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import openai

OVER = ("succeeded", "failed", "cancelled", "paused")


def main(data: str, *options: str) -> None:
    client = openai.OpenAI()

    if not data.startswith(("ds-", "file-")):
        uploaded = client.files.create(file=Path(data), purpose="fine-tune")
        print(f"{uploaded.id}: {uploaded.bytes} bytes, {uploaded.status}")
        data = uploaded.id

    asked = {
        "model": "envarium-demo",
        "training_file": data,
        "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": 16}}},
        "suffix": "from a script",
        "metadata": {"by": "train_with_openai_client"},
    }
    looked = client.fine_tuning.jobs.create(**asked, extra_body={"dry_run": True}).to_dict()
    print(f"Dry run: {looked['steps']} steps, {looked['sentence']}")
    for remark in [*looked["problems"], *looked["warnings"]]:
        print(f"  {remark['param'] or 'the job'}: {remark['message']}")

    job = client.fine_tuning.jobs.create(**asked)
    for row in client.fine_tuning.jobs.list(limit=5).data:
        print(f"{row.id}  {row.status:<16}  {row.model}")
    if "--cancel" in options:
        client.fine_tuning.jobs.cancel(job.id)

    seen: set[str] = set()
    while True:
        status = client.fine_tuning.jobs.retrieve(job.id).status
        newest = client.fine_tuning.jobs.list_events(job.id, limit=100).data
        for event in reversed([event for event in newest if event.id not in seen]):
            seen.add(event.id)
            print(f"{event.level:<5}  {event.message}")
        if status in OVER:
            break
        time.sleep(1)

    print(f"{job.id}: {status}")
    for checkpoint in client.fine_tuning.jobs.checkpoints.list(job.id):
        print(f"  step {checkpoint.step_number}: {checkpoint.fine_tuned_model_checkpoint}")


if __name__ == "__main__":
    main(*sys.argv[1:])
