package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// instant is an engine whose calls return at once, without work.
type instant struct {
	contract.Engine
	delivery duly.Delivery
}

func (instant) Push(_ context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results := make([]duly.PushResult, len(jobs))
	for i := range jobs {
		results[i] = duly.PushResult{ID: jobs[i].ID, Status: duly.Created}
	}
	return results, nil
}

func (e instant) Reserve(context.Context, duly.ReserveParams) ([]duly.Delivery, error) {
	return []duly.Delivery{e.delivery}, nil
}

func (instant) Delete(context.Context, duly.QueueRef, string) error { return nil }

func (instant) Settle(_ context.Context, _ string, o []duly.SettleRequest) ([]error, error) {
	return make([]error, len(o)), nil
}

// sink is a connection that discards every answer.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header                { return s.header }
func (s *sink) Write(b []byte) (int, error)        { return len(b), nil }
func (s *sink) WriteHeader(status int)             { s.status = status }
func (s *sink) Flush()                             {}
func (s *sink) SetReadDeadline(_ time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(_ time.Time) error { return nil }

// BenchmarkRequest measures a request without net/http and the engine.
func BenchmarkRequest(b *testing.B) {
	store := model.New(model.Config{Clock: clock.System()})
	e := instant{store, duly.Delivery{Job: duly.Job{ID: "01J0000000000000000000000A", Queue: "q",
		Body: []byte(strings.Repeat("x", 100)), Tries: 3}, Attempt: 1,
		Receipt: "q:0:01J0000000000000000000000A:1", Now: clock.Epoch, PushedAt: clock.Epoch,
		LeaseEnd: clock.Epoch.Add(time.Minute)}}
	s, err := New(Config{
		Engine: e, Store: Store{Registry: store, Watcher: store}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go s.watchTokens(ctx)
	secret, _, err := s.Guard().Create(ctx, contract.Token{Namespace: "*", Rights: contract.RightAdmin})
	if err != nil {
		b.Fatal(err)
	}
	body := strings.Repeat("x", 100)

	for _, c := range []struct{ name, method, path, body string }{
		{"push", "POST", "/v1/default/push", fmt.Sprintf(`{"jobs":[{"queue":"q","body":%q}]}`, body)},
		{"reserve", "POST", "/v1/default/reserve", `{"queues":["q"]}`},
		{"settle", "POST", "/v1/default/settle",
			`{"outcomes":[{"receipt":"q:0:01J0000000000000000000000A:1","as":"ack"}]}`},
		{"publish", "PUT", "/api/default/q?tries=1", body},
		{"consume", "GET", "/api/default/q?ttr=120", ""},
		{"delete", "DELETE", "/api/default/q/job/01J0000000000000000000000A", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			req, err := http.NewRequest(c.method, c.path, nil)
			if err != nil {
				b.Fatal(err)
			}
			req.RequestURI, req.RemoteAddr, req.ContentLength = c.path, "127.0.0.1:5000", int64(len(c.body))
			req.Header.Set("Authorization", "Bearer "+secret)
			req.Header.Set("X-Token", secret)
			r := strings.NewReader(c.body)
			req.Body = io.NopCloser(r)
			w := &sink{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(c.body)
				clear(w.header)
				s.Handler().ServeHTTP(w, req)
				if w.status/100 != 2 {
					b.Fatalf("%d", w.status)
				}
			}
		})
	}
}
