"""A run as one page of HTML that holds all that it shows: its ``report.html``. No part of it is fetched."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from spillway.bench.builds import build_tables
from spillway.bench.conclusion import conclude, headline, verdict_caveats
from spillway.bench.figures import charts_across, charts_of
from spillway.bench.ranking import rankings
from spillway.bench.report import PROBES_OF_SAMPLES, describe_run, reading, tables_by_setting
from spillway.bench.tables import setting_title
from spillway.bench.variations import variation_tables
from spillway.errors import MissingExtraError
from spillway.harness.report.plots import embedded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.bench.summary import RunSummary
    from spillway.harness.report.plots import Chart
    from spillway.harness.report.table import Table

__all__ = ["HTML_REPORT", "html_report", "write_html"]

HTML_REPORT = "report.html"
_TEMPLATE = "report.html.jinja"
_NUMBER = re.compile(r"^([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)([KM]?)")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6}


def write_html(run: RunSummary) -> Path:
    """Write ``report.html`` into the run's folder.

    Raises:
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    path = run.folder / HTML_REPORT
    path.write_text(html_report(run), encoding="utf-8")
    return path


def html_report(run: RunSummary) -> str:
    """The page: findings, caveats, figures and tables of each setting, the machine, and the command.

    Raises:
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingExtraError("jinja2", "bench", "write report.html") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sort_key"] = _sort_key
    source = resources.files("spillway.bench").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(_content(run))


def _content(run: RunSummary) -> dict[str, Any]:
    """The content of the page, from the same parts as ``report.md``."""
    verdicts = conclude(run)
    tables = tables_by_setting(run)
    titles = [setting_title(setting) for setting in run.settings]
    return {
        "described": describe_run(run),
        "reading": reading(run),
        "across": _embedded(charts_across(run)),
        "variations": [
            {"title": table.title, "table": table} for table in (*build_tables(run), *variation_tables(run))
        ],
        "probes_of_samples": PROBES_OF_SAMPLES,
        "verdict_caveats": verdict_caveats(run),
        "settings": [
            {
                "title": title,
                "id": f"setting-{place}",
                "headline": headline(rankings(run, setting)[0]),
                "verdict": next((each for each in verdicts if each.title == title), None),
                "figures": _embedded(charts_of(run, setting)),
                "tables": [_short_title(table, title) for table in tables[setting]],
            }
            for place, (setting, title) in enumerate(zip(run.settings, titles, strict=True))
        ],
    }


def _embedded(charts: Sequence[Chart]) -> list[dict[str, str]]:
    """Charts with their titles and the lines below as text."""
    return [{"title": each.title, "below": each.below, "drawing": embedded(each)} for each in charts]


def _short_title(table: Table, setting: str) -> dict[str, Any]:
    """A table, with the part of its title that the section does not have already."""
    return {"title": table.title.removesuffix(setting).rstrip(": ") or table.title, "table": table}


def _sort_key(text: str) -> str:
    """The number that a table's text begins with; nothing where it begins with none."""
    found = _NUMBER.match(text)
    return "" if found is None else repr(float(found[1].replace(",", "")) * _SCALES[found[2]])
