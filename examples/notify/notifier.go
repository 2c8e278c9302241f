package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

const (
	notifications = "notifications"
	// answerTime limits one request.
	answerTime = 10 * time.Second
)

// Notification is the body of a job.
type Notification struct {
	To    string `json:"to"`
	Event string `json:"event"`
}

// Doer is the part of an http.Client that a Notifier uses.
type Doer interface {
	// Do sends a request and returns the response.
	Do(*http.Request) (*http.Response, error)
}

// Notifier posts events to receivers.
type Notifier struct {
	jobs  *duly.Client
	http  Doer
	ended chan struct{}

	mu  sync.Mutex
	out io.Writer
}

// NewNotifier returns a Notifier that writes its progress to out.
func NewNotifier(jobs *duly.Client, client Doer, out io.Writer) *Notifier {
	return &Notifier{jobs: jobs, http: client, out: out, ended: make(chan struct{}, 1)}
}

// Register adds the handler of notifications to a worker.
func (n *Notifier) Register(w *worker.Worker) {
	w.Handle(notifications, worker.JSON(n.deliver), worker.Timeout(answerTime))
}

// Ended receives a value for each notification that was accepted or given up.
func (n *Notifier) Ended() <-chan struct{} { return n.ended }

// Notify pushes one notification. It has one try more than there are delays.
func (n *Notifier) Notify(ctx context.Context, to, event string, steps duly.Backoff) error {
	tries := strings.Count(string(steps), ",") + 2
	_, err := n.jobs.PushJSON(ctx, notifications, Notification{to, event}, duly.Retry(steps), duly.Tries(tries))
	return err
}

// deliver handles a job. If it returns nil the notification is done; after an error it is tried
// again after the next delay.
func (n *Notifier) deliver(ctx context.Context, job *worker.Job[Notification]) error {
	answer, err := n.post(ctx, job)

	var outcome error
	switch {
	case err != nil:
		outcome = err
	case answer.StatusCode < 300:
		n.say(job, answer.Status+", taken")
		n.end()
		return nil
	case answer.StatusCode == http.StatusGone: // the receiver asks for no more retries
		n.say(job, answer.Status+", given up")
		n.end()
		return worker.Bury(errors.New(answer.Status))
	default:
		outcome = errors.New(answer.Status)
	}

	// The engine buries the job after this error, so here it is only reported.
	if job.Attempt >= job.Tries {
		n.say(job, outcome.Error()+", given up: that was the last try")
		n.end()
		return outcome
	}

	n.say(job, outcome.Error())
	// The receiver knows best when it can accept the event.
	if wait, ok := retryAfter(answer); ok {
		return worker.RetryAfter(wait, outcome)
	}
	return outcome
}

func (n *Notifier) post(ctx context.Context, job *worker.Job[Notification]) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.Value.To, strings.NewReader(job.Value.Event))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	// The key is the same for every try, so that the receiver recognizes repeats.
	req.Header.Set("Idempotency-Key", job.ID)
	answer, err := n.http.Do(req)
	if err != nil {
		return nil, err
	}
	// Only the status and the headers matter, so the body is not read.
	return answer, answer.Body.Close()
}

// retryAfter returns the delay that the receiver asks for, at most an hour.
func retryAfter(answer *http.Response) (time.Duration, bool) {
	if answer == nil {
		return 0, false
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return 0, false
	}
	return min(time.Duration(seconds)*time.Second, time.Hour), true
}

func (n *Notifier) say(job *worker.Job[Notification], what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	since := job.Now.Sub(job.PushedAt).Truncate(time.Second)
	fmt.Fprintf(n.out, "try %d after %s: %s\n", job.Attempt, duly.FormatDuration(since), what)
}

func (n *Notifier) end() {
	// A handler must not block if nobody receives the value.
	select {
	case n.ended <- struct{}{}:
	default:
	}
}
