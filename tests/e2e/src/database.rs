//! A database in a zone that a program writes to all the time.

use crate::Host;

/// Starts a program in a zone that writes rows to the SQLite database /var/tmp/base.db as fast as it
/// can, each in a transaction. `journal` is the mode of the database's journal (`delete` or `wal`).
#[track_caller]
pub fn write_all_the_time(host: &Host, zone: &str, journal: &str) {
    let writer = format!(
        "cd /var/tmp; rm -f base.db
sqlite3 base.db 'PRAGMA journal_mode={journal}; CREATE TABLE t (n INTEGER PRIMARY KEY, half BLOB, other BLOB);' >/dev/null
i=0; while [ $i -lt 1000000 ]; do
  i=$((i+1)); echo 'BEGIN; INSERT INTO t (half) VALUES (randomblob(3000)); UPDATE t SET other = half WHERE other IS NULL; DELETE FROM t WHERE n < (SELECT max(n) FROM t) - 50; COMMIT;'
done | sqlite3 -cmd '.timeout 60000' base.db >/var/tmp/log 2>&1"
    );
    host.zlogin_with(&[zone, "cat >/var/tmp/writer"], writer.as_bytes())
        .quiet();
    host.sh(
        zone,
        "setsid sh /var/tmp/writer </dev/null >/dev/null 2>&1 &",
    );
}
