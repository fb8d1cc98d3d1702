"""The benchmark of answers: a corpus of submitted answers, judged as attempts are."""
