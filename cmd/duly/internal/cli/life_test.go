package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// firstWord returns the first word of an output.
func firstWord(stdout string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(stdout), "\n")
	word, _, _ = strings.Cut(word, " ")
	return word
}

// C15.11: push. C15.15: reserve. C15.16: ack, nack, release, bury, extend. C15.17: peek,
// queues, stats. C15.33: tables.
func TestJobCommandsPrintText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("push", "emails", "at the proper time", "--id", "mail-1", "--delay", "3s")
	r.do("push", "emails", "at the proper time", "--id", "mail-1")
	r.do("reserve", "emails")
	r.do("peek", "emails")
	r.advance(3 * time.Second)
	r.do("peek", "emails")
	receipt := firstWord(r.do("reserve", "emails", "--receipts"))
	r.do("extend", receipt, "--lease", "10m")
	r.do("job", "get", "emails", "mail-1")
	r.do("nack", receipt, "--error", "mailbox\nis full", "--delay", "1m")
	r.do("ack", receipt)
	r.advance(time.Minute)
	receipt = firstWord(r.do("reserve", "emails", "--receipts"))
	r.do("release", receipt, "--delay", "0s")
	receipt = firstWord(r.do("reserve", "emails", "--receipts", "--lease", "5s"))
	r.do("bury", receipt, "--reason", "no such customer")
	r.do("dead", "list", "emails")
	r.do("dead", "requeue", "emails")
	receipt = firstWord(r.do("reserve", "emails", "--receipts"))
	r.do("ack", receipt)
	r.do("job", "get", "emails", "mail-1")
	r.do("stats", "emails")
	r.do("queues")
	r.golden("life")
}

// C15.33: --json prints the JSON of the HTTP API.
func TestJobCommandsPrintJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("push", "emails", "hi", "--id", "mail-1", "--delay", "3s", "--json")
	r.do("push", "emails", "hi", "--id", "mail-1", "--json")
	r.do("job", "get", "emails", "mail-1", "--json")
	r.advance(3 * time.Second)
	r.do("peek", "emails", "--json")
	receipt := firstWord(r.do("reserve", "emails", "--receipts"))
	r.do("nack", receipt, "gone", "--delay", "0s", "--json")
	r.do("reserve", "emails", "--json")
	r.do("reserve", "emails", "--json")
	r.do("job", "list", "emails", "--json")
	r.do("job", "get", "emails", "mail-2", "--json")
	r.do("job", "promote", "emails", "mail-1", "--json")
	r.do("job", "delete", "emails", "mail-1", "mail-2", "--json")
	r.do("queues", "--json")
	r.do("queues", "--names", "--json")
	r.do("queues", "--namespaces")
	r.do("stats", "emails", "--json")
	r.do("check", "--json")
	r.do("version", "--json")
	r.golden("life-json")
}

// C15.11: push has a flag for every field of a job.
func TestPushFlags(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = "from standard input"
	r.do("push", "all", "-", "--id", "a", "--header", "Lang=de", "--header", "x=1=2", "--delay", "1m", "--priority", "-7",
		"--tries", "3", "--max-stalls", "none", "--backoff", "15s,3m,1h", "--ttl", "1h30m", "--lease", "45s", "--order-key",
		"c7",
		"--merge-key", "k", "--merge-mode", "replace", "--merge-max-wait", "2m", "--merge-until", "leased", "--retain", "7d")
	r.do("job", "get", "all", "a")
	r.do("job", "get", "all", "a", "--json")
	r.do("push", "all", "absolute", "--id", "b", "--due", "2030-01-02T03:04:05Z", "--ttl", "none", "--retain", "none")
	r.do("job", "get", "all", "b", "--json")
	r.do("push", "all", "equal", "--merge-mode", "keep", "--merge-until", "done", "--id", "m")
	r.do("push", "all", "equal", "--merge-mode", "keep")
	r.do("push", "all", "--id", "empty")
	r.golden("push")
}

func TestPushKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "q", "{}", "--id", "a", "--kind", "send_mail", "--header", "lang=de")
	job, err := r.engine.Get(t.Context(), duly.Q("q"), "a")
	if err != nil || len(job.Headers) != 2 || job.Headers[duly.KindHeader] != "send_mail" || job.Headers["lang"] != "de" {
		t.Errorf("the headers are %v, %v", job.Headers, err)
	}

	for want, args := range map[string][]string{
		`cannot be "send mail": write 1 to 100 of A-Z a-z 0-9 . _ -, and begin with a letter`: {"--kind", "send mail"},
		`cannot be "": write 1 to 100 of A-Z`:                                                 {"--kind", ""},
		"--kind and --header Duly-Kind both set the kind; leave one of":                       {"--kind", "a", "--header", "Duly-Kind=b"},
	} {
		code, _, errs := r.run(append([]string{"push", "q", "{}"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q, want %q", args, code, errs, want)
		}
	}

	r.stdin = "1\n2\n"
	r.ok("push", "lines", "--lines", "--kind", "number")
	page, err := r.engine.List(t.Context(), duly.Q("lines"), duly.ListParams{State: duly.StateReady})
	if err != nil || len(page.Jobs) != 2 || page.Jobs[1].Headers[duly.KindHeader] != "number" {
		t.Errorf("the jobs are %+v, %v", page.Jobs, err)
	}
}

// C15.12: --lines pushes one job per input line.
func TestPushLines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = "one\r\ntwo\n\nfour"
	r.do("push", "in", "--lines", "--priority", "5")
	r.do("job", "list", "in", "--bodies", "--json")
	r.stdin = "same\nsame\n"
	r.do("push", "in", "--lines", "--merge-mode", "keep", "--json")
	r.stdin = "ok\n" + strings.Repeat("x", 1<<20+1) + "\nok\n"
	code, stdout, stderr := r.run("push", "in", "--lines")
	if code != exitFailed || !strings.Contains(stdout, "3 lines: 2 created, 1 failed\n") ||
		!strings.Contains(stderr, "too_large: line 2: body has 1048577 bytes") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	r.do("push", "in", "--lines", "--id", "one")
	r.do("push", "in", "body", "--lines")
	r.golden("push-lines")
}

// Batches are full while there is more input, and lines are pushed in order.
func TestPushLinesKeepsOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var in strings.Builder
	for i := range 2500 {
		in.WriteString(strings.Repeat("x", i%3) + "\n")
	}
	r.stdin = in.String()
	if out := r.ok("push", "in", "--lines"); out != "2 500 lines: 2 500 created\n" {
		t.Errorf("printed %q", out)
	}
	listed := r.ok("job", "list", "in", "--bodies", "--limit", "none", "--json")
	i := 0

	for line := range strings.Lines(listed) {
		if want := `"body":"` + strings.Repeat("x", i%3) + `"`; !strings.Contains(line, want) {
			t.Fatalf("line %d is %s", i, line)
		}
		i++
	}

	if i != 2500 {
		t.Errorf("%d jobs", i)
	}
}

// C15.19, C15.60: job get, find, list, update, promote, delete.
func TestJobCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("push", "q", "body one", "--id", "one", "--delay", "1h")
	r.do("push", "q", "body two", "--id", "two")
	r.do("push", "q", "key first", "--id", "k1", "--order-key", "k")
	r.do("push", "q", "key second", "--id", "k2", "--order-key", "k")
	r.do("job", "list", "q")
	r.do("job", "list", "q", "--state", "delayed", "--bodies")
	r.do("job", "list", "q", "--limit", "2")
	r.do("push", "r", "body", "--id", "one")
	r.do("job", "find", "one")
	r.do("job", "find", "one", "--json")
	r.do("job", "find", "nobody")
	r.do("job", "find", "a b")
	r.do("job", "list", "q", "--state", "sleeping")
	r.do("job", "update", "q", "one", "--priority", "9", "--ttl", "2h", "--header", "a=b", "--body", "")
	r.do("job", "get", "q", "one")
	r.do("job", "update", "q", "one", "--no-headers", "--ttl", "none")
	r.do("job", "update", "q", "one")
	r.do("job", "update", "q", "nobody", "--priority", "1")
	r.do("job", "update", "q", "one", "--delay", "5s", "--due", "2031-01-01T00:00:00Z")
	r.do("job", "promote", "q", "one", "two")
	r.do("job", "get", "q", "one", "three", "two")
	r.do("job", "get", "q", "one", "three", "two", "--json")
	r.do("job", "get", "q", "one", "two", "--body")
	r.do("job", "list", "q")
	r.do("job", "get", "q", "two", "--body")
	r.do("reserve", "q", "--receipts")
	r.do("job", "promote", "q", "one")
	r.do("job", "update", "q", "one", "--priority", "1")
	r.do("job", "delete", "q", "one", "three", "two", "--state", "dead")
	r.do("job", "delete", "q", "one", "--state", "alive")
	r.do("job", "delete", "q", "one", "three", "two")
	r.do("job", "delete", "q", "one")
	r.do("job")
	r.do("job", "explode")
	r.golden("job")
}

// deletesOnce is an engine that is unavailable after one DeleteJobs.
type deletesOnce struct {
	unclosable
	calls int
}

func (e *deletesOnce) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if e.calls++; e.calls > 1 {
		return nil, duly.ErrUnavailable
	}
	return e.unclosable.DeleteJobs(ctx, q, ids, state)
}

// C15.58: job delete with a state leaves the jobs in other states. It deletes more jobs than one call may have, and
// prints what it has deleted before an error.
func TestJobDeleteOfAState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	args := []string{"job", "delete", "q", "--state", "ready"}
	for i := range duly.MaxBatch + 3 {
		id := fmt.Sprint("job-", i)
		job := duly.Job{Queue: "q", ID: id}
		// One job of each call is in another state.
		if i%duly.MaxBatch == 1 {
			job.Delay = time.Hour
		}
		if results, err := r.engine.Push(t.Context(), []duly.Job{job}); err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		args = append(args, id)
	}

	r.open = func() contract.Engine { return &deletesOnce{unclosable: unclosable{r.engine}} }
	code, stdout, stderr := r.run(args...)
	if n := strings.Count(stdout, "deleted job"); code != exitFailed || n != duly.MaxBatch-1 ||
		!strings.Contains(stderr, `job "job-1" is delayed, not ready`) || !strings.Contains(stderr, "unavailable") {
		t.Errorf("exit %d, %d jobs are deleted, %q", code, n, stderr)
	}
	r.open = nil
	code, stdout, stderr = r.run(args...)
	if n := strings.Count(stdout, "deleted job"); code != exitFailed || n != 2 ||
		strings.Count(stderr, "not_found") != duly.MaxBatch-1 || strings.Count(stderr, "conflict") != 2 {
		t.Errorf("exit %d, %d jobs are deleted, %q", code, n, stderr[:min(len(stderr), 1000)])
	}
	stats, err := r.engine.Stats(t.Context(), duly.Q("q"))
	if err != nil || stats.Sizes != (duly.Sizes{Delayed: 2}) {
		t.Errorf("the sizes are %+v, %v", stats.Sizes, err)
	}
}

// C15.59: job get and job promote take more IDs than one call may have. job get prints jobs that do not fit in one
// answer, in the order of the IDs.
func TestJobGetAndPromoteOfMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const large = 9
	var ids []string
	for i := range duly.MaxBatch + 3 {
		job := duly.Job{Queue: "q", ID: fmt.Sprint("job-", i), Delay: time.Hour}
		if i < large {
			job.Body = []byte(strings.Repeat("x", duly.DefaultMaxBody))
		}
		if results, err := r.engine.Push(t.Context(), []duly.Job{job}); err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		ids = append(ids, job.ID)
	}

	code, stdout, stderr := r.run(append([]string{"job", "promote", "q"}, ids...)...)
	if n := strings.Count(stdout, "promoted job"); code != 0 || n != len(ids) {
		t.Errorf("exit %d, %d jobs are promoted, %q", code, n, stderr)
	}
	code, stdout, stderr = r.run(append([]string{"job", "get", "q", "--json"}, ids...)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 0 || len(lines) != len(ids) {
		t.Fatalf("exit %d, %d lines for %d IDs, %q", code, len(lines), len(ids), stderr)
	}
	for i, line := range lines {
		if want := fmt.Sprintf(`"id":%q`, ids[i]); !strings.Contains(line, want) || !strings.Contains(line, `"ready"`) {
			t.Errorf("line %d lacks %s: %.200s", i, want, line)
		}
	}
}

// C15.20: dead list, requeue, purge.
func TestDeadJobsAreListedRequeuedAndPurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		r.ok("push", "q", "body "+id, "--id", id, "--tries", "1")
	}
	for line := range strings.Lines(r.ok("reserve", "q", "--max", "10", "--receipts")) {
		r.ok("nack", strings.TrimSpace(line), "--error", "it broke")
	}
	r.do("dead", "list", "q")
	r.do("dead", "requeue", "q", "b", "nobody", "--tries", "5", "--ttl", "1h")
	r.do("dead", "requeue", "q", "b", "--json")
	r.do("dead", "requeue", "q", "--oldest", "1")
	r.do("dead", "requeue", "q", "a", "--oldest", "1")
	r.do("dead", "purge", "q")
	r.do("dead", "purge", "q", "--oldest", "1", "--yes")
	r.do("dead", "requeue", "q")
	r.do("dead", "requeue", "q")
	r.do("dead", "purge", "q", "--yes", "--json")
	r.do("job", "list", "q")
	r.golden("dead")
}

// C15.20: dead list --groups counts dead jobs by their errors, the largest group first. dead requeue --group requeues
// the jobs of one.
func TestDeadJobsAreGrouped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		r.ok("push", "q", "body", "--id", id, "--tries", "1")
	}
	reasons := []string{
		"order 4711 is gone\nat line 7", "order 4712 is gone", "", "dial tcp 10.0.0.1:25: connect: connection refused",
	}
	for line := range strings.Lines(r.ok("reserve", "q", "--max", "10", "--receipts")) {
		r.ok("bury", strings.TrimSpace(line), "--reason", reasons[0])
		reasons = reasons[1:]
	}
	r.do("dead", "list", "q", "--groups")
	r.do("dead", "list", "q", "--groups", "--limit", "1")
	r.do("dead", "list", "q", "--groups", "--limit", "1", "--json")
	r.do("dead", "list", "q", "--groups", "--bodies")
	r.do("dead", "list", "none", "--groups")
	r.do("dead", "requeue", "q", "--group", "c4e7bfbe4fea")
	r.do("dead", "requeue", "q", "--group", "order")
	r.do("dead", "requeue", "q", "a", "--group", "c4e7bfbe4fea")
	r.do("dead", "list", "q", "--groups")
	r.golden("dead-groups")
}

// C15.20: lists begin at a moment, and have both directions.
func TestListNewestAndFrom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 4 {
		id := fmt.Sprint("dead", i)
		r.ok("push", "q", "x", "--id", id)
		r.ok("push", "q", "x", "--id", fmt.Sprint("delayed", i), "--delay", fmt.Sprint(10*(i+1), "h"))
		ds, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
		if err != nil || len(ds) != 1 {
			t.Fatalf("reserved %v, %v", ds, err)
		}
		bury := []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Bury, Error: "no"}}
		if _, err := r.engine.Settle(t.Context(), "", bury); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(10 * time.Minute)
	}
	ago := func(d time.Duration) string { return r.clock.Now().Add(-d).Format(time.RFC3339) }

	// The jobs died 40, 30, 20 and 10 minutes ago.
	dead, delayed := []string{"job", "list", "q", "--state", "dead"}, []string{"jobs", "q", "--state", "delayed"}
	for _, c := range []struct {
		list []string
		args string
		want string
	}{
		{dead, "--newest", "dead3 dead2 dead1 dead0"},
		{dead, "--from 20m", "dead2 dead3"},
		{dead, "--newest --from 20m", "dead2 dead1 dead0"},
		{dead, "--newest --from " + ago(30*time.Minute), "dead1 dead0"},
		{dead, "--newest --from 2100-01-01", "dead3 dead2 dead1 dead0"},
		{dead, "--newest --limit 1", "dead3"},
		{dead, "--from 0s", ""},
		{[]string{"dead", "list", "q"}, "--newest --from 15m --limit 2", "dead2 dead1"},
		{delayed, "--newest", "delayed3 delayed2 delayed1 delayed0"},
		{delayed, "--from 29h30m", "delayed2 delayed3"},
		{delayed, "--newest --from 29h30m", "delayed1 delayed0"},
	} {
		args := append(slices.Clone(c.list), strings.Fields(c.args)...)
		if got := listedIDs(r.ok(args...)); got != c.want {
			t.Errorf("%s: listed %q, want %q", strings.Join(args, " "), got, c.want)
		}
	}

	_, _, errs := r.run("dead", "list", "q", "--newest", "--limit", "1", "--json")
	_, cursor, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(errs), `"}}`), `"cursor":"`)
	if got := listedIDs(r.ok("dead", "list", "q", "--newest", "--cursor", cursor)); got != "dead2 dead1 dead0" {
		t.Errorf("the next page has %q, of cursor %q", got, cursor)
	}
	if got := listedIDs(r.ok("job", "list", "q", "--newest")); !strings.HasPrefix(got, "delayed3 delayed2") {
		t.Errorf("the list of all states has %q", got)
	}

	for _, args := range []string{
		"job list q --from 10m", "job list q --state ready --from 10m", "jobs q --state blocked --newest --from 10m",
		"dead list q --from yesterday", "dead list q --from -5m", "dead list q --groups --newest",
		"dead list q --groups --from 10m",
	} {
		if code, _, errs := r.run(strings.Fields(args)...); code != exitUsage || !strings.Contains(errs, "--from") {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

// C15.61: --where lists only the jobs that meet all conditions, over all pages of the engine.
func TestListWhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var jobs []duly.Job
	for i := range 1200 {
		jobs = append(jobs, duly.Job{
			Queue: "q", ID: fmt.Sprint("j", i), Priority: i % 7, Body: []byte(fmt.Sprint("order ", i)),
			Headers: map[string]string{"tenant": fmt.Sprint(i % 600)},
		})
	}
	for batch := range slices.Chunk(jobs, duly.MaxBatch) {
		if _, err := r.engine.Push(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}

	list := func(args ...string) string { return listedIDs(r.ok(append([]string{"job", "list", "q"}, args...)...)) }
	for where, want := range map[string]string{
		"header.tenant:17":               "j17 j617", // by priority
		"header.tenant:17 priority>=2":   "j17",
		`body~"order 119" -id:j119`:      "j1196 j1195 j1194 j1193 j1192 j1199 j1191 j1198 j1190 j1197",
		"id:j1199":                       "j1199",
		"age>1m":                         "",
		"error~x":                        "",
		"priority<2 header.tenant:3":     "j603",
		"-priority>0 header.tenant:7":    "j7",
		"id~119 id~9 size:10 priority:1": "j1191 j1198",
	} {
		if got := list("--where", where, "--limit", "none"); got != want {
			t.Errorf("%s: listed %q, want %q", where, got, want)
		}
	}

	// A list with conditions stops at its limit, and its hint continues it.
	var got []string
	args := []string{"--where", "header.tenant:17", "--limit", "1"}
	for range 3 {
		_, out, errs := r.run(append([]string{"job", "list", "q"}, args...)...)
		got = append(got, listedIDs(out))
		_, hint, more := strings.Cut(errs, "--where header.tenant:17 --cursor ")
		if !more {
			break
		}
		args = append(args[:4], "--cursor", strings.TrimSuffix(strings.TrimSpace(hint), ")"))
	}
	if want := []string{"j17", "j617"}; !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "" }), want) {
		t.Errorf("the pages have %q, want %q", got, want)
	}

	for _, args := range []string{"job list q --where timeout", "dead list q --where priority~x", "jobs q --where owner:me"} {
		if code, _, errs := r.run(strings.Fields(args)...); code == 0 || !strings.Contains(errs, "where") {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
	if code, _, errs := r.run("dead", "list", "q", "--groups", "--where", "error~x"); code != exitUsage {
		t.Errorf("--groups --where: exit %d, %s", code, errs)
	}
}

// listedIDs returns the first column of a table without its header.
func listedIDs(table string) string {
	var ids []string
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i > 0 {
			ids = append(ids, strings.Fields(line)[0])
		}
	}
	return strings.Join(ids, " ")
}

// C15.20: dead requeue --target requeues the jobs of one target. --rate limits the rate.
func TestDeadRequeueTargetAndRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead := func() (ids []string) {
		t.Helper()
		page, err := r.engine.List(t.Context(), duly.Q("orders"), duly.ListParams{State: duly.StateDead})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		return ids
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.engine.Configure(t.Context(), duly.Q("orders"),
		duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "target:shop"}}))
	for i := range 30 {
		job := duly.Job{Queue: "orders", ID: fmt.Sprint("crm", i), Callback: "target:crm", Tries: 1}
		if i%3 == 0 {
			job.ID, job.Callback = fmt.Sprint("shop", i), "" // the queue's
		}
		_, err := r.engine.Push(t.Context(), []duly.Job{job})
		must(err)
		ds, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"orders"}, Max: 1, Dispatcher: true})
		must(err)
		_, err = r.engine.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Nack}})
		must(err)
	}

	// 20 a second are two in a call, and ten calls one tenth of a second apart.
	done := make(chan string)
	go func() {
		_, out, errs := r.run("dead", "requeue", "orders", "--target", "crm", "--rate", "20/s")
		done <- out + errs
	}()
	began := r.clock.Now()
	out := ""
	for out == "" {
		select {
		case out = <-done:
		default:
			if r.clock.Timers() > 0 {
				passed := r.clock.Now().Sub(began)
				if n, most := 30-len(dead()), 2+int(passed/(50*time.Millisecond)); n > most {
					t.Fatalf("after %s %d jobs live again, want %d at most", passed, n, most)
				}
				r.clock.Advance(10 * time.Millisecond)
			}
		}
	}
	if passed := r.clock.Now().Sub(began); out != "requeued 20 jobs\n" || passed < 900*time.Millisecond ||
		passed > 1100*time.Millisecond {
		t.Errorf("after %s: %q", passed, out)
	}
	if left := dead(); len(left) != 10 || !strings.HasPrefix(left[0], "shop") {
		t.Errorf("the dead jobs are %q", left)
	}

	if out := r.ok("dead", "requeue", "orders", "--target", "target:shop", "--limit", "3"); out != "requeued 3 jobs\n" ||
		len(dead()) != 7 {
		t.Errorf("%q, %d are dead", out, len(dead()))
	}
	if out := r.ok("dead", "requeue", "orders", "--target", "other"); out != "requeued 0 jobs\n" {
		t.Errorf("%q", out)
	}
	if code, _, errs := r.run("dead", "requeue", "orders", "shop0", "--target", "shop"); code != exitUsage ||
		!strings.Contains(errs, "--target and IDs") {
		t.Errorf("%d %s", code, errs)
	}
}

// C15.21: pause and resume. C15.22: queue set, purge, destroy.
func TestQueueCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("pause", "nobody")
	r.do("queue", "set", "q", "--tries", "5", "--max-stalls", "none", "--backoff", "15s,3m,10m", "--lease", "1m", "--ttl",
		"7d",
		"--dead-age", "30d", "--dead-count", "none", "--max-jobs", "100000", "--max-leased", "20", "--rate", "0.5",
		"--burst", "10")
	r.do("queue", "set", "q", "--rate", "none", "--max-jobs", "2")
	r.do("queue", "set", "q")
	r.do("queue", "set", "q", "--shards", "3")
	r.do("queue", "set", "q", "--rate", "0")
	r.do("push", "q", "x", "--id", "a")
	r.do("push", "q", "x", "--id", "b")
	r.do("push", "q", "x", "--id", "c")
	r.do("pause", "q")
	r.do("reserve", "q")
	r.do("peek", "q")
	r.do("queues")
	r.do("resume", "q")
	r.do("queue", "purge", "q")
	r.do("queue", "purge", "q", "--state", "ready")
	r.do("queue", "purge", "q", "--state", "ready", "--first", "1", "--yes")
	r.do("queue", "purge", "q", "--state", "ready", "--yes")
	r.do("queue", "destroy", "q")
	r.do("queue", "destroy", "q", "--yes")
	r.do("queue", "destroy", "q", "--yes")
	r.do("queues")
	r.golden("queue")
}

// C15.12: if thousands of lines are refused, push --lines prints a few errors. --json
// prints all results.
func TestPushLinesPrintsFewErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("queue", "set", "small", "--max-jobs", "3")
	refused := func(n int) string {
		t.Helper()
		r.ok("queue", "purge", "small", "--state", "ready", "--yes")
		r.stdin = strings.Repeat("x\n", n+3)
		code, out, errs := r.run("push", "small", "--lines")
		if code != exitFailed || out != fmt.Sprintf("%s: 3 created, %s failed\n", plural(int64(n+3), "line"),
			countText(int64(n))) {
			t.Errorf("exit %d, %q", code, out)
		}
		return errs
	}

	for n, want := range map[int]string{
		10: "line 13: ", 11: "line 14: ", 12: "and 1 more line before it",
		2497: "and 2 486 more lines before it",
	} {
		errs := refused(n)
		if lines := strings.Count(errs, "\n"); lines != min(n, 11) || !strings.Contains(errs, want) ||
			strings.Contains(errs, "before it") != (n > 11) {
			t.Errorf("%d refused: %d lines, no %q: %s", n, lines, want, errs)
		}
		if !strings.HasPrefix(errs, "duly: full: line 4: ") ||
			!strings.Contains(errs, fmt.Sprintf("duly: full: line %d: ", n+3)) {
			t.Errorf("%d refused: %s", n, errs)
		}
	}

	r.stdin = strings.Repeat("x\n", 50)
	if _, out, errs := r.run("push", "small", "--lines", "--json"); strings.Count(out, `"error":`) != 50 ||
		strings.Count(errs, "\n") != 11 {
		t.Errorf("%s%s", out, errs)
	}
}

// C15.20: lists show the number of failed tries of all jobs. It never exceeds the tries.
func TestListsShowFailedTries(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	for _, args := range [][]string{
		{"--id", "used", "--tries", "1"}, {"--id", "again", "--tries", "3"},
		{"--id", "buried"},
	} {
		r.ok(append([]string{"push", "q", "x"}, args...)...)
	}

	for _, as := range []string{"nack", "nack", "bury"} {
		r.ok(as, strings.TrimSpace(r.ok("reserve", "q", "--receipts")))
	}

	for _, list := range []string{"job", "dead"} {
		lines := strings.Split(r.ok(list, "list", "q"), "\n")
		if !strings.Contains(lines[0], "  FAILED  ") {
			t.Fatalf("no FAILED in %q", lines[0])
		}
		want := map[string]string{"used": " 1/1 ", "again": " 1/3 ", "buried": " 0/16 "}
		for _, line := range lines[1:] {
			id, rest, _ := strings.Cut(line, " ")
			if !strings.Contains(rest+" ", want[id]) {
				t.Errorf("%s: %q, want%s", list, line, want[id])
			}
		}
	}

	if text := r.ok("job", "get", "q", "used"); !strings.Contains(text,
		"1 of 1 failed (1 failure, 0 stalls of at most 8)") {
		t.Errorf("the used one: %s", text)
	}
}
