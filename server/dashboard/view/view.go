// Package view holds the data of every page, ready to be shown: the templates only place it.
package view

import "github.com/dulymq/duly/server/dashboard/render"

// Frame is what every page shows around its content.
type Frame struct {
	Title     string
	Namespace string
	// Session is the name of the caller and its rights. Both are empty before the login.
	Session, Rights string
	Version         string
	// Now is the engine's clock.
	Now string
	// Style, Queues, Login and Logout are URLs.
	Style, Queues, Login, Logout render.Path
	// Command and Request are the page as a command and as a request, for the footer.
	Command, Request string
}

// Link is a text with a URL. Without a URL it is text alone.
type Link struct {
	Text string
	To   render.Path
}

// Field is a name with a value.
type Field struct{ Name, Value string }

// Login is the page before a session.
type Login struct {
	Frame Frame
	// Problem is why the last try failed.
	Problem string
	// Code is the login code of the link.
	Code string
	// Refused is why no login is possible here.
	Refused string
}

// Problem is the page of an error.
type Problem struct {
	Frame      Frame
	Code, Text string
}

// Queues is the list of a namespace's queues.
type Queues struct {
	Frame Frame
	Rows  []QueueRow
	// First and Next are the pages of the list. Next is empty on the last one.
	First, Next render.Path
}

// QueueRow is one queue of the list.
type QueueRow struct {
	Queue  Link
	Flags  []string
	States []Link // the sizes, in the order of the table's head

	Late string
	// Problem is set instead of the numbers.
	Problem string
}

// Queue is one queue.
type Queue struct {
	Frame    Frame
	Name     string
	Flags    []string
	States   []State
	Ages     []Field
	Counters []Field
	// Sum states whether the counters account for every job.
	Sum      string
	Settings []Field
}

// State is the number of jobs of one state.
type State struct {
	Jobs Link
	Size string
	// Current marks the state that the page lists.
	Current bool
}

// Jobs is the list of a queue's jobs of one state.
type Jobs struct {
	Frame  Frame
	Queue  Link
	State  string
	States []State
	// When is the name of the column with a moment.
	When        string
	Rows        []JobRow
	First, Next render.Path
}

// JobRow is one job of the list.
type JobRow struct {
	Job                                                     Link
	When, Age, Priority, Attempt, Order, Merge, Size, Error string
}

// Job is one job.
type Job struct {
	Frame   Frame
	Queue   Link
	State   Link
	ID      string
	Fields  []Field
	Headers []Field
	Error   string
	Body    Text
	Result  Text
}

// Text is a part of a body or a result.
type Text struct {
	Content string
	// Note says what Content is: its length, its form, and what it leaves out.
	Note string
}
