"""The users that a start makes."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from webapp.accounts.models import Role, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path, settings):
    settings.ENVARIUM_HOME = tmp_path
    return tmp_path


def test_the_demo_user_follows_its_file_and_keeps_what_a_person_changed(home):
    (home / "demo-password").write_text("first-password\n")
    call_command("ensure_demo_user", verbosity=0)
    demo = User.objects.get(username="demo")
    assert demo.role == Role.ADMIN
    assert demo.check_password("first-password")
    before = demo.password
    call_command("ensure_demo_user", verbosity=0)
    demo.refresh_from_db()
    assert demo.password == before
    (home / "demo-password").write_text("second-password\n")
    call_command("ensure_demo_user", verbosity=0)
    demo.refresh_from_db()
    assert demo.check_password("second-password")
    assert User.objects.count() == 1


def test_there_is_no_demo_user_in_production(home, settings):
    settings.PRODUCTION = True
    (home / "demo-password").write_text("first-password\n")
    with pytest.raises(CommandError, match="no demo user in production"):
        call_command("ensure_demo_user", verbosity=0)
    assert not User.objects.exists()


def test_a_missing_or_short_password_makes_no_user(home):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("ensure_demo_user", verbosity=0)
    (home / "demo-password").write_text("short\n")
    with pytest.raises(CommandError, match="10 characters"):
        call_command("ensure_demo_user", verbosity=0)
    assert not User.objects.exists()


def test_an_administrator_is_made_from_a_piped_password(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    call_command("create_admin", "ada", stdout=io.StringIO())
    ada = User.objects.get()
    assert (ada.username, ada.role) == ("ada", Role.ADMIN)
    assert ada.check_password("correct horse battery")
    monkeypatch.setattr("sys.stdin", io.StringIO("another good one\n"))
    with pytest.raises(CommandError, match="exists already"):
        call_command("create_admin", "ada")


def test_a_weak_password_makes_no_administrator(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    with pytest.raises(CommandError, match="too short"):
        call_command("create_admin", "ada")
    assert not User.objects.exists()
