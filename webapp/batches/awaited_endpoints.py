"""Endpoints that batches wait for, probed periodically until they answer again."""

from __future__ import annotations

import logging

from synthesis.errors import InputError, LLMError
from webapp.batches import services
from webapp.batches.models import Batch, BatchState
from webapp.endpoints.models import Endpoint
from webapp.endpoints.trial import look_for_models

logger = logging.getLogger(__name__)


def resume_waiting_batches() -> int:
    """Resume batches whose endpoint answers again or was deleted (the batch then reports that); return their number."""
    names = Batch.objects.filter(state=BatchState.PAUSED).exclude(away="").values_list("away", flat=True).distinct()
    went_on = 0
    for name in names:
        row = Endpoint.objects.filter(name=name).first()
        if row is None or is_reachable(row):
            logger.info("endpoint %s is awaited no longer", name)
            went_on += services.resume_after_endpoint(name)
    return went_on


def is_reachable(row: Endpoint) -> bool:
    """Return whether a connection to the endpoint can be made; any other error is left for the batch to report."""
    try:
        look_for_models(row)
    except LLMError as error:
        return error.reason not in ("unreachable", "timeout")
    except InputError:
        return True
    return True
