// Package cli is duly's command line: one file per subcommand, each built on
// the contract of the root package and on nothing of any engine.
//
// # How a command runs
//
// [Run] builds the tree of commands, runs the one that was called, and turns
// what comes back into an exit status: 0, 1 for a command that failed, 2 for
// one that was not written right. A command gets the world around it from
// [Env] alone, so a test hands it an engine, a clock and its streams.
//
// A command is a function that returns a *cobra.Command made by app.command;
// to add one, write that function in a file of its own and name it in
// commands (root.go). It reaches its engine by app.with (app.withNew where
// a file may be made, app.withAdmin for the admin address), prints
// through the printer that it is given, and returns its error: the one line on
// standard error, with what to do next, is made in errors.go.
//
// # Streams
//
// Standard output carries results alone: a table for people or, with --json,
// one JSON value per line. Everything else (errors, progress, notes) goes to
// standard error, and of it only errors when that is no terminal.
//
// # Ends
//
// The first INT or TERM ends the command's context: a command that waits
// returns, one that works finishes what it has begun and gives back the rest.
// The second ends the program at once. A closed pipe ends a command quietly;
// what it had taken and could not print it gives back first.
package cli
