package cli

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// If the standard variable names a collector, the server sends it spans, the last ones when
// it ends.
func TestServeSendsTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		sent.WriteString(req.URL.Path + " " + string(body) + "\n")
	}))
	defer collector.Close()
	r := newRig(t)
	r.vars["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.URL
	data := filepath.Join(t.TempDir(), "data")
	out, errs, stop := r.serve(1, "--data", data, "--json")
	var told servingView
	if err := json.Unmarshal([]byte(out.String()), &told); err != nil {
		t.Fatal(err)
	}
	left, err := readEndpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("POST", told.URL+"/v1/default/push",
		strings.NewReader(`{"jobs":[{"queue":"mail","body":"CANARY"}]}`))
	req.Header.Set("Authorization", "Bearer "+left.token)
	req.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs.String())
	}
	mu.Lock()
	defer mu.Unlock()

	for _, want := range []string{
		"/v1/traces ", `"name":"POST /v1/{namespace}/push"`, `"name":"push mail"`,
		`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"`, `"stringValue":"duly"`,
	} {
		if !strings.Contains(sent.String(), want) {
			t.Errorf("%s was not sent: %s", want, sent.String())
		}
	}

	if strings.Contains(sent.String(), "CANARY") || strings.Contains(sent.String(), left.token) {
		t.Error("a body or a token was sent")
	}
	r.vars["OTEL_EXPORTER_OTLP_ENDPOINT"] = "localhost:4317"
	if code, _, errs := r.run("serve", "--engine", "model:", "--data", data); code != exitUsage ||
		!strings.Contains(errs, "http://localhost:4318") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// Lost traces are logged at most once per minute.
func TestLostTracesAreLoggedOncePerMinute(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := clock.NewFake()
	lost := logLostTraces(slog.New(slog.NewTextHandler(&out, nil)), c)
	for _, passes := range []time.Duration{0, time.Minute - 1, 1, 0} {
		c.Advance(passes)
		lost.Handle(errors.New("no collector"))
	}
	if n := strings.Count(out.String(), "traces are lost"); n != 2 {
		t.Errorf("logged %d times: %s", n, out.String())
	}
}
