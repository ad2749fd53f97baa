"""A pipeline over flights in a CSV file: a transformation, and three checks, one of which rows fail."""

from pathlib import Path

from pyspark.sql import SparkSession

from spillway.spark import Pipeline, Sink, between, not_null, unique

here = Path.cwd()
here.joinpath("flights.csv").write_text(
    "flight,origin,dep_delay,air_time\nUA1545,EWR,2,227\nUA1714,LGA,4,227\nAA1141,JFK,2,160\nB6725,JFK,-1,1830\n"
)
result = Pipeline(
    source=str(here / "flights.csv"),
    transform=lambda flights: flights.selectExpr("*", "dep_delay > 3 AS late"),
    checks=[not_null("origin"), unique("flight"), between("air_time", 0, 1_200)],
    bad_rows="quarantine",
    sink=Sink(str(here / "flights"), table="delta", partition_by="origin"),
    run_id="2013-01-01",
).run(SparkSession.builder.getOrCreate())
print(result.rows_written, "written,", result.rows_quarantined, "quarantined:", result.checks)
