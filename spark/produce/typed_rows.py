"""A user's DataFrame as rows of a typed topic: its columns are the fields of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...log.errors import InvalidArgument
from ...log.message.message import SEND_SCHEMA
from ...log.produce.typed_rows import RowRules, rules_of
from ...log.schema.columns import convert_columns
from ...log.schema.labels import label_name, labelled_fields
from ...log.topic.settings import TopicSettings
from ...log.topic.topics import Topic
from .columns import MessageColumns, as_compared, found_columns, in_order, json_of, label, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

OWN_COLUMNS = frozenset(SEND_SCHEMA.names)


def typed_rules(topic: Topic) -> RowRules | None:
    """The rules for a topic's rows, by its schema as far as this process has read."""
    schema = topic.tail.state.schema
    return None if schema is None else rules_of(topic.settings, schema)


def ordered_fields(
    df: DataFrame, mapping: MessageColumns, settings: TopicSettings, rules: RowRules
) -> tuple[MessageColumns, DataFrame]:
    """Fields beside columns of messages, ordered, and the mapping for them.

    Raises `InvalidArgument` for columns that are no fields or of other types, and as `found_columns`.
    """
    from pyspark.sql import functions as F

    _check_labels(mapping, rules)
    names = _field_names(df, mapping, rules)
    check_fields(names, df.schema, rules, operation="write_ordered")
    if rules.message_group is not None:
        mapping = replace(mapping, message_group=_label_column(df, rules.message_group, rules))
    found = found_columns(df, mapping, settings)
    fields = {name: F.col(quoted(name)) for name in names}
    # Tasks take the group from the field themselves, and check it; here it only routes.
    unstaged = () if rules.message_group is None else ("message_group",)
    content = json_of(df, F.struct(*fields.values()))
    return mapping, in_order(df, mapping, settings, {**found, **fields}, content=content, unstaged=unstaged)


def check_fields(names: Sequence[str], schema: StructType, rules: RowRules, *, operation: str) -> None:
    """Raise `InvalidArgument`, with the whole difference, unless these columns are fields of the schema."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    try:
        arrow = to_arrow_schema(StructType([schema[name] for name in names]), timezone="UTC")
        convert_columns(arrow.empty_table(), rules.schema)
    except InvalidArgument as error:
        error.operation, error.hint = operation, "nothing was written"
        raise


def _check_labels(mapping: MessageColumns, rules: RowRules) -> None:
    if mapping.body is not None:
        raise InvalidArgument(
            "the topic has a schema, so its messages have fields and no body",
            operation="write_ordered",
            expected=rules.schema.ddl,
            observed=f"body={label(mapping.body)}",
            hint="leave body out: the columns are the fields",
        )
    from_fields = {"message_group": rules.message_group, "tag": rules.tag}
    for name, ids in {**from_fields, "keys": rules.keys[0] if rules.keys else None}.items():
        if ids is not None and getattr(mapping, name) is not None:
            raise InvalidArgument(
                f"the topic takes {name} from a field of the rows",
                operation="write_ordered",
                object=label(getattr(mapping, name)),
                expected=f"{name}=None, as it comes from {label_name(ids, rules.schema)}",
            )


def _field_names(df: DataFrame, mapping: MessageColumns, rules: RowRules) -> list[str]:
    """All columns but those named for another part of the message, or by ``order_by``, that are no fields."""
    known = {as_compared(df, name) for field in rules.schema.fields for name in (field.name, *field.former_names)}
    taken = {as_compared(df, name) for _, name in mapping.named()} | {as_compared(df, label(one)) for one in mapping.order_by}
    names = [name for name in df.columns if as_compared(df, name) in known or as_compared(df, name) not in taken]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(f"columns {', '.join(twice)} are there twice", operation="write_ordered")
    return names


def _label_column(df: DataFrame, ids: tuple[int, ...], rules: RowRules) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    path: list[str] = []
    type_: object = df.schema
    for field in labelled_fields(ids, rules.schema):
        names = type_.fieldNames() if isinstance(type_, StructType) else []
        name = next((one for one in (field.name, *reversed(field.former_names)) if one in names), None)
        if name is None:
            raise InvalidArgument(
                "the field that gives the message group is missing",
                operation="write_ordered",
                object=label_name(ids, rules.schema),
                observed=", ".join(df.columns),
            )
        path.append(name)
        assert isinstance(type_, StructType), "it has the field"
        type_ = type_[name].dataType
    return F.col(".".join(quoted(name) for name in path)).cast("string")
