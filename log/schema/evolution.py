"""Changes of a topic's schema that older writers and files survive.

A field keeps its number for ever. Allowed are a new nullable field anywhere, a wider type, a relaxed NOT NULL, another name, and a retired field. The
fold itself asks `refusal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ..errors import CallError, InvalidArgument
from ..limits import plain
from .fields import (
    ELEMENT,
    KEY,
    VALUE,
    ArrayType,
    DecimalType,
    Field,
    FieldType,
    StructType,
    field_text,
    join,
    parts_of,
    walk,
    with_parts,
)
from .rules import check_fields, folded, is_name
from .topic_schema import TopicSchema, numbered_from
from .widening import holds_stored, wider_types

_OPERATION = "evolve the schema"


class ChangeKind(StrEnum):
    """The kind of a change to a field."""

    ADDED = "added"
    WIDENED = "widened"
    RELAXED = "relaxed"
    RENAMED = "renamed"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change between two versions."""

    kind: ChangeKind
    path: str
    """The path in the version before, or of the added field."""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}" + (f": {self.detail}" if self.detail else "")


def evolve(
    schema: TopicSchema, wanted: tuple[Field, ...], *, rename: Mapping[str, str] | None = None, retire: Collection[str] = ()
) -> TopicSchema:
    """The next version, or ``schema`` when nothing changes: the fields of ``wanted`` in the old order and new ones behind.

    Fields are matched by name, after ``rename`` (new names by path). ``wanted`` may leave out the paths of ``retire``. Raises `InvalidArgument`,
    naming the field by its path.
    """
    _check_steps(rename, retire)
    wanted = _in_use(wanted)
    check_fields(wanted)
    step = _Step(schema.version + 1, schema.last_id, dict(rename or {}), set(retire))
    fields = step.struct(schema.fields, wanted, "")
    if unused := sorted(step.rename.keys() | step.retire):
        raise InvalidArgument(
            "the schema has no such field",
            operation=_OPERATION,
            object=unused[0],
            expected=", ".join(path for path, _ in live(schema)),
        )
    check_fields(fields)
    return schema if fields == schema.fields else TopicSchema(step.version, fields, step.last_id)


def _check_steps(rename: object, retire: object) -> None:
    names = rename.items() if isinstance(rename, Mapping) else () if rename is None else None
    if names is None or not all(isinstance(path, str) and isinstance(name, str) for path, name in names):
        raise InvalidArgument(
            "fields are renamed by their paths", operation=_OPERATION, expected="{'path': 'new name'}", observed=plain(rename)
        )
    if isinstance(retire, str) or not isinstance(retire, Collection) or not all(isinstance(path, str) for path in retire):
        raise InvalidArgument(
            "fields are retired by their paths", operation=_OPERATION, expected="a list of paths", observed=plain(retire)
        )


def live(schema: TopicSchema) -> Iterator[tuple[str, Field]]:
    """The fields in use by their paths, parents first."""
    return walk(_in_use(schema.fields))


def _in_use(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(one, type=with_parts(one.type, _in_use(parts_of(one.type)))) for one in fields if not one.retired)


@dataclass
class _Step:
    version: int
    last_id: int
    rename: dict[str, str]
    retire: set[str]

    def struct(self, old: tuple[Field, ...], wanted: tuple[Field, ...], under: str) -> tuple[Field, ...]:
        by_name = {field.name: field for field in wanted}
        made = [self._old_field(field, by_name, join(under, field.name)) for field in old]
        new = tuple(by_name.values())
        for field in new:
            if not field.nullable:
                raise _refusal(
                    "a new field must be nullable, as the messages before it have none",
                    join(under, field.name),
                    expected=field_text(replace(field, nullable=True)),
                    observed=field_text(field),
                )
        added, self.last_id = numbered_from(new, self.last_id, beside=tuple(made))
        return (*made, *added)

    def _part(self, part: Field, wanted: Field, path: str) -> Field:
        if path in self.retire or path in self.rename:
            raise _refusal(
                "only fields of structs can be renamed or retired", path, expected="a field", observed=f"the {part.name} of all"
            )
        return self._old_field(part, {wanted.name: wanted}, path)

    def _old_field(self, field: Field, wanted: dict[str, Field], path: str) -> Field:
        """The next version of a field, whose match leaves ``wanted``."""
        if field.retired:
            return field
        if path in self.retire:
            self.retire.remove(path)
            beside = path.removesuffix(field.name)
            renamed = any(old.startswith(beside) and name == field.name for old, name in self.rename.items())
            again = None if renamed else wanted.get(field.name)
            if again is not None and str(again.type) == str(field.type):
                raise _refusal(
                    "the new schema still has the field that is to retire",
                    path,
                    expected=f"no {field.name}, or one of another type",
                    observed=field_text(again),
                    hint="take it out of the new schema, or out of retire",
                )
            return replace(field, retired=self.version)
        name = self.rename.pop(path, field.name)
        if name not in wanted:
            near = next((one for one in wanted if one.lower() == name.lower()), None)
            raise _refusal(
                "the field is missing in the new schema",
                path,
                expected=field_text(replace(field, name=name)),
                observed=near,
                hint=f"name it {name} in the new schema"
                if name != field.name
                else f"retire it (retire=[{path!r}]), or rename it (rename={{{path!r}: …}}), where that is meant",
            )
        new = wanted.pop(name)
        if field.nullable and not new.nullable:
            raise _refusal(
                "a nullable field cannot become NOT NULL, as earlier messages may have NULL there",
                path,
                expected=field_text(field),
                observed=field_text(new),
            )
        type_ = self.type_of(field.type, new.type, path)
        former = field.former_names if name == field.name else (*field.former_names, field.name)
        return replace(field, name=name, type=type_, nullable=new.nullable, doc=new.doc or field.doc, former_names=former)

    def type_of(self, old: FieldType, new: FieldType, path: str) -> FieldType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return StructType(self.struct(old.fields, new.fields, path))
        if type(old) is type(new) and parts_of(old):
            pairs = zip(parts_of(old), parts_of(new), strict=True)
            return with_parts(old, tuple(self._part(before, behind, join(path, before.name)) for before, behind in pairs))
        if not holds_stored(new, old):
            raise _refusal(
                "the field's type cannot change in this way",
                path,
                expected=f"{old}{_wider_text(old)}",
                observed=str(new),
                hint="add a field of the other type, and retire this one",
            )
        return new


def _wider_text(type_: FieldType) -> str:
    if isinstance(type_, DecimalType):
        return f", or more digits before the point: decimal(p,{type_.scale})"
    wider = wider_types(type_)
    return f", or wider: {', '.join(wider)}" if wider else ""


def _refusal(message: str, path: str, *, expected: str, observed: str | None, hint: str | None = None) -> InvalidArgument:
    return InvalidArgument(message, operation=_OPERATION, object=path, expected=expected, observed=observed, hint=hint)


# --- The judge: by numbers alone ------------------------------------------------------------------------------------------------------


def refusal(before: TopicSchema | None, after: TopicSchema) -> str | None:
    """The reason why ``after`` may not follow ``before``, or be a first schema."""
    if after.version != (1 if before is None else before.version + 1):
        return f"version {after.version} does not follow {'no schema' if before is None else f'version {before.version}'}"
    try:
        check_fields(after.fields)
    except CallError as error:
        return str(error)
    ids = sorted(field.id for _, field in walk(after.fields))
    if ids != list(range(1, len(ids) + 1)) or after.last_id != len(ids):
        return "the fields' numbers are not one each, from 1 to the last"
    if (found := _of_stored_names(after.fields, "") or _of_fixed_parts(after.fields)) is not None:
        return found
    if before is None:
        return next((f"{path} has a past" for path, field in walk(after.fields) if field.retired or field.former_names), None)
    return _of_fields(before.fields, after.fields, "", after.version)


def _of_stored_names(fields: tuple[Field, ...], under: str) -> str | None:
    """The fault in the stored names of a struct's fields and those below."""
    stored = {folded(field.stored_name) for field in fields}
    if len(stored) < len(fields) or not all(is_name(field.stored_name) for field in fields):
        return f"the fields of {under or 'the schema'} are not stored under one name each"
    found = (_of_stored_names(parts_of(field.type), join(under, field.name)) for field in fields if parts_of(field.type))
    return next((one for one in found if one is not None), None)


def _of_fixed_parts(fields: tuple[Field, ...]) -> str | None:
    """The fault in elements, keys and values: they have fixed names and cannot retire."""
    for path, field in walk(fields):
        fixed = () if isinstance(field.type, StructType) else parts_of(field.type)
        names = (ELEMENT,) if isinstance(field.type, ArrayType) else (KEY, VALUE)
        if fixed and [(part.name, part.stored_name, part.retired) for part in fixed] != [(name, name, 0) for name in names]:
            return f"the parts of {path} are not {' and '.join(names)}"
    return None


def _of_fields(before: tuple[Field, ...], after: tuple[Field, ...], under: str, version: int) -> str | None:
    by_id = {field.id: field for field in after}
    for old in before:
        path = join(under, old.name)
        new = by_id.pop(old.id, None)
        if new is None:
            return f"{path} is gone"
        if (found := _of_field(old, new, path, version)) is not None:
            return found
    # Each number is there once, and all of before were found: these are new.
    for new in by_id.values():
        if new.retired or new.former_names or not new.nullable:
            return f"{join(under, new.name)} is no new nullable field"
        if any(part.retired or part.former_names for _, part in walk(parts_of(new.type))):
            return f"{join(under, new.name)} has parts that are not new"
    return None


def _of_field(old: Field, new: Field, path: str, version: int) -> str | None:
    if new.retired:
        expected = old if old.retired else replace(old, retired=version)
        return None if new == expected else f"{path} is retired, and changed or by another version"
    if old.retired:
        return f"{path} was retired, and is used again"
    if old.stored_name != new.stored_name:
        return f"{path} is stored under another name"
    if old.nullable and not new.nullable:
        return f"{path} becomes NOT NULL"
    if new.former_names != (old.former_names if old.name == new.name else (*old.former_names, old.name)):
        return f"{path} does not have its former names"
    if isinstance(old.type, StructType) and isinstance(new.type, StructType):
        return _of_fields(old.type.fields, new.type.fields, path, version)
    if parts_of(old.type) and type(old.type) is type(new.type):
        pairs = zip(parts_of(old.type), parts_of(new.type), strict=True)
        for before, behind in pairs:
            if before.id != behind.id:
                return f"{join(path, before.name)} is another field"
            if (found := _of_field(before, behind, join(path, before.name), version)) is not None:
                return found
        return None
    return None if holds_stored(new.type, old.type) else f"{path} changes from {old.type} to {new.type}"


# --- The difference, for people -------------------------------------------------------------------------------------------------------


def changes(before: TopicSchema, after: TopicSchema) -> tuple[SchemaChange, ...]:
    """The changes in the order of fields."""
    return tuple(_changes(before.fields, after.fields, ""))


def _changes(before: tuple[Field, ...], after: tuple[Field, ...], under: str) -> Iterator[SchemaChange]:
    by_id = {field.id: field for field in after}
    for old in before:
        new = by_id.pop(old.id)
        path = join(under, old.name)
        if old.retired:
            continue
        if new.retired:
            yield SchemaChange(ChangeKind.RETIRED, path)
            continue
        if old.name != new.name:
            yield SchemaChange(ChangeKind.RENAMED, path, f"now {new.name}")
        if new.nullable and not old.nullable:
            yield SchemaChange(ChangeKind.RELAXED, path, "may be NULL now")
        if parts_of(old.type):
            yield from _changes(parts_of(old.type), parts_of(new.type), path)
        elif old.type != new.type:
            yield SchemaChange(ChangeKind.WIDENED, path, f"{old.type} to {new.type}")
    for new in by_id.values():
        if not new.retired:
            yield SchemaChange(ChangeKind.ADDED, join(under, new.name), str(new.type))


def difference(expected: tuple[Field, ...], found: tuple[Field, ...]) -> str:
    """The difference by path, or in the order; numbers and descriptions do not count."""
    left, right = ({path: replace(field, doc="") for path, field in walk(_in_use(fields))} for fields in (expected, found))
    said = [f"{path} is missing" for path in left if path not in right]
    said += [f"{path} is not in the topic's schema" for path in right if path not in left]
    for path in left:
        if path in right and (one := _shallow(left[path])) != (other := _shallow(right[path])):
            said.append(f"{path}: {one} there, {other} here")
    order = ", ".join(right)
    return "; ".join(said) or (f"in another order: {order}" if order != ", ".join(left) else "")


def _shallow(field: Field) -> str:
    kind = type(field.type).__name__.removesuffix("Type").lower() if parts_of(field.type) else str(field.type)
    return kind if field.nullable else f"{kind} not null"
