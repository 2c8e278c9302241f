package lmstfy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
)

// scrape requests the metrics with an operator's token.
func (p *play) scrape() answer {
	p.t.Helper()
	return p.askAdmin("GET", "/metrics", "Authorization",
		"Bearer "+p.token(contract.AllNamespaces, contract.RightAdmin))
}

// Section 7 of lmstfy's API: the metrics have the names, labels and buckets of its dashboards.
func TestMetricsHaveLmstfysNames(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	p.askAdmin("POST", "/token/ns?description=x&token=0123456789-0123456789")
	token := "0123456789-0123456789"
	p.send("PUT", "/api/ns/q/bulk", "[1,2,3]", "X-Token", token)
	p.send("PUT", "/api/ns/q?delay=60", "x", "X-Token", token)
	a := p.send("GET", "/api/ns/q?ttr=1&count=2", "", "X-Token", token)
	p.send("DELETE", "/api/ns/q/job/"+strings.Split(a.body, `"`)[11], "", "X-Token", token)
	p.send("DELETE", "/api/ns/q/job/no-such-job", "", "X-Token", token)
	p.send("GET", "/api/ns/q?count=0", "", "X-Token", token)
	p.send("GET", "/api/ns/q", "", "X-Token", "wrong")
	p.send("GET", "/api/n<s/q", "", "X-Token", "wrong")
	p.send("GET", "/api/ns/q/nothing", "", "X-Token", token)
	p.send("GET", "/api/ns/q/size", "")
	p.advance(2 * time.Second)
	until(t, "the other is dead", func() bool {
		return strings.Contains(p.send("GET", "/api/ns/q/deadletter/size", "").body, `"size":1`)
	})
	const limiter = "/token/ns/0123456789-0123456789/limit"
	p.askAdmin("PUT", limiter) // one consume per second
	p.send("GET", "/api/ns/q", "", "X-Token", token)
	p.send("GET", "/api/ns/q", "", "X-Token", token)

	got := p.scrape()
	for _, want := range []string{
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue/bulk",code="201",method="PUT",namespace="ns",` +
			`pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="200",method="GET",namespace="ns",` +
			`pool="default"} 2`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="400",method="GET",namespace="ns",` +
			`pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="400",method="GET",namespace="",` +
			`pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="401",method="GET",namespace="",` +
			`pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue/size",code="200",method="GET",namespace="",` +
			`pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="",code="404",method="GET",namespace="",pool="default"} 1`,
		`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue/job/:job_id",code="204",method="DELETE",` +
			`namespace="ns",pool="default"} 2`,
		`infra_lmstfy_http_latency_milliseconds_bucket{api="/api/:namespace/:queue/bulk",method="PUT",` +
			`namespace="ns",pool="default",le="37.5"}`,
		`infra_lmstfy_http_latency_milliseconds_bucket{api="/api/:namespace/:queue/bulk",method="PUT",` +
			`namespace="ns",pool="default",le="22888.18359375"} 1`,
		`action="consume",namespace="ns",pool="default",token="`,
		`infra_lmstfy_redis_publish_jobs{pool="default"} 4`,
		`infra_lmstfy_redis_publish_queue_jobs{namespace="ns",pool="default",queue="q"} 4`,
		`infra_lmstfy_redis_consume_multi_jobs{pool="default"} 3`,
		`infra_lmstfy_redis_consume_queue_jobs{namespace="ns",pool="default",queue="q"} 3`,
		`infra_lmstfy_redis_pool_delete_jobs{pool="default"} 1`,
		`infra_lmstfy_redis_job_elapsed_ms_bucket{namespace="ns",pool="default",queue="q",le="52.5"} 2`,
		`infra_lmstfy_redis_job_elapsed_ms_count{namespace="ns",pool="default",queue="q"} 3`,
		`infra_lmstfy_redis_job_ack_elapsed_ms_count{namespace="ns",pool="default",queue="q"} 1`,
		`infra_lmstfy_redis_queue_sizes{namespace="ns",pool="default",queue="q"} 0`,
		`infra_lmstfy_redis_deadletter_sizes{namespace="ns",pool="default",queue="q"} 1`,
		`infra_lmstfy_redis_timer_sizes{pool="default"} 2`,
		"go_goroutines ",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d %v\n%s", got.status, got.header, got.body)
	}
}

// Fault R5: the number of series is bounded, for any number of queues.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	token := p.token("ns")
	for i := range 1100 {
		p.send("PUT", fmt.Sprintf("/api/ns/q%d", i), "x", "X-Token", token)
	}
	for i := range 20 {
		p.send(fmt.Sprintf("METHOD%d", i), "/api/ns/q", "")
	}
	p.send("PUT", "/api/small/q", "x", "X-Token", p.token("small"))
	got := p.scrape().body
	if !strings.Contains(got, `infra_lmstfy_redis_publish_queue_jobs{namespace="small",pool="default",queue="q"} 1`) {
		t.Error("many queues of one namespace take the series of another one")
	}

	for _, name := range []string{"publish_queue_jobs", "queue_sizes", "deadletter_sizes"} {
		if n := strings.Count(got, "\ninfra_lmstfy_redis_"+name+"{"); n < 900 || n > 1001 {
			t.Errorf("%d series of %s", n, name)
		}
	}
	if strings.Contains(got, "METHOD") {
		t.Error("whatever a caller calls a method has series")
	}
	if !strings.Contains(got, `infra_lmstfy_redis_publish_queue_jobs{namespace="",pool="default",queue=""} 101`) {
		t.Error("the others are not counted together")
	}
}
