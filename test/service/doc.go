// Package service holds the tests of servers as processes of their own: what
// thousands of callers, and those who mean no good, take from them, and how they
// are restarted while they are used. DULY_LONG=1 runs them in full counts.
package service
