package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
)

// usageError is the error of a command line that is not valid.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errReported ends a command that has already printed its errors.
var errReported = errors.New("the command has printed its errors")

// hintError is an error with a hint for the operator. Its hint replaces that of the
// error's code.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

// withHint sets the hint of an error. An empty format means no hint: the error's own text
// says what to do.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hintError{err, fmt.Sprintf(format, args...)}
}

// withHintFor sets the hint of errors of one code, unless they have one.
func withHintFor(code duly.Code, err error, format string, args ...any) error {
	// A hint near the failure is more exact than that of the code, so the first one wins.
	if duly.CodeOf(err) != code || hasHint(err) {
		return err
	}
	return withHint(err, format, args...)
}

func hasHint(err error) bool { return errors.As(err, new(hintError)) }

// hint returns the hint that is printed with an error. cmd is nil for the error of one
// item of a command.
func (a *app) hint(cmd *cobra.Command, code duly.Code, err error) string {
	var hinted hintError
	var e *duly.Error
	isContract := errors.As(err, &e)
	switch {
	// The order matters: an explicit hint replaces every hint that follows from the code.
	case errors.As(err, &hinted):
		return hinted.hint
	case code == duly.CodeInvalid && cmd != nil:
		return "see: " + a.program() + strings.TrimPrefix(cmd.CommandPath(), "duly") + " --help"
	case code == duly.CodeInternal && !isContract:
		return localHint(err)
	case code == duly.CodeConflict && isContract && e.State == duly.StateNone:
		return "" // no job blocks the call, and the text says what to do
	}
	return codeHint(code, a.program())
}

// codeHint returns the hint for a code, or "" if there is none. docs/troubleshooting.md has the
// details.
func codeHint(code duly.Code, program string) string {
	switch code {
	case duly.CodeUnauthorized:
		return "pass a token of this server in DULY_TOKEN, as http://TOKEN@HOST, or by --data with the server's folder; " +
			"an operator creates one with " + program + " token create"
	case duly.CodeForbidden:
		return "use a token with that right and namespace, see: " + program + " token create --help"
	case duly.CodeNotFound:
		return "see what exists: " + program + " queues"
	case duly.CodeConflict:
		return "see the job: " + program + " job get QUEUE ID"

	case duly.CodeLeaseLost:
		return "don't undo its work; reserve the job again: " + program + " reserve QUEUE"
	case duly.CodeTooLarge:
		return "send less at once, or store the data elsewhere and push a reference"

	case duly.CodeLimited:
		return "wait a moment and repeat"
	case duly.CodeFull:
		return "to make room: " + program + " dead purge QUEUE, or queue purge QUEUE; both work while the store is full"
	case duly.CodeNotDurable:
		return "if this persists, check the replicas, the disk and the log of the store"

	case duly.CodeUnavailable:
		return "check that the server runs and that --url is right"
	case duly.CodeClosed:
		return "the server is stopping; repeat when it is back"

	case duly.CodeUnsupported:
		return "leave that out, or use another engine"
	case duly.CodeCorrupt:
		return "see what is damaged: " + program + " check; if it is a file, " +
			program + " restore FILE replaces it by its last backup"
	case duly.CodeInternal:
		return "see the server's log"
	}
	return ""
}

// localHint returns the hint of an error of this machine: a file or a process.
func localHint(err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return "check the permissions"
	case errors.Is(err, os.ErrNotExist):
		return "check the path"
	case errors.Is(err, os.ErrExist):
		return "choose another name"
	}
	return ""
}

// withJobHint adds hints for a job by its state.
func (a *app) withJobHint(err error, queue, id string) error {
	var e *duly.Error
	if !errors.As(err, &e) {
		return err
	}
	command := func(words string) string { return a.program() + " " + words + " " + shellQuote(queue) }
	jobCommand := func(words string) string { return command(words) + " " + shellQuote(id) }

	switch {
	case e.Code == duly.CodeNotFound:
		return withHint(err, "it may be finished; see the other jobs: %s", command("job list"))
	case e.Code != duly.CodeConflict:
		return err
	case e.State == duly.StateLeased:
		return withHint(err, "wait until its delivery has ended, or delete it: %s", jobCommand("job delete"))
	case e.State == duly.StateDead:
		return withHint(err, "requeue it first: %s", jobCommand("dead requeue"))
	case e.State == duly.StateDone:
		return withHint(err, "it is finished; push a new one")
	// Without a state, no job blocks the call, so there is no job to look at.
	case e.State == duly.StateNone:
		return err
	}
	return withHint(err, "see the job: %s", jobCommand("job get"))
}

// jobError adds hints for a job. If the queue does not exist, it returns that error
// instead.
func (a *app) jobError(ctx context.Context, s *session, err error, queue, id string) error {
	return a.orMissing(ctx, s, a.withJobHint(err, queue, id), queue)
}

// withFullHint adds a hint to the error of a push into a full queue. The code does not
// say what is full, so withFullHint compares the queue with its bounds.
func (a *app) withFullHint(ctx context.Context, s *session, err error, queue string) error {
	// Only a full queue needs the two extra calls below.
	if duly.CodeOf(err) != duly.CodeFull || hasHint(err) {
		return err
	}
	stats, statsErr := s.Stats(ctx, s.queue(queue))
	config, configErr := s.Config(ctx, s.queue(queue))
	// The hint is optional. Its failure must not hide the error of the push.
	if statsErr != nil || configErr != nil {
		return err
	}

	program, name := a.program(), shellQuote(queue)
	sizes := &stats.Sizes
	switch {
	case config.MaxJobs > 0 && sizes.Delayed+sizes.Ready+sizes.Blocked+sizes.Leased >= int64(config.MaxJobs):
		return withHint(err, "to raise it: %s queue set %s --max-jobs N; to make room: %s queue purge %s",
			program, name, program, name)
	case !isUsed(&stats): // the queue is new, so the namespace may be full
		return withHint(err, "see %s queues, and: %s queue destroy QUEUE", program, program)
	}
	return err
}
