"""Curves of a training job: charts, the numbers behind them, and what is marked on them."""
