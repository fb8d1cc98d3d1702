"""Agreement on a tree: how far people who label the same items agree, and how reliable each of them is.

A label is a path of ids from the first level down (`agreement.py`: the distance of two paths, the disagreement about
one item); an answer to a question without a tree is a path of one step. `ratings.py` is the table of labels by item and
annotator; from it Krippendorff's alpha (`alpha.py`), raw agreement and Gwet's AC1 (`chance.py`), Cohen's kappa and the
adjusted Rand index of each two annotators and the confusion of labels (`pairs.py`), and Dawid and Skene's error rates
(`reliability.py`) are computed. Every figure is a `Figure`: a number with its interval, or no number and the reason for
it.
"""
