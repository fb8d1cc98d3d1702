from django.urls import URLPattern, path

from webapp.accounts import admin_views, login_views, token_views

app_name = "accounts"
urlpatterns: list[URLPattern] = [
    path("", login_views.show_profile, name="profile"),
    path("login/", login_views.login, name="login"),
    path("logout/", login_views.logout, name="logout"),
    path("theme/", login_views.set_theme, name="theme"),
    path("tokens/", token_views.list_tokens, name="tokens"),
    path("tokens/all/", token_views.list_all_tokens, name="all_tokens"),
    path("tokens/<int:pk>/revoke/", token_views.end_token, name="revoke_token"),
    path("users/<int:pk>/", admin_views.show_person, name="user"),
    path("users/<int:pk>/role/", admin_views.change_role, name="user_role"),
    path("users/<int:pk>/active/", admin_views.set_active, name="user_active"),
    path("users/<int:pk>/password/", admin_views.give_password, name="user_password"),
]
