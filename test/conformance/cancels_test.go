package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/memnet"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/worker"
)

// over serves an engine in a bubble and returns a client of it. Time passes at once if all
// goroutines are blocked.
func over(t *testing.T, store *model.Engine) *httpengine.Engine {
	t.Helper()
	s, err := server.New(server.Config{
		Engine: store, Store: server.Store{Registry: store}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	both := contract.Token{Namespace: "default", Rights: contract.RightConsume | contract.RightProduce}
	secret, _, err := s.Guard().Create(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	l := memnet.Listen()
	web := &http.Server{Handler: s.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) })
	network := &http.Transport{DialContext: l.Dial}
	e, err := httpengine.Open(t.Context(), httpengine.Config{
		URL: "http://" + secret + "@duly.test/", Client: &http.Client{Transport: network},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		network.CloseIdleConnections()
		web.Close()
		serving.Wait()
		store.Close()
	})
	return e
}

// TestDeleteOverHTTPCancelsTheHandler checks C4.98 and C14.47. A worker over HTTP cancels the
// handler of a job that another client of the server deletes. It does so within 100 ms, long
// before it extends the lease.
func TestDeleteOverHTTPCancelsTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := over(t, model.New(model.Config{}))
		started, ended := make(chan string, 2), make(chan error, 2)
		w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler), Concurrency: 2, Drain: duly.None})
		w.Handle("q", func(ctx context.Context, d *worker.Delivery) error {
			started <- d.ID
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()

		for _, id := range []string{"a", "order:2"} {
			if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: id}}); err != nil {
				t.Fatal(err)
			}
			if got := <-started; got != id {
				t.Fatalf("started %s, want %s", got, id)
			}
			time.Sleep(time.Second)
			began := time.Now()
			if err := e.Delete(t.Context(), duly.Q("q"), id); err != nil {
				t.Fatal(err)
			}
			if cause := <-ended; cause != duly.ErrCanceled {
				t.Errorf("the handler of %s ended with %v", id, cause)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the handler of %s ended after %s", id, took)
			}
		}

		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
