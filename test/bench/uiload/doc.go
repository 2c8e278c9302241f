// Command uiload measures the dashboard of a duly server: how long pages take, how much of the server's rate open pages
// cost, and how long large lists and groups of failures take.
//
//	DULY_TOKEN=… uiload [-work pages,list,groups] [-time 10s] http://127.0.0.1:7777/default http://127.0.0.1:7778
//
// The first URL is the native API, with the namespace as its path. The second one is the admin address, which serves
// the dashboard. The token needs the right admin.
//
// The works run in their order:
//
//   - pages: -queues queues. Each page is requested over and over. It prints the time of the first byte and the
//     compressed size.
//   - many: 9900 queues, nearly the most of a namespace. The pages with lists of queues.
//   - list: one queue with -jobs ready jobs. The first page of the list, and the page behind 10 000 pages.
//   - groups: -dead dead jobs with 40 errors. The first view of the groups, later views, and pushes before and
//     during the first view.
//   - find: an ID among all queues.
//   - viewers: holds -viewers open pages until it receives a signal, and then prints what they have received.
//
// Queues have names that begin with bench-ui-. They stay, so the server should be one of its own: scripts/bench-ui
// starts it.
package main
