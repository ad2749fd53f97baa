"""The parts that `spillway.bench` and `spillway.race` share; nothing here imports from either.

Their runs take samples in the order of `schedule`, each in `processes` of its own: `spawn` starts one under a
memory limit of `limits`, and `probes` measure it. `records` keeps what was measured as lines of JSON,
`redaction` clears them of paths and host names, and `disk` has the folders that they lie in. `environment`
and `host` describe the machine, and `options` checks what a caller asks for. `statistics` and `report` build
a report only from these lines.
"""
