package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

type sendMail struct{ To string }

func (sendMail) Kind() string { return "send_mail" }

type sendSMS struct{ Number int }

func (sendSMS) Kind() string { return "send_sms" }

// numbered is a body type for each length of the array T.
type numbered[T any] struct{ Value int }

func (numbered[T]) Kind() string { return fmt.Sprintf("kind-%d", reflect.TypeFor[T]().Len()) }

// kinds is a queue whose handlers record the jobs that they get.
type kinds struct {
	t      *testing.T
	engine *dulytest.Engine
	worker *worker.Worker
	got    []string
}

func newKinds(t *testing.T) *kinds {
	e := dulytest.New(t)
	cfg := worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}
	return &kinds{t: t, engine: e, worker: worker.New(e, cfg)}
}

// handle adds a handler of one kind.
func handle[T duly.Kinder](k *kinds, opts ...worker.HandlerOption) {
	worker.HandleKind(k.worker, "q", func(_ context.Context, job *worker.Job[T]) error {
		k.got = append(k.got, fmt.Sprintf("%T %+v as %s", job.Value, job.Value, job.Kind()))
		return nil
	}, opts...)
}

// push pushes a job with a body and a kind given as texts, as a producer in another language does.
func (k *kinds) push(kind, body string) {
	k.t.Helper()
	header := duly.Header(duly.KindHeader, kind)
	if _, err := k.engine.Client().Push(k.t.Context(), "q", []byte(body), header); err != nil {
		k.t.Fatal(err)
	}
}

func handleNumbered[T any](k *kinds) {
	handle[numbered[T]](k)
}

func pushNumbered[T any](t *testing.T, k *kinds) {
	t.Helper()
	v := numbered[T]{Value: reflect.TypeFor[T]().Len()}
	if _, err := duly.PushKind(t.Context(), k.engine.Client(), "q", v); err != nil {
		t.Fatal(err)
	}
}

func TestTwentyKindsReachTheirHandlers(t *testing.T) {
	t.Parallel()
	handlers := []func(*kinds){
		handleNumbered[[0]int], handleNumbered[[1]int], handleNumbered[[2]int], handleNumbered[[3]int],
		handleNumbered[[4]int], handleNumbered[[5]int], handleNumbered[[6]int], handleNumbered[[7]int],
		handleNumbered[[8]int], handleNumbered[[9]int], handleNumbered[[10]int], handleNumbered[[11]int],
		handleNumbered[[12]int], handleNumbered[[13]int], handleNumbered[[14]int], handleNumbered[[15]int],
		handleNumbered[[16]int], handleNumbered[[17]int], handleNumbered[[18]int], handleNumbered[[19]int],
	}
	pushes := []func(*testing.T, *kinds){
		pushNumbered[[0]int], pushNumbered[[1]int], pushNumbered[[2]int], pushNumbered[[3]int],
		pushNumbered[[4]int], pushNumbered[[5]int], pushNumbered[[6]int], pushNumbered[[7]int],
		pushNumbered[[8]int], pushNumbered[[9]int], pushNumbered[[10]int], pushNumbered[[11]int],
		pushNumbered[[12]int], pushNumbered[[13]int], pushNumbered[[14]int], pushNumbered[[15]int],
		pushNumbered[[16]int], pushNumbered[[17]int], pushNumbered[[18]int], pushNumbered[[19]int],
	}

	k := newKinds(t)
	for _, add := range handlers {
		add(k)
	}
	for _, push := range pushes {
		push(t, k)
	}
	k.engine.Start(k.worker)

	if len(k.got) != len(pushes) {
		t.Fatalf("%d jobs were handled, want %d", len(k.got), len(pushes))
	}
	for i, got := range k.got {
		want := fmt.Sprintf("worker_test.numbered[[%d]int] {Value:%d} as kind-%d", i, i, i)
		if got != want {
			t.Errorf("job %d was handled as %q, want %q", i, got, want)
		}
	}
}

func TestHandleOnTheSameQueueTakesOtherKinds(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	handle[sendMail](k)
	k.worker.Handle("q", func(_ context.Context, d *worker.Delivery) error {
		k.got = append(k.got, fmt.Sprintf("other %q %s", d.Kind(), d.Body))
		return nil
	})
	k.push("send_fax", "1")
	k.push("send_mail", `{"To":"ada"}`)
	if _, err := k.engine.Client().Push(t.Context(), "q", []byte("2")); err != nil {
		t.Fatal(err)
	}
	k.engine.Start(k.worker)

	want := []string{`other "send_fax" 1`, "worker_test.sendMail {To:ada} as send_mail", `other "" 2`}
	if !slices.Equal(k.got, want) {
		t.Errorf("handled %q, want %q", k.got, want)
	}
}

func TestUnknownKindIsAFailedTry(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"send_fax":      "unknown kind send_fax; this worker handles send_mail, send_sms",
		"not a kind":    `unknown kind "not a kind"; this worker handles send_mail, send_sms`,
		"":              "no kind; this worker handles send_mail, send_sms",
		"duly_secret17": `unknown kind "duly_"…; this worker handles send_mail, send_sms`,
	} {
		k := newKinds(t)
		handle[sendSMS](k)
		handle[sendMail](k)
		k.push(kind, "{}")
		k.engine.Start(k.worker)
		if job := k.engine.Only("q"); job.Failures != 1 || job.LastError != want {
			t.Errorf("kind %q: %d failures, last error %q, want 1 and %q", kind, job.Failures, job.LastError, want)
		}
	}
}

func TestUnknownKindReachesANewerWorker(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	handle[sendMail](k)
	k.push("send_sms", `{"Number":7}`)
	k.engine.Drain("q", k.worker.Handler("q"))
	if k.got != nil {
		t.Fatalf("the older worker has handled %q", k.got)
	}

	k.worker = worker.New(k.engine, silent)
	handle[sendMail](k)
	handle[sendSMS](k)
	k.engine.Start(k.worker)
	k.engine.Advance(time.Hour)
	if want := []string{"worker_test.sendSMS {Number:7} as send_sms"}; !slices.Equal(k.got, want) {
		t.Errorf("the newer worker has handled %q, want %q", k.got, want)
	}
}

func TestBodyOfAnotherTypeIsBuried(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	handle[sendMail](k)
	k.push("send_mail", `{"To":17}`)
	k.engine.Start(k.worker)
	dead := k.engine.Dead("q")
	if len(dead) != 1 || !strings.HasPrefix(dead[0].LastError, "body is not the JSON that this handler takes") {
		t.Errorf("dead are %+v", dead)
	}
}

// Timeout and With are options of a kind, and Weight is an option of the queue.
func TestKindsHaveOptionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	note := func(text string) worker.Middleware {
		return func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, d *worker.Delivery) error {
				_, timed := ctx.Deadline()
				k.got = append(k.got, fmt.Sprintf("%s %s timeout %v", text, d.Kind(), timed))
				return next(ctx, d)
			}
		}
	}
	k.worker.Use(note("all"))
	handle[sendMail](k, worker.With(note("mail")), worker.Timeout(time.Minute), worker.Weight(3))
	handle[sendSMS](k)
	k.push("send_mail", `{}`)
	k.push("send_sms", `{}`)
	k.push("send_fax", `{}`)
	k.engine.Start(k.worker)

	want := []string{
		"all send_mail timeout true", "mail send_mail timeout true", "worker_test.sendMail {To:} as send_mail",
		"all send_sms timeout false", "worker_test.sendSMS {Number:0} as send_sms",
		"all send_fax timeout false",
	}
	if !slices.Equal(k.got, want) {
		t.Errorf("called were %q, want %q", k.got, want)
	}
}

func TestGroupHandlesMessagesByKind(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	worker.HandleKind(k.worker, "events@mail", func(_ context.Context, job *worker.Job[sendMail]) error {
		k.got = append(k.got, job.Value.To)
		return nil
	}, worker.From("start"))
	message := duly.Message{
		Topic: "events", Body: []byte(`{"To":"ada"}`), Headers: map[string]string{duly.KindHeader: "send_mail"},
	}
	if _, err := k.engine.Client().Publish(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	k.engine.Start(k.worker)
	if want := []string{"ada"}; !slices.Equal(k.got, want) {
		t.Errorf("handled %q, want %q", k.got, want)
	}
}

type badKind struct{}

func (badKind) Kind() string { return "send mail" }

type alsoSendMail struct{}

func (alsoSendMail) Kind() string { return "send_mail" }

func TestRunReportsEveryFaultOfKinds(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	handle[badKind](k)
	handle[sendMail](k, worker.Timeout(0), worker.Weight(2), worker.From("start"))
	handle[alsoSendMail](k, worker.Weight(2), worker.From("end"))
	handle[*sendSMS](k) // the zero value is a nil pointer
	worker.HandleKind[sendSMS](k.worker, "q", nil)
	k.worker.HandleBatch("q", 2, 0, func([]*worker.Delivery) []error { return nil })

	err := k.worker.Run(t.Context())
	if !errors.Is(err, duly.ErrInvalid) {
		t.Fatalf("Run returns %v, want invalid", err)
	}
	for _, want := range []string{
		`kind of worker_test.badKind in queue q is "send mail", must be 1 to 100 of A-Z a-z 0-9 . _ - ` +
			"and begin with a letter or a digit",
		"kind send_mail has two handlers in queue q, of worker_test.sendMail and worker_test.alsoSendMail; " +
			"remove one, or give the types different kinds",
		"kind of *worker_test.sendSMS in queue q is unknown, its method panics on the zero value: ",
		`timeout of kind "send_mail" of queue q is 0s, must be at least 1ms`,
		`handler of kind "send_sms" of queue q is nil`,
		"weight of queue q is set 2 times; set it in one call",
		"from of queue q is set 2 times; set it in one call",
		"queue q is handled in batches and by kind; use one of HandleBatch and HandleKind",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Run returns %v,\nwithout %q", err, want)
		}
	}
}

// The kinds of different queues are independent, so two queues may have the same kind.
func TestQueuesMayShareAKind(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	handle[sendMail](k)
	worker.HandleKind(k.worker, "urgent", func(context.Context, *worker.Job[sendMail]) error {
		k.got = append(k.got, "urgent")
		return nil
	})
	if _, err := duly.PushKind(t.Context(), k.engine.Client(), "urgent", sendMail{}); err != nil {
		t.Fatal(err)
	}
	k.engine.Start(k.worker)
	if want := []string{"urgent"}; !slices.Equal(k.got, want) {
		t.Errorf("handled %q, want %q", k.got, want)
	}
}

func TestHandlerPanicsWhereRunWouldFail(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*kinds){
		"kind of worker_test.badKind in queue q": func(k *kinds) { handle[badKind](k) },
		`queue "q" has no handler`: func(k *kinds) {
			k.worker.Handle("other", func(context.Context, *worker.Delivery) error { return nil })
		},
	}
	for want, add := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			k := newKinds(t)
			add(k)

			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
					t.Errorf("Handler panics with %q, want %q", text, want)
				}
			}()
			k.worker.Handler("q")
		})
	}
}

func TestKindsCostNoAllocation(t *testing.T) {
	k := newKinds(t)
	send := func(context.Context, *worker.Job[sendMail]) error { return nil }
	worker.HandleKind(k.worker, "q", send)
	handle[sendSMS](k)
	byKind, typed := k.worker.Handler("q"), worker.JSON(send)

	d := duly.Delivery{Job: duly.Job{
		Queue: "q", Body: []byte(`{"To":"ada"}`), Headers: map[string]string{duly.KindHeader: "send_mail"},
	}}
	allocs := func(h worker.HandlerFunc) float64 {
		return testing.AllocsPerRun(1000, func() { worker.Call(context.Background(), h, d) })
	}
	if got, want := allocs(byKind), allocs(typed); got != want {
		t.Errorf("a job with a kind costs %v allocations, want the %v of worker.JSON", got, want)
	}
}

// A handler takes the type that has the kind. A handler of another type does not compile.
func TestKindAndHandlerOfDifferentTypesDoNotCompile(t *testing.T) {
	t.Parallel()
	const head = `package x

import (
	"context"

	"github.com/dulymq/duly/worker"
)

type Mail struct{}

func (Mail) Kind() string { return "mail" }

type SMS struct{}

func (SMS) Kind() string { return "sms" }

type Plain struct{}

func mail(context.Context, *worker.Job[Mail]) error   { return nil }
func sms(context.Context, *worker.Job[SMS]) error     { return nil }
func plain(context.Context, *worker.Job[Plain]) error { return nil }

func add(w *worker.Worker) {
	CALL
}
`
	for name, tt := range map[string]struct{ call, want string }{
		"SameType":     {`worker.HandleKind[Mail](w, "q", mail)`, ""},
		"OtherType":    {`worker.HandleKind[Mail](w, "q", sms)`, "cannot use sms"},
		"WithoutAKind": {`worker.HandleKind(w, "q", plain)`, "does not satisfy duly.Kinder (missing method Kind)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.go")
			if err := os.WriteFile(file, []byte(strings.Replace(head, "CALL", tt.call, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "build", file).CombinedOutput()
			compiles := err == nil
			if compiles != (tt.want == "") || !strings.Contains(string(out), tt.want) {
				t.Errorf("compiles is %v, want %q:\n%s", compiles, tt.want, out)
			}
		})
	}
}

// BenchmarkKind measures the cost of the choice among 20 kinds, compared to worker.JSON. The aim is
// at most 100 ns.
func BenchmarkKind(b *testing.B) {
	e := dulytest.New(b)
	w := worker.New(e, silent)
	send := func(context.Context, *worker.Job[sendMail]) error { return nil }
	worker.HandleKind(w, "q", send)
	handlers := map[string]worker.HandlerFunc{"JSON": worker.JSON(send), "HandleKind": w.Handler("q")}
	d := duly.Delivery{Job: duly.Job{
		Queue: "q", Body: []byte(`{"To":"ada"}`), Headers: map[string]string{duly.KindHeader: "send_mail"},
	}}
	for name, h := range handlers {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				worker.Call(context.Background(), h, d)
			}
		})
	}
}
