package dulytest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

// docs/moving.md has the program between the two marks.

// begin
type Mail struct{ To string }

func send(ctx context.Context, job *worker.Job[Mail]) error { return deliver(ctx, job.Value.To) }

func remind(ctx context.Context, client *duly.Client) (duly.PushResult, error) {
	return client.PushJSON(ctx, "mail", Mail{To: "ann@example.org"}, duly.ID("mail-17"),
		duly.Delay(time.Hour), duly.Retry(duly.Exponential(time.Second, time.Minute)))
}

func cancel(ctx context.Context, c *duly.Client) error { return c.Cancel(ctx, "mail", "mail-17") }

func work(ctx context.Context, engine duly.Engine) error {
	w := worker.New(engine, worker.Config{})
	w.Handle("mail", worker.JSON(send))
	return w.Run(ctx) // runs until ctx ends
}

func TestSend(t *testing.T) {
	engine := dulytest.New(t)
	remind(t.Context(), engine.Client())
	engine.Advance(time.Hour) // takes no real time
	engine.Drain("mail", worker.JSON(send))
	engine.None("mail") // the job is done, so none is left
}

// end

func deliver(context.Context, string) error { return nil }

// mostLines is the largest number of lines of the five tasks together, so that the tasks stay
// simple.
const mostLines = 20

func TestMovingPageHasThisProgram(t *testing.T) {
	t.Parallel()
	program := checkProgram(t, "moving_test.go", "../docs/moving.md")
	lines := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > mostLines {
		t.Errorf("the program has %d lines, may have %d", lines, mostLines)
	}
}

func TestMovingProgramWorksAndCancels(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := work(ctx, e); err != nil {
		t.Errorf("work ended with %v", err)
	}

	if _, err := remind(t.Context(), e.Client()); err != nil {
		t.Fatal(err)
	}
	if err := cancel(t.Context(), e.Client()); err != nil {
		t.Error(err)
	}
	e.None("mail")
}
