// Package metrics counts what a server does and shows it in the form of
// Prometheus.
//
// # Two kinds of numbers
//
// What begins with duly_queue_ is the engine's own: the sizes of each queue, and
// what it has counted since the queue was made. It is read when somebody asks
// ([Survey]), is the same on every server of one engine, and has in it what
// happened behind the back of all of them: stalls, expired jobs, bounds.
//
// Everything else is this process's since its start, and adds up over servers:
// what went through [Metrics.Engine], through a [route.Host] ([Metrics.Route]),
// and through the engine to its store ([Metrics.Called]).
//
// # What it costs
//
// The hot path adds to plain atomic numbers that belong to one queue. They are
// found by one look into a map that nobody locks, once for each run of jobs of
// the same queue in a call; no job allocates anything. The form of Prometheus is
// made when somebody asks for it.
//
// # How many series
//
// A queue has series of its own if it is one of the first that this process has
// seen ([Config].Queues, DefaultQueues); the others are counted together as the
// queue _other of the namespace _other, which is the name of no queue. Only what
// has succeeded is counted under a queue, so nobody makes series by asking for
// names that are not there. Routes are patterns, statuses are classes, and no
// label holds a token, an ID or a path.
//
// # Reading the queues
//
// One look walks over all queues page by page ([duly.Surveyor]: a few requests for
// a thousand of them), several namespaces at a time and for a bounded while, and is
// remembered for at least a second, and for ten times as long as it took: however
// often and by however many it is asked for, a tenth of the time is the most that
// it takes of the engine. A look that was cut short says so (duly_scrape_complete),
// and leaves out the sums that it does not have.
package metrics
