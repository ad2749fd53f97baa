"""The bench of writers: each sample a fresh process, under limits that are proved, by probes that are tested.

Data flows one way: `plan` -> `sample`, which starts `worker` in a separate process -> `record` on disk ->
`summary` -> `ranking` -> `tables` and `conclusion` -> `report`, beside `figures` and `failures`. `worker` and
the probes that it loads are all that runs inside the measured process.
"""
