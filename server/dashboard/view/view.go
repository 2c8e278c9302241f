// Package view holds the data of every page, ready to be shown: the templates only place it.
package view

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/failures"
)

// Frame is what every page shows around its content.
type Frame struct {
	Title, Namespace, Version string
	// Session is the name of the caller, with its rights. Both are empty before the login.
	Session, Rights string
	// Label names the environment, with the class Color. Theme is light or dark, "" for that of the system. A button
	// changes it to NextTheme.
	Label, Color, Theme, NextTheme string
	// Start is set if the session can switch the namespace, ReadOnly if no action is possible, Plot on a page with charts.
	Start, ReadOnly, Plot bool
	// Result is what the last action has done. Here is the URL of the page, Now the engine's clock, and Hash that of the
	// assets.
	Result, Here, Now, Hash string
	// Find is the page that finds anything in the namespace, "" without the right.
	Find render.Path
	// Stream is the URL of the live numbers, "" on a page without.
	Stream render.Path
	// Live is set if numbers of the page change. Every is set if it asks for them, to the seconds between two requests.
	Live  bool
	Every string
	// Pages are those of the navigation.
	Pages []Nav
	// Command and Request are the page as a command and as a request, for the footer.
	Command, Request string
}

// Nav is a page of the navigation. G and Key open it.
type Nav struct {
	Text, Key string
	To        render.Path
	Access    auth.Access
}

// Page is what pages have in common, and a page of fields and tables.
type Page struct {
	Frame Frame
	// Up is the page above. Notes say what a reader must know.
	Up      Link
	Notes   []string
	Buttons []Button
	Links   []Link
	Fields  []Field
	Tables  []Table
	// First and Next are pages of a list, "" for none. Now is the time of the page.
	First, Next render.Path
	Now         time.Time
	Search      Search // without a label there is none
}

// Search is a form with one field.
type Search struct {
	To                 render.Path
	Label, Name, Value string
}

// Schedules is the list of a namespace's schedules.
type Schedules struct {
	Page
	Rows []ScheduleRow
}

// ScheduleRow is one schedule of it, with its rule in words.
type ScheduleRow struct {
	Queue, Words string
	duly.ScheduleInfo
}

// Targets is the list of a namespace's targets, with the hosts and the queues of their jobs.
type Targets struct {
	Page
	Targets []contract.PushTarget
	Hosts   []contract.PushHost
	Queues  []contract.QueueStats
}

// Table is a table of texts and links. Without a row it says Empty.
type Table struct {
	Title, Empty string
	Columns      []string
	Rows         [][]Link
}

// Link is a text with a URL. Without a URL it is text alone.
type Link struct {
	Text string
	To   render.Path
}

// Field is a name with a value.
type Field struct{ Name, Value string }

// Number is a text that changes while the page shows it. At is its place among the texts of its queue.
type Number struct {
	Name, Text string
	At         int
}

// Button is the form of an action.
type Button struct {
	Text string
	To   render.Path
	// Name is the name of the action, Back the page after it, Once the mark of this form.
	Name, Back, Once string
	// IDs are those of the jobs.
	IDs []string
}

// Confirm is the page before an action. Problem is why its last try failed.
type Confirm struct {
	Frame Frame
	Button
	Problem string
	// Typed is the text to type, Sizes what a queue has, and Effect what happens. All of them are optional.
	Typed, Effect string
	Sizes         []Field
	Cancel        render.Path
	// Notes are the effects of a request, and Hidden the fields of its form.
	Notes  []string
	Hidden []Field
}

// Form is a page with the fields of a request of the API.
type Form struct {
	Page
	// Problem is what the last try says of no field. Word is the text of the button.
	Title, Problem, Word, Once string
	To                         render.Path
	// Off is set if nothing can be changed.
	Off    bool
	Inputs []Input
	// Hints replace those of inputs. Without are inputs that are left out.
	Hints   map[string]string
	Without []string
	// Hide are inputs that a person does not see, with their values in Hidden. Choices are values to choose from.
	Hide    []string
	Hidden  []Field
	Choices map[string][]string
	// Seen are the values of the inputs when the form was shown, "" for a form that need not know them.
	Seen string
}

// Input is a field of a form. Hint is what an empty field means, and Help describes the field. Area is set for a long
// text, and Map for lines with a name and a value.
type Input struct {
	Name, Value, Hint, Help, Problem string
	Area, Map, Required              bool
	Options                          []Order
	Choices                          []string
}

// Login is the page before a session. Problem is why the last try failed, and Refused why no login is possible here. Code
// is the login code of the link.
type Login struct {
	Frame                  Frame
	Problem, Code, Refused string
}

// Problem is the page of an error.
type Problem struct {
	Frame      Frame
	Code, Text string
}

// Overview is the first page of a namespace.
type Overview struct {
	Frame    Frame
	Findings any // of package attention, which needs Duration
	// More is the number of findings that the page leaves out.
	More  int
	Tiles []Number
	Tops  []Table
	// Charts has the charts of all queues.
	Charts Charts
}

// Charts are charts over one range of time.
type Charts struct {
	Ranges []Order
	List   []Chart
	Notes  []string
}

// Chart is one chart with its table. Label describes it in words.
type Chart struct {
	ID, Title, Label string
	// From and To are the times of the first and the last point, and Step is the distance of two points, in seconds.
	From, To, Step int64
	// Log is set for a logarithmic axis.
	Log     bool
	Columns []string
	// Rows are the points, without those in a gap.
	Rows []ChartRow
}

// ChartRow is one point. At is its time in seconds.
type ChartRow struct {
	At     int64
	Time   string
	Values []string
}

// Bar is one bucket of a histogram. Most is the largest count of a bucket.
type Bar struct {
	Name        string
	Count, Most uint64
}

// Queues is the list of a namespace's queues.
type Queues struct {
	Page
	Rows []QueueRow
	// Here is the list without a filter. Orders are the columns of the table's head that sort it.
	Here         render.Path
	Filter, Sort string
	Orders       []Order
	// Whole is set if the page begins the list and has no filter. Part is set if filter and order apply to a part of
	// it.
	Whole, Part bool
}

// Order is a way to sort a list.
type Order struct {
	Text    string
	To      render.Path
	Current bool
}

// QueueRow is one queue of the list.
type QueueRow struct {
	Name  string
	Texts []string // those that change while the page shows them
	// Spark draws the ready jobs of the last minutes, "" without one.
	Spark string
	// Problem is set instead of the numbers.
	Problem string
}

// Queue is one queue. Its fields are the settings.
type Queue struct {
	Page
	Name   string
	Texts  []string // those that change while the page shows them
	States []State
	Stats  *duly.Stats
	Charts Charts
	// Spread is the histogram of the lateness of deliveries. Sum states whether the counters account for every job.
	Spread   []Bar
	Counters []Number
	Sum      Number
	Why      []Fact
}

// State is the number of jobs of one state.
type State struct {
	Jobs Link
	Size Number
	// Current marks the state that the page lists.
	Current bool
}

// Jobs is the list of a queue's jobs of one state.
type Jobs struct {
	Page
	Queue  Link
	State  string
	States []State
	// When is the name of the column with a time.
	When string
	// Keys and Errors are set if a row has a key or an error: otherwise their columns are left out.
	Keys, Errors bool

	// Newest is set if the list is in reverse. Timed is set if the jobs are sorted by time, and From is the time at which
	// the list begins, "" for the whole list. Whole is the URL of the whole list.
	Newest, Timed bool
	From          string
	Whole         render.Path

	// Groups are set on the first page of dead jobs, and with a group's filter. Filter is the fingerprint of that group,
	// "" for none. Where has conditions, Conditions their fields. Progress counts the jobs that were Examined by either.
	Groups   *Groups
	Filter   string
	Examined int

	Where, Conditions, Progress string
	Export                      []Link

	Rows []duly.JobInfo
	// The buttons are the actions on selected jobs. All selects every job of the page. The links start an
	// operation on all jobs.
	All, Here render.Path
	Checked   bool
	Once      string
}

// Groups are the groups of dead jobs by their errors, or one of them.
type Groups struct {
	Page
	Table     *failures.Table
	Namespace string
	// Here is the list, From the page that a refresh reads. Filter is the fingerprint of the group, "" for all.
	Here, From render.Path
	Filter     string
}

// Job is one job. Hidden is set if the pages show no bodies, headers and results.
type Job struct {
	Page
	Queue, State Link
	Error        string
	Hidden       bool
	Headers      []Field
	Why          []Why
	Body, Result Text
}

// Why has the facts about a job in a state. Job is set if it is not the job of the page. Free is set if no fact holds it
// back.
type Why struct {
	Job   Link
	State string
	Free  bool
	Facts []Fact
}

// Fact is one of them as a sentence, with links to what it names.
type Fact struct {
	Code, Text string
	Links      []Link
}

// Text is a part of a body or a result.
type Text struct {
	Content string
	// Note says what Content is: its length, its form, and what it leaves out.
	Note string
}

// Duration returns a duration to read: without milliseconds from 10 s on.
func Duration(d time.Duration) string {
	if d >= 10*time.Second {
		return duly.FormatDuration(d.Round(time.Second))
	}
	return duly.FormatDuration(d.Round(time.Millisecond))
}
