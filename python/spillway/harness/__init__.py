"""The parts that `spillway.bench` and `spillway.race` share; nothing here imports from either.

`schedule` orders the samples. Each sample runs in a separate process, which `processes` starts under a memory
limit of `limits`, and `probes` measure it; `progress` shows how far the run is. `environment` describes the
machine. `records` keeps what was measured as lines of JSON, and `statistics`, `plots` and `report` build a
report only from these lines.
"""
