"""The OpenAPI document is valid, and a client that others' generator makes of it submits a training job."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.fixtures import pages_seed
from tests.fixtures.api import token_of
from tests.runs.job_support import frozen, lessons
from webapp.api import load_schema
from webapp.runs.models import TrainingJob

pytestmark = pytest.mark.slow
SETTINGS = Path(__file__).with_name("client.yaml")


def test_the_document_is_valid() -> None:
    faults = OpenAPIV31SpecValidator(json.loads(json.dumps(load_schema()))).iter_errors()
    assert [f"{list(fault.absolute_path)}: {fault.message[:300]}" for fault in faults] == []


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the package that openapi-python-client generates, which can be imported."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(json.dumps(load_schema()))
    settings = ConfigFile.load_from_path(SETTINGS)
    config = Config.from_sources(settings, MetaType.NONE, document, "utf-8", False, folder / "envarium_client")
    warnings = [f"{one.header} {one.detail}" for one in generate(config=config)]
    assert warnings == []
    sys.path.insert(0, str(folder))
    yield "envarium_client"
    sys.path.remove(str(folder))


@pytest.fixture
def client(generated: str, live_site: str) -> Any:
    token = token_of(pages_seed.person("researcher"), "read", "train")
    return importlib.import_module(generated).AuthenticatedClient(base_url=live_site, token=token)


def test_the_generated_client_submits_a_job(generated: str, client: Any) -> None:
    models = importlib.import_module(f"{generated}.models")
    operations = {
        name: importlib.import_module(f"{generated}.api.training.{name}")
        for name in ("create_training_job", "get_training_job", "list_training_jobs", "list_training_presets")
    }
    changes = models.SupervisedChanges(
        epochs=2.0,
        optimiser=models.OptimiserChanges(learning_rate=2e-4),
        tuning=models.LoraChanges(kind="lora", rank=4),
    )
    body = models.TrainingJobIn(
        model="envarium-demo",
        training_file=frozen(lessons()).public_id,
        method=models.MethodIn(
            type_=models.MethodInType("supervised"),
            supervised=models.SupervisedIn(preset="demo-sft", changes=changes),
        ),
        suffix="by a generated client",
    )
    tried = operations["create_training_job"].sync(client=client, body=body, dry_run=True)
    assert isinstance(tried, models.PreflightOut)
    assert (tried.ok, TrainingJob.objects.count()) == (True, 0)
    made = operations["create_training_job"].sync(client=client, body=body)
    assert isinstance(made, models.TrainingJobOut), made
    row = TrainingJob.objects.get(public_id=made.id)
    assert row.changes == {"epochs": 2.0, "optimiser": {"learning_rate": 2e-4}, "tuning": {"kind": "lora", "rank": 4}}
    read = operations["get_training_job"].sync(made.id, client=client)
    assert isinstance(read.envarium.config, models.Supervised)
    assert (read.envarium.config.tuning.rank, read.method.supervised.hyperparameters.n_epochs) == (4, 2.0)
    assert [job.id for job in operations["list_training_jobs"].sync(client=client).data] == [made.id]
    assert len(operations["list_training_presets"].sync(client=client).data) > 5
    refused = operations["create_training_job"].sync(
        client=client, body=models.TrainingJobIn(model="nobody's", training_file="ds-none")
    )
    assert {fault.loc[-1] for fault in refused.errors} == {"model", "training_file"}
