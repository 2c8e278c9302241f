// Package cancelfeed keeps reports of removed jobs for callers that fetch them by long polls.
//
// # A feed
//
// A namespace has a feed while callers poll it, and for [linger] after that, so that nothing is
// lost between two polls. The feed is one watch of the engine ([contract.CancelWatcher]), however
// many callers there are. A namespace without callers costs nothing.
//
// A feed numbers its reports and keeps the latest of them, at most [maxBytes]. It wakes its callers
// at most every [pace]: an ack of the lmstfy-compatible API is a removal too, so there may be
// thousands in a second.
//
// # The cursor
//
// A cursor names a feed and a number: the caller has all reports up to that number. Feeds have
// random names, so a cursor fits no other feed: not of another namespace, not of another server,
// not of this server before a restart. A cursor holds a position in the feeds of up to [maxServers]
// servers, and each server keeps the positions of the others. So a caller behind a load balancer
// continues on each server where it was.
//
// The answer is "any" if the cursor has no position in the feed, or if the feed has dropped the
// next reports: any leased job of the namespace may be gone. The same holds after a gap in the
// engine's watch.
//
// # Failures
//
//   - The engine's watch fails: the feed closes. Its callers get the error, and the
//     next request opens another feed.
//   - An answer is lost: the caller repeats the request with the same cursor.
//   - There are [maxFeeds] feeds: a new feed replaces the one that has been without
//     callers for longest. If every feed has callers, Poll returns unavailable.
package cancelfeed
