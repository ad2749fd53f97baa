"""The measuring bench: each sample a fresh process, under limits that are proved, by probes that are tested.

Data flows one way: `plan` -> `schedule` -> `sample` (which spawns `worker`) -> `samples` on disk -> `summary`
-> `report` and `figures`. `worker` and the probes it loads are all that runs inside the measured process.
"""
