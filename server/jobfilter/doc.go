// Package jobfilter finds jobs by conditions that no index serves, such as a part of the last error.
//
// # Conditions
//
// [Parse] reads conditions that are separated by spaces or line ends. A job matches if all of them hold:
//
//	error~timeout        the last error contains a text, with upper and lower case alike
//	body~"order 17"      a text with spaces has quotes
//	header.tenant:acme   a text is equal; the name of a header in upper or lower case
//	-merge:daily         a condition that does not hold
//	priority>=5          a number; size may have a unit such as 64KiB
//	pushed<2026-12-24    a time or a day in UTC
//	age>10m              time since the push
//
// # Search
//
// [Page] examines the jobs of a list, page by page of the engine, for a limited time. So a caller can show the progress
// of a long search, and continue or end it after each page.
package jobfilter
