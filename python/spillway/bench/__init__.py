"""The bench of writers: each sample a fresh process, under limits that are proved, by probes that are tested.

Data flows one way: `plan` -> `sample`, which starts `worker` in a separate process -> `record` on disk ->
`summary` -> `tables` and `conclusion` -> `report`, beside `figures`. Inside the measured process run only
`worker` and the probes that it loads.
"""
