// Package redisgauge is the gauge of Redis and Valkey for package bench: what
// an engine costs the servers that it keeps its jobs on.
//
// What it reads:
//
//   - Processor time is that of the thread that runs commands (INFO cpu,
//     used_cpu_*_main_thread): how many jobs a server can do depends on it, and
//     unlike a rate it does not count the time that the thread waits for a core.
//     Threads that sync the append-only file are not in it.
//   - Memory is used_memory of INFO memory.
//   - The times of scripts are those of EVALSHA, EVAL and FCALL, also of their
//     read-only forms: their number and sum from INFO commandstats, their
//     distribution from LATENCY HISTOGRAM, which counts to bounds that double.
//   - Requests are lines of MONITOR, but for those from inside scripts. INFO's
//     total_commands_processed counts these as well, and nothing else tells the
//     two apart. MONITOR is on only while somebody counts, for it costs the
//     server something.
//
// Nothing of this changes the server: no statistic is reset and no setting is
// touched, and differences are told. All of them are of everybody who uses the
// server, so a server that is measured should have nothing else to do.
//
// Of a cluster everything is the sum over its primaries, unless its nodes are
// read one by one.
//
// # The native limit
//
// How much work is necessary to keep a job at all? Native does the same work by
// bare variadic commands: HSET and ZADD to store; ZPOPMIN, HMGET and ZADD to
// reserve; ZREM and HDEL to end; batch for batch, pipelined, on two connections.
// It looks at nothing, so it promises nothing: no ID is taken only once, nobody
// is woken, no clock is asked, and a client that dies between two commands loses
// jobs. It is what an engine is measured by, not another engine.
package redisgauge
