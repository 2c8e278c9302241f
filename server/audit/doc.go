// Package audit writes the audit log: which person did what, when, and how it ended.
//
// # Lines
//
// Each action has two lines of JSON. The intent comes before the action, the outcome after it. Both have the ID of the
// action. A line has no body and no secret.
//
// # Failures
//
// An intent is synced before [Log.Begin] returns, so no action of the dashboard runs without one. If the process ends
// between the two lines, the next start writes the outcome unknown. A line that a full disk cuts is removed. If the
// process ends within a line, the next one begins on a line of its own.
//
// # Files
//
// The folder has files with numbers. A file of 16 MiB is followed by the next one. Files older than 400 days, and the
// oldest ones beyond 1 GiB, are removed when a file begins.
package audit
