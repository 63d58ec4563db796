"""The history checker: from the audit log and the client log to the invariants that they break.

| invariant | decided from |
| --- | --- |
| I1 one holder, I2 tokens never repeat, I3 only the holder ends it, I4 one completion | the log |
| I5 extension in time, I6 recovery only when due | the log; the length of a lease from the tables |
| I7 terminal is final, I18 cancel or complete | the log |
| I8 who may do what | the log; prerequisites from the tables |
| I9 attempts, I10 back-off | the log and the tables; whether a failure was retryable from the client log |
| I11 published by the winner, I20 still playable, I26 a zombie stops | the client log |
| I12 one message for each finished job, I19 rows are the fold of the log | the tables |
| I13 acknowledged is durable, I14 one job a key, I15 same finish, same answer | the client log |
| I16 right worker | the log; abilities from the tables or the client log |
| I17 offline is a display | the log and the heartbeats of the client log |
| I23 no secret in a log | the log, for the secrets that are named; other outputs are not seen here |
| I24 recovery in time, I25 nothing stuck, I27 no starvation | the log, within the quiet phase |
| I28 restarts do not stop recovery | I24, with the restarts of the client log |
| ORDER nothing waits behind a less urgent task | the log of one writer, and the tables |

Not decidable from one history: I21 (hints) and I22 (locks) speak of all histories; they hold when histories
made without hints, and with locks that everybody gets, break none of the above. The first half of I28 (a
short outage expires no lease) depends on when holders last renewed, and I29 (nothing left behind) on the
files, connections and memory of real processes: both are for tests with real processes.
"""

from takeup.history.checker import Checker, check
from takeup.history.records import Call, Settings, Tables, Violation, read_tables

__all__ = ["Call", "Checker", "Settings", "Tables", "Violation", "check", "read_tables"]
