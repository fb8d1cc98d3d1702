from django.urls import URLPattern, path

from webapp.accounts import views

app_name = "accounts"
urlpatterns: list[URLPattern] = [
    path("", views.profile, name="profile"),
    path("login/", views.login, name="login"),
    path("logout/", views.logout, name="logout"),
    path("theme/", views.theme, name="theme"),
]
