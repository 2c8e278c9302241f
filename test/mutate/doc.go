// Command mutate measures the tests: it plants one small bug at a time and
// reports which bugs the tests of the tree do not find.
//
//	go run ./test/mutate                  a sample of each target, 30 minutes
//	go run ./test/mutate -target worker -n 100 -time 2h
//	go run ./test/mutate -list            the mutants of each target, without a run
//
// A mutant is one changed place in a Go, Lua or SQL file: a boundary (< for
// <=), a negation (== for !=), a logical operator (&& for ||), a sign (+ for
// -), a number one higher, a flipped boolean, two swapped arguments, or a
// statement that is gone. The tree is not touched: the changed file reaches the
// compiler through an overlay (go help build, -overlay), also where it is
// embedded.
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
// Each verdict is appended to a results file at once, so an interrupted run
// goes on where it was. A result counts as long as the text of its function
// stays the same.
//
// A sample is drawn by the hash of a mutant's key and a seed: it does not
// depend on the order of files, and a larger sample contains the smaller one.
//
// Survivors are listed with a reason in survivors.txt. Such a mutant is either
// equivalent (no caller can observe the difference) or accepted for the stated
// reason. The report counts it apart from the others.
package main
