from __future__ import annotations

import hmac
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.fixtures.api import Program, problem, program, token_of
from tests.fixtures.markup import flat
from webapp.accounts import people, tokens
from webapp.accounts.models import ApiToken, AuditEntry, User

pytestmark = pytest.mark.django_db


def test_a_token_is_kept_as_a_hash_and_gives_its_scopes(annotator: User) -> None:
    text = token_of(annotator, "read")
    row = ApiToken.objects.get()
    assert text.startswith(f"envr_{row.prefix}_")
    secret = text.split("_", 2)[2]
    assert len(bytes.fromhex(secret)) == 32, "256 bits"
    assert secret not in str(ApiToken.objects.values().get())
    assert Program(text).get("/jobs").status_code == 200
    assert "scope synthesise" in problem(Program(text).post("/jobs/1/cancel"), 403)["detail"]


def test_what_is_no_token_is_refused_with_the_reason(annotator: User) -> None:
    text = token_of(annotator)
    row = ApiToken.objects.get()
    for wrong in ("", "x", "envr_", "envr__", f"envr_{row.prefix}_", f"envr_{row.prefix}_{'0' * 64}", f"{text}0"):
        answer = Program("x").get("/jobs", Authorization=f"Bearer {wrong}")
        assert problem(answer, 401)["error"]["code"] == "invalid_token"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    for wrong in (text.replace("envr", "other"), text.replace(row.prefix, "00000000"), text.upper(), text + "\u00e9"):
        problem(Program().get("/jobs", Authorization=f"Bearer {wrong}"), 401)
    problem(Program().get("/jobs", Authorization=f"Basic {text}"), 401)
    problem(Program().get("/jobs"), 401)


def test_secrets_are_compared_in_constant_time_for_unknown_prefixes_too(
    annotator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    real = hmac.compare_digest

    def watched(one: str, other: str) -> bool:
        compared.append(len(one))
        return real(one, other)

    monkeypatch.setattr("webapp.accounts.tokens.hmac.compare_digest", watched)
    text = token_of(annotator)
    tokens.find_token(text)
    tokens.find_token("envr_00000000_" + "0" * 64)
    assert compared == [64, 64]


def test_expired_revoked_demoted_and_deactivated(annotator: User, admin: User) -> None:
    text = token_of(annotator, "read", "synthesise")
    caller = Program(text)
    people.change_role(admin, annotator.pk, "viewer")
    assert caller.get("/jobs").status_code == 200
    problem(caller.post("/jobs/1/cancel"), 403)
    people.set_active(admin, annotator.pk, False)
    assert "may not sign in" in problem(caller.get("/jobs"), 401)["detail"]
    people.set_active(admin, annotator.pk, True)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired" in problem(caller.get("/jobs"), 401)["detail"]
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(days=1))
    assert tokens.revoke_token(ApiToken.objects.get(), admin)
    assert not tokens.revoke_token(ApiToken.objects.get(), admin)
    assert "revoked" in problem(caller.get("/jobs"), 401)["detail"]


def test_a_bad_token_is_not_saved_by_a_session(annotator: User) -> None:
    client = Client()
    client.force_login(annotator)
    assert client.get("/api/v1/jobs").status_code == 200
    assert client.get("/api/v1/jobs", headers={"Authorization": "Bearer envr_a_b"}).status_code == 401


def test_the_last_use_is_written_once_a_minute(annotator: User) -> None:
    caller = program(annotator)
    caller.get("/jobs")
    first = ApiToken.objects.get().last_used_at
    assert first
    caller.get("/jobs")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    caller.get("/jobs")
    assert ApiToken.objects.get().last_used_at > first


@pytest.mark.parametrize(
    ("scopes", "days", "name"),
    [
        ([], 90, "a"),
        (["train"], 90, "a"),
        (["public"], 90, "a"),
        (["read"], 0, "a"),
        (["read"], 366, "a"),
        (["read"], 9, " "),
    ],
)
def test_a_token_that_may_not_be_made(annotator: User, scopes: list[str], days: int, name: str) -> None:
    with pytest.raises(InputError):
        tokens.create_token(annotator, annotator, name, scopes, days)
    assert not ApiToken.objects.exists()
    assert not AuditEntry.objects.exists()


def test_the_page_shows_the_token_once(annotator: User) -> None:
    client = Client()
    client.force_login(annotator)
    made = client.post("/account/tokens/", {"name": "my script", "scopes": ["read"], "days": "30"})
    assert made.status_code == 201
    assert "no-store" in made.headers["Cache-Control"]
    text = made.context["text"]
    assert text in flat(made)
    again = flat(client.get("/account/tokens/"))
    assert text not in again
    assert "my script" in again
    above = client.post("/account/tokens/", {"name": "x", "scopes": ["admin"], "days": "30"})
    assert above.status_code == 422
    assert ApiToken.objects.count() == 1


def test_a_token_is_revoked_by_its_owner_or_an_administrator_alone(annotator: User, admin: User) -> None:
    token_of(annotator)
    url = f"/account/tokens/{ApiToken.objects.get().pk}/revoke/"
    other, chief, owner = Client(), Client(), Client()
    other.force_login(pages_seed.person("researcher"))
    chief.force_login(admin)
    owner.force_login(annotator)
    assert other.post(url).status_code == 404
    assert ApiToken.objects.get().revoked_at is None
    assert chief.post(url).headers["Location"] == "/account/tokens/all/"
    assert owner.post(url, follow=True).redirect_chain[0][0] == "/account/tokens/"
    assert AuditEntry.objects.filter(action="token.revoke").count() == 1


def test_the_command_prints_a_token_that_works(annotator: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_token", annotator.username, "--scopes", "read, review", "--days", "7")
    text = capsys.readouterr().out.strip()
    assert Program(text).get("/jobs").status_code == 200
    assert AuditEntry.objects.get(action="token.create").via == "command"
    with pytest.raises(CommandError, match="does not have: admin"):
        call_command("create_token", annotator.username, "--scopes", "admin")
    with pytest.raises(CommandError, match="no active user"):
        call_command("create_token", "nobody")


def test_too_many_requests_wait(annotator: User, settings: pytest.FixtureRequest) -> None:
    settings.API_REQUESTS_A_MINUTE = 3  # type: ignore[attr-defined]
    caller = program(annotator)
    seen = [caller.get("/jobs") for _ in range(8)]
    assert seen[0].status_code == 200
    late = [answer for answer in seen if answer.status_code == 429]
    assert late, "a window of a minute may end once in between, not twice"
    assert 1 <= int(late[0].headers["Retry-After"]) <= 60
    problem(late[0], 429)
    settings.BROKER_URL = "redis://127.0.0.1:1/0"  # type: ignore[attr-defined]
    assert caller.get("/jobs").status_code == 200, "without a broker nobody is braked"


def test_a_worker_is_counted_apart_from_people_and_its_llm_calls_apart_from_its_work(
    settings: pytest.FixtureRequest,
) -> None:
    settings.API_REQUESTS_A_MINUTE, settings.WORKER_REQUESTS_A_MINUTE = 2, 6  # type: ignore[attr-defined]
    worker = program(pages_seed.person("operator"), "worker", "read")
    chat = "/training/jobs/ftjob-none/attempts/1/llm/user/v1/chat/completions"
    said = {"messages": [{"role": "user", "content": "Hello"}]}
    assert [worker.post("/training/workers/wk-none/heartbeat", {}).status_code for _ in range(5)] == [404] * 5
    assert [worker.post(chat, said).status_code for _ in range(5)] == [404] * 5
    assert 429 in [worker.get("/jobs").status_code for _ in range(5)], "people's requests have their own limit"
    for path, body in (("/training/workers/wk-none/heartbeat", {}), (chat, said)):
        late = [answer for answer in (worker.post(path, body) for _ in range(14)) if answer.status_code == 429]
        assert late, "it is no way around every limit"
        assert 1 <= int(late[0].headers["Retry-After"]) <= 60
