"""Labels that people put into groups.

`label_groups.py` checks a grouping and puts it into words; `suggestions.py` finds labels with equal or similar names;
`acts.py` changes what is filled in; `desk.py` prepares it for a page.
"""
