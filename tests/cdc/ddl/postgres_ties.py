"""What is done to more than the rows and columns of one table of a PostgreSQL: foreign keys, types, schemas, what keys hang on, bulk loads."""

from __future__ import annotations

from collections.abc import Callable

from tests.cdc.ddl.postgres_ddl import primary_of
from tests.cdc.ddl.postgres_rows import ROWS_OF
from tests.cdc.ddl.postgres_session import OWN, PUBLICATION, Session

MERGE = """
MERGE INTO {t} t USING (SELECT g AS id, g %% 3 AS what FROM generate_series(%(k)s, %(k)s + 9) g) v ON t.id = v.id
WHEN MATCHED AND v.what = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET a = %(s)s
WHEN NOT MATCHED THEN INSERT (id, a, n) VALUES (v.id, 'merged', %(n)s)"""


def refer(session: Session) -> None:
    session.do("INSERT INTO owner SELECT g, 'owner', g FROM generate_series(1, 120, 7) g ON CONFLICT DO NOTHING")
    session.do(
        "INSERT INTO referrer SELECT (SELECT coalesce(max(id), 0) FROM referrer) + row_number() OVER (), 'refers', id, id FROM owner"
        " WHERE id < 600 ORDER BY id LIMIT 20"
    )


def truncate_cascade(session: Session) -> None:
    """Of tables that others refer to, that are partitioned, or that others inherit from."""
    table = session.chance.choice(("owner", "owner", "parts", "parent", "ONLY parent"))
    session.do(f"TRUNCATE {table}{session.chance.choice((' CASCADE', ' RESTART IDENTITY CASCADE'))}")
    if table == "owner":
        refer(session)
    else:
        name = table.removeprefix("ONLY ")
        session.do(f"INSERT INTO {name} (id, a, n) SELECT g, 'behind', g FROM generate_series(1, 100, 9) g")


def alter_family(session: Session) -> None:
    """The columns of a table and of its parts, or of those that inherit from it."""
    table = session.chance.choice(("parts", "parent"))
    added, drawn = [one for one in session.columns()["public", table] if one.startswith("c")], session.chance.random()
    if not added or drawn < 0.3:
        default = session.chance.choice(("", " DEFAULT 7", " DEFAULT random() * 1000"))
        session.do(f"ALTER TABLE {table} ADD c{session.making.number()} int{default}")
    else:
        change = session.chance.choice(
            ("DROP {c}", "RENAME {c} TO c{new}", "ALTER {c} TYPE bigint USING {c} + 1", "ALTER {c} DROP DEFAULT")
        )
        session.do(f"ALTER TABLE {table} {change.format(c=session.chance.choice(added), new=session.making.number())}")
    session.run(ROWS_OF["id"][1], "public", table)


def swap_columns(session: Session) -> None:
    """One gets the name of the other, which gets its name or goes."""
    table = session.some()
    added = [one for one in session.columns()[table] if one.startswith("c")]
    if len(added) < 2:
        return
    one, other = session.chance.sample(added, 2)
    of = f'ALTER TABLE "{table[0]}"."{table[1]}"'
    session.do(f"{of} DROP {one}" if session.chance.random() < 0.5 else f"{of} RENAME {one} TO between")
    session.do(f"{of} RENAME {other} TO {one}")
    if "between" in session.columns()[table]:
        session.do(f"{of} RENAME between TO {other}")


# --- Types ----------------------------------------------------------------------------------------------------------------------------


def another_label(session: Session) -> None:
    """Which a later transaction may use."""
    where = session.chance.choice(("", "BEFORE 'high'"))
    session.do(f"ALTER TYPE mood ADD VALUE 'label{session.making.number()}' {where}")


def use_labels(session: Session) -> None:
    session.do("UPDATE typed SET mood = (enum_range(NULL::mood))[1 + id % array_length(enum_range(NULL::mood), 1)], much = id + 1")


def rename_label(session: Session) -> None:
    """All rows change, too: those that do not would keep the former name."""
    [(label,)] = session.ask(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = 'mood'::regtype AND enumlabel <> 'high' ORDER BY enumsortorder LIMIT 1"
    )
    session.do(f"ALTER TYPE mood RENAME VALUE '{label}' TO 'named{session.making.number()}'")
    session.do("UPDATE typed SET n = coalesce(n, 0) + 1")


def column_of_domain(session: Session) -> None:
    """Or of what it is made of."""
    session.do(f"ALTER TABLE typed ALTER much TYPE {session.chance.choice(('positive', 'int'))}")
    session.do("UPDATE typed SET much = id + 2 WHERE id % 3 = 0")


# --- Schemas --------------------------------------------------------------------------------------------------------------------------


def schema_anew(session: Session) -> None:
    """Seldom: all tables of it are gone."""
    if session.avoided or session.chance.random() < 0.6:
        return
    [(name,)] = session.ask("SELECT nspname FROM pg_namespace WHERE nspname IN ('other', 'elsewhere')")
    [(published,)] = session.ask("SELECT count(*) FROM pg_publication_namespace WHERE pnnspid = %s::regnamespace", name)
    session.do(f"ALTER TABLE IF EXISTS {name}.parts_lower SET SCHEMA public")
    session.do(f"DROP SCHEMA {name} CASCADE")
    session.do(f"CREATE SCHEMA {name}")
    session.do(f"CREATE TABLE {name}.away (id int PRIMARY KEY, a text, n bigint)")
    session.do(f"INSERT INTO {name}.away SELECT g, 'schema anew', g FROM generate_series(5, 15) g")
    if published:
        session.do(f'ALTER PUBLICATION "{PUBLICATION}" ADD TABLES IN SCHEMA {name}')
    session.publish(name, "away")


def move_partition(session: Session) -> None:
    """A part of a table lies in another schema than the table."""
    [(at, other)] = session.ask(
        "SELECT relnamespace::regnamespace::text, (SELECT nspname FROM pg_namespace WHERE nspname IN ('other', 'elsewhere'))"
        " FROM pg_class WHERE relname = 'parts_lower'"
    )
    session.do(f"ALTER TABLE {at}.parts_lower SET SCHEMA {other if at == 'public' else 'public'}")
    session.run(ROWS_OF["id"][1], "public", "parts")


# --- What is in the log ---------------------------------------------------------------------------------------------------------------


def unlogged(session: Session) -> None:
    schema, name = session.some()
    session.do(f'ALTER TABLE "{schema}"."{name}" SET UNLOGGED')


def logged(session: Session) -> None:
    """All that were not."""
    for schema, name in session.ask(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE {OWN} AND c.relkind = 'r' AND c.relpersistence = 'u'"
    ):
        session.do(f'ALTER TABLE "{schema}"."{name}" SET LOGGED')


def filtered_for_a_moment(session: Session) -> None:
    """A publication of named tables leaves rows or columns of one out."""
    if session.making.publication != "tables":
        return
    schema, name = session.some()
    table = f'"{schema}"."{name}"'
    session.do(f'ALTER PUBLICATION "{PUBLICATION}" DROP TABLE ONLY {table}')
    session.do(f'ALTER PUBLICATION "{PUBLICATION}" ADD TABLE ONLY {table} {session.chance.choice(("(id, a)", "WHERE (id > 20)"))}')
    session.run(ROWS_OF["id"][1], schema, name)
    session.do(f'ALTER PUBLICATION "{PUBLICATION}" DROP TABLE ONLY {table}')
    session.do(f'ALTER PUBLICATION "{PUBLICATION}" ADD TABLE ONLY {table}')


# --- Keys, and rows in bulk -----------------------------------------------------------------------------------------------------------


def key_by_another_index(session: Session) -> None:
    schema, name = session.some()
    if constraint := primary_of(session, schema, name):
        index = f"key{session.making.number()}"
        session.do(f'CREATE UNIQUE INDEX {index} ON "{schema}"."{name}" (id)')
        session.do(f'ALTER TABLE "{schema}"."{name}" DROP CONSTRAINT "{constraint}", ADD PRIMARY KEY USING INDEX {index}')
        session.run(ROWS_OF["id"][2], schema, name)


def rename_key(session: Session) -> None:
    schema, name = session.some()
    if constraint := primary_of(session, schema, name):
        session.do(f'ALTER TABLE "{schema}"."{name}" RENAME CONSTRAINT "{constraint}" TO key{session.making.number()}')
        session.run(ROWS_OF["id"][2], schema, name)


def inherit(session: Session) -> None:
    [(inherits,)] = session.ask("SELECT count(*) FROM pg_inherits WHERE inhrelid = 'child'::regclass")
    session.do(f"ALTER TABLE child {'NO INHERIT' if inherits else 'INHERIT'} parent")
    session.run(ROWS_OF["id"][1], "public", "parent")


def copy(session: Session) -> None:
    schema, name = session.some()
    session.do(f'DELETE FROM "{schema}"."{name}" WHERE id BETWEEN 700 AND 760')
    with session.connection.cursor().copy(f'COPY "{schema}"."{name}" (id, a, n) FROM STDIN'.encode()) as lines:
        for number in range(700, session.chance.choice((701, 720, 760))):
            lines.write_row((number, "copied", number))


def merge(session: Session) -> None:
    session.run(MERGE, *session.some())


def made_by_query(session: Session) -> None:
    """A table that has rows before it has a key."""
    (schema, name), new = session.some(), f"made{session.making.number()}"
    session.do(f'CREATE TABLE public.{new} AS SELECT id, a, n FROM "{schema}"."{name}"')
    session.do(f"ALTER TABLE public.{new} ADD PRIMARY KEY (id)")
    session.publish("public", new)


TIES: tuple[Callable[[Session], None], ...] = (
    refer, truncate_cascade, alter_family, alter_family, swap_columns, another_label, use_labels, rename_label, column_of_domain,
    schema_anew, move_partition, unlogged, logged, filtered_for_a_moment, key_by_another_index, rename_key, inherit, copy, merge,
    made_by_query,
)  # fmt: skip
