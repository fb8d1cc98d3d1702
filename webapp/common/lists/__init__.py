"""Lists of rows as every page shows them: columns to choose and to sort by, filters as chips, saved views, bulk acts.

A page declares its list (`RowList` with its `Column`s), and gives `list_context` the page of rows (from
`webapp.common.paging`) and the form of its filters (`webapp.common.forms.filter_bar`). `templates/lists/` draws it:
`filters.html` (chips that apply at once), `views.html` (saved views), `head.html` (sorting, selection).
`static/js/lists.js` adds what needs a script; without JavaScript, filters have a button and rows are links.
"""
