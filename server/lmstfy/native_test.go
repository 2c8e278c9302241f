package lmstfy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// one is a job in lmstfy's form.
type one struct {
	Attributes  map[string]string
	Data        []byte
	ElapsedMS   int64  `json:"elapsed_ms"`
	JobID       string `json:"job_id"`
	RemainTries int    `json:"remain_tries"`
	TTL         int64
	Error, Msg  string
}

func (p *play) ask(method, target, body, token string) (one, answer) {
	p.t.Helper()
	a := p.send(method, target, body, "X-Token", token)
	var o one
	if a.err != nil || a.body != "" && json.Unmarshal([]byte(a.body), &o) != nil {
		p.t.Fatalf("%s %s: %d %s %v", method, target, a.status, a.body, a.err)
	}
	return o, a
}

// lmstfy's clients consume jobs of the native API, with all fields that lmstfy's form has.
func TestLmstfyClientsTakeNativeJobs(t *testing.T) {
	t.Parallel()
	for name, on := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, on(t), nil)
			token, admin := p.token("ns"), p.token("ns", contract.RightAdmin)
			push := `{"jobs":[{"queue":"q","id":"order:1","body_base64":"AP8=","headers":{"traceparent":"00-1"},
				"tries":3,"max_stalls":1,"ttl":"90s","priority":7,"order_key":"k"},
				{"queue":"q","id":"order:2","order_key":"k","retain":"1h"}]}`
			if a := p.send("POST", "/v1/ns/push", push, "Authorization", "Bearer "+admin); a.status != 200 {
				t.Fatal(a)
			}
			o, _ := p.ask("GET", "/api/ns/q/peek", "", token)
			if o.JobID != "order:1" || o.RemainTries != 3 || o.Attributes["traceparent"] != "00-1" ||
				string(o.Data) != "\x00\xff" || o.TTL != 90 {
				t.Errorf("peek: %+v", o)
			}
			o, _ = p.ask("GET", "/api/ns/q?ttr=1", "", token)
			if o.JobID != "order:1" || o.RemainTries != 2 || o.TTL != 90 || o.Msg != "new job" {
				t.Errorf("consume: %+v", o)
			}
			if _, a := p.ask("GET", "/api/ns/q", "", token); a.status != 404 {
				t.Errorf("its order key is busy: %d %s", a.status, a.body)
			}
			p.advance(1100 * time.Millisecond) // a stall, which uses no try of a native job
			o, _ = p.ask("GET", "/api/ns/q?ttr=10", "", token)
			if o.JobID != "order:1" || o.RemainTries != 2 {
				t.Errorf("consume again: %+v", o)
			}
			p.ask("DELETE", "/api/ns/q/job/order:1", "", token)
			o, _ = p.ask("GET", "/api/ns/q", "", token)
			if o.JobID != "order:2" || o.Data == nil || len(o.Data) != 0 || o.TTL != 0 {
				t.Errorf("the next of its key: %+v", o)
			}
			// A job that is retained after its ack does not exist for lmstfy's clients.
			p.advance(time.Hour)
			ds, err := p.engine.Reserve(t.Context(), duly.ReserveParams{Namespace: "ns", Queues: []string{"q"}, Max: 1})
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			if _, err := p.engine.Settle(t.Context(), "ns",
				[]duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Ack}}); err != nil {
				t.Fatal(err)
			}
			j, err := p.engine.Get(t.Context(), ref("q"), "order:2")
			if _, a := p.ask("GET", "/api/ns/q/job/order:2", "", token); a.status != 404 || err != nil ||
				j.State != duly.StateDone {
				t.Errorf("a done job: %d %s; %v %v", a.status, a.body, j.State, err)
			}
		})
	}
}

// The native API lists, reserves, nacks, extends and moves jobs of lmstfy's clients.
func TestNativeClientsHandleLmstfyJobs(t *testing.T) {
	t.Parallel()
	for name, on := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, on(t), nil)
			token, admin := p.token("ns"), p.token("ns", contract.RightAdmin)

			native := func(method, path, body string) string {
				t.Helper()
				a := p.send(method, "/v1/ns"+path, body, "Authorization", "Bearer "+admin)
				if a.err != nil || a.status >= 300 {
					t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
				}
				return a.body
			}

			has := func(where, text, want string) {
				t.Helper()
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s, want %s", where, text, want)
				}
			}

			a := p.send("PUT", "/api/ns/q?tries=3&delay=60&ttl=600", "hi", "X-Token", token, "Enable-Job-Version",
				"YES", "Job-Attr-K", "v")
			var made struct {
				ID string `json:"job_id"`
			}
			if err := json.Unmarshal([]byte(a.body), &made); err != nil {
				t.Fatal(err)
			}
			list := native("GET", "/queues/q/jobs?state=delayed", "")
			has("list", list, `"tries":3,"max_stalls":"none","backoff":"fixed:0s","ttl":"10m"`)
			has("list", list, `"headers":{"k":"v"}`)
			native("PATCH", "/queues/q/jobs/"+made.ID, `{"delay":"0s"}`)
			taken := native("POST", "/reserve", `{"queues":["q"],"lease":"10s"}`)
			has("reserve", taken, `"id":"`+made.ID+`","queue":"q","body":"hi"`)
			var reserved struct{ Deliveries []struct{ Receipt string } }
			if err := json.Unmarshal([]byte(taken), &reserved); err != nil || len(reserved.Deliveries) != 1 {
				t.Fatal(taken, err)
			}
			receipt := reserved.Deliveries[0].Receipt
			has("extend", native("POST", "/extend", `{"receipts":["`+receipt+`"],"lease":"1m"}`), `"ok":true`)
			p.advance(20 * time.Second)
			has("nack", native("POST", "/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"nack","error":"no"}]}`),
				`"ok":true`)
			// Delivered at once, because there is no backoff.
			o, _ := p.ask("GET", "/api/ns/q?ttr=10", "", token)
			if o.JobID != made.ID || o.RemainTries != 1 || o.Attributes["k"] != "v" {
				t.Errorf("consume: %+v", o)
			}
			// After an ack by ID, an old receipt has no effect.
			p.ask("DELETE", "/api/ns/q/job/"+made.ID, "", token)
			has("late ack", native("POST", "/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"ack"}]}`),
				`"lease_lost"`)
		})
	}
}

// elapsed_ms counts from the publish, also for a respawned job, because its ID has the time.
func TestElapsedCountsFromThePublish(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	token := p.token("ns")
	const id = "00X3AAA400000000000000000A" // its time is the start time of the fake clock

	if _, err := p.engine.Push(t.Context(),
		[]duly.Job{{ID: id, Namespace: "ns", Queue: "q", Tries: 1, MaxStalls: duly.None}}); err != nil {
		t.Fatal(err)
	}
	p.ask("GET", "/api/ns/q?ttr=1", "", token)
	p.advance(5 * time.Second)
	until(t, "it is dead", func() bool {
		s, err := p.engine.Stats(t.Context(), ref("q"))
		return err == nil && s.Sizes.Dead == 1
	})
	p.ask("PUT", "/api/ns/q/deadletter", "", token)
	p.advance(2 * time.Second)
	if o, _ := p.ask("GET", "/api/ns/q", "", token); o.JobID != id || o.ElapsedMS != 7000 {
		t.Errorf("%+v", o)
	}
}
