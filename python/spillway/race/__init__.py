"""The race: many writers append to one Delta table at once, or change rows of it, by several committers.

Like `spillway.bench`, it measures in fresh processes and writes its measurements as lines of JSON; the report
uses only these lines. `model` has what writers do, `run` the races to run, `cell` runs one of them,
`worker` is the program of its processes, and `check` looks at the table afterwards. `spillway.harness` has
the parts that both share.
"""
