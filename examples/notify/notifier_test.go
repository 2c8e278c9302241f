package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

// receiver answers requests one after the other; 0 means no answer. It
// notes their keys.
type receiver struct {
	answers    []int
	retryAfter string
	keys       []string
}

func (r *receiver) Do(req *http.Request) (*http.Response, error) {
	r.keys = append(r.keys, req.Header.Get("Idempotency-Key"))
	status := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader("")),
		Header: http.Header{"Retry-After": {r.retryAfter}},
	}, nil
}

// play notifies the receiver, lets two weeks pass, and returns the output.
func play(t *testing.T, r *receiver) (string, *dulytest.Engine) {
	t.Helper()
	e := dulytest.New(t)
	var out bytes.Buffer
	n := NewNotifier(e.Client(), r, &out)
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	n.Register(w)
	e.Start(w)
	if err := n.Notify(t.Context(), "https://example.com/hook", `{"paid":17}`, staircase); err != nil {
		t.Fatal(err)
	}
	e.Advance(14 * 24 * time.Hour)
	e.None(notifications)
	return out.String(), e
}

func TestEveryStepOfTheStaircase(t *testing.T) {
	t.Parallel()
	r := &receiver{answers: []int{503}}
	got, e := play(t, r)
	want := `try 1 after 0s: Service Unavailable
try 2 after 15s: Service Unavailable
try 3 after 3m15s: Service Unavailable
try 4 after 13m15s: Service Unavailable
try 5 after 43m15s: Service Unavailable
try 6 after 1h13m15s: Service Unavailable
try 7 after 2h13m15s: Service Unavailable
try 8 after 4h13m15s: Service Unavailable
try 9 after 10h13m15s: Service Unavailable
try 10 after 25h13m15s: Service Unavailable, given up: that was the last try
`
	if got != want {
		t.Errorf("the notifier says\n%s\nwant\n%s", got, want)
	}
	if dead := e.Dead(notifications); len(dead) != 1 || dead[0].LastError != "Service Unavailable" {
		t.Errorf("dead are %+v, want one with its error", dead)
	}
	for _, key := range r.keys {
		if key == "" || key != r.keys[0] {
			t.Errorf("the keys of the tries are %q, want the same each time", r.keys)
		}
	}
}

func TestAnswerOfTheReceiverDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		receiver
		want string
		dead int
	}{
		{"Taken", receiver{answers: []int{0, 204}}, "try 1 after 0s: connection refused\ntry 2 after 15s: No Content, taken\n", 0},
		{"Gone", receiver{answers: []int{410}}, "try 1 after 0s: Gone, given up\n", 1},
		{
			"RetryAfter", receiver{answers: []int{429, 200}, retryAfter: "90"},
			"try 1 after 0s: Too Many Requests\ntry 2 after 1m30s: OK, taken\n", 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, e := play(t, &tt.receiver)
			if got != tt.want {
				t.Errorf("the notifier says\n%s\nwant\n%s", got, tt.want)
			}
			if dead := e.Dead(notifications); len(dead) != tt.dead {
				t.Errorf("%d are dead, want %d", len(dead), tt.dead)
			}
		})
	}
}

func TestProgramRetriesUntilTheReceiverAccepts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	url := open.File(filepath.Join(t.TempDir(), "notify.db"))
	if err := run(t.Context(), []string{"--url", url, "--steps", "10ms,20ms"}, &out); err != nil {
		t.Fatal(err)
	}
	if n, taken := strings.Count(out.String(), "Service Unavailable"), strings.Contains(out.String(), "200 OK, taken"); n != 2 || !taken {
		t.Errorf("the program says\n%s", out.String())
	}
}

// forbidden is an engine whose worker may not work.
type forbidden struct{ contract.Engine }

func (forbidden) Reserve(context.Context, duly.ReserveParams) ([]duly.Delivery, error) {
	return nil, duly.ErrForbidden
}

// A worker that can't work ends the program; it does not wait for what never
// comes.
func TestAWorkerThatEndsEndsTheProgram(t *testing.T) {
	t.Parallel()
	e, err := open.Engine(t.Context(), open.File(filepath.Join(t.TempDir(), "jobs.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = notify(ctx, forbidden{e}, settings{to: "http://127.0.0.1:1", event: "{}", steps: shortStaircase}, io.Discard)
	if !errors.Is(err, duly.ErrForbidden) || ctx.Err() != nil {
		t.Errorf("it ended with %v, %v", err, ctx.Err())
	}
}
