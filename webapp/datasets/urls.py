from __future__ import annotations

from django.urls import URLPattern, path

from webapp.datasets import dataset_views, file_views
from webapp.datasets.evidence import near_duplicate_views
from webapp.datasets.export import export_views

app_name = "datasets"
urlpatterns: list[URLPattern] = [
    path("datasets/", dataset_views.list_datasets, name="list"),
    path("datasets/new/", dataset_views.create_dataset, name="new"),
    path("datasets/new/look/", dataset_views.preview_dataset, name="preview"),
    path("datasets/new/environments/", dataset_views.search_environments, name="environments"),
    path("datasets/selected/<slug:act>/", dataset_views.run_bulk_act, name="bulk"),
    path("datasets/<slug:dataset>/", dataset_views.show_dataset, name="dataset"),
    path("datasets/<slug:dataset>/live/", dataset_views.show_freezing_progress, name="live"),
    path("datasets/<slug:dataset>/rows/", dataset_views.show_dataset_rows, name="rows"),
    path("datasets/<slug:dataset>/<slug:side>.jsonl", dataset_views.download_side, name="side"),
    path("datasets/<slug:dataset>/near-duplicates/", near_duplicate_views.list_near_duplicates, name="near_duplicates"),
    path("datasets/<slug:dataset>/archive/", dataset_views.archive_dataset, name="archive"),
    path("datasets/<slug:dataset>/restore/", dataset_views.restore_dataset, name="restore"),
    path("datasets/<slug:dataset>/exports/", export_views.list_exports, name="exports"),
    path("datasets/<slug:dataset>/exports/start/", export_views.start_export, name="export_start"),
    path("datasets/<slug:dataset>/exports/<slug:export>.zip", export_views.download_export, name="export_file"),
    path("datasets/<slug:dataset>/exports/<slug:export>/delete/", export_views.delete_export, name="export_delete"),
    path("files/", file_views.list_files, name="files"),
    path("files/upload/", file_views.upload_file, name="file_upload"),
    path("files/selected/<slug:act>/", file_views.run_bulk_act, name="bulk_files"),
    path("files/<slug:file>/", file_views.show_file, name="file"),
    path("files/<slug:file>/dataset/", file_views.create_file_dataset, name="file_make"),
    path("files/<slug:file>/delete/", file_views.delete_file, name="file_delete"),
]
