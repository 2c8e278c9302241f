package httpengine_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/memnet"
	"github.com/dulymq/duly/internal/wire"
)

// operations returns the operations that change something. Each of them is one call.
func operations() map[string]func(ctx context.Context, e *httpengine.Engine) error {
	q := duly.QueueRef{Name: "q"}
	return map[string]func(ctx context.Context, e *httpengine.Engine) error{
		"push": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Push(ctx, []duly.Job{{Queue: "q", ID: "x", Made: true}})
			return err
		},
		"reserve": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
			return err
		},
		"settle": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: "q:0:01J0000000000000000000000A:1",
				As: duly.Ack}})
			return err
		},
		"extend": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Extend(ctx, "", []duly.Receipt{"q:0:01J0000000000000000000000A:1"}, 0)
			return err
		},
		"requeue": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Requeue(ctx, q, duly.RequeueParams{N: 1})
			return err
		},
		"purge": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Purge(ctx, q, duly.StateReady, 1)
			return err
		},
		"delete": func(ctx context.Context, e *httpengine.Engine) error { return e.Delete(ctx, q, "x") },
		"update": func(ctx context.Context, e *httpengine.Engine) error {
			return e.Update(ctx, q, "x", duly.Update{Tries: 1})
		},
		"promote": func(ctx context.Context, e *httpengine.Engine) error { return e.Promote(ctx, q, "x") },
		"pause":   func(ctx context.Context, e *httpengine.Engine) error { return e.Pause(ctx, q) },
		"resume":  func(ctx context.Context, e *httpengine.Engine) error { return e.Resume(ctx, q) },
		"destroy": func(ctx context.Context, e *httpengine.Engine) error { return e.Destroy(ctx, q) },
		"configure": func(ctx context.Context, e *httpengine.Engine) error {
			return e.Configure(ctx, q, duly.QueueConfig{MaxJobs: 1})
		},
		"publish": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Publish(ctx, []duly.Message{{Topic: "t", ID: "x"}})
			return err
		},
		"cancel delayed": func(ctx context.Context, e *httpengine.Engine) error {
			return e.CancelDelayed(ctx, q, "k", "x")
		},
		"destroy topic": func(ctx context.Context, e *httpengine.Engine) error { return e.DestroyTopic(ctx, q) },
		"configure topic": func(ctx context.Context, e *httpengine.Engine) error {
			return e.ConfigureTopic(ctx, q, duly.TopicConfig{MaxCount: 1})
		},
		"create group": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.CreateGroup(ctx, duly.QueueRef{Name: "t@g"}, duly.FromEnd)
			return err
		},
		"seek": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Seek(ctx, duly.QueueRef{Name: "t@g"}, duly.FromEnd)
			return err
		},
		"trim": func(ctx context.Context, e *httpengine.Engine) error { _, err := e.Trim(ctx, q); return err },
	}
}

// Close waits for the calls in progress, and later calls fail.
func TestCloseWaitsForCalls(t *testing.T) {
	q := duly.QueueRef{Name: "q"}
	looks := map[string]func(ctx context.Context, e *httpengine.Engine) error{
		"get": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Get(ctx, q, "x")
			return err
		},
		"peek": func(ctx context.Context, e *httpengine.Engine) error { _, err := e.Peek(ctx, q); return err },
		"config": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Config(ctx, q)
			return err
		},
		"stats": func(ctx context.Context, e *httpengine.Engine) error { _, err := e.Stats(ctx, q); return err },
		"receipt": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.GetByReceipt(ctx, "", "q:0:01J0000000000000000000000A:1")
			return err
		},
		"list": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.List(ctx, q, duly.ListParams{State: duly.StateReady})
			return err
		},
		"queues": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Queues(ctx, "", duly.PageParams{})
			return err
		},
		"explain": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Explain(ctx, q, "x")
			return err
		},
		"find": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Find(ctx, "", "x")
			return err
		},
		"keys": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Keys(ctx, q, contract.KeysParams{})
			return err
		},
		"holder": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Holder(ctx, q, "k")
			return err
		},
		"survey": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Survey(ctx, "", duly.PageParams{})
			return err
		},
		"wait": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := waitFor(e, ctx, time.Second)
			return err
		},
		"read": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Read(ctx, q, contract.ReadParams{Wait: time.Second})
			return err
		},
		"delayed": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Delayed(ctx, q, contract.DelayedParams{})
			return err
		},
		"deletion": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.DeleteJobs(ctx, q, []string{"x"}, duly.StateDead)
			return err
		},
		"get of jobs": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.GetJobs(ctx, q, []string{"x"}, true)
			return err
		},
		"promotion": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.PromoteJobs(ctx, q, []string{"x"})
			return err
		},
		"delayed message": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.DelayedMessage(ctx, q, "", "x")
			return err
		},
		"topics": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Topics(ctx, "", duly.PageParams{})
			return err
		},
		"topic": func(ctx context.Context, e *httpengine.Engine) error { _, err := e.Topic(ctx, q); return err },
		"groups": func(ctx context.Context, e *httpengine.Engine) error {
			_, err := e.Groups(ctx, q, duly.PageParams{})
			return err
		},
	}

	maps.Copy(looks, operations())
	for name, operation := range looks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, duly.ErrNotFound) },
				func(t *testing.T, r *rig) {
					wants(t, name, operation(t.Context(), r.Engine), duly.CodeNotFound)
					closed := make(chan error, 1)
					go func() { closed <- r.Close() }()
					synctest.Wait()
					select {
					case err := <-closed:
						if err != nil {
							t.Error(err)
						}
					default:
						t.Fatal("Close waits for a call that has ended")
					}
				})
		})
	}
}

// C4.15, C13.12: after a lost answer, the caller gets the error, also on an idle connection, where
// net/http would repeat requests that it considers idempotent.
func TestRequestWithLostAnswerIsNotRepeated(t *testing.T) {
	for name, operation := range operations() {
		t.Run(name, func(t *testing.T) {
			lose := false
			inBubble(t, func(w http.ResponseWriter, req *http.Request) {
				if lose {
					hijack(w).Close()
					return
				}
				reply(w, 200, `{"name":"q"}`)
			}, func(t *testing.T, r *rig) {
				if _, err := r.Stats(t.Context(), duly.QueueRef{Name: "q"}); err != nil {
					t.Fatal(err)
				}
				lose = true
				wants(t, name, operation(t.Context(), r.Engine), duly.CodeUnavailable)
				if n := len(r.requests()); n != 2 {
					t.Errorf("it was sent %d times, want once", n-1)
				}
			})
		})
	}
}

// C4.2: a change continues after its caller's context has ended.
func TestCallRunsOnWithoutItsCaller(t *testing.T) {
	for name, operation := range operations() {
		t.Run(name, func(t *testing.T) {
			cancelled, done := false, make(chan struct{})
			var answer chan struct{}

			inBubble(t, func(w http.ResponseWriter, req *http.Request) {
				select {
				case <-answer:
				case <-req.Context().Done():
					cancelled = true
				}
				reply(w, 200, `{"results":[{}]}`)
				close(done)
			}, func(t *testing.T, r *rig) {
				answer, done = make(chan struct{}), make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- operation(ctx, r.Engine) }()
				synctest.Wait()
				cancel()
				err := <-ended
				wants(t, name, err, duly.CodeUnavailable)
				if err == nil || !strings.Contains(err.Error(), "may have happened") {
					t.Errorf("%v does not say that it may have happened", err)
				}
				close(answer)
				<-done
				if cancelled {
					t.Error("the request was torn down with its caller")
				}
			})
		})
	}
}

// C4.2: no request is sent for a context that has ended.
func TestEndedContextSendsNothing(t *testing.T) {
	inBubble(t, created, func(t *testing.T, r *rig) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, operation := range operations() {
			if err := operation(ended, r.Engine); err != context.Canceled {
				t.Errorf("%s is answered %v", name, err)
			}
		}
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// If a server or a proxy has closed an idle connection, the next call uses another connection,
// without an error.
func TestIdleConnectionThatWasClosedIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		defer l.Close()
		requests := 0
		go serveOnce(l, &requests)
		network := &http.Transport{DialContext: l.Dial}
		e, err := httpengine.Open(context.Background(),
			httpengine.Config{URL: "http://" + token + "@duly.test/shop", Client: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()

		for i := range 5 {
			results, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: "x", Made: true}})
			if err != nil || results[0].Err != nil {
				t.Errorf("push %d: %v", i, err)
			}
			synctest.Wait() // returns when the client has noticed the close
		}

		if requests != 5 {
			t.Errorf("%d requests arrived, want 5", requests)
		}
	})
}

// serveOnce announces keep-alive, but closes each connection after one answer.
func serveOnce(l *memnet.Listener, requests *int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		*requests++
		body := string(wire.PushedForm.Append(nil, []duly.PushResult{{ID: "x", Status: duly.Created}}))
		resp := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
		_ = resp.Write(conn)
		conn.Close()
	}
}

// C11.6: an item or a call with another namespace is forbidden, and no request is sent.
func TestOtherNamespaceIsForbiddenWithoutARequest(t *testing.T) {
	inBubble(t, created, func(t *testing.T, r *rig) {
		ctx, other := t.Context(), duly.QueueRef{Namespace: "other", Name: "q"}
		results, err := r.Push(ctx, []duly.Job{{Namespace: "other", Queue: "q"}})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "an item", results[0].Err, duly.CodeForbidden)
		_, err = r.Reserve(ctx, duly.ReserveParams{Namespace: "other", Queues: []string{"q"}, Max: 1})
		wants(t, "reserve", err, duly.CodeForbidden)
		_, err = r.Wait(ctx, duly.WaitParams{Namespace: "other", Queues: []string{"q"}})
		wants(t, "wait", err, duly.CodeForbidden)
		_, err = r.Settle(ctx, "other", nil)
		wants(t, "settle", err, duly.CodeForbidden)
		_, err = r.Extend(ctx, "other", nil, 0)
		wants(t, "extend", err, duly.CodeForbidden)
		_, err = r.Queues(ctx, "other", duly.PageParams{})
		wants(t, "queues", err, duly.CodeForbidden)
		_, err = r.Stats(ctx, other)
		wants(t, "stats", err, duly.CodeForbidden)
		wants(t, "delete", r.Delete(ctx, other, "x"), duly.CodeForbidden)
		_, err = r.Read(ctx, other, contract.ReadParams{})
		wants(t, "read", err, duly.CodeForbidden)
		_, err = r.CreateGroup(ctx, duly.QueueRef{Namespace: "other", Name: "t@g"}, "")
		wants(t, "create group", err, duly.CodeForbidden)
		published, err := r.Publish(ctx, []duly.Message{{Namespace: "other", Topic: "t"}})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "a message", published[0].Err, duly.CodeForbidden)
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		results, err = r.Push(ctx, []duly.Job{{Namespace: "other", Queue: "q"}, {ID: "a", Queue: "q"},
			{ID: "b", Namespace: "shop", Queue: "q"}})
		if err != nil || results[1].Status != duly.Created || results[2].ID != "b" {
			t.Errorf("the neighbours are answered %+v, %v", results, err)
		}
		wants(t, "an item among others", results[0].Err, duly.CodeForbidden)
	})
}

// C14.2: only the header has the token.
func TestOnlyTheHeaderHasTheToken(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"results":[{}]}`) },
		func(t *testing.T, r *rig) {
			for _, operation := range operations() {
				_ = operation(t.Context(), r.Engine)
			}
			for _, s := range r.requests() {
				if s.auth != "Bearer "+token || strings.Contains(s.line+s.body, "S3CRET") {
					t.Errorf("%s carries %q", s.line, s.auth)
				}
			}
		})
}

// After an outage of the server, the same engine works again.
func TestEngineWorksAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := memnet.Listen()
		network := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return at.Dial(ctx, network, address)
		}}
		r := newRig(t, httpengine.Config{Client: &http.Client{Transport: network}}, created)
		defer network.CloseIdleConnections()
		at.Close()
		wants(t, "a server that is away", r.push(t.Context()), duly.CodeUnavailable)
		at = r.listener
		if err := r.push(t.Context()); err != nil {
			t.Errorf("it is back, but: %v", err)
		}
		r.kill()
		wants(t, "a server that was killed", r.push(t.Context()), duly.CodeUnavailable)
		at = newRig(t, httpengine.Config{}, created).listener
		if err := r.push(t.Context()); err != nil {
			t.Errorf("another one is there, but: %v", err)
		}
	})
}
