package dulytest_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

// docs/kinds.md has the program between the two marks.

// begin
type SendMail struct{ To string }

func (SendMail) Kind() string { return "send_mail" }

type SendSMS struct{ Number string }

func (SendSMS) Kind() string { return "send_sms" }

func notify(ctx context.Context, client *duly.Client) error {
	_, err := duly.PushKind(ctx, client, "notify", SendMail{To: "ada"}, duly.Delay(time.Minute))
	return err
}

func addHandlers(w *worker.Worker) {
	worker.HandleKind(w, "notify", func(ctx context.Context, job *worker.Job[SendMail]) error {
		return mail(ctx, job.Value.To)
	})
	worker.HandleKind(w, "notify", func(ctx context.Context, job *worker.Job[SendSMS]) error {
		return text(ctx, job.Value.Number)
	}, worker.Timeout(10*time.Second))
}

// end

// sent records what the handlers send.
var sent []string

func mail(_ context.Context, to string) error {
	sent = append(sent, "mail to "+to)
	return nil
}

func text(_ context.Context, number string) error {
	sent = append(sent, "text to "+number)
	return nil
}

func TestKindsPageHasThisProgram(t *testing.T) {
	t.Parallel()
	checkProgram(t, "kinds_test.go", "../docs/kinds.md")
}

func TestKindsProgramDrainsBothKinds(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	w := worker.New(e, worker.Config{Logger: quiet})
	addHandlers(w)
	if err := notify(t.Context(), e.Client()); err != nil {
		t.Fatal(err)
	}
	if _, err := duly.PushKind(t.Context(), e.Client(), "notify", SendSMS{Number: "17"}); err != nil {
		t.Fatal(err)
	}

	e.Drain("notify", w.Handler("notify"))
	e.Advance(time.Minute)
	e.Drain("notify", w.Handler("notify"))
	if want := []string{"text to 17", "mail to ada"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

// checkProgram checks that the page has the program of a file, and returns the program.
func checkProgram(t *testing.T, file, page string) (program string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	markdown, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(source), "// begin\n")
	program, _, _ = strings.Cut(rest, "\n// end\n")
	if !strings.Contains(string(markdown), "```go\n"+program+"```\n") {
		t.Errorf("%s has another program than %s:\n%s", page, file, program)
	}
	return program
}
