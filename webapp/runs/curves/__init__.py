"""Curves of a training job: charts, the numbers behind them, and what is marked on them.

`charts.py` determines which charts a job's keys make, `chart_points.py` what each draws; `series.py` buckets their
numbers in one query (least, greatest, mean, last; superseded ones count nowhere); `marks.py` lists events along the
way. `static/js/curves.js` asks for the charts that are in view, six at a time, again when the topic `training:ID` says
so and no faster than the server answers; `static/js/curves-draw.js` draws. A zoom asks for the same steps finer, of all
charts. A chart's table is paged by step and needs no script. A point leads to `webapp/runs/rollouts`.
"""
