"""Hostile statements by family, made from a seed: what a model might write to gain or to break.

`statements(seed, number, tables, folder)` yields (family, text) pairs that are all different.
`tables` maps the tables of the database under attack to their columns; `folder` is where statements
that try to write are told to. Texts may hold NUL characters and lone surrogates.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Tables = dict[str, list[str]]
COUNTING = "WITH RECURSIVE c(x) AS (SELECT {start} UNION ALL SELECT x + 1 FROM c{end}) "


@dataclass(frozen=True)
class Maker:
    """What a family draws from: `n` is a number that no other statement has."""

    rng: random.Random
    tables: Tables
    folder: Path
    n: int

    def pick(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def table(self) -> str:
        return self.rng.choice(sorted(self.tables))

    def column(self, table: str) -> str:
        return self.rng.choice(self.tables[table])

    def many(self, low: int, high: int) -> int:
        """A number between the two, small ones as likely as large ones."""
        return round(low * (high / low) ** self.rng.random())

    def cross(self, most: int = 8) -> str:
        names = [self.table() for _ in range(self.rng.randint(3, most))]
        join = self.pick(", ", " CROSS JOIN ", " JOIN ", " LEFT JOIN ")
        on = " ON 1" if "LEFT" in join else ""
        first, *rest = [f"{name} AS j{i}" for i, name in enumerate(names)]
        return first + "".join(f"{join}{name}{on}" for name in rest)

    def counting(self, most: int | None = None) -> str:
        end = f" WHERE x < {most}" if most else ""
        return COUNTING.format(start=self.n, end=end)

    def path(self) -> str:
        return str(self.folder / f"made{self.n}")


def recursion(m: Maker) -> str:
    body = m.pick(
        "SELECT count(*) FROM c", "SELECT max(x) FROM c", "SELECT x FROM c ORDER BY x DESC LIMIT 1",
        "SELECT sum(x) FROM c, c AS d", "SELECT DISTINCT x % 7 FROM c", "SELECT x FROM c",
        "SELECT 1 WHERE 0 IN (SELECT x FROM c WHERE x < 0)", "SELECT group_concat(x) FROM c",
    )  # fmt: skip
    growing = "WITH RECURSIVE g(s) AS (SELECT 'a{n}' UNION ALL SELECT s || s FROM g) "
    wide = "WITH RECURSIVE w(a, b) AS (SELECT {n}, 1 UNION SELECT b, a + b FROM w, {t}) "
    return m.rng.choice(
        [
            m.counting() + body,
            growing.format(n=m.n) + m.pick("SELECT length(s) FROM g", "SELECT max(s) FROM g"),
            wide.format(n=m.n, t=m.table()) + m.pick("SELECT count(*) FROM w", "SELECT * FROM w"),
            m.counting(m.many(10, 10**9)) + body,
        ]
    )


def cross_joins(m: Maker) -> str:
    what = m.pick("count(*)", "*", "max(random())", "DISTINCT j0.rowid", "group_concat(j1.rowid)",
                  "sum(j0.rowid * j1.rowid + j2.rowid)")  # fmt: skip
    tail = m.pick("", " ORDER BY 1", " GROUP BY j0.rowid, j1.rowid", f" LIMIT -1 OFFSET {10**9}",
                  f" WHERE j0.rowid + j1.rowid + j2.rowid < {m.n}")  # fmt: skip
    return f"SELECT {what} FROM {m.cross()}{tail} -- {m.n}"


def long_values(m: Maker) -> str:
    size = m.many(10**5, 2 * 10**9)
    blob = f"zeroblob({size})"
    value = m.rng.choice(
        [
            blob, f"hex({blob})", f"randomblob({size})", f"printf('%{size}d', {m.n})",
            f"printf('%.{size}f', {m.n})", f"format('%*c', {size}, 'x')", f"quote({blob})",
            f"replace(hex({blob}), '0', '{'x' * m.many(2, 900)}')", f"hex(hex(hex({blob})))",
            f"replace(replace(replace(hex({blob}), '0', '00'), '0', '00'), '0', '{m.n}')",
            f"CAST({blob} AS TEXT) || '{m.n}'", f"json_array(hex({blob}))",
            f"char({m.n}) || {blob}",
        ]
    )  # fmt: skip
    return m.rng.choice(
        [
            f"SELECT {value}",
            f"SELECT length({value}) + {m.n}",
            f"SELECT group_concat({value}) FROM {m.cross(4)}",
            f"SELECT {', '.join([value] * m.many(2, 300))}",
            f"SELECT {value} FROM {m.table()} ORDER BY 1",
            f"SELECT group_concat(hex(zeroblob({m.many(10, 10**6)}))) FROM {m.cross(5)} --{m.n}",
            m.counting(m.many(10, 10**6)) + f"SELECT hex(zeroblob({m.many(10, 499_999)})) FROM c",
        ]
    )


def long_opcodes(m: Maker) -> str:
    long, part = m.many(1000, 499_000), m.many(500, 240_000)
    pattern = "%" + "%".join(m.rng.choice("ab0_") for _ in range(m.many(2, 300))) + f"%{m.n}"
    text = f"hex(zeroblob({long}))"
    return m.rng.choice(
        [
            f"SELECT instr({text}, hex(zeroblob({part})) || '{m.n}')",
            f"SELECT {text} LIKE '{pattern}'",
            f"SELECT {text} GLOB '{pattern.replace('%', '*').replace('_', '?')}'",
            f"SELECT trim({text}, '{'1' * m.many(2, 5000)}{m.n}')",
            f"SELECT length(replace({text}, '0', '{m.n}'))",
            f"SELECT {m.column(t := m.table())} LIKE '{pattern}' FROM {t}",
            f"SELECT count(*) FROM {m.cross(4)} WHERE {text} LIKE '{pattern}'",
        ]
    )


def administration(m: Maker) -> str:
    path = m.path()
    text = m.rng.choice(
        [
            f"ATTACH '{path}.db' AS n{m.n}", f"ATTACH DATABASE 'file:{path}?mode=rwc' AS a{m.n}",
            f"ATTACH ':memory:' AS n{m.n}", f"DETACH n{m.n}", f"VACUUM INTO '{path}'",
            f"VACUUM main INTO 'made{m.n}'", f"PRAGMA user_version = {m.n}",
            f"PRAGMA journal_mode = {m.pick('WAL', 'DELETE')} -- {m.n}", "PRAGMA writable_schema=1",
            f"PRAGMA temp_store_directory = '{path}'", f"PRAGMA cache_size = {m.n}",
            f"PRAGMA max_page_count = {m.n}", f"PRAGMA mmap_size = {m.n}", f"ANALYZE n{m.n}",
            f"REINDEX n{m.n}", f"EXPLAIN QUERY PLAN SELECT {m.n}", f"SAVEPOINT s{m.n}",
            f"SELECT * FROM pragma_table_info('{m.table()}'), (SELECT {m.n})",
            f"SELECT * FROM pragma_database_list WHERE seq < {m.n}",
            f"SELECT * FROM dbstat WHERE pgno < {m.n}", f"BEGIN EXCLUSIVE -- {m.n}",
        ]
    )  # fmt: skip
    head = m.pick(
        "", "", " \n\t", "/* x */", "-- x\n", "SELECT 1; ", "(", ";", "\ufeff", "explain "
    )
    return head + m.rng.choice([text, text.lower(), text.upper(), text.replace(" ", "/**/")])


def foreign_functions(m: Maker) -> str:
    path = m.path()
    return m.rng.choice(
        [
            f"SELECT load_extension('{path}')", f'SELECT "LOAD_EXTENSION"(\'{path}\', \'f\')',
            f"SELECT writefile('{path}', 'x')", f"SELECT readfile('/etc/passwd'), {m.n}",
            f"SELECT edit('{m.n}', 'sh')", f"SELECT fts3_tokenizer('simple', x'{m.n:016x}')",
            f"SELECT fts3_tokenizer('simple') || {m.n}", f"SELECT sqlite_log(1, '{m.n}')",
            f"SELECT * FROM sqlite_dbpage({m.n})", f"SELECT *, {m.n} FROM sqlite_stmt",
            f"SELECT * FROM fsdir('{path}')", f"SELECT eval('DROP TABLE t{m.n}')",
            f"SELECT * FROM csv('{path}')", f"SELECT rtreenode(2, zeroblob({m.n}))",
            f"SELECT rtreecheck('{m.table()}'), {m.n}", f"SELECT fts5(x'{m.n:016x}')",
            f"SELECT system('touch {path}')", f"SELECT matchinfo({m.n}), offsets({m.n})",
            f"SELECT bm25({m.n})", f"SELECT optimize({m.n}) FROM {m.table()}",
            f"SELECT * FROM fts5vocab('{m.table()}', 'row'), (SELECT {m.n})",
            f"SELECT * FROM zipfile('{path}')", f"SELECT subtype({m.n}), sqlite_source_id()",
        ]
    )  # fmt: skip


def writes(m: Maker) -> str:
    table = m.table()
    column = m.column(table)
    text = m.rng.choice(
        [
            f"INSERT INTO {table} DEFAULT VALUES", f"DELETE FROM {table}", f"DROP TABLE {table}",
            f"UPDATE {table} SET {column} = {m.n}", f"REPLACE INTO {table} SELECT * FROM {table}",
            f"UPDATE {table} SET {column} = {m.n} RETURNING {column}",
            f"CREATE TABLE n{m.n} AS SELECT * FROM {table}", f"CREATE TEMP TABLE n{m.n} (a)",
            f"CREATE TEMP VIEW n{m.n} AS SELECT {m.n}",
            f"CREATE INDEX n{m.n} ON {table} ({column})",
            f"CREATE TEMP TRIGGER n{m.n} BEFORE INSERT ON {table} BEGIN DELETE FROM {table}; END",
            f"CREATE VIRTUAL TABLE n{m.n} USING {m.pick('fts5', 'rtree', 'fts4')} (a, b, c)",
            f"ALTER TABLE {table} RENAME TO n{m.n}", f"ALTER TABLE {table} ADD COLUMN n{m.n}",
            f"DELETE FROM sqlite_master WHERE rootpage > {m.n}",
            f"INSERT INTO {table} ({column}) VALUES ({m.n}) ON CONFLICT DO NOTHING",
        ]
    )  # fmt: skip
    head = m.pick("", "", f"WITH w AS (SELECT {m.n}) ", f"SELECT {m.n}; ", "BEGIN; ", "-- x\n")
    return f"{head}{text} /* {m.n} */"


def many_statements(m: Maker) -> str:
    parts = [
        f"SELECT {m.n}", f"SELECT ';{m.n}'", "/* ; */", "-- ;\n", ";", f"DROP TABLE {m.table()}",
        f'SELECT ";{m.n}"', f"[;{m.n}]", "`;", "'", '"', "/*", "--", "*/", "\n", f"COMMIT --{m.n}",
        "\u037e", "\uff1b", f"SELECT {m.n} UNION", "VALUES (1)", "END;", "''", "x'00'",
    ]  # fmt: skip
    return m.pick("", " ", ";").join(m.rng.choices(parts, k=m.rng.randint(2, 9))) + f" --{m.n}"


def odd_characters(m: Maker) -> str:
    odd = m.pick("\0", "\ud800", "\udfff", "\udcff", "\ufeff", "\u202e", "\U0010ffff", "\ufffe",
                 "\u0301", "é", "中", "😀", "\x1a", "\x7f", "\x85", "\u2028", "\u200b", "\r",
                 "\x0c", "\ud83d\ude00", "\u0130", "\u00a0")  # fmt: skip
    text = m.rng.choice(
        [f"SELECT {m.n} FROM {m.table()}", f"SELECT 'a' || {m.n}", f'SELECT "b{m.n}" AS "c"',
         f"SELECT length('{odd}' || {m.n})", f"SELECT {m.n} AS [{odd}]"]
    )  # fmt: skip
    for _ in range(m.rng.randint(1, 4)):
        at = m.rng.randint(0, len(text))
        text = text[:at] + odd * m.many(1, 50) + text[at:]
    return text


def megabytes(m: Maker) -> str:
    size = m.many(20_001, 1_500_000)
    return m.rng.choice(
        [
            f"SELECT '{'a' * size}', {m.n}", f"SELECT {m.n} /*{'*' * size}*/",
            f"SELECT {m.n} --{'-' * size}", f"SELECT {m.n} AS {'b' * size}",
            f"SELECT{' ' * size}{m.n}", f"SELECT {'9' * size}", f"SELECT 0x{'f' * size}",
            f"SELECT x'{'00' * (size // 2)}', {m.n}", f"SELECT {m.n}{';' * size}",
            f"SELECT {m.n} IN ({','.join(map(str, range(size // 8)))})", "(" * size,
            f"SELECT {m.n}" + " UNION SELECT 1" * (size // 15), "'" * size + str(m.n),
            f"SELECT {m.n}" + "".join(m.rng.choices("'\"`[]/*-\n", k=997)) * (size // 997),
        ]
    )  # fmt: skip


def nesting(m: Maker) -> str:
    depth = m.many(50, 6000)
    table = m.table()
    left, right = m.rng.choice(
        [
            ("(", ")"), ("NOT ", ""), ("- ", ""), ("~", ""), ("+", ""),
            ("CASE WHEN 1 THEN ", " END"), ("CASE ", " WHEN 1 THEN 2 END"), ("(SELECT ", ")"),
            ("EXISTS (SELECT ", ")"),
            ("abs(", ")"), ("CAST(", " AS TEXT)"), ("1 IN (", ")"), ("coalesce(1, ", ")"),
            (f"(SELECT count(*) FROM {table} WHERE ", ")"), ("1 + (", ")"), ("1 AND ", ""),
            ("'a' || ", ""), ("1 BETWEEN 0 AND ", ""), ("json_array(", ")"),
            ("", " COLLATE NOCASE"), ("", " ISNULL"), ("", " -> '$'"),
            ("upper(lower(", "))"), ("(1, ", ")"), ("1 = ", ""),
        ]
    )  # fmt: skip
    inside = left * depth + str(m.n) + right * depth
    return m.rng.choice(
        [
            f"SELECT {inside}", f"SELECT * FROM {table} WHERE {inside}", inside,
            f"SELECT {m.n} FROM {table} ORDER BY {inside}",
            f"SELECT * FROM {'(SELECT * FROM ' * depth}{table}{')' * depth} LIMIT {m.n}",
            f"SELECT json('{'[' * depth}{m.n}{']' * depth}')",
        ]
    )  # fmt: skip


def width(m: Maker) -> str:
    size, table = m.many(50, 5000), m.table()
    column = m.column(table)
    return m.rng.choice(
        [
            f"SELECT {column} IN ({','.join(str(m.n + i) for i in range(size))}) FROM {table}",
            f"SELECT {','.join([column] * size)} FROM {table} LIMIT {m.n}",
            f"SELECT {m.n} FROM {', '.join(f'{table} AS w{i}' for i in range(min(size, 300)))}",
            " UNION ALL ".join([f"SELECT {m.n}"] * size), f"VALUES ({m.n})" + ", (1)" * size,
            f"SELECT {'+'.join([column] * size)} + {m.n} FROM {table}",
            f"SELECT {m.n} FROM {table} ORDER BY {','.join([column] * size)}",
            f"SELECT count(*) FROM {table} GROUP BY {','.join([column] * size)} HAVING {m.n}",
            f"SELECT max({','.join([column] * size)}, {m.n}) FROM {table}",
            f"SELECT {m.n} WHERE {' OR '.join([f'{m.n} = 1'] * size)}",
            "WITH " + ",".join(f"w{i} AS (SELECT {i})" for i in range(size)) + f"SELECT {m.n}",
            f"SELECT {m.n} FROM {table} NATURAL JOIN {' NATURAL JOIN '.join([table] * 40)}",
            f"SELECT ?{m.many(1, 10**6)}, :n{m.n}",
        ]
    )  # fmt: skip


def windows(m: Maker) -> str:
    function = m.pick("sum(j0.rowid)", "group_concat(j1.rowid)", "rank()", "nth_value(j0.rowid, 9)",
                      "percent_rank()", "ntile(7)", "json_group_array(j0.rowid)", "lag(j0.rowid)",
                      "max(hex(zeroblob(50000)))")  # fmt: skip
    frame = m.pick("", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                   "GROUPS BETWEEN 5 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES",
                   f"ROWS {m.n} PRECEDING",
                   "RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING")  # fmt: skip
    over = f"{m.pick('', 'PARTITION BY j1.rowid ')}ORDER BY j0.rowid {frame}"
    inner = f"SELECT {function} OVER ({over}) AS v FROM {m.cross(5)}"
    return m.rng.choice([f"{inner} LIMIT {m.n}", f"SELECT max(v), {m.n} FROM ({inner})", inner])


def virtual_tables(m: Maker) -> str:
    size = m.many(10, 10**6)
    zeros = f"'[' || replace(hex(zeroblob({size})), '0', '0,') || '{m.n}]'"
    deep = f"replace(hex(zeroblob({size})), '0', '[') || '{m.n}'"
    return m.rng.choice(
        [
            f"SELECT count(*) FROM json_each({zeros})", f"SELECT json_valid({deep})",
            f"SELECT sum(x.value) FROM json_each({zeros}) AS x, json_each({zeros}) AS y",
            f"SELECT * FROM json_tree({zeros})",
            f"SELECT json_group_array(x.rowid) FROM {m.cross(5)} JOIN json_each('[{m.n}]') AS x",
            f"SELECT json_extract({zeros}, '$[{size}]')",
            f"SELECT * FROM generate_series(1, {10**9 + m.n})",
            f"SELECT json_patch({zeros}, {zeros})", f"SELECT json_each.* FROM json_each({deep})",
            f"SELECT * FROM rtree_i32, (SELECT {m.n})", f"SELECT * FROM fts5('{m.n}')",
            f"SELECT value FROM json_tree('{{\"a\": {m.n}}}', '$.a')",
            f"WITH RECURSIVE j(v) AS (SELECT '[{m.n}]' UNION ALL SELECT json_array(v, v) FROM j) "
            "SELECT length(v) FROM j",
        ]
    )  # fmt: skip


def exploding_plans(m: Maker) -> str:
    table, depth = m.table(), m.many(8, 60)
    column = m.column(table)
    doubling = "".join(
        f", d{i + 1} AS (SELECT a.v FROM d{i} AS a, d{i} AS b)" for i in range(depth)
    )
    columns = "".join(f", d{i + 1} AS (SELECT *, * FROM d{i})" for i in range(depth))
    unions = "".join(
        f", d{i + 1} AS (SELECT v FROM d{i} UNION ALL SELECT v FROM d{i})" for i in range(depth)
    )
    return (
        f"WITH d0 AS (SELECT {column} AS v FROM {table}){m.pick(doubling, columns, unions)} "
        f"SELECT {m.pick('*', 'count(*)', f'{m.n}')} FROM d{depth} -- {m.n}"
    )


def sorts(m: Maker) -> str:
    text = f"hex(zeroblob({m.many(100, 499_000)}))"
    rows = m.counting(m.n + m.many(100, 10**7))
    return rows + m.rng.choice(
        [
            f"SELECT x, {text} FROM c ORDER BY 2, x", f"SELECT DISTINCT x || {text} FROM c",
            f"SELECT count(*) FROM c GROUP BY x || {text}",
            f"SELECT count(DISTINCT {text} || x) FROM c",
            f"SELECT x || {text} FROM c UNION SELECT 1",
            f"SELECT x FROM c ORDER BY {text}, random()",
            "SELECT a.x FROM c AS a, c AS b WHERE a.x = b.x ORDER BY 1 DESC",
            f"SELECT 1 WHERE {text} IN (SELECT x || {text} FROM c)",
        ]
    )  # fmt: skip


def arithmetic(m: Maker) -> str:
    value = m.pick("-9223372036854775808", "9223372036854775807", "1e999", "-1e999", "0.0/0.0",
                   "NULL", "1e-320", f"{10**40 + m.n}", "x'ff'", "''", "'1e5000'",
                   f"{m.n}")  # fmt: skip
    form = m.pick("abs({0})", "{0} + {0}", "{0} * {0}", "{0} / 0", "{0} % 0", "-({0})",
                  "{0} << {0}", "CAST({0} AS INTEGER)", "round({0}, {0})", "pow({0}, {0})",
                  "substr('abc', {0}, {0})", "strftime('%Y', {0})",
                  "datetime({0}, {0} || ' years')", "char({0})", "sum({0})",
                  "zeroblob({0})", "unicode(char({0}))", "printf('%s%n%d%!', {0})",
                  "julianday({0})", "total({0})", "printf('%.*d', {0}, {0})", "likelihood({0}, 2)",
                  "hex({0})",
                  "quote({0})", "nth_value({0}, 0) OVER ()", "ntile({0}) OVER ()")  # fmt: skip
    return f"SELECT {form.format(value)} FROM {m.table()} LIMIT {m.pick(value, str(m.n))} --{m.n}"


def prose(m: Maker) -> str:
    words = ["SELECT", "FROM", "WHERE", "(", ")", ",", "```", "```sql", "<answer>", "</answer>",
             "the", "Sure! Here", "is", "=", "'", '"', "*", "GROUP BY", "ORDER BY", "LIMIT", "JOIN",
             "ON",
             "UNION", "count(", "NULL", "\\n", "?", "%s", "{}", "$1", "AS", m.table(), str(m.n),
             m.column(m.table()), "WITH", "OVER", "\u2019", "CASE", "END"]  # fmt: skip
    return " ".join(m.rng.choices(words, k=m.rng.randint(1, 60))) + f" {m.n}"


FAMILIES: dict[str, Callable[[Maker], str]] = {
    "recursion": recursion, "cross joins": cross_joins, "long values": long_values,
    "long opcodes": long_opcodes, "administration": administration,
    "foreign functions": foreign_functions, "writes": writes, "many statements": many_statements,
    "odd characters": odd_characters, "megabytes": megabytes, "nesting": nesting, "width": width,
    "windows": windows, "virtual tables": virtual_tables, "exploding plans": exploding_plans,
    "sorts": sorts, "arithmetic": arithmetic, "prose": prose,
}  # fmt: skip


def statements(seed: int, number: int, tables: Tables, folder: Path) -> Iterator[tuple[str, str]]:
    """`number` different statements, the families in turn."""
    rng = random.Random(seed)
    numbers, seen = itertools.count(1), set()
    for family, make in itertools.islice(itertools.cycle(FAMILIES.items()), number):
        text = make(Maker(rng, tables, folder, next(numbers)))
        while text in seen:
            text = make(Maker(rng, tables, folder, next(numbers)))
        seen.add(text)
        yield family, text
