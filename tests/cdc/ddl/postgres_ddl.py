"""What is done to the tables of a PostgreSQL themselves, by a session, without a commit."""

from __future__ import annotations

from collections.abc import Callable

from tests.cdc.ddl.postgres_rows import ROWS_OF
from tests.cdc.ddl.postgres_session import OWN, PUBLICATION, Session

ALL_CHANGES = "insert, update, delete, truncate"


def rename(session: Session) -> None:
    (schema, name), new = session.some(), f"renamed{session.making.number()}"
    session.do(f'ALTER TABLE "{schema}"."{name}" RENAME TO "{new}"')
    session.run(ROWS_OF["id"][1], schema, new)


def rename_and_make_anew(session: Session) -> None:
    schema, name = session.some()
    session.do(f'ALTER TABLE "{schema}"."{name}" RENAME TO "renamed{session.making.number()}"')
    session.do(f'CREATE TABLE "{schema}"."{name}" (id int PRIMARY KEY, a text, n bigint)')
    session.do(f'INSERT INTO "{schema}"."{name}" SELECT g, \'anew\', g FROM generate_series(1, 8) g')
    session.publish(schema, name)


def swap(session: Session) -> None:
    """The names of two tables."""
    one, other, between = session.some(), session.some(), f"between{session.making.number()}"
    if one[0] == other[0] and one != other:
        session.do(f'ALTER TABLE "{one[0]}"."{one[1]}" RENAME TO "{between}"')
        session.do(f'ALTER TABLE "{other[0]}"."{other[1]}" RENAME TO "{one[1]}"')
        session.do(f'ALTER TABLE "{one[0]}"."{between}" RENAME TO "{other[1]}"')
        session.run(ROWS_OF["id"][1], *one)


def drop_and_make_anew(session: Session) -> None:
    schema, name = session.some()
    session.do(f'DROP TABLE "{schema}"."{name}"')
    session.do(f'CREATE TABLE "{schema}"."{name}" (id int PRIMARY KEY, n bigint, a text, more int)')
    session.do(f'INSERT INTO "{schema}"."{name}" SELECT g, g, \'again\', g FROM generate_series(3, 12) g')
    session.publish(schema, name)


def drop(session: Session) -> None:
    schema, name = session.some()
    if name not in ("plain", "whole"):
        session.do(f'DROP TABLE "{schema}"."{name}"')


def make(session: Session) -> None:
    session.new()


def move(session: Session) -> None:
    """Into another schema."""
    schema, name = session.some()
    others = [other for (other,) in session.ask("SELECT nspname FROM pg_namespace WHERE nspname IN ('other', 'elsewhere')")]
    session.do(f'ALTER TABLE "{schema}"."{name}" SET SCHEMA {others[0] if schema == "public" else "public"}')


def rename_schema(session: Session) -> None:
    """If nobody has a table of it for itself: its rows could not be read under its new name."""
    if session.avoided:
        return
    [(name,)] = session.ask("SELECT nspname FROM pg_namespace WHERE nspname IN ('other', 'elsewhere')")
    session.do(f"ALTER SCHEMA {name} RENAME TO {'other' if name == 'elsewhere' else 'elsewhere'}")


def truncate(session: Session) -> None:
    schema, name = session.some()
    session.do(f'TRUNCATE "{schema}"."{name}"')
    session.run(ROWS_OF["id"][0], schema, name)


def truncate_two(session: Session) -> None:
    one, other = session.some(), session.some()
    session.do(f'TRUNCATE "{one[0]}"."{one[1]}", "{other[0]}"."{other[1]}"')


def rewrite(session: Session) -> None:
    """All rows into a new file, of a new type or by an index, between changes of rows."""
    schema, name = session.some()
    session.run(ROWS_OF["id"][1], schema, name)
    if session.chance.random() < 0.5:
        session.do(f'ALTER TABLE "{schema}"."{name}" ALTER id TYPE bigint, ALTER n TYPE bigint')
    else:
        [(index,)] = session.ask(
            "SELECT i.indexrelid::regclass::text FROM pg_index i WHERE i.indisprimary"
            " AND i.indrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) UNION ALL SELECT '' LIMIT 1",
            schema,
            name,
        )
        if index:
            session.do(f'CLUSTER "{schema}"."{name}" USING {index.rpartition(".")[2]}')
    session.run(ROWS_OF["id"][2], schema, name)


def add_column(session: Session) -> None:
    (schema, name), column = session.some(), f"c{session.making.number()}"
    session.do(f'ALTER TABLE "{schema}"."{name}" ADD {column} int')
    session.do(f'UPDATE "{schema}"."{name}" SET {column} = n % 1000 WHERE id % 2 = 0')


def fill_column(session: Session) -> None:
    """With a new column that has a default: one for all rows, which may go at once, or one for each."""
    (schema, name), column = session.some(), f"c{session.making.number()}"
    session.do(
        f'ALTER TABLE "{schema}"."{name}" ADD {column} int NOT NULL DEFAULT {session.chance.choice(("7", "random() * 1000"))}'
    )
    if session.chance.random() < 0.5:
        session.do(f'ALTER TABLE "{schema}"."{name}" ALTER {column} DROP NOT NULL, ALTER {column} DROP DEFAULT')


def drop_column(session: Session) -> None:
    if added := _added(session):
        table, column = added
        session.do(f'ALTER TABLE {table} DROP "{column}"')


def drop_and_add_column(session: Session) -> None:
    """By the same name."""
    if added := _added(session):
        table, column = added
        session.do(f'ALTER TABLE {table} DROP "{column}"')
        session.do(f'ALTER TABLE {table} ADD "{column}" bigint')


def rename_column(session: Session) -> None:
    if added := _added(session):
        table, column = added
        session.do(f'ALTER TABLE {table} RENAME "{column}" TO c{session.making.number()}')


def use_column(session: Session) -> None:
    """With other values."""
    if added := _added(session):
        table, column = added
        session.do(f'ALTER TABLE {table} ALTER "{column}" TYPE bigint USING "{column}" + 1')


def widen_column(session: Session) -> None:
    if added := _added(session):
        table, column = added
        session.do(f'ALTER TABLE {table} ALTER "{column}" TYPE bigint')
        session.do(f'UPDATE {table} SET "{column}" = 5000000000 WHERE id % 3 = 0')


def _added(session: Session) -> tuple[str, str] | None:
    """A table, and a column that it got later."""
    table = session.some()
    added = [one for one in session.columns()[table] if one.startswith("c")]
    return (f'"{table[0]}"."{table[1]}"', session.chance.choice(added)) if added else None


def change_identity(session: Session) -> None:
    (schema, name), drawn = session.some(), session.chance.random()
    if drawn < 0.7:
        session.do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY {session.chance.choice(("FULL", "DEFAULT"))}')
    elif drawn < 0.85:
        index = f"by_index{session.making.number()}"
        session.do(f'CREATE UNIQUE INDEX {index} ON "{schema}"."{name}" (id)')
        session.do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY USING INDEX {index}')
    else:
        session.do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY NOTHING')
        session.do(
            f'INSERT INTO "{schema}"."{name}" (id, a) SELECT max(id) + 1, \'nothing\' FROM "{schema}"."{name}" WHERE id < 9999'
        )
        if session.chance.random() < 0.5:
            session.do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY DEFAULT')
    session.run(ROWS_OF["id"][1], schema, name)


def identity_again(session: Session) -> None:
    """Of all tables that have none."""
    for schema, name in session.ask(
        f"SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OWN} AND c.relreplident = 'n'"
        " AND c.relkind = 'r'"
    ):
        session.do(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY FULL')


def key_anew(session: Session) -> None:
    """A migration: without a key for a moment, in which a row comes."""
    schema, name = session.some()
    if constraint := primary_of(session, schema, name):
        session.do(f'ALTER TABLE "{schema}"."{name}" DROP CONSTRAINT "{constraint}"')
        session.do(
            f'INSERT INTO "{schema}"."{name}" (id, a) SELECT max(id) + 1, \'keyless\' FROM "{schema}"."{name}" WHERE id < 9999'
            " HAVING max(id) IS NOT NULL"
        )
        session.do(f'ALTER TABLE "{schema}"."{name}" ADD PRIMARY KEY (id)')


def key_of_two(session: Session) -> None:
    """A key of other columns. Seldom: a target has one key for good, and its table stands still."""
    schema, name = session.some()
    if session.chance.random() < 0.3 and (constraint := primary_of(session, schema, name)):
        session.do(f'UPDATE "{schema}"."{name}" SET n = coalesce(n, 0)')
        session.do(f'ALTER TABLE "{schema}"."{name}" DROP CONSTRAINT "{constraint}", ADD PRIMARY KEY (id, n)')
        session.run(ROWS_OF["id"][1], schema, name)


def primary_of(session: Session, schema: str, name: str) -> str | None:
    query = (
        "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND contype = 'p'"
    )
    return next((constraint for (constraint,) in session.ask(query, schema, name)), None)


# --- The publication ------------------------------------------------------------------------------------------------------------------


def out_of_publication(session: Session) -> None:
    if session.making.publication == "tables":
        schema, name = session.some()
        if name != "plain":
            session.do(f'ALTER PUBLICATION "{PUBLICATION}" DROP TABLE ONLY "{schema}"."{name}"')
    elif session.making.publication == "schema" and _published_schemas(session) - {"public"}:
        session.do(f'ALTER PUBLICATION "{PUBLICATION}" DROP TABLES IN SCHEMA {min(_published_schemas(session) - {"public"})}')


def into_publication(session: Session) -> None:
    """One that was taken out, and changed since."""
    if session.making.publication == "tables":
        found = session.ask(
            f"SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OWN}"
            " AND c.relkind = 'r' AND NOT c.relispartition AND c.oid NOT IN (SELECT prrelid FROM pg_publication_rel)"
        )
        if found:
            schema, name = session.chance.choice(sorted(found))
            session.do(f'UPDATE "{schema}"."{name}" SET a = \'was out\', n = n + 1')
            session.publish(schema, name)
    elif session.making.publication == "schema" and not _published_schemas(session) - {"public"} and not session.avoided:
        [(name,)] = session.ask("SELECT nspname FROM pg_namespace WHERE nspname IN ('other', 'elsewhere')")
        session.do(f'ALTER PUBLICATION "{PUBLICATION}" ADD TABLES IN SCHEMA {name}')


def _published_schemas(session: Session) -> set[str]:
    return {name for (name,) in session.ask("SELECT pnnspid::regnamespace::text FROM pg_publication_namespace")}


def publish_less_for_a_moment(session: Session) -> None:
    """Seldom, as all tables are read again."""
    if session.chance.random() < 0.3:
        publish_less(session)
        session.change_rows()
        publish_all(session)
        session.change_rows()


def publish_less(session: Session) -> None:
    less = session.chance.choice(("publish = 'insert'", "publish = 'update, delete'", "publish_via_partition_root = false"))
    session.do(f'ALTER PUBLICATION "{PUBLICATION}" SET ({less})')


def publish_all(session: Session) -> None:
    session.do(f"ALTER PUBLICATION \"{PUBLICATION}\" SET (publish = '{ALL_CHANGES}', publish_via_partition_root = true)")


# --- Partitions -----------------------------------------------------------------------------------------------------------------------


def truncate_partition(session: Session) -> None:
    session.do(f"TRUNCATE {session.chance.choice(('parts_mid', 'parts_lowest', 'parts_low'))}")


def detach_and_attach(session: Session) -> None:
    session.do("ALTER TABLE parts DETACH PARTITION parts_mid")
    session.do("DROP TABLE parts_mid")
    session.do("CREATE TABLE parts_mid (LIKE parts INCLUDING ALL)")
    session.do("INSERT INTO parts_mid SELECT g, 'attached', g FROM generate_series(40, 60) g")
    session.do("ALTER TABLE parts ATTACH PARTITION parts_mid FOR VALUES FROM (40) TO (80)")


def partition_alone(session: Session) -> None:
    """A partition becomes a table of its own, whose rows change, or one again."""
    [(alone,)] = session.ask("SELECT NOT relispartition FROM pg_class WHERE relname = 'parts_high' AND relkind = 'r'")
    if not alone:
        session.do("ALTER TABLE parts DETACH PARTITION parts_high")
        session.run(ROWS_OF["id"][1], "public", "parts_high")
    else:
        session.do("DELETE FROM parts_high WHERE id < 80")
        session.do("ALTER TABLE parts ATTACH PARTITION parts_high FOR VALUES FROM (80) TO (MAXVALUE)")


def another_partition(session: Session) -> None:
    """Of few values, and gone again the next time."""
    if session.ask("SELECT 1 FROM pg_class WHERE relname = 'parts_more'"):
        session.do("DROP TABLE parts_more")
    elif not session.ask("SELECT 1 FROM parts WHERE id < 0"):
        session.do("ALTER TABLE parts_low DETACH PARTITION parts_lowest")
        session.do("ALTER TABLE parts_low ATTACH PARTITION parts_lowest FOR VALUES FROM (0) TO (20)")
        session.do("CREATE TABLE parts_more PARTITION OF parts_low FOR VALUES FROM (MINVALUE) TO (0)")
        session.do("INSERT INTO parts SELECT -g, 'more', g FROM generate_series(1, 8) g")


KINDS: tuple[Callable[[Session], None], ...] = (
    rename, rename_and_make_anew, swap, drop_and_make_anew, drop, drop, make, make, move, move, rename_schema, truncate, truncate_two,
    rewrite, add_column, fill_column, drop_column, drop_and_add_column, rename_column, use_column, widen_column, change_identity,
    change_identity, identity_again, key_anew, key_of_two, out_of_publication, into_publication, publish_less_for_a_moment,
    truncate_partition, detach_and_attach, partition_alone, partition_alone, another_partition,
)  # fmt: skip
IN_LONG: tuple[Callable[[Session], None], ...] = (
    rename, rename_and_make_anew, drop_and_make_anew, make, move, truncate, add_column, fill_column, rename_column, change_identity, key_anew,
)  # fmt: skip
"""What a transaction that stays open does, too."""
