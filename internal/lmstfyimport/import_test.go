package lmstfyimport

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
)

// queueOfJobs is lmstfy's queue mail of the namespace shop, with jobs of each kind.
type queueOfJobs struct {
	ready  []string // IDs in the order of the queue
	packed string   // ID of a job that is ready after the others
	later  string   // ID of a delayed job
	dead   []string
}

// fill stores a queue with seven jobs that are imported and four that are not: a consumer has the
// last try of one, one is gone, one expires before it is due, and one has an unknown form.
func (r *rig) fill() (q queueOfJobs) {
	for i := range 3 {
		id := r.id(false)
		q.ready = append(q.ready, id)
		r.job("shop", "mail", id, fmt.Sprintf("body\x00\xff%d", i), time.Duration(i)*time.Hour)
		r.ready("shop", "mail", id, i+1)
	}

	q.packed = r.id(true)
	body := base64.StdEncoding.EncodeToString([]byte{0, 255})
	r.job("shop", "mail", q.packed, `{"body":"`+body+`","attributes":{"lang":"de"}}`, 0)
	r.ready("shop", "mail", q.packed, 65535)

	q.later = r.id(false)
	r.job("shop", "mail", q.later, "later", 2*time.Hour)
	r.timer("shop", "mail", q.later, 5, r.now.Add(time.Hour))

	buried, overdue := r.buried("shop", "mail"), r.id(false)
	r.job("shop", "mail", overdue, "over", 0)
	r.timer("shop", "mail", overdue, 0, r.now.Add(-time.Minute))
	q.dead = []string{buried, overdue}

	consumed := r.id(false)
	r.job("shop", "mail", consumed, "", 0)
	r.timer("shop", "mail", consumed, 0, r.now.Add(time.Hour))
	r.ready("shop", "mail", r.id(false), 1)

	short := r.id(false)
	r.job("shop", "mail", short, "x", time.Minute)
	r.timer("shop", "mail", short, 1, r.now.Add(time.Hour))

	unknown := "2" + r.id(false)
	r.job("shop", "mail", unknown, "?", 0)
	r.ready("shop", "mail", unknown, 1)
	return q
}

// C15.29: ready, delayed and dead jobs are imported with all their settings, and the source does not
// change.
func TestJobsAreImported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	q := r.fill()
	r.job("other", "q", r.id(false), "of a namespace that is not imported", 0)
	before := fmt.Sprint(r.redis.Must("DEBUG", "DIGEST"))

	im := r.importer()
	im.Namespaces = []string{"shop"}
	dry := *im
	dry.DryRun = true
	if got := r.run(&dry); got.Ready != 4 || got.Delayed != 1 || got.Dead != 2 {
		t.Errorf("a dry run: %+v", got)
	}
	if names, _ := r.engine.Queues(t.Context(), "shop", duly.PageParams{}); len(names.Names) != 0 {
		t.Errorf("a dry run has made %v", names.Names)
	}

	got := r.run(im)
	if got.Ready != 4 || got.Delayed != 1 || got.Dead != 2 || got.Gone != 1 || got.Known != 0 ||
		got.Left[whyConsumed] != 1 || got.Left[whyExpires] != 1 || got.Left[whyForm] != 1 || len(got.Examples) != 3 {
		t.Errorf("%+v", got)
	}

	r.checkJobs(q)
	if after := fmt.Sprint(r.redis.Must("DEBUG", "DIGEST")); after != before {
		t.Error("the source has changed")
	}
}

// checkJobs compares the imported jobs with those of the source, and reserves the ready ones.
func (r *rig) checkJobs(q queueOfJobs) {
	t := r.t
	t.Helper()

	for i, id := range q.ready {
		j := r.get("shop", "mail", id)
		if j.State != duly.StateReady || string(j.Body) != fmt.Sprintf("body\x00\xff%d", i) || j.Tries != i+1 ||
			j.MaxStalls != duly.None || j.Backoff != duly.Fixed(0) {
			t.Errorf("%+v", j)
		}

		ttl := time.Duration(i) * time.Hour
		if i == 0 && !j.ExpiresAt.IsZero() || i > 0 && !r.isIn(j.ExpiresAt, ttl) {
			t.Errorf("job %d expires at %s", i, j.ExpiresAt)
		}
	}

	j := r.get("shop", "mail", q.packed)
	if string(j.Body) != "\x00\xff" || j.Headers["lang"] != "de" || j.Tries != 65535 {
		t.Errorf("%+v", j)
	}
	j = r.get("shop", "mail", q.later)
	if j.State != duly.StateDelayed || !r.isIn(j.Due, time.Hour) || j.Tries != 5 {
		t.Errorf("%+v", j)
	}
	for _, id := range q.dead {
		if j := r.get("shop", "mail", id); j.State != duly.StateDead || j.LastError != deadReason {
			t.Errorf("%+v", j)
		}
	}

	deliveries, err := r.engine.Reserve(t.Context(),
		duly.ReserveParams{Namespace: "shop", Queues: []string{"mail"}, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	var delivered []string
	for _, d := range deliveries {
		delivered = append(delivered, d.ID)
	}
	if want := append(q.ready, q.packed); !slices.Equal(delivered, want) {
		t.Errorf("delivered %v, want %v", delivered, want)
	}

	cfg, err := r.engine.Config(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"})
	if err != nil || cfg.DeadAge != duly.None || cfg.DeadCount != duly.None {
		t.Errorf("the queue is %+v, %v", cfg, err)
	}
}

// isIn reports whether a time is d from now, or up to a minute less, because the source's clock runs.
func (r *rig) isIn(when time.Time, d time.Duration) bool {
	left := when.Sub(r.clock.Now())
	return left <= d && left >= d-time.Minute
}

// C15.29: a second run imports no job again, in any state of the jobs.
func TestSecondRunImportsNoJobAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 1234
	for i := range n {
		id := r.id(i%2 == 0)
		text := fmt.Sprint(i)
		if i%2 == 0 {
			text = `{"body":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}`
		}
		r.job("shop", "q", id, text, 0)
		switch {
		case i%10 == 0:
			r.dead("shop", "q", id)
		case i%10 == 1:
			r.timer("shop", "q", id, 1, r.now.Add(time.Hour))
		default:
			r.ready("shop", "q", id, 1)
		}
	}

	path := filepath.Join(t.TempDir(), "journal")
	got, err := r.runInto(path, r.engine)
	if err != nil || got.Ready != 986 || got.Delayed != 124 || got.Dead != 124 || got.Known != 0 || len(got.Left) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}

	q := duly.QueueRef{Namespace: "shop", Name: "q"}
	deliveries, err := r.engine.Reserve(t.Context(),
		duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 100})
	if err != nil {
		t.Fatal(err)
	}

	for _, d := range deliveries {
		if _, err := r.engine.Settle(t.Context(), "shop",
			[]duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}}); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := r.runInto(path, r.engine); err != nil || got.Known != n || got.Ready+got.Delayed+got.Dead != 0 {
		t.Errorf("the second run: %+v, %v", got, err)
	}
	stats, err := r.engine.Stats(t.Context(), q)
	if s := stats.Sizes; err != nil || s.Ready != 886 || s.Delayed != 124 || s.Dead != 124 ||
		stats.Counters.Pushed != n {
		t.Errorf("%+v, %v", stats, err)
	}
	if _, err := OpenJournal(path, "another import"); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("another import's journal: %v", err)
	}

	// Without a journal, a finished job is unknown in the target, so it is imported again as a new
	// job.
	if got := r.run(r.importer()); got.Known != n-100 || got.Ready != 100 {
		t.Errorf("without its journal: %+v", got)
	}
}

// dying is an engine that fails at its nth push, before or after it has stored the jobs.
type dying struct {
	contract.Engine
	left  int
	after bool
}

var errDied = errors.New("died")

func (d *dying) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if d.left--; d.left == 0 {
		if d.after {
			_, _ = d.Engine.Push(ctx, jobs)
		}
		return nil, errDied
	}
	return d.Engine.Push(ctx, jobs)
}

// filling is an engine that stores only the first job of a push.
type filling struct{ contract.Engine }

func (f filling) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := f.Engine.Push(ctx, jobs[:1])
	for _, j := range jobs[1:] {
		results = append(results, duly.PushResult{ID: j.ID, Err: duly.ErrFull})
	}
	return results, err
}

// C15.29: the journal has the jobs that were stored although another job of their batch was refused.
// So they are not imported again after they are finished.
func TestJournalHasStoredJobsOfFailedBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	for range 2 {
		id := r.id(false)
		r.job("shop", "q", id, "x", 0)
		r.ready("shop", "q", id, 1)
	}
	path := filepath.Join(t.TempDir(), "journal")
	if got, err := r.runInto(path, filling{r.engine}); !errors.Is(err, duly.ErrFull) || got.Ready != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	q := duly.QueueRef{Namespace: "shop", Name: "q"}
	if n, err := r.engine.Purge(t.Context(), q, duly.StateReady, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got, err := r.runInto(path, r.engine); err != nil || got.Known != 1 || got.Ready != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// C15.29: an interrupted import continues in the next run.
func TestInterruptedImportContinues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 250 {
		id := r.id(false)
		r.job("shop", "q", id, "x", 0)
		if i < 120 {
			r.dead("shop", "q", id)
		} else {
			r.ready("shop", "q", id, 1)
		}
	}

	path := filepath.Join(t.TempDir(), "journal")
	for n := range 6 {
		journal, err := OpenJournal(path, "x")
		if err != nil {
			t.Fatal(err)
		}
		im := r.importer()
		im.Journal = journal
		im.Target = func(context.Context, string) (contract.Engine, error) {
			return &dying{r.engine, 1 + n/2, n%2 == 1}, nil
		}
		_, err = im.Run(t.Context())
		journal.Close()
		if n < 2 && !errors.Is(err, errDied) {
			t.Fatalf("run %d: %v", n, err)
		}
	}

	r.run(r.importer())
	stats, err := r.engine.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"})
	if s := stats.Sizes; err != nil || s.Ready != 130 || s.Dead != 120 || s.Leased != 0 ||
		stats.Counters.Pushed != 250 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// C15.29: tokens keep their texts and their limits.
func TestTokensAreImported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.redis.Must("HSET", "tk/default/shop", "01HF7YAT00041061050R000000", "the shop\n"+strings.Repeat("ä", 200),
		"another-token-of-20-c", "x")
	r.redis.Must("HSET", "tk/default/bad.name/", "01HF7YAT00041061050R000001", "x")
	r.redis.Must("HSET", "tk/orders/shop", "01HF7YAT00041061050R000002", "another pool's")
	r.redis.Must("HSET", "__throttler_keys__", "default/shop/01HF7YAT00041061050R000000",
		`{"read":10,"write":-1,"interval":60}`,
		"default/shop/another-token-of-20-c", `{"read":1,"write":1,"interval":99999999999}`, "orders/shop/x", "{}")
	got := r.run(r.importer())
	if got.Tokens != 2 || got.Limited != 1 || len(got.Left) != 2 {
		t.Errorf("%+v", got)
	}

	for _, text := range []string{"anot", "01HF"} {
		if strings.Contains(fmt.Sprint(got), text) {
			t.Errorf("the report has the first letters of a token: %+v", got)
		}
	}

	token, err := r.engine.FindToken(t.Context(), hash("shop", "01HF7YAT00041061050R000000"))
	want := contract.Limits{Consume: 10, Per: time.Minute}
	if err != nil || token.Namespace != "shop" || token.Limits != want ||
		token.Rights != contract.RightProduce|contract.RightConsume ||
		!strings.HasPrefix(token.Description, "the shop ä") {
		t.Errorf("%+v, %v", token, err)
	}
	if _, err := r.engine.FindToken(t.Context(),
		hash("shop", "01HF7YAT00041061050R000002")); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("another pool's token: %v", err)
	}
	if got := r.run(r.importer()); got.Tokens != 0 || got.KnownTokens != 2 {
		t.Errorf("a second run: %+v", got)
	}
}

// The report has the queues of lmstfy's second engine.
func TestQueuesOfSecondEngineAreReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.redis.Must("HSET", "m2/ns", "shop", "1")
	if got := r.run(r.importer()); got.Left[whyV2] != 1 {
		t.Errorf("%+v", got)
	}
}

// An error of Open does not have the password of the URL.
func TestOpenErrorHidesPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]duly.Code{
		"redis://:s3cret@127.0.0.1:1": duly.CodeUnavailable, "redis://:s3cret@:x/y": duly.CodeInvalid,
		"http://s3cret": duly.CodeInvalid,
	} {
		if _, err := Open(t.Context(), url); duly.CodeOf(err) != want || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// C15.29: an answer in an unknown form is an error, neither a time in the past nor the end of a scan.
func TestUnknownFormOfAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for _, answer := range []any{[]any{}, []any{"1"}, []any{"1", "2", "3"}, []any{"x", "y"}} {
		stub := redistest.NewStub(t, "7.2.4", func(args []string) any {
			if args[0] == "TIME" || args[0] == "SCAN" {
				return answer
			}
			return redistest.Usual{}
		})

		source, err := Open(t.Context(), stub.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(source.Close)
		if now, err := source.now(t.Context()); !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("%v: the time is %s, %v", answer, now, err)
		}

		err = source.scan(t.Context(), []string{"SCAN"}, nil, func([]string) error { return nil })
		if !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("%v: the scan ends with %v", answer, err)
		}
	}
}
