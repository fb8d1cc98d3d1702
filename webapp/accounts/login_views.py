from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from webapp.accounts.access import require_scope
from webapp.accounts.forms import LoginForm, PasswordForm
from webapp.accounts.login_brake import build_session_place, remember_browser
from webapp.accounts.role_descriptions import describe_role
from webapp.accounts.services import write_audit_entry
from webapp.common.colour_schemes import COLOUR_SCHEMES

YEAR_SECONDS = 365 * 86_400


class Login(LoginView):
    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        with transaction.atomic():
            write_audit_entry(form.get_user(), "login")
            response = super().form_valid(form)
        remember_browser(self.request, response, form.get_user().get_username())
        return response


login = require_scope("public")(
    Login.as_view(
        template_name="accounts/login.html",
        authentication_form=LoginForm,
        redirect_authenticated_user=True,
    )
)
logout = require_scope("public")(LogoutView.as_view())


@require_scope("read")
@sensitive_post_parameters()
def show_profile(request: HttpRequest) -> HttpResponse:
    place = build_session_place(request, request.user.get_username())
    form = PasswordForm(request.user, request.POST or None, place=place)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            write_audit_entry(request.user, "password.change", request.user)  # type: ignore[arg-type]
            update_session_auth_hash(request, form.save())
        messages.success(request, "Your password is changed. Other browsers are signed out.")
        return redirect("accounts:profile")
    role = describe_role(request.user.role)  # type: ignore[union-attr]
    status = 422 if form.is_bound else 200
    return render(request, "accounts/profile.html", {"form": form, "role": role}, status=status)


@require_scope("public")
@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Keep the chosen theme in a cookie and go back to the page it was chosen on."""
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure()):
        back = "/"
    response = redirect(back)
    chosen_theme = request.POST.get("theme", "auto")
    if chosen_theme in COLOUR_SCHEMES:
        response.set_cookie("theme", chosen_theme, max_age=YEAR_SECONDS, samesite="Lax", httponly=True)
    return response
