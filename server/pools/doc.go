// Package pools serves several engines as one: each namespace is in one of
// them, its pool, and every call goes to where its namespace is.
//
// # Where a namespace is
//
// The default pool's engine keeps the tokens and the placements: which
// namespace is in which pool ([contract.Placement]). A namespace that was never
// placed is in the default pool. [Pools.Assign] places one, as long as nothing
// of it is anywhere else; from then on it goes elsewhere by a move alone.
//
// While [Pools.Run] runs, the default engine tells of every change, and what
// was read is remembered until then; as long as it can't tell, every call looks
// its namespace up. A change is so known to every server within a second; who
// waits already goes by it 5 s later at most.
//
// # A move
//
// [Pools.Move] lets a namespace go to another pool while it is in use. Its
// phases are stored, so every server agrees and goes on after a restart; every
// server that runs carries a move on, each step of it may be repeated, and a
// phase ends when whoever ends it has known it for as long as others may need to
// hear of it (10 s by his own clock: no clocks are compared).
//
//   - prepare: queues are made in the new pool as they are in the old one (see
//     copy.go). Jobs are pushed to the old one still, settings to both.
//   - drain: jobs are pushed to the new pool. They are taken from the old one
//     first, queue by queue, then from the new one. What is asked by ID or receipt
//     is looked for in both, the old one first; no job ever goes from one to the
//     other, and no receipt fits in both. An empty queue of the old pool is
//     removed, behind a fence and by one server at a time (see remove.go and
//     claim.go); when none is left the move is over.
//
// A move that is turned around drains at once the other way. What a queue was set
// to in the pool that is left, and lacks in the other one, is brought along (see
// bring.go).
//
// A server may stand still at any point, and go on when the phase is long over.
// What would do harm then, a step of the move, begins with a look at what is
// stored, and is not done once it is late (see timely.go). What would be stranded,
// a job that it pushes to a pool which its namespace has left, is looked for and
// worked off (see strays.go).
//
// What holds meanwhile: no job is lost, and an ID is one job, but for pushes of
// one own ID to two servers of which one has not heard of the phase yet. Order
// keys: a job of the new pool is not handed out while one of its key is left in
// the old pool that could run before its lease ends; so as long as nothing can
// be said about that (something runs in the old pool, or not every server has
// heard), jobs with order keys of that queue wait. A job of the old pool that
// becomes due sooner (promote, update, requeue) is seen within 2 s. Until then a
// job of its key may start in the new pool, and one that runs already goes on. Nor
// is a lease watched that is extended beyond that job's due time. What does not hold:
// merge keys collapse within one pool, each pool
// enforces the limits of a queue by itself, and priorities count within a pool.
//
// # When an engine is not there
//
// The calls for its namespaces are answered unavailable, those for others go
// on. An engine that could not be reached at the start is opened as soon as it
// can be. Without the default one nobody can be let in, for it has the tokens.
// How calls end is told by pool ([Pools.Hear]): while a namespace moves, its name
// does not say which one has answered.
//
// # What goes over all of them
//
// Namespaces are listed together, by name. Sweep and Check go over every pool;
// what fails in one does not keep them from the others. A backup is of one.
package pools
