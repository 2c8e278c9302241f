package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
)

// collector records requests. It answers the n-th request with the n-th status, and
// all further ones with the last status. Status 0 is a failed connection.
type collector struct {
	mu       sync.Mutex
	statuses []int
	bodies   []string
	headers  []http.Header
}

// RoundTrip implements http.RoundTripper.
func (c *collector) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	c.bodies = append(c.bodies, req.Method+" "+req.URL.String()+" "+string(body))
	c.headers = append(c.headers, req.Header)
	status := c.statuses[min(len(c.bodies), len(c.statuses))-1]
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	return w.Result(), nil
}

// stubs returns two spans. The first one uses every field.
func stubs() tracetest.SpanStubs {
	spanContext := func(b byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, b}, SpanID: trace.SpanID{2, b}, TraceFlags: trace.FlagsSampled,
		})
	}
	at := time.Unix(1893456000, 5)
	about := resource.NewSchemaless(attribute.String("service.name", "duly"))

	first := tracetest.SpanStub{
		Name: "push mail", SpanContext: spanContext(1), Parent: spanContext(2), SpanKind: trace.SpanKindProducer,
		StartTime: at, EndTime: at.Add(time.Second),
		Attributes: []attribute.KeyValue{
			attribute.String("s", "é\"x"), attribute.Int64("i", 1<<60), attribute.Bool("b", true),
			attribute.Float64("f", 0.5), attribute.StringSlice("l", []string{"a", "b"}),
		},
		Events: []sdk.Event{{Name: "e", Time: at}}, Links: []sdk.Link{{SpanContext: spanContext(3)}},
		Status: sdk.Status{Code: codes.Error, Description: "full"}, Resource: about,
	}
	second := tracetest.SpanStub{
		Name: "root", SpanContext: spanContext(4), SpanKind: trace.SpanKindServer, StartTime: at, EndTime: at,
		Status: sdk.Status{Code: codes.Ok}, Resource: about,
	}
	return tracetest.SpanStubs{first, second}
}

// sentSpans is the request with stubs: OTLP's JSON encoding, with IDs in hex and long
// numbers as strings.
const sentSpans = `POST http://collector:4318/v1/traces {"resourceSpans":[{` +
	`"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"duly"}}]},` +
	`"scopeSpans":[{"scope":{"name":""},"spans":[` +
	`{"traceId":"01010000000000000000000000000000","spanId":"0201000000000000","parentSpanId":"0202000000000000",` +
	`"name":"push mail","kind":4,` +
	`"startTimeUnixNano":"1893456000000000005","endTimeUnixNano":"1893456001000000005",` +
	`"attributes":[{"key":"s","value":{"stringValue":"é\"x"}},` +
	`{"key":"i","value":{"intValue":"1152921504606846976"}},{"key":"b","value":{"boolValue":true}},` +
	`{"key":"f","value":{"doubleValue":0.5}},{"key":"l","value":{"stringValue":"[\"a\",\"b\"]"}}],` +
	`"events":[{"timeUnixNano":"1893456000000000005","name":"e"}],` +
	`"links":[{"traceId":"01030000000000000000000000000000","spanId":"0203000000000000"}],` +
	`"status":{"message":"full","code":2}},` +
	`{"traceId":"01040000000000000000000000000000","spanId":"0204000000000000","name":"root","kind":2,` +
	`"startTimeUnixNano":"1893456000000000005","endTimeUnixNano":"1893456000000000005","status":{"code":1}}]}]}]}`

func TestExportSpansSendsJSON(t *testing.T) {
	t.Parallel()
	c := &collector{statuses: []int{200}}
	e := New(Config{
		URL: "http://collector:4318/v1/traces", Header: http.Header{"Api-Key": {"secret"}},
		Client: &http.Client{Transport: c},
	})

	if err := e.ExportSpans(t.Context(), stubs().Snapshots()); err != nil {
		t.Fatal(err)
	}
	if got := c.bodies[0]; got != sentSpans {
		t.Errorf("sent\n%s\nwant\n%s", got, sentSpans)
	}
	if !json.Valid([]byte(strings.SplitN(c.bodies[0], " ", 3)[2])) {
		t.Error("the body is not JSON")
	}
	if h := c.headers[0]; h.Get("Api-Key") != "secret" || h.Get("Content-Type") != "application/json" {
		t.Errorf("with %v", h)
	}

	if err := e.ExportSpans(t.Context(), nil); err != nil || len(c.bodies) != 1 {
		t.Errorf("no spans: %v, %d requests", err, len(c.bodies))
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestExportSpansRetriesTemporaryFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		statuses []int
		requests int
		err      string
	}{
		"first attempt":       {[]int{202}, 1, ""},
		"third attempt":       {[]int{503, 429, 200}, 3, ""},
		"every attempt fails": {[]int{503}, 3, "answered 503"},
		"no connection":       {[]int{0}, 3, "cannot reach"},
		"refused":             {[]int{400}, 1, "answered 400"},
		"redirect":            {[]int{307}, 1, "answered 307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &collector{statuses: tt.statuses}
				e := New(Config{
					URL: "http://user:secret@collector/v1/traces?key=secret", Client: &http.Client{Transport: c},
				})
				err := e.ExportSpans(t.Context(), stubs().Snapshots())
				if len(c.bodies) != tt.requests || (err == nil) != (tt.err == "") {
					t.Errorf("%d requests, %v", len(c.bodies), err)
				}
				if err == nil {
					return
				}
				if text := err.Error(); !strings.Contains(text, tt.err) ||
					strings.Contains(text, "secret") || strings.Contains(text, "collector/") {
					t.Errorf("%v, want %q and no address", err, tt.err)
				}
			})
		})
	}
}

func TestExportSpansStopsAfterCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &collector{statuses: []int{503}}
	e := New(Config{URL: "http://x", Client: &http.Client{Transport: c}})
	if err := e.ExportSpans(ctx, stubs().Snapshots()); err == nil || len(c.bodies) > 1 {
		t.Errorf("%v after %d requests", err, len(c.bodies))
	}
}

func TestFromEnv(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		vars string
		url  string // "" means that traces are off
		bad  string
	}{
		{"", "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "http://c:4318/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/base/ OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "https://c/base/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/x", "http://d/x",
			""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_SDK_DISABLED=true", "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_TRACES_EXPORTER=none", "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4318", "", "like http://localhost:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "", "4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_TIMEOUT=soon", "", "milliseconds"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_HEADERS=CANARY", "", "name=value"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_HEADERS=a=CANARY%0d", "", "name=value"},
	} {
		vars := map[string]string{}
		for _, pair := range strings.Fields(tt.vars) {
			name, value, _ := strings.Cut(pair, "=")
			vars[name] = value
		}
		c, err := FromEnv(func(name string) string { return vars[name] })
		switch {
		case tt.bad != "":
			if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), tt.bad) ||
				strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%s: %v", tt.vars, err)
			}
		case err != nil || (c == nil) != (tt.url == "") || c != nil && c.URL != tt.url:
			t.Errorf("%s: %+v, %v", tt.vars, c, err)
		}
	}
}

// A variable for traces overrides the one for all signals, so the error must name the variable
// that has the bad value.
func TestErrorNamesTheVariableThatWasRead(t *testing.T) {
	t.Parallel()
	const forAll, forTraces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for _, tt := range []struct{ name, good, bad, says, saysForTraces string }{
		{"ENDPOINT", "http://c:4318", "c:4318", "must be like http://localhost:4318;",
			"must be like http://localhost:4318/v1/traces;"},
		{"PROTOCOL", "http/json", "grpc", "is grpc", "is grpc"},
		{"TIMEOUT", "250", "soon", "must be a number", "must be a number"},
		{"HEADERS", "a=b", "a", "must be like name=value", "must be like name=value"},
	} {
		for variable, says := range map[string]string{forAll: tt.says, forTraces: tt.saysForTraces} {
			vars := map[string]string{forAll + "ENDPOINT": "http://c:4318", forAll + tt.name: tt.good}
			vars[variable+tt.name] = tt.bad
			_, err := FromEnv(func(name string) string { return vars[name] })
			if want := variable + tt.name + " " + says; !strings.Contains(fmt.Sprint(err, ";"), want) {
				t.Errorf("%v: %v, want %q", vars, err, want)
			}
		}
	}
}

func TestFromEnvReadsTimeoutAndHeaders(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
		"OTEL_EXPORTER_OTLP_TIMEOUT":  "250",
		"OTEL_EXPORTER_OTLP_HEADERS":  "api-key=a%20b, x=1",
	}
	c, err := FromEnv(func(name string) string { return vars[name] })
	if err != nil || c.Timeout != 250*time.Millisecond || c.Header.Get("Api-Key") != "a b" || c.Header.Get("X") != "1" {
		t.Errorf("%+v, %v", c, err)
	}
}
