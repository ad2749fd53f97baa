"""The measuring bench: each sample a fresh process, under limits that are proved, by probes that are tested.

Data flows one way: `plan` -> `schedule` -> `sample` (which spawns `worker`) -> `samples` on disk -> `summary`
-> `ranking` -> `tables` and `conclusion` -> `report`, beside `figures` and `failures`. `worker` and the
probes it loads are all that runs inside the measured process.

Some modules serve `spillway.race` too, and nothing here imports from there: `options`, `schedule`,
`processes`, `live` and `samples` while a run goes on; `grouping`, `statistics`, `text_table`, `canvas` and
`document` for its report; `environment`, `host`, `output` and `scrub` for the machine it is on.
"""
