// Package chaos holds the tests that hurt real processes: it kills them, lets
// their disk fail or run full, and judges by what the clients had written down
// before. DULY_LONG=1 (make chaos) runs them in full counts. DULY_LEDGER=10m sets how
// long the order ledger runs, DULY_SOAK=24h how long the soak test does.
//
// Real processes live on the wall's time, so tests sleep here: as long as a fault
// lasts, between two faults, for a client's pace, or between two looks at a
// condition, which has a deadline. None sleeps so that something else may be over.
package chaos
