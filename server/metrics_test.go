package server

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/webhook/dispatch"
	gates "github.com/dulymq/duly/server/webhook/gate"
)

// scrape returns the text of /metrics, and the values by series.
func (f *fixture) scrape() (text string, values map[string]string) {
	f.t.Helper()
	a := f.send("GET", "/metrics", "")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		f.t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	values = map[string]string{}
	for line := range strings.Lines(a.body) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			values[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return a.body, values
}

// busy makes every metric count something.
func (f *fixture) busy() {
	f.t.Helper()
	receipt := func(queue string) string {
		a := f.send("POST", "/v1/default/reserve", `{"queues":["`+queue+`"],"lease":"1s"}`)
		m := regexp.MustCompile(`"receipt":"([^"]+)"`).FindStringSubmatch(a.body)
		if m == nil {
			f.t.Fatalf("nothing to take: %s", a.body)
		}
		return m[1]
	}

	settle := func(receipt, as string) {
		f.send("POST", "/v1/default/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"`+as+`"}]}`)
	}
	f.send("POST", "/v1/default/push",
		`{"jobs":[{"queue":"mail","id":"a"},{"queue":"mail","id":"b"},{"queue":"mail","id":"c"},`+
			`{"queue":"mail","id":"d"},{"queue":"mail","id":"e","delay":"1h"}]}`)
	f.send("POST", "/v1/default/push",
		`{"jobs":[{"queue":"mail","id":"a"},{"queue":"mail","tries":1,"merge":{"key":"k"},"delay":"2h"},`+
			`{"queue":"mail","merge":{"key":"k"}},{"queue":"a/b"}]}`)
	f.clock.Advance(20 * time.Millisecond)
	first := receipt("mail")
	for _, as := range []string{"ack", "ack"} { // the second ack comes too late
		settle(first, as)
	}
	settle(receipt("mail"), "nack")
	settle(receipt("mail"), "bury")
	receipt("mail") // this delivery stalls
	f.clock.Advance(2 * time.Second)
	settle(receipt("mail"), "release")
	f.send("PUT", "/v1/default/queues/mail/schedules/yearly", `{"spec":"@yearly"}`)
	f.fires("mail")
	f.send("PATCH", "/v1/default/queues/mail", `{"max_leased":8,"rate":100,"adapt":{"floor":0.1}}`)
	f.send("PUT", "/v1/default/topics/events/groups/mailer", "")
	f.send("POST", "/v1/default/topics/events/messages",
		`{"messages":[{"body":"a"},{"body":"b"},{"delay":"1h"},{"id":"a b"}]}`)
	settle(receipt("events@mailer"), "ack")
	f.send("GET", "/v1/default/queues/mail/jobs/secret-id", "")
	f.send("GET", "/v1/default/queues", "", "unknown")
	f.send("GET", "/v1/default/queues", "", "foreign")
	f.send("POST", "/nowhere/CANARY", "")
	f.busyPush()
	f.operate(`{"kind":"promote","queue":"mail","ids":["none"]}`)
	f.clock.Advance(time.Minute) // makes the survey read the queues again
}

// fires observes a tick of a queue that has made a run, after ticks that were missed.
func (f *fixture) fires(queue string) {
	f.t.Helper()
	if f.firing == nil {
		return
	}
	now := f.clock.Now().UnixMilli()
	items := []contract.FireItem{{Tick: now - 20, Job: &duly.Job{}, Missed: 3}}
	_, _, end := f.firing(f.t.Context(), duly.Q(queue), now, items)
	end([]contract.FireResult{{Status: contract.FireFired, Run: duly.PushResult{Status: duly.Created}}}, nil)
}

// busyPush makes every metric of HTTP push count something, without requests.
func (f *fixture) busyPush() {
	p := f.Server.push
	if p == nil {
		return
	}
	o := p.observer()
	for _, status := range []int{0, 204, 503} {
		o.Tried(dispatch.Try{Namespace: "default", Target: "crm", Host: "https://crm.example:443", Status: status,
			Took: time.Millisecond, Bytes: 10, First: true, Late: time.Millisecond})
	}
	o.HeldBack("default", "", "https://a.example:443")
	o.Postponed("default", "crm", dispatch.Disabled)
	p.states = func() []gates.State { return []gates.State{{Host: "https://crm.example:443", Open: true, Limit: 4}} }
}

// C14.33, fault R8: the server has exactly the metrics of the documents, with the same descriptions.
func TestMetricsMatchDocuments(t *testing.T) {
	t.Parallel()
	counts := metrics.New(metrics.Config{Version: "v1"})
	f := serve(t, func(c *Config) {
		c.Metrics = counts
		c.Engine = &stumbling{
			c.Engine, c.Engine.(contract.Topics), c.Engine.(duly.Scheduler), contract.SurveyorOf(c.Engine),
			c.Engine.(contract.FireObserver),
		}
	})
	f.busy()
	counts.Called("redis", "push", 3*time.Millisecond)
	f.limited()
	f.send("DELETE", "/v1/default/queues/stumble", "")
	text, values := f.scrape()
	promised := map[string]string{}

	for _, m := range metrics.Definitions() {
		promised[m.Name] = m.Type
		if !strings.Contains(text, "\n# TYPE "+m.Name+" "+m.Type+"\n") {
			t.Errorf("%s (%s) is not served", m.Name, m.Type)
		}
	}

	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE duly_"); ok && promised["duly_"+strings.Fields(name)[0]] == "" {
			t.Errorf("the documents do not know %s", line)
		}
	}
	queue := `{namespace="default",queue="mail"`

	for series, want := range map[string]string{
		`duly_queue_jobs` + queue + `,state="delayed"}`:                                                        "2",
		`duly_queue_jobs` + queue + `,state="ready"}`:                                                          "2",
		`duly_queue_jobs` + queue + `,state="dead"}`:                                                           "1",
		`duly_queue_oldest_ready_seconds` + queue + `}`:                                                        "61",
		`duly_queue_pushed_total` + queue + `}`:                                                                "7",
		`duly_queue_merged_total` + queue + `}`:                                                                "1",
		`duly_queue_stalled_total` + queue + `}`:                                                               "1",
		`duly_queue_dead_total` + queue + `}`:                                                                  "1",
		`duly_jobs_pushed_total{namespace="default",outcome="created",queue="mail"}`:                           "6",
		`duly_jobs_pushed_total{namespace="default",outcome="merged",queue="mail"}`:                            "1",
		`duly_jobs_pushed_total{namespace="default",outcome="exists",queue="mail"}`:                            "1",
		`duly_group_lag{namespace="default",queue="events@mailer"}`:                                            "1",
		`duly_queue_acked_total{namespace="default",queue="events@mailer"}`:                                    "1",
		`duly_topic_messages{namespace="default",topic="events"}`:                                              "1",
		`duly_topic_delayed{namespace="default",topic="events"}`:                                               "1",
		`duly_topic_published_total{namespace="default",topic="events"}`:                                       "3",
		`duly_topic_trimmed_total{namespace="default",topic="events"}`:                                         "1",
		`duly_messages_published_total{namespace="default",outcome="created",topic="events"}`:                  "3",
		`duly_jobs_delivered_total` + queue + `}`:                                                              "5",
		`duly_jobs_settled_total{as="ack",namespace="default",queue="mail"}`:                                   "1",
		`duly_jobs_settled_total{as="nack",namespace="default",queue="mail"}`:                                  "1",
		`duly_jobs_settled_total{as="bury",namespace="default",queue="mail"}`:                                  "1",
		`duly_jobs_settled_total{as="release",namespace="default",queue="mail"}`:                               "1",
		`duly_settles_refused_total{code="lease_lost"}`:                                                        "1",
		`duly_delivery_lateness_seconds_count` + queue + `}`:                                                   "5",
		`duly_delivery_lateness_seconds_bucket` + queue + `,le="0.025"}`:                                       "4",
		`duly_tokens_refused_total{code="unauthorized"}`:                                                       "1",
		`duly_tokens_refused_total{code="forbidden"}`:                                                          "1",
		`duly_calls_limited_total`:                                                                             "1",
		`duly_http_panics_total`:                                                                               "1",
		`duly_http_requests_total{method="POST",route="/v1/{namespace}/settle",status="2xx"}`:                  "6",
		`duly_http_requests_total{method="GET",route="/v1/{namespace}/queues/{queue}/jobs/{id}",status="4xx"}`: "1",
		`duly_http_requests_total{method="DELETE",route="/v1/{namespace}/queues/{queue}",status="5xx"}`:        "1",
		`duly_http_requests_total{method="any",route="unknown",status="4xx"}`:                                  "1",
		`duly_engine_call_duration_seconds_bucket{call="push",engine="redis",le="0.005"}`:                      "1",
		`duly_scrape_complete`: "1",
		`duly_queues`:          "2",
	} {
		if values[series] != want {
			t.Errorf("%s is %q, want %s", series, values[series], want)
		}
	}

	if t.Failed() {
		t.Log(text)
	}
	for _, secret := range append([]string{"CANARY", "secret-id"}, f.secrets()...) {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in a metric", secret)
		}
	}
}

// stumbling is an engine that panics in Destroy.
type stumbling struct {
	contract.Engine
	topicMethods
	duly.Scheduler
	contract.Surveyor
	contract.FireObserver
}

// topicMethods is embedded: contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

func (*stumbling) Destroy(context.Context, duly.QueueRef) error { panic("stumbles") }

// secrets returns the texts of all tokens.
func (f *fixture) secrets() (all []string) {
	for _, token := range f.tokens {
		if token != "" {
			all = append(all, token)
		}
	}
	return all
}

// limited makes a call beyond its token's limit.
func (f *fixture) limited() {
	f.t.Helper()
	secret, _, err := f.guard.Create(f.t.Context(),
		contract.Token{Namespace: "default", Rights: contract.RightConsume,
			Limits: contract.Limits{Consume: 1, Per: time.Hour}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.tokens["limited"] = secret
	for range 2 {
		f.send("POST", "/v1/default/reserve", `{"queues":["empty"]}`, "limited")
	}
}

// Fault R5: the number of series is bounded, for any number of queues and any names in requests.
func TestSeriesOfMetricsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 100
	f := serve(t, func(c *Config) { c.Metrics = metrics.New(metrics.Config{Queues: most}) })
	for i := range most + 10 {
		f.push(fmt.Sprintf("direct-%d", i), "")
	}
	var jobs strings.Builder
	for i := range most - 10 {
		fmt.Fprintf(&jobs, `{"queue":"q%d"},`, i)
	}
	f.send("POST", "/v1/default/push", `{"jobs":[`+strings.TrimSuffix(jobs.String(), ",")+`]}`)
	f.send("POST", "/v1/default/push",
		`{"jobs":[`+strings.TrimSuffix(strings.ReplaceAll(jobs.String(), `:"q`, `:"p`), ",")+`]}`)

	for i := range 50 {
		f.send("POST", "/v1/default/reserve", fmt.Sprintf(`{"queues":["no-such-queue-%d"]}`, i))
		f.send("POST", fmt.Sprintf("/no/such/path/%d", i), "")
		req, _ := http.NewRequest(fmt.Sprintf("METHOD%d", i), f.api.URL+"/v1/default/push", nil)
		f.do(req)
		req, _ = http.NewRequest(fmt.Sprintf("METHOD%d", i), f.api.URL+"/api/x/y", nil)
		f.do(req)
	}

	text, values := f.scrape()
	per := map[string]int{}
	for series := range values {
		name, _, _ := strings.Cut(series, "{")
		per[name]++
	}

	for name, n := range per {
		bound := most + 1
		if name == "duly_queue_jobs" {
			bound *= len(duly.States)
		}
		if strings.HasSuffix(name, "_bucket") {
			bound *= 13
		}
		if n > bound {
			t.Errorf("%d series of %s", n, name)
		}
	}

	other := `{namespace="_other",queue="_other"`
	for series, want := range map[string]string{
		`duly_queue_jobs` + other + `,state="ready"}`:                                 "190",
		`duly_jobs_pushed_total{namespace="_other",outcome="created",queue="_other"}`: "80",
		`duly_queues`: "290",
	} {
		if values[series] != want {
			t.Errorf("%s is %q, want %s", series, values[series], want)
		}
	}

	for _, never := range []string{"no-such-queue", "no/such/path", "METHOD1"} {
		if strings.Contains(text, never) {
			t.Errorf("%s is in a metric", never)
		}
	}
}

// C14.33: the metrics of lmstfy's dashboards are present exactly with lmstfy's API.
func TestLmstfyMetricsNeedItsAPI(t *testing.T) {
	t.Parallel()
	for mode, want := range map[LmstfyMode]bool{LmstfyOpen: true, LmstfyToken: true, LmstfyOff: false} {
		f := serve(t, func(c *Config) { c.Lmstfy.Mode = mode })
		f.push("q", "")
		text, _ := f.scrape()
		if strings.Contains(text, "\ninfra_lmstfy_redis_queue_sizes{") != want ||
			!strings.Contains(text, "\nduly_queue_jobs{") || !strings.Contains(text, "\ngo_goroutines ") {
			t.Errorf("%s: %s", mode, text)
		}
	}
}
