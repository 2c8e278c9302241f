package httpengine_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

var events = duly.QueueRef{Namespace: "shop", Name: "events"}

func positionOf(ordinal uint64) duly.Position {
	return contract.PositionParts{Millis: 1893456000000, Ordinal: ordinal,
		Topic: contract.TopicChecksum(events)}.Position()
}

// published answers a publish: every message is created, with the topic of the path as its ID.
func published(w http.ResponseWriter, req *http.Request) {
	body, _ := req.GetBody()
	text := make([]byte, req.ContentLength)
	_, _ = body.Read(text)
	topic := strings.Split(req.URL.Path, "/")[4]
	messages, err := wire.ReadPublish(string(text), duly.QueueRef{Namespace: "shop", Name: topic})
	if err != nil {
		panic(err)
	}
	results := make([]duly.PublishResult, len(messages.Values))
	for i, m := range messages.Values {
		results[i] = duly.PublishResult{Status: duly.Created, ID: topic + "." + string(m.Body),
			Position: positionOf(uint64(i + 1))}
	}
	reply(w, http.StatusOK, string(wire.PublishedForm.Append(nil, results)))
}

// Messages of several topics make several requests. The results have the order of the messages.
func TestPublishToSeveralTopics(t *testing.T) {
	inBubble(t, published, func(t *testing.T, r *rig) {
		results, err := r.Publish(t.Context(),
			[]duly.Message{{Topic: "a", Body: []byte("1")}, {Topic: "no topic"}, {Topic: "b", Body: []byte("2")},
				{Topic: "a", Body: []byte("3")}, {Topic: "a", Key: "\xff"}})
		if err != nil {
			t.Fatal(err)
		}

		for i, want := range map[int]string{0: "a.1", 2: "b.2", 3: "a.3"} {
			if results[i].ID != want || results[i].Status != duly.Created || results[i].Err != nil {
				t.Errorf("message %d: %+v, want %s", i, results[i], want)
			}
		}

		wants(t, "the name of no topic", results[1].Err, duly.CodeInvalid)
		wants(t, "a key that is not UTF-8", results[4].Err, duly.CodeInvalid)
		var lines []string
		for _, s := range r.requests() {
			lines = append(lines, s.line)
		}
		if got := strings.Join(lines, ", "); got != "POST /v1/shop/topics/a/messages, POST /v1/shop/topics/b/messages" {
			t.Errorf("sends %s", got)
		}
	})
}

// If the first request fails, no other request is sent, and the call returns the error. If a later
// request fails, the results of its messages have the error.
func TestPublishToSeveralTopicsFails(t *testing.T) {
	for _, fails := range []string{"a", "b"} {
		t.Run(fails, func(t *testing.T) {
			inBubble(t, func(w http.ResponseWriter, req *http.Request) {
				if strings.Contains(req.URL.Path, "/topics/"+fails+"/") {
					problem(w, duly.ErrUnavailable)
					return
				}
				published(w, req)
			}, func(t *testing.T, r *rig) {
				results, err := r.Publish(t.Context(), []duly.Message{{Topic: "a"}, {Topic: "b"}})
				if fails == "a" {
					wants(t, "the call", err, duly.CodeUnavailable)
					if n := len(r.requests()); n != 1 {
						t.Errorf("%d requests were sent", n)
					}
					return
				}

				if err != nil || results[0].Status != duly.Created {
					t.Fatalf("%+v, %v", results, err)
				}
				wants(t, "the second message", results[1].Err, duly.CodeUnavailable)
			})
		})
	}
}

// Concurrent publishes to one topic share requests. Publishes to another topic do not wait for them.
func TestConcurrentPublishesShareRequests(t *testing.T) {
	var hold chan struct{}
	inBubble(t, func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "/topics/a/") {
			<-hold
		}
		published(w, req)
	}, func(t *testing.T, r *rig) {
		hold = make(chan struct{})
		var calls sync.WaitGroup
		publish := func(topic, body string) {
			calls.Go(func() {
				results, err := r.Publish(t.Context(), []duly.Message{{Topic: topic, Body: []byte(body)}})
				if err != nil || results[0].ID != topic+"."+body {
					t.Errorf("%s to %s: %+v, %v", body, topic, results, err)
				}
			})
		}

		for i := range 20 {
			publish("a", fmt.Sprint(i))
			synctest.Wait() // the first request is in progress, and the others wait for it
		}

		publish("b", "x")
		synctest.Wait()
		close(hold)
		calls.Wait()
		count := map[string]int{}
		for _, s := range r.requests() {
			count[s.line]++
		}
		if a, b := count["POST /v1/shop/topics/a/messages"], count["POST /v1/shop/topics/b/messages"]; a >= 20 ||
			b != 1 {
			t.Errorf("%d requests for 20 calls to a, %d for 1 to b", a, b)
		}
	})
}

// A read continues at the end of the previous slice, and adds the gaps. Positions are checked for the
// namespace of the URL.
func TestReadContinuesInSlices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := newRig(t, httpengine.Config{Poll: 10 * time.Second}, func(w http.ResponseWriter, req *http.Request) {
			asked++
			wait, _ := duly.ParseDuration(req.URL.Query().Get("wait"))
			page := contract.ReadPage{Next: duly.From(fmt.Sprint("next:", asked)), Gap: 1}
			if asked == 3 {
				page.Entries = []contract.Entry{{Position: positionOf(7), Message: duly.Message{Body: []byte("x")}}}
			} else {
				_ = clock.Sleep(req.Context(), clock.System(), wait)
			}
			reply(w, http.StatusOK, string(wire.EntriesForm.Append(nil, page)))
		})
		page, err := r.Read(t.Context(), duly.QueueRef{Name: "events"},
			contract.ReadParams{From: duly.FromPosition(positionOf(5)), Limit: 3, Wait: time.Minute})
		if err != nil || len(page.Entries) != 1 || page.Gap != 3 || page.Next != "next:3" {
			t.Fatalf("%+v, %v", page, err)
		}
		if e := page.Entries[0]; e.Topic != "events" || e.Namespace != "shop" || e.Position != positionOf(7) {
			t.Errorf("%+v", e)
		}
		var lines []string
		for _, s := range r.requests() {
			_, query, _ := strings.Cut(s.line, "?")
			lines = append(lines, query)
		}
		want := "from=" + positionOf(5).String() +
			"&limit=3&wait=10s from=next%3A1&limit=3&wait=10s from=next%3A2&limit=3&wait=10s"
		if got := strings.Join(lines, " "); got != want {
			t.Errorf("asks %s, want %s", got, want)
		}

		other := contract.PositionParts{Ordinal: 1, Topic: contract.TopicChecksum(duly.Q("events"))}.Position()
		_, err = r.Read(t.Context(), duly.QueueRef{Name: "events"}, contract.ReadParams{From: duly.FromPosition(other)})
		wants(t, "a position of another namespace's topic", err, duly.CodeInvalid)
	})
}

// A waiting read ends when its caller cancels it, and when the engine is closed.
func TestReadEndsWithItsCaller(t *testing.T) {
	inBubble(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, func(t *testing.T, r *rig) {
		ended := make(chan error)
		go func() {
			_, err := r.Read(t.Context(), events, contract.ReadParams{Wait: time.Minute})
			ended <- err
		}()
		synctest.Wait()
		go r.Close()
		if err := <-ended; !errors.Is(err, duly.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Bad names of topics and groups are refused without a request.
func TestBadNamesOfTopicsAreNotSent(t *testing.T) {
	inBubble(t, published, func(t *testing.T, r *rig) {
		ctx := t.Context()
		for _, name := range []string{"", "a/b", "..", "a@b", "a b"} {
			topic := duly.QueueRef{Name: name}
			_, err := r.Topic(ctx, topic)
			wants(t, "topic "+name, err, duly.CodeInvalid)
			_, err = r.Read(ctx, topic, contract.ReadParams{})
			wants(t, "read "+name, err, duly.CodeInvalid)
			wants(t, "destroy "+name, r.DestroyTopic(ctx, topic), duly.CodeInvalid)
		}

		for _, name := range []string{"t", "@g", "t@", "a@b@c", "t@../x"} {
			_, err := r.CreateGroup(ctx, duly.QueueRef{Name: name}, "")
			wants(t, "group "+name, err, duly.CodeInvalid)
		}
		wants(t, "an ID that is none", r.CancelDelayed(ctx, events, "", "a/b"), duly.CodeInvalid)
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}
