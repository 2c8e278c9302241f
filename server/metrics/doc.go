// Package metrics counts what a server does, in the format of Prometheus.
//
// # Two kinds of numbers
//
// Metrics with the prefix duly_queue_ come from the engine: the sizes of each queue, and its
// counters since it was created. A scrape reads them ([Survey]). They are the same on every server
// of an engine, and include events that no server took part in, such as stalls, expired jobs and
// bounds.
//
// All other metrics count what this process has done since its start, and can be summed over
// servers: calls to the engine that [Metrics.Observer] observes, requests ([Metrics.Route]), and
// calls of the engine to its store ([Metrics.Called]).
//
// # Costs
//
// The hot path adds to atomic counters of a queue. It finds them by one access to a map without a
// lock, once for each run of jobs of the same queue in a call. No job allocates memory. Only a
// scrape creates Prometheus metrics.
//
// # The number of series
//
// A queue gets separate series while some are free ([Config].Queues, DefaultQueues), and the
// namespaces share them ([Slots]). The other queues are counted together as the queue _other of the
// namespace _other, which no queue can have as its name. Only successful calls count under a queue,
// so callers cannot create series with names of queues that do not exist. Routes are patterns,
// statuses are classes, and no label contains a token, an ID or a path.
//
// # Surveys
//
// A survey reads all queues page by page ([contract.Surveyor]: a few requests for a thousand
// queues), several namespaces at a time, for a bounded time. The result is reused for at least one
// second, and for ten times the duration of the survey. However often it is requested, it takes at
// most about a tenth of the engine's time. An incomplete survey is marked (duly_scrape_complete),
// and has no sum of the other queues.
package metrics
