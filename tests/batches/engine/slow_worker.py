"""What a worker of the kill tests loads besides: the scripted provider takes its time, and the reaper does not."""

from __future__ import annotations

import functools
import os
from datetime import timedelta

from synthesis.scripted import ScriptedModel
from webapp.batches.engine import cast
from webapp.jobs import services

LATENCY_S = float(os.environ.get("SCRIPTED_LATENCY_S", "0.03"))

cast.ScriptedModel = functools.partial(ScriptedModel, latency_s=LATENCY_S)  # type: ignore[misc]
services.REQUEUE_AFTER = timedelta(seconds=6)
