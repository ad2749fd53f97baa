"""The race: many writers append to one Delta table at once, by several committers.

Like `spillway.harness` it measures in fresh processes and writes what it measured as lines of JSON; the
report is made from these lines alone. `plan` says what is measured, `cell` runs one race, `worker` is what
its processes do, `check` looks at the table afterwards. What both need is in `spillway.harness`, whose
docstring names the modules.
"""
