// Package dashboard serves duly's pages for people: server-rendered HTML below /ui.
//
// # Rights
//
// A page needs the right of the API's route with the same answer. Each request opens the sealed cookie (package
// session), asks the guard for the token or account that it names, and checks the right. The cookie opens nothing
// else, and the Authorization header opens no page.
//
// # Requests of other sites
//
// A request that changes something is a POST. It must say where it comes from: by Sec-Fetch-Site or by Origin, which
// every browser sends. The cookie is SameSite=Strict too.
//
// # Live numbers
//
// A visible page holds one stream (live.go), which sends the texts that have changed. Package feed looks at the queues
// once for all streams. A page and its stream take the texts from one function, so they agree.
//
// # History
//
// Package history keeps what the looks have found, for charts and rates. Package attention evaluates every look by a
// table of conditions. A chart is drawn from its table in the page, by assets/chart.js.
//
// # Actions
//
// An action (actions.go) is the same as a route of the API, and has its right. It asks first where it destroys
// something, writes the audit log (package audit), and answers with a redirect to a page that shows its result.
//
// # Forms
//
// A form (form.go) is generated from the API's description of a request, and its values become that request. So its
// fields, their values and their errors are those of the API.
//
// # Pages
//
// The templates are in the folder templates (package render), the data of each page in package view, and the files that
// browsers load in package assets. Reading a page changes nothing in the store.
package dashboard
