// Package cancelfeed keeps reports of removed jobs for callers that fetch them by
// long polls.
//
// # A feed
//
// A namespace has a feed while callers poll it, and for [linger] after that, so
// that nothing is lost between two polls. The feed is one watch of the engine
// ([duly.CancelWatcher]), however many callers there are. A namespace that nobody
// polls costs nothing.
//
// A feed numbers its reports and keeps the latest of them, at most [mostBytes].
// Callers are woken at most every [pace], because an ack of the lmstfy-compatible
// API is a removal too, and there may be thousands in a second.
//
// # The cursor
//
// A cursor names a feed and a number: the caller has all reports up to it. Feeds
// have random names, so a cursor fits no other feed: not of another namespace, not
// of another server, not of this server before a restart. A cursor holds a place in
// the feeds of several servers ([mostServers]), of which each keeps the others'. So
// a caller behind a balancer goes on where it was on each of them.
//
// With a cursor that names no place in the feed, or a place whose next reports the
// feed has dropped, the answer is that any leased job may be gone. So it is after a
// gap in the engine's watch.
//
// # What happens on each failure
//
//   - The engine's watch fails: the feed ends. Its callers get the error, and the
//     next request begins another feed.
//   - An answer is lost: the caller repeats the request with the cursor that it has.
//   - There are [mostFeeds] feeds: the next namespace gets the place of one that
//     nobody polls. If there is none, it is refused as unavailable.
package cancelfeed
