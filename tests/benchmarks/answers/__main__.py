"""`python -m tests.benchmarks.answers`: see `judging.py`."""

from tests.benchmarks.answers.judging import main

if __name__ == "__main__":
    main()
