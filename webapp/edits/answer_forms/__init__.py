"""Answer forms in drafts of tasks: inputs, parts of a draft, the form that is proposed for a superseded one."""
