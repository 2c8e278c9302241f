// Package describe makes the documents of the API from the table of routes and the forms
// of package wire: the OpenAPI 3.1 document, the page at /docs, and docs/http-api.md.
//
// The page is plain HTML with one style sheet inside. It runs no script and loads
// nothing, and its policy forbids both to the browser.
package describe
