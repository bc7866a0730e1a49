"""The manifest of a stream: where it enters, its columns, its source, what may be shed."""

from __future__ import annotations

from itertools import pairwise

from orchestrator.documents.document import Field, Options, Section
from orchestrator.documents.units import rate_bytes_s
from orchestrator.edges import sources
from orchestrator.edges.sources.formats.form_options import WithForm, read_path, row_form
from orchestrator.edges.sources.formats.row_form import RowForm
from orchestrator.errors import InvalidInput
from orchestrator.records import (
    Guarantee,
    Overdue,
    Shed,
    SourceSpec,
    StreamManifest,
    StreamRecord,
)
from streams.language import QueryError
from streams.plan.made_names import INFIXES
from streams.scheduling.shedder import value_of
from streams.vectors.chunk import stream_schema, type_names
from streams.vectors.reserved import taken

LEAST_SHED_MS = 1e-3
"""Load shedders count in whole microseconds."""


def read_stream(document: Field, section: Section) -> StreamManifest:
    """The rest of a document of this kind."""
    section.refuse("replay", "Write it as the stream's source: `from: {replay: {…}}`.")
    declared = section.need("columns")
    columns, fields = _columns(declared)
    options: Options = {
        "burst": ("burst", Field.count),
        "shed": ("shed", lambda field: _shed(field, columns)),
        "overdue": ("overdue", read_overdue),
        "source": ("from", sources.read),
    }
    given = section.given(options)
    source: SourceSpec | None = given.get("source")
    _check_fields(declared, columns, fields, source)
    shed = section.get("shed")
    if shed is not None and source is not None and source.guarantee is Guarantee.JOURNALED:
        raise InvalidInput(
            shed.where,
            shed.name,
            None,
            "cannot stand beside a source with a journal, which must number tuples alike when it "
            "is read again: what is shed depends on when they come",
            "Remove it, or write `durable: no` in `from`: then the stream begins anew if its site "
            "is killed.",
        )
    overdue = section.get("overdue")
    drops = given.get("overdue") is Overdue.DROP
    if overdue is not None and drops and source is not None:
        _check_drops(overdue, source)
    dropping = "shed" if shed is not None else "overdue: drop" if drops else None
    site, standby = _sites(section, source, dropping)
    return StreamManifest(
        file=document.where,
        written=document.written(),
        record=StreamRecord(
            name=_stream_name(section.need("name")),
            site=site,
            standby=standby,
            columns=columns,
            fields=fields,
            rate_bytes_s=section.need("rate").quantity(rate_bytes_s, positive=True),
            **given,
        ),
    )


def read_overdue(field: Field) -> Overdue:
    """Whether overdue tuples are kept or dropped."""
    return Overdue(field.choice([each.value for each in Overdue]))


def _check_drops(field: Field, source: SourceSpec) -> None:
    """Refuse to drop what was promised to be kept."""
    if source.guarantee is Guarantee.JOURNALED:
        field.refuse(
            "cannot stand beside a source with a journal, which promises clients that what it has "
            "accepted is kept, and numbers it alike when it is read again",
            "Write `overdue: keep`, or `durable: no` in `from`: then the stream begins anew if its "
            "site is killed.",
        )


def _sites(
    section: Section, source: SourceSpec | None, dropping: str | None
) -> tuple[str, str | None]:
    """Where a stream enters, and the site that stands by for that one, if there is one.

    Parameters
    ----------
    dropping
        The field by which it drops tuples; None: it drops none.
    """
    named = section.get("sites")
    if named is None:
        return section.need("site").slug(), None
    if (single := section.get("site")) is not None:
        single.refuse("is there beside `sites`", "Write `site: …` or `sites: [a, b]`, not both.")
    sites = [item.slug() for item in named.items()]
    if len(sites) != 2 or sites[0] == sites[1]:
        named.refuse_list("does not name two sites", "Write `sites: [a, b]`; for one, `site: a`.")
    tied = "there is none" if source is None else sources.restore(source).tied
    if tied is not None:
        what = "`from`" if source is None else f"`from: {source.driver}`"
        again = ""
        if source is not None and source.guarantee is Guarantee.JOURNALED:
            again = "; a site that is started again goes on after its journal"
        named.refuse_list(
            f"needs a source that either site can bring in; {what}: {tied}",
            f"Or write `site: {sites[0]}`{again}.",
        )
    if dropping is not None:
        named.refuse_list(
            "needs the same tuples at both sites, and what is dropped depends on when they come"
            f" (`{dropping}`)",
            f"Remove `{dropping}`, or write `site: …`.",
        )
    return sites[0], sites[1]


def _stream_name(field: Field) -> str:
    name = field.identifier()
    for infix, whose in INFIXES.items():
        if infix in name:
            field.refuse(f"contains {infix}, as the names of {whose} do", "Choose another name.")
    return name


def _columns(field: Field) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Types of columns, and paths of the fields that they come from where these are given."""
    columns: dict[str, str] = {}
    fields: dict[str, tuple[str, ...]] = {}
    for key, value in field.entries():
        name = key.column_name()
        if (reason := taken(name)) is not None:
            remedy = f"Choose another name, for the field with `{{type: …, from: {name}}}`."
            key.refuse(reason, remedy)
        if not value.is_mapping():
            columns[name] = value.choice(type_names)
            continue
        with value.section() as section:
            columns[name] = section.need("type").choice(type_names)
            if (path := section.get("from")) is not None:
                fields[name] = read_path(path)
    if not columns:
        field.refuse("has no column", "Declare at least one column.")
    return columns, fields


def _check_fields(
    field: Field,
    columns: dict[str, str],
    fields: dict[str, tuple[str, ...]],
    source: SourceSpec | None,
) -> None:
    """Refuse columns of which two come from one field, or one from within another's."""
    driver = None if source is None else sources.restore(source)
    form = RowForm(columns=columns, fields=fields)
    if isinstance(driver, WithForm):
        form = row_form(driver, columns, fields)
    paths = sorted(form.paths.items(), key=lambda pair: pair[1])
    for (name, path), (other, longer) in pairwise(paths):
        if longer[: len(path)] == path:
            where = f"the field {'.'.join(path)}"
            problem = f"has two columns, {name} and {other}, that come from {where}"
            if form.time_column in (name, other) and form.time_column not in columns:
                column = other if name == form.time_column else name
                remedy = f"Write `timestamp: {{column: {column}}}`."
            else:
                remedy = "Leave one of them out."
            field.refuse(problem, remedy)


def _shed(field: Field, columns: dict[str, str]) -> Shed:
    def worth(value: Field) -> str:
        try:
            value_of(value.text(), stream_schema(columns))
        except QueryError as error:
            value.refuse(f"cannot value a tuple: {error.message}", "Write an expression over it.")
        return value.text()

    with field.section() as section:
        per = section.need("per")
        per_ms = per.interval_ms()
        if per_ms < LEAST_SHED_MS:
            per.refuse("is shorter than the clock can tell", "Write 1 us or more.")
        return Shed(
            tuples=section.need("tuples").count(),
            per_ms=per_ms,
            **section.given({"value": ("value", worth)}),
        )
