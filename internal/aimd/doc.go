// Package aimd is an adaptive limit of concurrency: additive increase,
// multiplicative decrease.
//
// A [Limiter] finds out how many concurrent calls another party can handle. It learns
// only from the results of the calls: good or bad, and how long they took.
//
//   - After as many good calls as the limit, the limit rises by 1. A call
//     that took more than twice the usual latency does not count.
//   - The limit halves after a bad call, and after a slow window: at most once a
//     second, and never below 1.
//
// # Window and usual latency
//
// A window has the good calls of half a second. If these are fewer than ten, the
// window continues until it has ten or a second has passed. A window with fewer
// than ten calls changes nothing. The first window ends with its tenth call,
// before the limit has risen by much.
//
// The usual latency follows the 90th percentile of the windows, by a quarter of
// the difference. A faster window always lowers it. A slower window raises it
// only while the limit is 1: at any other limit the calls themselves may be what
// makes the other party slow, and the usual latency would follow the overload.
// At a limit of 1 the limiter learns within seconds that a party has become slow
// permanently.
//
// A window is slow if its 90th percentile is more than three times the usual
// latency. Both are 90th percentiles, so a party whose latency always varies does
// not count as slow.
//
// # Precision
//
// A window keeps its calls in a histogram with four steps per octave, from 1 µs
// to half an hour. Its percentiles are within an eighth of the exact value.
//
// # Clock
//
// A Limiter reads no clock. Each method takes a reading of monotonic time, so the
// same calls always give the same limits. A Limiter is not safe for concurrent use.
package aimd
