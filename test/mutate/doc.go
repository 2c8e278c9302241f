// Command mutate measures the quality of the tests. It plants one small bug at a time and reports
// the bugs that no test finds.
//
//	go run ./test/mutate                  a sample of each target, 30 minutes
//	go run ./test/mutate -target worker -n 100 -time 2h
//	go run ./test/mutate -list            the mutants of each target, without a run
//
// A mutant is one change in a Go, Lua or SQL file: a boundary (< for <=), a negation (== for !=),
// a logical operator (&& for ||), a sign (+ for -), a number one higher, a flipped boolean, two
// swapped arguments, or a removed statement. The tree is not modified. The changed file reaches
// the compiler through an overlay (go help build, -overlay), even if it is embedded.
//
// For each mutant the command builds the test binaries of its target, runs them
// as `make test` does, and ends at the first failed test. The tests that found
// other mutants of the same file run first. The verdicts are:
//
//	killed    a test failed
//	hung      no test failed before the time limit; a test should fail fast instead
//	survived  all tests passed
//	invalid   the mutant does not compile, and does not count
//
// Each verdict is appended to a results file at once, so an interrupted run can continue. A
// result is valid as long as the text of its function stays the same.
//
// The hash of a mutant's key and a seed selects a sample. It does not depend on the order of
// files, and a larger sample contains the smaller one.
//
// survivors.txt lists survivors with a reason. Such a mutant is either equivalent (no caller can
// observe the difference) or accepted. The report counts it separately.
package main
