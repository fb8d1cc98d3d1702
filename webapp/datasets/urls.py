from __future__ import annotations

from django.urls import URLPattern, path

from webapp.datasets import dataset_views, file_views
from webapp.datasets.evidence import near_duplicate_views
from webapp.datasets.export import export_views

app_name = "datasets"
urlpatterns: list[URLPattern] = [
    path("datasets/", dataset_views.listed, name="list"),
    path("datasets/new/", dataset_views.new, name="new"),
    path("datasets/new/look/", dataset_views.looked, name="preview"),
    path("datasets/new/environments/", dataset_views.environments, name="environments"),
    path("datasets/selected/<slug:act>/", dataset_views.bulk, name="bulk"),
    path("datasets/<slug:dataset>/", dataset_views.dataset, name="dataset"),
    path("datasets/<slug:dataset>/live/", dataset_views.live, name="live"),
    path("datasets/<slug:dataset>/rows/", dataset_views.rows, name="rows"),
    path("datasets/<slug:dataset>/<slug:side>.jsonl", dataset_views.download, name="side"),
    path("datasets/<slug:dataset>/near-duplicates/", near_duplicate_views.near_duplicates, name="near_duplicates"),
    path("datasets/<slug:dataset>/archive/", dataset_views.archive, name="archive"),
    path("datasets/<slug:dataset>/restore/", dataset_views.restore, name="restore"),
    path("datasets/<slug:dataset>/exports/", export_views.exports, name="exports"),
    path("datasets/<slug:dataset>/exports/start/", export_views.start, name="export_start"),
    path("datasets/<slug:dataset>/exports/<slug:export>.zip", export_views.fetch, name="export_file"),
    path("datasets/<slug:dataset>/exports/<slug:export>/delete/", export_views.delete, name="export_delete"),
    path("files/", file_views.files, name="files"),
    path("files/upload/", file_views.upload, name="file_upload"),
    path("files/selected/<slug:act>/", file_views.bulk, name="bulk_files"),
    path("files/<slug:file>/", file_views.file, name="file"),
    path("files/<slug:file>/dataset/", file_views.make, name="file_make"),
    path("files/<slug:file>/delete/", file_views.delete, name="file_delete"),
]
