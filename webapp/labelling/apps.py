from django.apps import AppConfig


class LabellingConfig(AppConfig):
    name = "webapp.labelling"
    label = "labelling"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.labelling.outcome.effects import reopen_session
        from webapp.labelling.outcome.tree_parts import LABELS, REVIEWS, find_affected_sessions
        from webapp.labelling.session_lists import SESSIONS
        from webapp.taxonomy.changes.affected import register_affected
        from webapp.taxonomy.changes.undo import register_undo
        from webapp.taxonomy.coverage import register_measure

        register_list(SESSIONS, "labelling:list")
        register_affected(find_affected_sessions, rank=4)
        register_undo(reopen_session)
        register_measure(LABELS)
        register_measure(REVIEWS)
