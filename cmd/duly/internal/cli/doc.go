// Package cli is duly's command line. It has one file per subcommand. A subcommand uses
// the contract of the root package, not a particular engine.
//
// # How a command runs
//
// [Run] builds the tree of commands, runs the one in the arguments, and returns the exit
// status: 0, 1 for a command that failed, and 2 for a command line that is not valid. A
// command reaches everything outside through [Env], so a test can pass an engine, a clock
// and streams of its own.
//
// A command is a function that returns a *cobra.Command made by app.command. To add one,
// write that function in a file of its own and list it in commands (root.go). A command
// opens its engine with app.withEngine, app.withNewEngine if it may create a file, or
// app.withAdmin for the admin address. It prints with its printer and returns an error.
//
// # Errors
//
// Run prints the error of a command on one line of standard error, with a hint: what the
// operator can do next. The hint is a field of the error. A command sets it with withHint
// or withHintFor. Otherwise it follows from the error's code (errors.go). No code compares
// the texts of errors.
//
// # Streams
//
// Standard output carries only results: a table or, with --json, one JSON value per line.
// Everything else (errors, progress, notes) goes to standard error. If that is not a
// terminal, only errors and a few notes do.
//
// # Signals
//
// The first INT or TERM cancels the command's context: a command that waits returns, and
// a worker finishes its jobs and releases the rest. The second one ends the program at
// once. A closed pipe ends a command without an error. Before, reserve releases the jobs
// that it could not print.
package cli
