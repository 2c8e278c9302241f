package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Config configures a Log. Clock and Logger must be set.
type Config struct {
	// Dir is the folder of the files. The first line creates it. If it is empty, only the Logger gets the lines.
	Dir    string
	Clock  duly.Clock
	Logger *slog.Logger
}

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	cfg    Config
	failed atomic.Int64

	mu    sync.Mutex
	files files
}

// Action is what a person wants to do. A line of a file has its fields.
type Action struct {
	// Caller is the name of the token or account, Session a part of the hash of the session's ID.
	Caller  string `json:"caller,omitempty"`
	Session string `json:"session,omitempty"`
	Remote  string `json:"remote,omitempty"`
	// Via is the dashboard, the api or the admin address.
	Via string `json:"via,omitempty"`
	// Route is the route of the API that does this: "POST /v1/{namespace}/queues/{queue}/pause".
	Route     string `json:"route,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Queue     string `json:"queue,omitempty"`
	// Jobs are the IDs of the jobs, or what else the action is about.
	Jobs []string `json:"jobs,omitempty"`
	// Request is the ID of the request.
	Request string `json:"request,omitempty"`
	// Lasting is the ID of an action that may outlast the process, "" for another. [Log.End] writes its outcome.
	Lasting string `json:"lasting,omitempty"`
}

// Outcome is how an action ended.
type Outcome struct {
	// Err is the error of the whole action. Result replaces ok.
	Err    error
	Result string
	// Done and Failed count the jobs of the action.
	Done, Failed int
}

// line is one line of a file.
type line struct {
	Time  string `json:"time"`
	Phase string `json:"phase"` // intent or outcome
	ID    string `json:"action"`
	Action
	Result string `json:"result,omitempty"` // ok, unknown, or the code of the error
	Done   int    `json:"done,omitempty"`
	Failed int    `json:"failed,omitempty"`
}

const (
	intent  = "intent"
	outcome = "outcome"
)

// Open returns the log of a folder. It writes the outcome unknown for each action that the last process began and did
// not end. It fails only if the folder cannot be read.
func Open(cfg Config) (*Log, error) {
	l := &Log{cfg: cfg, files: files{dir: cfg.Dir, open: openFile}}
	if cfg.Dir == "" {
		return l, nil
	}
	begun, err := l.files.unfinished()
	if err != nil {
		return nil, err
	}
	for _, id := range begun {
		l.note(line{Phase: outcome, ID: id, Result: "unknown"}, false)
	}
	return l, nil
}

// Begin writes the intent of an action and syncs it. end writes its outcome. After an error the action must not run.
func (l *Log) Begin(a Action) (end func(Outcome), err error) { return l.begin(a, true) }

// BeginLoose is like Begin for calls that continue if the line cannot be written. It does not sync, and a failure is
// logged and counted.
func (l *Log) BeginLoose(a Action) (end func(Outcome)) {
	end, _ = l.begin(a, false)
	return end
}

func (l *Log) begin(a Action, sync bool) (end func(Outcome), err error) {
	id := cmp.Or(a.Lasting, duly.NewNumber().String())
	for _, text := range []*string{&a.Caller, &a.Remote, &a.Namespace, &a.Queue} {
		*text = clean(*text)
	}
	jobs := make([]string, len(a.Jobs))
	for i := range a.Jobs {
		jobs[i] = clean(a.Jobs[i])
	}
	a.Jobs = jobs
	err = l.note(line{Phase: intent, ID: id, Action: a}, sync)
	return func(o Outcome) { l.End(id, o, sync) }, err
}

// End writes the outcome of an action, which an earlier process may have begun if it is a lasting one.
func (l *Log) End(id string, o Outcome, sync bool) {
	result := cmp.Or(string(duly.CodeOf(o.Err)), o.Result, "ok")
	l.note(line{Phase: outcome, ID: id, Result: result, Done: o.Done, Failed: o.Failed}, sync)
}

// Failed returns the number of lines that could not be written.
func (l *Log) Failed() int64 { return l.failed.Load() }

// note writes a line to the log of the process and to the file.
func (l *Log) note(n line, sync bool) error {
	n.Time = l.cfg.Clock.Now().UTC().Format(time.RFC3339Nano)
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	l.cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "audit", slog.Any("line", json.RawMessage(text)))
	if l.cfg.Dir == "" {
		return nil
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.files.append(append(text, '\n'), sync, l.cfg.Clock.Now()); err != nil {
		l.failed.Add(1)
		l.cfg.Logger.Error("a line of the audit log could not be written", "action", n.ID, "phase", n.Phase,
			"error", route.Fault(err))
	}
	return err
}

// clean makes untrusted text safe for the log. It leaves out a token that was sent in place of a name.
func clean(text string) string {
	if _, ok := auth.Hash(text); ok {
		return "(a token)"
	}
	return route.Line(text)
}
