from __future__ import annotations

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "webapp.datasets"
    label = "datasets"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.datasets.dataset_lists import DATASETS, FILES
        from webapp.datasets.tree_parts import find_affected_datasets
        from webapp.taxonomy.changes.affected import register_affected

        register_affected(find_affected_datasets, rank=5)
        register_list(DATASETS, "datasets:list")
        register_list(FILES, "datasets:files")
