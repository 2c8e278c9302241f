// Package describe makes the API's documents from the tables of routes: the
// OpenAPI 3.1 document, the page at /docs, and docs/http-api.md. huma provides
// the document's model and makes schemas from Go types; it serves nothing.
//
// The page is plain HTML with one style sheet inside: it runs no script and
// loads nothing, and its policy says so to the browser.
package describe
