package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
)

// C15.25: the commands for topics print text.
func TestTopicCommandsPrintText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("topic", "create", "events", "--keep", "7d", "--dedupe", "1h", "--max-bytes", "2GiB")
	r.do("topic", "group", "create", "events", "mailer")
	r.do("topic", "group", "create", "events", "mailer", "--from", "end")
	position := firstWord(r.do("topic", "publish", "events", "order 7 paid", "--key", "customer-1", "--header",
		"type=paid", "--id", "paid-7"))
	r.do("topic", "publish", "events", "order 7 paid", "--key", "customer-1", "--id", "paid-7")
	r.do("topic", "publish", "events", "order 7 unpaid", "--id", "reminder-7", "--delay", "1h")
	r.stdin = "one\ntwo\n\nfour\n"
	r.do("topic", "publish", "events", "--lines")
	r.do("topic", "delayed", "events", "--bodies")
	r.do("check")
	r.do("topic", "groups", "events")
	r.do("topic", "list")
	r.do("stats", "events")
	r.do("stats", "events@mailer")
	receipt := firstWord(r.do("reserve", "events@mailer", "--receipts"))
	r.do("bury", receipt, "--reason", "no such customer")
	r.do("dead", "list", "events@mailer")
	r.do("dead", "requeue", "events@mailer", position)
	r.do("topic", "tail", "events", "--once")
	r.do("topic", "tail", "events", "--from", "end", "--once")
	r.do("topic", "tail", "events", "--from", position, "--limit", "2", "--bodies")
	r.do("topic", "seek", "events", "mailer", "--to", "end")
	r.do("topic", "seek", "events", "mailer", "--to", "start")
	r.do("queue", "set", "events@mailer", "--tries", "3", "--order", "key", "--max-held", "1000", "--filter",
		"type=paid", "--filter", "@key=customer-1", "--idle", "7d", "--target", "invoices")
	r.do("queue", "set", "events@mailer", "--filter", "none", "--idle", "none", "--target", "none")
	r.do("pause", "events@mailer")
	r.do("topic", "groups", "events")
	r.do("resume", "events@mailer")
	r.do("topic", "cancel", "events", "reminder-7")
	r.do("topic", "set", "events", "--keep", "none", "--overflow", "drop", "--max-count", "100")
	r.do("topic", "group", "delete", "events", "mailer", "--yes")
	r.do("topic", "groups", "events")
	r.do("topic", "trim", "events")
	r.do("topic", "destroy", "events", "--yes")
	r.do("topic", "list")
	r.golden("topic")
}

// C15.33: --json prints the JSON of the HTTP API.
func TestTopicCommandsPrintJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("topic", "create", "events", "--json")
	r.do("topic", "group", "create", "events", "mailer", "--json")
	r.do("topic", "publish", "events", "hello", "--key", "k", "--json")
	r.do("topic", "publish", "events", "later", "--delay", "1h", "--id", "a", "--json")
	r.stdin = "one\ntwo\n"
	r.do("topic", "publish", "events", "--lines", "--json")
	r.do("topic", "delayed", "events", "--json")
	r.do("check", "--json")
	r.do("topic", "groups", "events", "--json")
	r.do("topic", "groups", "events", "--names", "--json")
	r.do("topic", "list", "--json")
	r.do("topic", "tail", "events", "--from", "start", "--once", "--json")
	r.do("topic", "seek", "events", "mailer", "--to", "end", "--json")
	r.do("topic", "trim", "events", "--json")
	r.do("topic", "cancel", "events", "a", "b", "--json")
	r.do("topic", "destroy", "events", "--yes", "--json")
	r.golden("topic-json")
}

// C15.35, C15.49: errors of topics have hints, such as the nearest name.
func TestTopicErrorsHaveHints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("topic", "group", "create", "events", "mailer")
	r.ok("push", "jobs", "x")
	r.do("topic", "publish", "jobs", "x")
	r.do("push", "events", "x")
	r.do("push", "events@mailer", "x")
	r.do("peek", "events@mailer")
	r.do("stats", "a@b@c")
	r.do("stats", "@mailer")
	r.do("stats", "events@mialer")
	r.do("stats", "evnts@mailer")
	r.do("stats", "nothing@mailer")
	r.do("pause", "events@mialer")
	r.do("pause", "events")
	r.do("dead", "list", "events")
	r.do("dead", "list", "events@audit")
	r.do("queue", "set", "events@audit", "--tries", "3")
	r.do("queue", "set", "events@mailer", "--ttl", "1h")
	r.do("queue", "set", "jobs", "--order", "key")
	r.do("queue", "set", "events@mailer", "--order", "sometimes")
	r.do("queue", "set", "events@mailer", "--filter", "paid")
	r.do("queue", "set", "events@mailer", "--filter", "type!=paid")
	r.do("queue", "set", "events@mailer", "--idle", "5m")
	r.do("topic", "groups", "evnts")
	r.do("topic", "delayed", "evnts")
	r.do("topic", "tail", "evnts", "--once")
	r.do("topic", "set", "evnts", "--keep", "1h")
	r.do("topic", "set", "events")
	r.do("topic", "trim", "evnts")
	r.do("topic", "destroy", "evnts", "--yes")
	r.do("topic", "destroy", "events")
	r.do("topic", "group", "delete", "events", "mialer", "--yes")
	r.do("topic", "group", "create", "events", "a@b")
	r.do("topic", "group", "create", "events", "audit", "--from", "yesterday")
	r.do("topic", "seek", "events", "mailer")
	r.do("topic", "seek", "events", "mialer", "--to", "end")
	r.do("topic", "seek", "events", "mailer", "--to", "next:x")
	r.do("topic", "seek", "events", "mailer", "--to", contract.PositionParts{Ordinal: 1}.Position().String())
	r.do("topic", "seek", "events", "mailer", "--to", "2099-01-01T00:00:00Z")
	ahead := contract.PositionParts{Millis: 1, Ordinal: 99, Topic: contract.TopicChecksum(duly.Q("events"))}.Position().String()
	r.do("topic", "tail", "events", "--once", "--from", ahead)
	r.do("topic", "cancel", "events", "a")
	r.do("topic", "set", "events", "--shards", "2")
	r.do("topic", "set", "events", "--max-count", "1")
	r.do("topic", "publish", "events", "x")
	r.do("topic", "publish", "events", "y")
	r.ok("reserve", "events@mailer")
	r.do("queue", "set", "events@mailer", "--order", "key")
	r.do("topic", "create", "events", "--max-bytes", "many")
	r.do("topic", "create", "events", "--dedupe", "25h")
	r.do("topic", "publish", "events", "x", "--lines")
	r.do("topic", "publish", "events", "x", "--delay", "1h", "--due", "2030-01-01T00:00")
	r.do("topic", "consume", "events", "--exec", "true")
	r.do("topic", "consume", "events", "--group", "mailer")
	r.do("topic", "consume", "events", "--group", "mailer", "--exec", "true", "--once", "--max", "3")
	r.do("topic")
	r.do("topic", "publsh", "events")
	r.golden("topic-mistakes")
}

// C15.18: top shows groups in addition to queues.
func TestTopShowsGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("topic", "group", "create", "events", "mailer")
	r.ok("topic", "publish", "events", "x")
	r.ok("push", "jobs", "x")
	out := r.ok("queues", "--names")
	if strings.Contains(out, "events") {
		t.Errorf("queues lists %q", out)
	}
	survey, err := contract.SurveyorOf(r.engine).Survey(t.Context(), "default", duly.PageParams{})
	if err != nil || len(survey.Queues) != 2 || survey.Queues[0].Name != "events@mailer" {
		t.Errorf("%+v, %v", survey, err)
	}
	if out := r.once(0, "--once", "events@mailer"); !strings.Contains(out, "events@mailer") ||
		strings.Contains(out, "jobs") {
		t.Errorf("top of a group shows %q", out)
	}
	if code, _, errs := r.run("top", "--once", "events@mialer"); code != exitFailed ||
		!strings.Contains(errs, "did you mean events@mailer?") {
		t.Errorf("top of a group that does not exist: %d %s", code, errs)
	}
}

// consume runs a command for the messages of a group. --from creates the group. --max limits
// the messages.
func TestConsumeRunsACommandPerMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = "a\nb\nc\nd\ne\n"
	r.ok("topic", "publish", "events", "--lines", "--key", "k1")
	out := filepath.Join(t.TempDir(), "out")
	r.vars["OUT"] = out
	r.ok("topic", "consume", "events", "--group", "mailer", "--from", "start", "--max", "3", "--exec",
		`echo "$(cat) $DULY_JOB_QUEUE $DULY_JOB_ORDER_KEY" >> "$OUT"`)
	text, _ := read(t, out)
	if want := "a events@mailer k1\nb events@mailer k1\nc events@mailer k1\n"; text != want {
		t.Errorf("worked %q, want %q", text, want)
	}
	stats, err := r.engine.Stats(t.Context(), duly.Q("events@mailer"))
	if err != nil || stats.Counters.Acked != 3 || stats.Group.Lag != 2 {
		t.Errorf("%+v %+v, %v", stats.Counters, stats.Group, err)
	}

	r.ok("work", "events@mailer", "--until-empty", "--concurrency", "2", "--exec", "exit 1")
	stats, err = r.engine.Stats(t.Context(), duly.Q("events@mailer"))
	if err != nil || stats.Counters.Failed != 2 || stats.Sizes.Delayed != 2 {
		t.Errorf("%+v %+v, %v", stats.Counters, stats.Sizes, err)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
}

// A worker of a group that does not exist prints a note, and starts when the group exists.
func TestWorkWaitsForGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("topic", "create", "events")
	ctx, stop := context.WithCancel(t.Context())
	var out strings.Builder
	errs, done := newLineCounter(1), make(chan int)
	go func() { done <- Run(ctx, r.env(&out, errs, "work", "events@mailer", "--exec", "true")) }()
	<-errs.full
	if text := errs.String(); !strings.Contains(text, "no such group events@mailer yet; create it with --from start") {
		t.Errorf("printed %q", text)
	}

	r.ok("topic", "group", "create", "events", "mailer")
	r.ok("topic", "publish", "events", "x")
	eventually.True(t, "the message is acked", func() bool {
		r.clock.Advance(time.Second)
		stats, err := r.engine.Stats(t.Context(), duly.Q("events@mailer"))
		return err == nil && stats.Counters.Acked == 1
	})

	stop()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// tail prints new messages until it is interrupted.
func TestTailPrintsNewMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("topic", "create", "events")
	ctx, stop := context.WithCancel(t.Context())
	out, done := newLineCounter(2), make(chan int)
	var errs strings.Builder
	env := r.env(out, &errs, "topic", "tail", "events", "--from", "start")
	go func() { done <- Run(ctx, env) }()
	r.ok("topic", "publish", "events", "first", "--key", "k")
	r.ok("topic", "publish", "events", "line\nend \x1b[31m")
	<-out.full
	stop()
	if code := <-done; code != exitOK || errs.Len() > 0 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[0], "  k  first") || !strings.HasSuffix(lines[1], `  -  line\nend \x1b[31m`) {
		t.Errorf("printed %q", lines)
	}
}
