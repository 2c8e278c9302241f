// Package redisgauge is the gauge of Redis and Valkey for package bench. It reads what an engine
// costs the servers that store its jobs.
//
// It reads:
//
//   - CPU time of the thread that runs commands (INFO cpu,
//     used_cpu_*_main_thread). It limits how many jobs a server can handle. Unlike
//     a rate, it excludes the time that the thread waits for a core. Threads that
//     sync the append-only file are not included.
//   - Memory, as used_memory of INFO memory.
//   - Durations of scripts: those of EVALSHA, EVAL and FCALL with their read-only
//     forms. Number and sum are from INFO commandstats, the distribution from
//     LATENCY HISTOGRAM, whose bounds double.
//   - Requests, as lines of MONITOR without commands in scripts. INFO's
//     total_commands_processed includes these. MONITOR is on only during a count,
//     because it costs the server time.
//
// None of this changes the server: the gauge resets no statistics, changes no settings, and
// reports differences. All figures include other clients, so a measured server should have no
// other work.
//
// For a cluster all figures are sums over its primaries, unless its nodes are read separately.
//
// # The native limit
//
// The native limit is the least work to store a job. Native does it with bare variadic commands:
// HSET and ZADD to store; ZPOPMIN, HMGET and ZADD to reserve; ZREM and HDEL to end; in the same
// batches, pipelined, on two connections. It checks nothing and guarantees nothing: IDs may
// repeat, no waiter is woken, no clock is read, and a client that dies between two commands loses
// jobs. It is a yardstick for an engine, not another engine.
package redisgauge
