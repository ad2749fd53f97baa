"""Records say what happened, not where."""

from __future__ import annotations

import platform

import pytest

from spillway.harness.processes import redact


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("cannot open /srv/data/in/file.parquet: gone", "cannot open file.parquet: gone"),
        ('File "/opt/lib-1.0/x.py", line 3', 'File "x.py", line 3'),
        ("reading file:///srv/runs/outputs/0a1b.parquet.", "reading 0a1b.parquet."),
        ("reading file:/srv/runs/outputs/0a1b.parquet.", "reading 0a1b.parquet."),
        ("3/4 of 12 MB/s, see https://example.org/a/b", "3/4 of 12 MB/s, see https://example.org/a/b"),
        ("Generic S3 error: s3://lake/races/a/1.json: 403", "Generic S3 error: 1.json: 403"),
        ("PUT https://lake.s3.us-east-1.amazonaws.com/races/1.json: 503", "PUT 1.json: 503"),
        ("PUT https://s3.us-east-1.amazonaws.com/lake/1.json: 503", "PUT 1.json: 503"),
        ("<BucketName>lake</BucketName>", "<BucketName></BucketName>"),
        ("User: arn:aws:iam::123456789012:user/me may not list", "User: arn may not list"),
        ("a plain sentence", "a plain sentence"),
    ],
)
def test_paths_are_cut_to_their_last_part(text, redacted):
    assert redact(text) == redacted


def test_the_hosts_name_is_left_out():
    assert platform.node() not in redact(f"connection to {platform.node()} refused")
