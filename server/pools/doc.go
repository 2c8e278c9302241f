// Package pools serves several engines as one. Each namespace is in one of them, its
// pool, and every call goes to the pool of its namespace.
//
// # Placements
//
// The default pool's engine stores the tokens and the placements: which namespace is in
// which pool ([contract.Placement]). A namespace without a placement is in the default pool.
// [Pools.Assign] places a namespace of which no pool has anything. After that only a move
// changes its pool.
//
// While [Pools.Run] runs, the default engine reports every change, and placements are
// cached until then. While it cannot report changes, every call reads the placement of
// its namespace. So every server sees a change within one second. Calls that wait follow
// it within five seconds.
//
// # Moves
//
// [Pools.Move] moves a namespace to another pool while it is in use. The phases are
// stored, so all servers agree and continue after a restart. Every running server advances
// a move. Each step may be repeated. A server ends a phase only after it has known the
// phase for propagationTime (10 s on its own clock; clocks are not compared), in which all
// other servers see the phase too.
//
//   - prepare: every queue of the old pool is created in the new one with the same
//     settings (copy.go). Jobs are still pushed to the old pool. Settings change in both.
//   - drain: jobs are pushed to the new pool. Each queue is drained in the old pool first,
//     then in the new one. Calls by ID or receipt try both pools, the old one first. No
//     job goes from one pool to the other, and no receipt fits in both. Once every server
//     has seen the phase, one server moves the schedules (move_schedules.go). An empty queue
//     of the old pool is sealed and removed, by one server at a time (seal.go,
//     removal_lock.go). The move ends when the old pool has no queue left.
//
// A reversed move drains the other way at once. Settings that only the pool to be left has
// are restored in the other pool (restore.go).
//
// A server may be suspended at any point, and resume when the phase is long over. Two
// mechanisms make this safe. A step of the move first verifies the stored phase, and is
// refused when it is late (step_engine.go). And servers search for jobs that a late push
// has left in a pool which its namespace has left, and drain them (orphans.go).
//
// # Guarantees during a move
//
// No job is lost. An ID is one job, except for two pushes of one own ID to two servers in
// the second in which a phase begins.
//
// Order keys: a job of the new pool is delivered only if the old pool has no job of its
// key that could run before its lease ends. While this is unknown, because jobs run in the
// old pool or not every server has seen the phase, jobs with order keys of that queue
// wait. Servers see within 2 s that a job of the old pool becomes due sooner (promote,
// update, requeue). Until then a job of its key may start in the new pool, and a job that
// runs already continues. The same holds if the lease of a job in the new pool is extended
// beyond the due time of a job in the old one.
//
// Ticks: each tick has one run. A schedule is held in both pools while it is in both. Two
// cases are exceptions. First, two servers put a new schedule of one name in the second in
// which a phase begins. Second, a server is suspended inside a put for longer than
// propagationTime. Both pools then fire until the next turn, which keeps the later put. A
// queue that is destroyed while its schedules move may keep a schedule.
//
// Not guaranteed: merge keys work within one pool only, each pool enforces the limits of a
// queue separately, and priorities count within a pool.
//
// # Failures
//
// Calls for the namespaces of an unreachable engine return unavailable. Other calls are
// not affected. An engine that is unreachable at the start is opened as soon as possible.
// Without the default engine no caller can be admitted, because it has the tokens.
// [Pools.OnResult] reports the results of calls by pool: while a namespace moves, its name
// does not identify the pool.
//
// # Calls to all pools
//
// Namespaces of all pools are listed together, by name. Sweep and Check work on every
// pool, and an error in one does not affect the others. A backup contains one pool.
package pools
