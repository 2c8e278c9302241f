package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// topicStub is an engine with fixed results of topics. It records its calls.
type topicStub struct {
	*model.Engine
	// read, if set, replaces Read.
	read func(ctx context.Context, p contract.ReadParams) (contract.ReadPage, error)

	mu    sync.Mutex
	calls []string
}

var (
	stubTopic = duly.Q("events")
	stubAt    = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	stubPlace = contract.PositionParts{Millis: stubAt.UnixMilli(), Ordinal: 1,
		Topic: contract.TopicChecksum(stubTopic)}.Position()
)

func (s *topicStub) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// asked returns the recorded calls, and clears the record.
func (s *topicStub) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.calls, "; ")
	s.calls = nil
	return all
}

func (s *topicStub) Publish(_ context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	results := make([]duly.PublishResult, len(messages))
	for i, m := range messages {
		s.note("publish %s/%s %q id=%s key=%s delay=%s", m.Namespace, m.Topic, m.Body, m.ID, m.Key, m.Delay)
		results[i] = duly.PublishResult{Status: duly.Created, Position: stubPlace, ID: m.ID}
	}
	return results, nil
}

func (s *topicStub) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	s.note("read %s from %s limit %d wait %s", topic, p.From, p.Limit, p.Wait)
	if s.read != nil {
		return s.read(ctx, p)
	}
	return contract.ReadPage{Entries: []contract.Entry{{Message: duly.Message{Topic: "events", Body: []byte("x")},
		Position: stubPlace, EnteredAt: stubAt}}, Next: "next:a", Gap: 2}, nil
}

func (s *topicStub) Delayed(_ context.Context, topic duly.QueueRef, p contract.DelayedParams) (contract.DelayedPage,
	error) {
	s.note("delayed %s cursor %s limit %d bodies %t", topic, p.Cursor, p.Limit, p.Bodies)
	return contract.DelayedPage{Messages: []duly.Message{{ID: "a", Due: stubAt, Body: []byte("x")}}, Next: "c"}, nil
}

func (s *topicStub) DelayedMessage(_ context.Context, topic duly.QueueRef, key, id string) (duly.Message, error) {
	s.note("delayed message %s %s %s", topic, key, id)
	return duly.Message{ID: id, Due: stubAt, Body: []byte("x")}, nil
}

func (s *topicStub) CancelDelayed(_ context.Context, topic duly.QueueRef, key, id string) error {
	s.note("cancel %s %s %s", topic, key, id)
	return nil
}

func (s *topicStub) Topics(_ context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	s.note("topics %s %s %d", namespace, p.Cursor, p.Limit)
	return duly.NamePage{Names: []string{"events"}, Next: "events"}, nil
}

func (s *topicStub) Topic(_ context.Context, topic duly.QueueRef) (duly.TopicInfo, error) {
	s.note("topic %s", topic)
	return duly.TopicInfo{Config: contract.DefaultTopicConfig(), Stats: duly.TopicStats{Messages: 3}}, nil
}

func (s *topicStub) ConfigureTopic(_ context.Context, topic duly.QueueRef, patch duly.TopicConfig) error {
	s.note("configure %s dedupe %s", topic, patch.Dedupe)
	return nil
}

func (s *topicStub) DestroyTopic(_ context.Context, topic duly.QueueRef) error {
	s.note("destroy %s", topic)
	return nil
}

func (s *topicStub) Groups(_ context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	s.note("groups %s %s %d", topic, p.Cursor, p.Limit)
	return duly.NamePage{Names: []string{"mailer"}}, nil
}

func (s *topicStub) CreateGroup(_ context.Context, group duly.QueueRef, from duly.From) (bool, error) {
	s.note("create %s from %q", group, from)
	return from == duly.FromEnd, nil
}

func (s *topicStub) Seek(_ context.Context, group duly.QueueRef, to duly.From) (contract.SeekResult, error) {
	s.note("seek %s to %s", group, to)
	return contract.SeekResult{Clipped: true, Skipped: 1, Replayed: 2}, nil
}

func (s *topicStub) Step(_ context.Context, q duly.QueueRef) (bool, error) {
	s.note("step %s", q)
	return true, nil
}

// serveTopics starts a server with the stub.
func serveTopics(t *testing.T) (*fixture, *topicStub) {
	stub := &topicStub{}
	f := serve(t, func(c *Config) {
		stub.Engine = c.Engine.(*firingEngine).Engine
		c.Engine, c.Store.Maintainer = stub, stub
	})
	return f, stub
}

// C14.25, C14.49, C14.50, C14.51: every route makes its call to the engine, and answers the
// result.
func TestEachTopicRouteMakesItsCall(t *testing.T) {
	t.Parallel()
	f, stub := serveTopics(t)
	place := stubPlace.String()

	for _, tt := range []struct{ method, path, body, asked, answer string }{
		{"POST", "/topics/events/messages", `{"messages":[{"body":"x","id":"a","key":"k","delay":"1s"},{"body":"y"}]}`,
			`publish default/events "x" id=a key=k delay=1s; publish default/events "y" id= key= delay=0s`,
			`{"results":[{"outcome":"created","position":"` + place + `","id":"a"},{"outcome":"created","position":"` +
				place + `"}]}`},
		{"GET", "/topics/events/messages", "", "read default/events from  limit 100 wait 0s",
			`{"messages":[{"position":"` + place +
				`","entered_at":"2030-01-01T00:00:00.000Z","body":"x"}],"next":"next:a","gap":2}`},
		{"GET", "/topics/events/messages?from=" + place + "&limit=7&wait=30s", "",
			"read default/events from " + place + " limit 7 wait 0s", `"next":"next:a"`},
		{"GET", "/topics/events/delayed?cursor=c&limit=3", "", "delayed default/events cursor c limit 3 bodies false",
			`{"messages":[{"id":"a","due":"2030-01-01T00:00:00.000Z"}],"next":"c"}`},
		{"GET", "/topics/events/delayed?bodies=true", "", "delayed default/events cursor  limit 100 bodies true",
			`"body":"x"`},
		{"GET", "/topics/events/delayed/a:b?key=k", "", "delayed message default/events k a:b",
			`{"id":"a:b","due":"2030-01-01T00:00:00.000Z","body":"x"}`},
		{"DELETE", "/topics/events/delayed/a?key=k", "", "cancel default/events k a", ""},
		{"GET", "/topics?limit=2", "", "topics default  2", `{"topics":[{"name":"events"}],"next":"events"}`},
		{"GET", "/topics/events", "", "topic default/events", `"messages":3`},
		{"PATCH", "/topics/events", `{"dedupe":"1h"}`, "configure default/events dedupe 1h0m0s", ""},
		{"DELETE", "/topics/events", "", "destroy default/events", ""},
		{"GET", "/topics/events/groups?cursor=a", "", "groups default/events a 100",
			`{"groups":[{"name":"mailer"}],"next":""}`},
		{"PUT", "/topics/events/groups/mailer", "", `create default/events@mailer from ""`, `{"outcome":"created"}`},
		{"PUT", "/topics/events/groups/mailer", `{"from":"end"}`, `create default/events@mailer from "end"`,
			`{"outcome":"exists"}`},
		{"POST", "/topics/events/groups/mailer/seek", `{"from":"start"}`, "seek default/events@mailer to start",
			`{"clipped":true,"skipped":1,"replayed":2}`},
		{"POST", "/topics/events/trim", "", "topic default/events; step default/events", `{"more":true}`},
	} {
		a := f.send(tt.method, "/v1/default"+tt.path, tt.body)
		status := http.StatusOK
		if tt.answer == "" {
			status = http.StatusNoContent
		}
		if a.status != status || !strings.Contains(a.body, tt.answer) {
			t.Errorf("%s %s answers %d %s, want %s", tt.method, tt.path, a.status, a.body, tt.answer)
		}
		if asked := stub.asked(); asked != tt.asked {
			t.Errorf("%s %s asks for %s, want %s", tt.method, tt.path, asked, tt.asked)
		}
	}
}

// A bad request makes no call to the engine.
func TestBadRequestsToTopicsMakeNoCall(t *testing.T) {
	t.Parallel()
	f, stub := serveTopics(t)

	for _, tt := range []struct{ method, path, body, field string }{
		{"POST", "/topics/events/messages", `{"jobs":[]}`, "request"},
		{"GET", "/topics/events/messages?wait=soon", "", "wait"},
		{"GET", "/topics/events/messages?wait=11m", "", "wait"},
		{"GET", "/topics/events/messages?from=yesterday", "", "from"},
		{"GET", "/topics/events/messages?from=" + duly.NewNumber().String(), "", "from"},
		{"GET", "/topics/events/delayed?bodies=2", "", "bodies"},
		{"POST", "/topics/events/groups/mailer/seek", `{}`, "from"},
		{"PUT", "/topics/events/groups/mailer", `{"to":"end"}`, "request"},
		{"PATCH", "/topics/events", `{"max_jobs":3}`, "request"},
		{"POST", "/topics/events/trim", `{"all":true}`, "request"},
	} {
		a := f.send(tt.method, "/v1/default"+tt.path, tt.body)
		if e := a.err(); a.status != http.StatusBadRequest || len(e.Fields) != 1 || e.Fields[0].Field != tt.field {
			t.Errorf("%s %s: %d %s, want a fault of %s", tt.method, tt.path, a.status, a.body, tt.field)
		}
		if asked := stub.asked(); asked != "" {
			t.Errorf("%s %s asks for %s", tt.method, tt.path, asked)
		}
	}
}

// C14.52: if the engine has no topics, each route of topics returns unsupported.
func TestEngineWithoutTopicsIsUnsupported(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Engine = struct{ contract.Engine }{c.Engine} })
	routes := 0
	for _, r := range f.apiRoutes {
		if !strings.HasPrefix(r.Path, "/v1/{namespace}/topics") {
			continue
		}
		routes++
		if a := f.send(r.Method, pathOf(r, "default")+r.Doc.ExampleQuery,
			r.Doc.Example); a.status != http.StatusNotImplemented || a.err().Code != duly.CodeUnsupported {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, a.status, a.body)
		}
	}
	if routes != 13 {
		t.Errorf("%d routes of topics", routes)
	}
}

// C14.50: in a list of delayed messages, only consumers get bodies.
func TestBodiesOfDelayedMessagesNeedConsume(t *testing.T) {
	t.Parallel()
	f, _ := serveTopics(t)
	for path, want := range map[string]map[string]int{
		"/v1/default/topics/events/delayed":              {"produce": 200, "consume": 200, "admin": 200},
		"/v1/default/topics/events/delayed?bodies=false": {"produce": 200, "consume": 200, "admin": 200},
		"/v1/default/topics/events/delayed?bodies=true":  {"produce": 403, "consume": 200, "admin": 200},
	} {
		for caller, status := range want {
			if a := f.send("GET", path, "", caller); a.status != status {
				t.Errorf("%s with the right %s: %d %s", path, caller, a.status, a.body)
			}
		}
	}
}

// C12.180: a publish counts under the limit to produce.
func TestPublishCountsAsProduce(t *testing.T) {
	t.Parallel()
	f, _ := serveTopics(t)
	if a := f.send("PATCH", "/admin/tokens/"+f.id("produce"), `{"limits":{"produce":2,"per":"1m"}}`); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	publish := func() int {
		return f.send("POST", "/v1/default/topics/events/messages", `{"messages":[{},{},{}]}`, "produce").status
	}
	for i, want := range []int{200, 200, 429} {
		if status := publish(); status != want {
			t.Errorf("publish %d: %d, want %d", i, status, want)
		}
	}
	if a := f.send("GET", "/v1/default/topics/events/delayed", "", "produce"); a.status != 200 {
		t.Errorf("a look is limited: %d %s", a.status, a.body)
	}
}

// C14.49: a read waits until its first message or until its wait time has passed. While it waits it
// reads one message at a time, and then the page from the same position.
func TestReadWaitsForAMessage(t *testing.T) {
	t.Parallel()
	stub := &topicStub{}
	published := make(chan struct{})
	stub.read = func(ctx context.Context, p contract.ReadParams) (contract.ReadPage, error) {
		page := contract.ReadPage{Next: "next:here"}
		if p.Wait > 0 {
			select {
			case <-published:
			case <-ctx.Done():
				return page, ctx.Err()
			case <-time.After(p.Wait): // time in the synctest bubble
				return page, nil
			}
		}
		select {
		case <-published:
			page.Entries = []contract.Entry{{Message: duly.Message{Body: []byte("x")}, Position: stubPlace,
				EnteredAt: stubAt}}
		default:
		}
		return page, nil
	}
	inMemory(t, func(c *Config) {
		stub.Engine = c.Engine.(*firingEngine).Engine
		c.Engine, c.Clock = stub, nil
	}, func(f *fixture) {
		get := func(path string) answer {
			req, err := http.NewRequest("GET", "http://duly.test"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+f.tokens["consume"])
			return f.do(req)
		}
		published = make(chan struct{}) // created in the synctest bubble
		begin := time.Now()
		a := get("/v1/default/topics/events/messages?from=end&wait=30s")
		if took := time.Since(begin); a.status != 200 || took != 30*time.Second ||
			!strings.Contains(a.body, `"next":"next:here"`) {
			t.Errorf("nothing was published: %d %s after %s", a.status, a.body, took)
		}

		stub.asked()
		begin = time.Now()
		go func() {
			_ = clock.Sleep(f.t.Context(), clock.System(), 7*time.Second)
			close(published)
		}()
		a = get("/v1/default/topics/events/messages?from=end&wait=30s")
		if took := time.Since(begin); a.status != 200 || took != 7*time.Second ||
			!strings.Contains(a.body, `"body":"x"`) {
			t.Errorf("published after 7s: %d %s after %s", a.status, a.body, took)
		}
		const want = "read default/events from end limit 100 wait 0s; read default/events from next:here limit 1 " +
			"wait 30s; read default/events from next:here limit 100 wait 0s"
		if asked := stub.asked(); asked != want {
			t.Errorf("asks for %s, want %s", asked, want)
		}

		published = make(chan struct{})
		begin = time.Now()
		go func() {
			_ = clock.Sleep(f.t.Context(), clock.System(), 3*time.Second)
			f.drain()
		}()
		a = get("/v1/default/topics/events/messages?from=end&wait=30s")
		if took := time.Since(begin); a.status != 200 || took != 3*time.Second ||
			!strings.Contains(a.body, `"messages":[]`) {
			t.Errorf("a server that drains: %d %s after %s", a.status, a.body, took)
		}
	})
}

// C12.162: after a target of a group is set through a running server, the server pushes the
// messages of the group.
func TestServerPushesMessagesOfGroupWithTarget(t *testing.T) {
	t.Parallel()
	e := model.New(model.Config{})
	s := bare(t, func(c *Config) {
		c.Engine, c.Store.Registry, c.Store.Maintainer, c.Clock, c.Logger = e, e, e, clock.System(),
			slog.New(slog.DiscardHandler)
	})
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	secret, _, err := s.Guard().Create(t.Context(), contract.Token{Namespace: "default", Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}

	send := func(method, path, body string) {
		t.Helper()
		req, err := http.NewRequest(method, s.URL()+"/v1/default"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %v, %v", method, path, resp, err)
		}
		resp.Body.Close()
	}

	send("PUT", "/topics/events/groups/billing", `{}`)
	send("PATCH", "/queues/events@billing", `{"target":"invoices"}`)
	send("POST", "/topics/events/messages", `{"messages":[{"body":"x","key":"k"}]}`)
	until(t, "the message is a job", func() bool {
		stats, err := e.Stats(t.Context(), duly.Q("invoices"))
		return err == nil && stats.Sizes.Ready == 1
	})

	until(t, "the message is acked", func() bool {
		stats, err := e.Stats(t.Context(), duly.Q("events@billing"))
		return err == nil && stats.Counters.Acked == 1
	})

	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
