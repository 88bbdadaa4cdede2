"""Schema migrations of the store: numbered steps that only go forward."""

from __future__ import annotations

import apsw

from tillerman.core.errors import StoreError, StoreNewer

# "brdl", of the former name: stores that exist carry it, and another value would reject them
APPLICATION_ID = 0x6272646C


def m001_log(connection: apsw.Connection) -> None:
    """Creates sessions, their entries, the raw lines behind them, native ids and open requests.

    Entries refer to their session by number: a quarter smaller and a sixth faster than by its id.
    AUTOINCREMENT prevents that a deleted session's number is reused with its leftover pages.
    """
    connection.execute("""
        CREATE TABLE sessions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            agent TEXT NOT NULL,
            cwd TEXT NOT NULL,
            status TEXT NOT NULL,
            title TEXT,
            prompt TEXT,
            model TEXT,
            mode TEXT,
            native_id TEXT,
            forked_from TEXT,
            owner_socket TEXT,
            owner_pid INTEGER,
            archived INTEGER NOT NULL,
            settings BLOB NOT NULL,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            entries INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            open_turn INTEGER,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL,
            cost_usd REAL,
            touched INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX sessions_by_touched ON sessions (touched);

        CREATE TABLE entries (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            at TEXT NOT NULL,
            event BLOB NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX entries_by_seq ON entries (session, seq);

        CREATE TABLE raws (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            lines BLOB NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX raws_by_seq ON raws (session, seq);

        CREATE TABLE native_ids (
            agent TEXT NOT NULL,
            native_id TEXT NOT NULL,
            session INTEGER NOT NULL,
            PRIMARY KEY (agent, native_id, session)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE requests (
            session INTEGER NOT NULL,
            request_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            opened_at TEXT NOT NULL,
            PRIMARY KEY (session, request_id)
        ) STRICT, WITHOUT ROWID;
    """)


def m002_messages(connection: apsw.Connection) -> None:
    """Creates the messages table and its full-text index."""
    connection.execute("""
        CREATE TABLE messages (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            role TEXT NOT NULL,
            text TEXT NOT NULL
        ) STRICT;
        CREATE INDEX messages_by_turn ON messages (session, turn);
        CREATE VIRTUAL TABLE messages_index USING fts5 (
            text, content = 'messages', content_rowid = 'id',
            tokenize = "unicode61 remove_diacritics 2"
        );
        CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
            INSERT INTO messages_index (rowid, text) VALUES (new.id, new.text);
        END;
        CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN
            INSERT INTO messages_index (messages_index, rowid, text)
            VALUES ('delete', old.id, old.text);
        END;
    """)


def m003_attachments(connection: apsw.Connection) -> None:
    """Creates the table of deduplicated attachments, and the table of sessions that use them."""
    connection.execute("""
        CREATE TABLE attachments (
            id INTEGER PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            data BLOB NOT NULL
        ) STRICT;
        CREATE TABLE attachment_uses (
            id INTEGER PRIMARY KEY,
            hash TEXT NOT NULL,
            session INTEGER NOT NULL,
            UNIQUE (session, hash)
        ) STRICT;
        CREATE INDEX attachment_uses_by_hash ON attachment_uses (hash);
    """)


def m004_processes(connection: apsw.Connection) -> None:
    """Creates the table of workspace processes. Its session ids need not be in `sessions`."""
    connection.execute("""
        CREATE TABLE processes (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL,
            command TEXT NOT NULL,
            cwd TEXT NOT NULL,
            mode TEXT NOT NULL,
            isolation TEXT NOT NULL,
            status TEXT NOT NULL,
            pid INTEGER,
            started TEXT,
            boot TEXT,
            code INTEGER,
            signal INTEGER,
            began_at TEXT NOT NULL,
            ended_at TEXT,
            stdout_bytes INTEGER NOT NULL,
            stderr_bytes INTEGER NOT NULL,
            stdout_kept INTEGER NOT NULL,
            stderr_kept INTEGER NOT NULL,
            why TEXT,
            warden TEXT
        ) STRICT;
        CREATE INDEX processes_by_session ON processes (session);
    """)


def m005_process_owners(connection: apsw.Connection) -> None:
    connection.execute("ALTER TABLE processes ADD COLUMN owner TEXT")


MIGRATIONS = (m001_log, m002_messages, m003_attachments, m004_processes, m005_process_owners)
NEWEST = len(MIGRATIONS)
FAR_AHEAD = 100  # no real version is this far ahead: the header is damaged


def version(connection: apsw.Connection) -> int:
    found: int = connection.pragma("user_version")
    return found


def check(connection: apsw.Connection, name: str) -> None:
    """Refuses a file that a newer tillerman or another program wrote."""
    found = version(connection)
    ours = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE name = 'entries_by_seq'"
    ).fetchone()
    if connection.pragma("application_id") not in (0, APPLICATION_ID):
        if ours:
            raise apsw.CorruptError("its header is damaged")
        raise StoreError(
            f"{name} is the database of another program",
            hint="move it away, or use another store",
        )
    if found > NEWEST + FAR_AHEAD or (found < 1 and ours):
        raise apsw.CorruptError(f"its schema number {found} is invalid")
    if found > NEWEST:
        raise StoreNewer(
            f"{name} was written by a newer tillerman (schema {found}; this one supports {NEWEST})",
            hint="upgrade tillerman; nothing in the store was changed",
        )


def migrate(connection: apsw.Connection, name: str, steps: int = NEWEST) -> None:
    """Migrates the file to schema `steps` in one transaction; another process may do it first."""
    check(connection, name)
    if version(connection) >= steps:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        check(connection, name)
        for migration in MIGRATIONS[version(connection) : steps]:
            migration(connection)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", max(steps, version(connection)))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
