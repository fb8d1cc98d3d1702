from __future__ import annotations

from django.db import models

from webapp.common.fields import OrderedJSONField


class LLMRole(models.TextChoices):
    """The roles of models. Each role has a default model, which a job may replace."""

    AGENT = "agent", "agent: acts in an environment"
    USER = "user", "user: plays the person an agent talks to"
    JUDGE = "judge", "judge: decides on rubrics and on users"
    AUTHOR = "author", "author: writes environments and tasks"
    TESTER = "tester", "tester: tries tools"
    CHECKER = "checker", "checker: judges what tools did"
    TEACHER = "teacher", "teacher: makes trajectories to learn from"
    DIAGNOSER = "diagnoser", "diagnoser: explains failures"
    EMBEDDER = "embedder", "embedder: turns texts of themes into vectors"


ASKED = tuple(role for role in LLMRole if role != LLMRole.EMBEDDER)
"""Roles that are asked in words, with a temperature and the like."""


class StructuredOutput(models.TextChoices):
    NONE = "none", "words alone"
    JSON_OBJECT = "json_object", "a JSON object (json_object)"
    JSON_SCHEMA = "json_schema", "a JSON schema (json_schema)"


class Endpoint(models.Model):
    """An OpenAI-compatible server. `sealed_key` is encrypted; it is never shown again."""

    name = models.CharField(max_length=60, unique=True)
    base_url = models.CharField(max_length=500)
    sealed_key = models.TextField(blank=True)
    model_names = OrderedJSONField(default=list)
    """As the server knows them."""
    max_concurrency = models.PositiveSmallIntegerField(default=8)
    timeout_s = models.PositiveSmallIntegerField(default=120)
    structured = models.CharField(max_length=12, choices=StructuredOutput.choices, default=StructuredOutput.NONE)
    """What it holds its models to by a request's `response_format`."""
    prices = OrderedJSONField(default=dict)
    """By model: money for a million tokens (`synthesis.llm.cost.Price`). One that is not there is unknown, not 0."""
    left_out = OrderedJSONField(default=dict)
    """By model the parameters that it refuses, each with `instead` (its name there, or nothing) and `said`."""
    from_environment = models.BooleanField(default=False)
    """Registered at start from OPENAI_BASE_URL: the operator of the server vouches for its address."""
    served_here = models.BooleanField(default=False)
    """This site's own: the models that its workers serve. It cannot be edited; its address is this site's."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["served_here"], condition=models.Q(served_here=True), name="endpoint_served_here_once"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_key(self) -> bool:
        return bool(self.sealed_key)


class RoleModel(models.Model):
    """The default model of a role."""

    role = models.CharField(max_length=16, choices=LLMRole.choices, primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="roles")
    model = models.CharField(max_length=200)


class RoleSampling(models.Model):
    """The default sampling of a role: a `synthesis.llm.calls.Sampling`."""

    role = models.CharField(max_length=16, choices=LLMRole.choices, primary_key=True)
    values = OrderedJSONField(default=dict)
