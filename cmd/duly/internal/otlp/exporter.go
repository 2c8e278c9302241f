package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/dulymq/duly/internal/clock"
)

// Exporter implements the SDK's SpanExporter.
type Exporter struct{ cfg Config }

var _ sdk.SpanExporter = (*Exporter)(nil)

// New returns an Exporter. It sends nothing until there are spans.
func New(cfg Config) *Exporter {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Exporter{cfg}
}

// How often spans are sent, and the pause before they are sent again, which
// doubles.
const (
	tries      = 3
	firstPause = time.Second
)

// ExportSpans implements the SDK's SpanExporter.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(formOf(spans))
	if err != nil {
		return err
	}
	pause := firstPause
	for try := 1; ; try++ {
		again, err := e.send(ctx, body)
		if err == nil || !again || try == tries || clock.Sleep(ctx, clock.System(), pause) != nil {
			return err
		}
		pause *= 2
	}
}

// Shutdown implements the SDK's SpanExporter.
func (e *Exporter) Shutdown(context.Context) error {
	e.cfg.Client.CloseIdleConnections()
	return nil
}

// send makes one request, and tells whether another one may succeed.
func (e *Exporter) send(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("otlp: the collector's address can't be read")
	}
	for name, values := range e.cfg.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.cfg.Client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the address
		}
		return true, fmt.Errorf("otlp: the collector was not reached: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return retryable(resp.StatusCode), fmt.Errorf("otlp: the collector has answered %d", resp.StatusCode)
}

// retryable are the statuses after which OTLP lets a client try again.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
