"""Endpoints that batches wait for: looked at now and then, until they answer again."""

from __future__ import annotations

import logging

from synthesis.errors import InputError, LLMError
from webapp.batches import services
from webapp.batches.models import Batch, BatchState
from webapp.endpoints.models import Endpoint
from webapp.endpoints.trial import look_for_models

logger = logging.getLogger(__name__)


def look() -> int:
    """Let batches go on whose endpoint answers again, or is not there any more (which they then say). How many."""
    names = Batch.objects.filter(state=BatchState.PAUSED).exclude(away="").values_list("away", flat=True).distinct()
    went_on = 0
    for name in names:
        row = Endpoint.objects.filter(name=name).first()
        if row is None or answers(row):
            logger.info("endpoint %s is awaited no longer", name)
            went_on += services.resume_after(name)
    return went_on


def answers(row: Endpoint) -> bool:
    """Whether a connection to it can be made; what it says then is for the batch to meet."""
    try:
        look_for_models(row)
    except LLMError as error:
        return error.reason not in ("unreachable", "timeout")
    except InputError:
        return True
    return True
