package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

// misuse is the error of a command that was not written right.
type misuse struct{ message string }

func (m misuse) Error() string { return m.message }

func misusef(format string, args ...any) error { return misuse{fmt.Sprintf(format, args...)} }

// advised is an error with a better word on what to do next than its code has.
type advised struct {
	error
	next string
}

func (e advised) Unwrap() error { return e.error }

// advise replaces the advice of an error's code.
func advise(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return advised{err, fmt.Sprintf(format, args...)}
}

// adviseOn replaces the advice for errors of one code, unless somebody nearer
// to the matter has.
func adviseOn(code duly.Code, err error, format string, args ...any) error {
	if duly.CodeOf(err) != code || errors.As(err, new(advised)) {
		return err
	}
	return advise(err, format, args...)
}

// What the text of an error that is unavailable says of its outcome, through
// every engine and over HTTP; docs/troubleshooting.md promises the first.
const (
	nothingDone = "nothing was done"
	mayHave     = "it may have happened"
)

// errReported ends a command that has already said what failed.
var errReported = errors.New("reported")

// nexts says, per code, what to do next. docs/troubleshooting.md says it at
// length.
func nexts(code duly.Code, program string) string {
	switch code {
	case duly.CodeUnauthorized:
		return "give one that this server knows: in DULY_TOKEN, as http://TOKEN@HOST, or by --data with the server's folder; an operator makes one with " + program + " token create"
	case duly.CodeForbidden:
		return "use a token with that right and namespace, see: " + program + " token create --help"
	case duly.CodeNotFound:
		return "look what is there: " + program + " queues"
	case duly.CodeConflict:
		return "look at it: " + program + " job get QUEUE ID"
	case duly.CodeLeaseLost:
		return "don't undo its work; take the job again: " + program + " reserve QUEUE"
	case duly.CodeTooLarge:
		return "send less at once, or keep the data elsewhere and push a reference"
	case duly.CodeLimited:
		return "wait a moment and repeat"
	case duly.CodeFull:
		return "make room on the disk or with " + program + " queue purge"
	case duly.CodeNotDurable:
		return "if it lasts, look at the replicas, the disk and the log of the store"
	case duly.CodeUnavailable:
		return "check that the server runs and that --url is right"
	case duly.CodeClosed:
		return "the server is stopping; repeat when it is back"
	case duly.CodeUnsupported:
		return "leave that out, or use another engine"
	case duly.CodeCorrupt:
		return "see what is damaged: " + program + " check; if it is a file, " + program + " restore FILE replaces it by its last backup"
	case duly.CodeInternal:
		return "the server's log has the details"
	}
	return ""
}

// room says what to do next about what is full. The codes are few and what may
// be full is much: the words of the error tell, through every engine and over
// HTTP.
func room(text, program string) string {
	switch {
	case strings.Contains(text, "(maxmemory)"):
		return "free memory: work jobs off, or " + program + " dead purge or queue purge; both go on while it is full"
	case strings.Contains(text, "raise max_jobs"):
		return "to raise it: " + program + " queue set QUEUE --max-jobs N; to make room: " + program + " queue purge QUEUE"
	case strings.Contains(text, "raise max_count"), strings.Contains(text, "raise max_bytes"):
		return "see who needs its messages: " + program + " topic groups TOPIC; to change it: " + program + " topic set TOPIC --help"
	case strings.Contains(text, "groups, its bound"):
		return "see " + program + " topic groups TOPIC, and: " + program + " topic group delete TOPIC GROUP"
	case strings.Contains(text, "queues, its bound"):
		return "see " + program + " queues, and: " + program + " queue destroy QUEUE"
	case strings.Contains(text, "then repeat"): // of a disk, which the error names
		return ""
	}
	return nexts(duly.CodeFull, program)
}

// aboutJob replaces the advice of an error by advice for this job, or the whole
// error if the queue does not exist.
func (a *app) aboutJob(ctx context.Context, s *session, err error, queue, id string) error {
	return a.orMissing(ctx, s, a.adviseOnJob(err, queue, id), queue)
}

// adviseOnJob replaces the advice of an error by advice for this job.
func (a *app) adviseOnJob(err error, queue, id string) error {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err
	}
	command := func(words string) string { return a.program() + " " + words + " " + shellQuote(queue) }
	job := " " + shellQuote(id)
	switch {
	case e.Code == duly.CodeNotFound:
		return advise(err, "it may be finished already; see what is there: %s", command("job list"))
	case e.Code != duly.CodeConflict:
		return err
	case e.State == duly.StateLeased:
		return advise(err, "wait until its delivery has ended, or delete it: %s", command("job delete")+job)
	case e.State == duly.StateDead:
		return advise(err, "let it live again first: %s", command("dead requeue")+job)
	case e.State == duly.StateDone:
		return advise(err, "it is finished; push a new one")
	}
	return advise(err, "look at it: %s", command("job get")+job)
}

// report prints the error's line and returns the exit status.
func (a *app) report(cmd *cobra.Command, err error) int {
	switch {
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, syscall.EPIPE) && !errors.As(err, new(*duly.Error)):
		return exitOK // whoever read this has enough; a connection that broke is the contract's error
	}
	code := duly.CodeOf(err)
	wrong := errors.As(err, new(misuse)) || !a.begun
	if wrong {
		code = duly.CodeInvalid
	}
	a.complain(code, asFlags(cmd, err), a.next(cmd, code, err))
	if code == duly.CodeInvalid {
		return exitMisuse
	}
	return exitFailed
}

// asFlags names bad fields as the command's flags spell them: max_stalls is
// --max-stalls.
func asFlags(cmd *cobra.Command, err error) error {
	var e *duly.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}
	text := err.Error()
	for _, f := range e.Fields {
		problem := f.Problem
		if both, found := strings.CutPrefix(problem, "and "); found { // "and due are both set"
			other, rest, _ := strings.Cut(both, " ")
			problem = "and " + asFlag(cmd, other) + " " + rest
		}
		text = strings.Replace(text, f.Field+" "+f.Problem, asFlag(cmd, f.Field)+" "+problem, 1)
	}
	return inFlags{err, text}
}

// asFlag is a field as the command's flag for it, if there is one.
func asFlag(cmd *cobra.Command, field string) string {
	name := flagName(field)
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		flag = cmd.Flags().Lookup(strings.TrimSuffix(name, "s"))
	}
	if flag == nil && field == "from" { // of a seek
		flag = cmd.Flags().Lookup("to")
	}
	if flag == nil {
		return field
	}
	return "--" + flag.Name
}

// flagName is a field's name in a flag's letters.
func flagName(field string) string {
	return strings.NewReplacer("limits.", "limit-", "defaults.", "", ".", "-", "_", "-").Replace(field)
}

// inFlags is an error whose text speaks of flags.
type inFlags struct {
	error
	text string
}

func (e inFlags) Error() string { return e.text }
func (e inFlags) Unwrap() error { return e.error }

// next is what the error's line says to do.
func (a *app) next(cmd *cobra.Command, code duly.Code, err error) string {
	var told advised
	switch {
	case errors.As(err, &told):
		return told.next
	case code == duly.CodeInvalid && cmd != nil:
		path := strings.TrimPrefix(cmd.CommandPath(), "duly")
		return "see: " + a.program() + path + " --help"
	case code == duly.CodeConflict && strings.Contains(err.Error(), "a topic cannot have its name"):
		return ""
	case code == duly.CodeConflict && strings.Contains(err.Error(), "is a pull queue"): // the text says what to do
		return ""
	case code == duly.CodeConflict && strings.Contains(err.Error(), "the servers push its messages"):
		return "to remove the target: " + a.program() + " queue set TOPIC@GROUP --target none"
	case code == duly.CodeConflict && strings.Contains(err.Error(), "but the log ends at"):
		return "read what is stored: " + a.program() + " topic tail TOPIC --from start"
	case code == duly.CodeConflict && strings.Contains(err.Error(), "can change to key only while"):
		return "see them: " + a.program() + " job list TOPIC@GROUP"
	case code == duly.CodeUnsupported && strings.Contains(err.Error(), "leave shards out"):
		return ""
	case isTopic(err):
		return "see the topics and their groups: " + a.program() + " topic list, and topic groups TOPIC"
	case code == duly.CodeFull:
		return room(err.Error(), a.program())
	case code == duly.CodeInternal && !errors.As(err, new(*duly.Error)):
		return localAdvice(err)
	}
	return nexts(code, a.program())
}

// localAdvice is for errors that are not the contract's: files, processes,
// an interrupt.
func localAdvice(err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return "check who may read and write there"
	case errors.Is(err, os.ErrNotExist):
		return "check the path"
	case errors.Is(err, os.ErrExist):
		return "choose another name"
	}
	return ""
}

// message is the error's text without its code, on one line and without
// secrets.
func (a *app) message(err error) string {
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	var e *duly.Error
	contract := errors.As(err, &e)
	if errors.Is(err, context.DeadlineExceeded) && (!contract || e.Cause == context.DeadlineExceeded) { // else the engine says more
		text = "no answer in time"
	}
	if contract {
		text = strings.Replace(text, string(e.Code)+": ", "", 1)
	}
	text = joined(text)
	for _, s := range a.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return oneLine(text)
}

// joined is the text of several errors, each said once. They stand in lines of
// their own, as errors.Join has them.
func joined(text string) string {
	var once []string
	for line := range strings.SplitSeq(text, "\n") {
		known := func(have string) bool { return line == have || strings.HasSuffix(line, ": "+have) }
		if !slices.ContainsFunc(once, known) {
			once = append(once, line)
		}
	}
	return strings.Join(once, "; ")
}

// errorView is an error for machines, with the names of the HTTP API.
type errorView struct {
	Code   duly.Code   `json:"code"`
	Detail string      `json:"detail"`
	Fields []fieldView `json:"fields,omitempty"`
	State  *duly.State `json:"state,omitempty"`
	Next   string      `json:"next,omitempty"` // what to do
}

type fieldView struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

func (a *app) errorView(code duly.Code, err error, next string) *errorView {
	v := &errorView{Code: code, Detail: a.message(err), Next: next}
	var e *duly.Error
	if errors.As(err, &e) {
		for _, f := range e.Fields {
			v.Fields = append(v.Fields, fieldView(f))
		}
		if e.State != duly.StateNone {
			v.State = &e.State
		}
	}
	return v
}

// complain prints one error line.
func (a *app) complain(code duly.Code, err error, next string) {
	if a.wantsJSON() {
		line, _ := json.Marshal(map[string]any{"error": a.errorView(code, err, next)})
		a.errorLine(line)
		return
	}
	text := a.message(err)
	if next != "" {
		text += "; " + next
	}
	if code != duly.CodeInternal || errors.As(err, new(*duly.Error)) {
		text = string(code) + ": " + text
	}
	fmt.Fprintf(a.env.Stderr, "duly: %s\n", text)
}

// wantsJSON is also right when the command line broke before its flags were
// read.
func (a *app) wantsJSON() bool {
	if a.begun || a.json {
		return a.json
	}
	for _, arg := range a.env.Args[1:] {
		if arg == "--" {
			break
		}
		if arg == "--json" || arg == "--json=true" {
			return true
		}
	}
	return false
}
