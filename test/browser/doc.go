// Package browser tests the dashboard in headless Chromium.
//
// One Chromium serves all tests of a run. Each test has a browser context of its own, with its own cookies and cache.
// Without Chromium every test skips by name; with CI=true it fails. Long forms run with DULY_LONG=1.
//
// The module is separate from duly's, so that a program that imports duly never sees the client of the browser.
package browser
